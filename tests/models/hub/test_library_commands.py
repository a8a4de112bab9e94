"""`tandem pairs` against the loopback hub."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from huggingface_hub import scan_cache_dir, try_to_load_from_cache

from app.cli import draft_comparison, main
from app.cli.doctor_checks import downloads
from app.core import fixes
from app.models.hub import cache
from app.models.hub.cache import locked_content
from app.models.hub.client import repository
from app.worker.known_pairs import registry
from tests.cli.json_keys import JSON_KEYS
from tests.llama.tiny_heads import write_dflash, write_eagle3, write_target
from tests.models.hub.faults import status
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import BOTH, DRAFT, SETUP, TARGET, tiny, write_catalog
from tests.tandem import Tandem

pytestmark = pytest.mark.usefixtures("home")


def test_recommended_sampling_is_shown_before_the_download(hub: LoopbackHub, tmp_path: Path, tandem: Tandem) -> None:
    hub.add(TARGET, {"big-Q4_K_M.gguf": tiny(tmp_path, general__sampling__temp=0.6)})

    assert tandem("pairs", "check", TARGET, "--json").json["target"]["recommended"] == {"sampling.temp": 0.6}
    assert "makers  recommend temp 0.6" in tandem("pairs", "check", TARGET).out


def test_a_pair_is_checked_by_its_name(pair: LoopbackHub, tandem: Tandem) -> None:
    assert tuple(tandem(*SETUP, *BOTH, "--name", "mine", "--json").json) == JSON_KEYS["setup"]

    found = tandem("pairs", "check", "mine", "--json").json
    assert (found["target"]["name"], found["draft"]["name"], found["compatible"]) == ("big", "small", True)

    assert "mine is a pair" in tandem("pairs", "check", "mine", DRAFT, code=2).err


def test_what_was_set_up_is_checked_without_the_hub(pair: LoopbackHub, tandem: Tandem) -> None:
    tandem(*SETUP, *BOTH, "--name", "mine")
    pair.faults.add(status(503), "*", times=None)
    assert "Compatible: the vocabularies match" in tandem("pairs", "check", "mine").out


def test_find_looks_at_the_hub_and_shows_only_what_matches(pair: LoopbackHub, home: Path, tandem: Tandem) -> None:
    big = tiny(home / "made", "large.gguf", general__name="Fam 9B") + bytes(1 << 20)
    pair.add("owner/fam-9b-GGUF", {"fam-9b-Q4_K_M.gguf": big})
    pair.add("owner/fam-1m-GGUF", {"fam-1m-Q8_0.gguf": tiny(home / "made", "s.gguf")}, gguf={"total": 2000})
    pair.add("owner/fam-2m-GGUF", {"fam-2m-Q8_0.gguf": b"no model"}, gguf={"total": 2000})

    said = tandem("pairs", "find", "owner/fam-9b-GGUF").out
    assert "owner/fam-1m-GGUF" in said
    assert "fam-2m" not in said

    own = home / "my models" / "fam-9b.gguf"
    own.parent.mkdir()
    own.write_bytes(big)
    ran = tandem("pairs", "find", str(own))
    brings = fixes.command(["tandem", "setup", "--target", str(own), "--draft", "owner/fam-1m-GGUF"])
    assert ran.out.endswith(f"\nSet one up: {brings}\n")


def test_find_names_the_kind_of_draft_layers(hub: LoopbackHub, home: Path, tandem: Tandem) -> None:
    target = write_target(home / "t.gguf").read_bytes() + bytes(1 << 20)
    layers = {"big-dflash-Q8_0.gguf": write_dflash, "big-eagle3-Q6_K.gguf": write_eagle3}
    files = {name: write(home / name).read_bytes() for name, write in layers.items()}
    hub.add(TARGET, {"big-Q4_K_M.gguf": target, **files})

    first, second, *_ = tandem("pairs", "find", TARGET).out.splitlines()
    assert first.endswith(f"{TARGET}:big-dflash-Q8_0.gguf  DFlash block  (hub)")
    assert second.endswith(f"{TARGET}:big-eagle3-Q6_K.gguf  EAGLE-3 head  (hub)")


def test_find_measures_the_drafts_that_are_here(
    pair: LoopbackHub, home: Path, tandem: Tandem, monkeypatch: pytest.MonkeyPatch
) -> None:
    big = tiny(home / "made", "large.gguf", general__name="Fam 9B") + bytes(1 << 20)
    pair.add("owner/fam-1m-GGUF", {"fam-1m-Q8_0.gguf": tiny(home / "made", "s.gguf")}, gguf={"total": 2000})
    own = home / "fam-9b.gguf"
    own.write_bytes(big)
    measured: list[str] = []

    def measure(_: object, drafts: Sequence[str], **more: object) -> int:
        measured.extend(drafts)
        return 0

    monkeypatch.setattr(draft_comparison, "compare_drafts", measure)

    assert "owner/fam-1m-GGUF is not on this machine yet." in tandem("pairs", "find", str(own), "--measure", code=1).err
    tandem(*SETUP, "--target", str(own), "--draft", "owner/fam-1m-GGUF")
    tandem("pairs", "find", str(own), "--measure")
    assert [Path(draft).name for draft in measured] == ["fam-1m-Q8_0.gguf"]


def test_local_files_are_used_in_place(home: Path, hub: LoopbackHub, tandem: Tandem) -> None:
    tiny(home / "mine", "t.gguf", general__name="Own")

    tandem("pairs", "add", "own", str(home / "mine" / "t.gguf"))

    assert registry().read().pairs["own"].target.path == home / "mine" / "t.gguf"
    assert not list(cache.folder().rglob("*.gguf"))
    tandem("run", "--pair", "own", "--max-tokens", "2", "hi")
    ran = tandem("pairs", "remove", "own", "--yes")
    assert (home / "mine" / "t.gguf").exists()
    said = ran.err
    assert "your own file" in said
    assert "commands use demo until you choose another" in said


def test_a_pair_name_is_not_reused_for_other_models(home: Path, hub: LoopbackHub, tandem: Tandem) -> None:
    one, other = (str(home / "mine" / name) for name in ("One-Q8_0.gguf", "other.gguf"))
    for path in (one, other):
        tiny(home / "mine", Path(path).name)
    tandem("pairs", "add", "own", one)
    tandem("pairs", "add", "own", one)  # an equal repetition changes nothing

    assert '"own" is the name of another pair.' in tandem("pairs", "add", "own", other, code=2).err
    assert registry().read().pairs["own"].target.path == Path(one)
    for name in ("", "a/b", "a\x1b[31m", "  "):
        assert "is not a valid pair name" in tandem("pairs", "add", name, one, code=2).err
    tandem(*SETUP, "--target", one)
    tandem(*SETUP, "--target", one, "--draft", other)
    assert list(registry().read().pairs) == ["own", "one-q8-0", "one-q8-0-2"], "another draft makes another pair"


def test_remove_deletes_what_tandem_downloaded_and_only_that(pair: LoopbackHub, tandem: Tandem) -> None:
    from huggingface_hub import hf_hub_download

    theirs = Path(hf_hub_download(DRAFT, "small-Q8_0.gguf"))
    tandem(*SETUP, *BOTH, "--name", "one")
    tandem(*SETUP, "--target", f"{TARGET}:q4_k_m", "--name", "two")
    target = registry().read().pairs["one"].target.path

    ran = tandem("pairs", "remove", "one", "--yes")
    assert target.exists(), "the other pair uses it"
    assert theirs.exists(), "another program brought it"
    said = ran.err
    assert "another pair uses it" in said
    assert "Tandem did not download it" in said
    content = target.resolve()
    tandem("pairs", "remove", "two", "--yes")
    assert not target.exists()
    assert not content.exists()
    assert theirs.exists()
    assert registry().read().default is None


def test_unused_downloads_are_reported_and_removed(pair: LoopbackHub, home: Path, tandem: Tandem) -> None:
    tandem(*SETUP, *BOTH, "--name", "one")
    old = registry().read().pairs["one"].target.path
    assert "Every downloaded file belongs to a pair." in tandem("pairs", "remove", "--unused").err

    pair.repos[TARGET].change({"big-Q4_K_M.gguf": tiny(home / "made", general__name="Big, made again")})
    tandem(*SETUP, *BOTH, "--name", "one")
    new = registry().read().pairs["one"].target.path
    (line,) = [line for line in downloads() if line.label == "unused"]
    assert (line.state, line.hint[-1]) == ("warning", "  tandem pairs remove --unused")

    coming = cache.folder() / "models--owner--other" / "blobs" / "abc.incomplete"
    coming.parent.mkdir(parents=True)
    coming.touch()
    with locked_content(coming.with_name("abc")):
        tandem("pairs", "remove", "--unused", "--yes", code=1)  # it may belong to the next pair
    tandem("pairs", "remove", "--unused", code=2)
    assert old.exists(), "no one could be asked"
    tandem("pairs", "remove", "--unused", "--yes")
    assert (old.exists(), new.exists(), registry().read().unused) == (False, True, {})
    assert not [line for line in downloads() if line.label == "unused"]


def test_the_same_file_of_another_revision_is_in_use(pair: LoopbackHub, home: Path) -> None:
    assert main([*SETUP, *BOTH, "--name", "one"]) == 0
    old = registry().read().pairs["one"].target.path
    pair.repos[TARGET].change({"more.gguf": tiny(home / "made", general__name="More")})
    assert main([*SETUP, *BOTH, "--name", "one"]) == 0
    assert registry().read().pairs["one"].target.path != old
    assert registry().read().unused == {}


@pytest.mark.parametrize("words", [[], ["one", "--unused"], ["--unused", "--all-files"]])
def test_remove_takes_one_pair_or_unused_files(words: list[str], home: Path) -> None:
    assert main(["pairs", "remove", *words, "--yes"]) == 2


def test_removal_leaves_a_valid_cache(pair: LoopbackHub) -> None:
    assert main([*SETUP, *BOTH, "--name", "one"]) == 0
    assert main([*SETUP, "--target", f"{TARGET}:q8_0", "--name", "two"]) == 0
    assert main(["pairs", "remove", "one", "--yes"]) == 0
    assert try_to_load_from_cache(TARGET, "big-Q8_0.gguf"), "the branch leads to what is left"
    assert not scan_cache_dir(cache.folder()).warnings

    assert main(["pairs", "remove", "two", "--yes"]) == 0

    assert not scan_cache_dir(cache.folder()).warnings
    assert scan_cache_dir(cache.folder()).size_on_disk == 0


@pytest.mark.parametrize("known", [True, False])
def test_partial_downloads_are_removed_with_their_pair(
    pair: LoopbackHub, home: Path, tandem: Tandem, known: bool
) -> None:
    listed = repository(TARGET, "main")
    file = next(file for file in listed.files if file.path == "big-Q4_K_M.gguf")
    pinned, draft = (f', sha256 = "{file.sha256}"', "") if known else ("", f'draft = {{ repo = "{TARGET}" }}')
    write_catalog(home, f'[pairs.mine]\ntarget = {{ repo = "{TARGET}", file = "{file.path}"{pinned} }}\n{draft}')
    part = cache.partial_path(file)
    tandem("pairs", "remove", "mine", "--yes", code=2)
    part.parent.mkdir(parents=True)
    part.write_bytes(bytes(2_000_000))
    theirs, other = part.with_name(f"{part.stem}.0123abcd.incomplete"), part.with_name(f"{'b' * 64}.incomplete")
    theirs.touch()
    other.touch()

    with cache.locked_content(cache.blob_path(file)) as ours:
        assert ours
        tandem("pairs", "remove", "mine", "--yes", code=2 if known else 0)
    assert part.exists(), "it still comes"
    said = tandem("pairs", "remove", "mine", "--yes").err
    assert f"delete      2 MB  {part}  (from an interrupted download)" in said
    assert "mine was not set up yet. 2 MB freed." in said
    assert (part.exists(), theirs.exists(), other.exists()) == (False, known, known)


def test_list_show_and_default(pair: LoopbackHub, tandem: Tandem) -> None:
    tandem(*SETUP, *BOTH, "--name", "mine", "--no-default")
    tandem(*SETUP, "--target", TARGET, "--name", "alone", "--no-default")
    tandem("pairs", "default", "alone")

    rows = {row["name"]: row for row in tandem("pairs", "list", "--json").json}
    assert (rows["alone"]["default"], rows["mine"]["default"], rows["mine"]["here"]) == (True, False, True)
    assert rows["qwen3.8-27b"]["download"] > 10**10
    assert list(rows)[:2] == ["alone", "mine"]
    assert all(row["drafting"] == "" for row in rows.values() if row["name"] in ("alone", "demo", "qwen3-coder-30b"))
    assert "small-Q8_0.gguf" in tandem("pairs", "show", "mine").out
    tandem("pairs", "default", "qwen3.8-27b", code=2)
    assert 'Did you mean "qwen3.8-27b"' in tandem("pairs", "show", "qwen3.8-72b", code=2).err


def test_an_unknown_size_names_the_command_that_finds_it(hub: LoopbackHub, home: Path, tandem: Tandem) -> None:
    tiny(home / "mine", "t.gguf")
    known, unknown = '{ repo = "a/b", size = 9000000000 }', '{ repo = "a/c" }'
    pairs = {
        "open": f"target = {unknown}",
        "half": f"target = {known}\ndraft = {unknown}",
        "gone": 'target = "/no/such.gguf"',
        "own": f'target = "{home / "mine" / "t.gguf"}"',
    }
    write_catalog(home, "\n".join(f"[pairs.{name}]\n{entry}" for name, entry in pairs.items()))

    said = tandem("pairs", "list").out
    shown = {line[2:].split()[0]: line for line in said.splitlines() if line[2:].strip()}
    assert " ? " in shown["open"]
    assert ">9.0 GB" in shown["half"]
    assert "no file" in shown["gone"]
    assert " 0 MB" in shown["own"]
    assert "0.2 GB" in shown["demo"]
    assert "tandem pairs check NAME" in said


def test_titles_cannot_control_the_terminal(home: Path, tandem: Tandem) -> None:
    write_catalog(home, '[pairs.good]\ntarget = "x.gguf"\ntitle = "\\u001b[31mred"\n')

    said = tandem("pairs", "list").out + tandem("pairs", "show", "good").out
    assert "[31mred" in said
    assert "\x1b" not in said


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("target = x", "models.toml cannot be read: Invalid value (at line 2, column "),
        ('traget = "x"', 'pairs.mine has the unknown key "traget". Did you mean "target"?'),
    ],
)
def test_an_invalid_user_catalog_is_reported_by_every_command(
    home: Path, hub: LoopbackHub, tandem: Tandem, entry: str, problem: str
) -> None:
    good, other = (str(home / "mine" / name) for name in ("t.gguf", "u.gguf"))
    for path in (good, other):
        tiny(home / "mine", Path(path).name)
    tandem("pairs", "add", "good", good)
    write_catalog(home, f"[pairs.mine]\n{entry}\n")

    for words, code in (
        (["run", "--pair", "good", "--max-tokens", "2", "hi"], 0),
        (["pairs", "list"], 0),
        (["pairs", "show", "qwen3.8-27b"], 0),
        (["setup", "good", "--no-trial"], 0),
        (["run", "--pair", "mine", "hi"], 1),
        (["pairs", "check", "mine"], 1),
    ):
        assert tandem(*words, code=code).sentences.count(problem) == 1
    assert "qwen3.8-27b" in tandem("pairs", "list").out
    assert "models.toml" not in tandem("run", "--target", other, "--max-tokens", "2", "hi").err


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("words", [["pairs", "check"], ["setup", "--name", "mine", "--no-trial", "--target"]])
def test_what_a_file_is_called_steers_no_terminal(
    home: Path, tandem: Tandem, monkeypatch: pytest.MonkeyPatch, words: list[str], is_terminal: bool
) -> None:
    name = "\u00fc\u009b31m"
    tiny(home / "mine", f"{name}.gguf")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)

    out = tandem(*words, str(home / "mine" / f"{name}.gguf"), "--json").out
    assert out.isascii() == is_terminal
    assert "\u00fc" in str(json.loads(out)["target"])
