"""`tandem pairs` against the loopback hub."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from huggingface_hub import scan_cache_dir, try_to_load_from_cache

from app.cli import draft_comparison, main
from app.cli.doctor_checks import hub_section
from app.core import shell
from app.models.hub import cache
from app.models.hub.cache import locked_content
from app.models.hub.client import repository
from app.worker.known_pairs import registry
from tests.cli.json_keys import JSON_KEYS
from tests.llama.tiny_heads import write_dflash, write_eagle3, write_target
from tests.models.hub.faults import Status
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import BOTH, DRAFT, TARGET, tiny

pytestmark = pytest.mark.usefixtures("home")


def test_recommended_sampling_is_shown_before_the_download(
    hub: LoopbackHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.add(TARGET, {"big-Q4_K_M.gguf": tiny(tmp_path, general__sampling__temp=0.6)})

    assert main(["pairs", "check", TARGET, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["target"]["recommended"] == {"sampling.temp": 0.6}
    assert main(["pairs", "check", TARGET]) == 0
    assert "makers  recommend temp 0.6" in capsys.readouterr().out


def test_a_pair_is_checked_by_its_name(pair: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["setup", *BOTH, "--name", "mine", "--yes", "--no-trial", "--json"]) == 0
    assert tuple(json.loads(capsys.readouterr().out)) == JSON_KEYS["setup"]

    assert main(["pairs", "check", "mine", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["target"]["name"], found["draft"]["name"], found["compatible"]) == ("big", "small", True)

    assert main(["pairs", "check", "mine", DRAFT]) == 2
    assert "mine is a pair" in capsys.readouterr().err


def test_what_was_set_up_is_checked_without_the_hub(pair: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["setup", *BOTH, "--name", "mine", "--yes", "--no-trial"]) == 0
    pair.faults.add(Status(503), "*", times=None)
    capsys.readouterr()
    assert main(["pairs", "check", "mine"]) == 0
    assert "Compatible: the vocabularies match" in capsys.readouterr().out


def test_find_looks_at_the_hub_and_shows_only_what_matches(
    pair: LoopbackHub, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    big = tiny(home / "made", "large.gguf", general__name="Fam 9B") + bytes(1 << 20)
    pair.add("owner/fam-9b-GGUF", {"fam-9b-Q4_K_M.gguf": big})
    pair.add("owner/fam-1m-GGUF", {"fam-1m-Q8_0.gguf": tiny(home / "made", "s.gguf")}, gguf={"total": 2000})
    pair.add("owner/fam-2m-GGUF", {"fam-2m-Q8_0.gguf": b"no model"}, gguf={"total": 2000})

    assert main(["pairs", "find", "owner/fam-9b-GGUF"]) == 0

    said = capsys.readouterr().out
    assert "owner/fam-1m-GGUF" in said
    assert "fam-2m" not in said

    own = home / "my models" / "fam-9b.gguf"
    own.parent.mkdir()
    own.write_bytes(big)
    assert main(["pairs", "find", str(own)]) == 0
    brings = shell.command(["tandem", "setup", "--target", str(own), "--draft", "owner/fam-1m-GGUF"])
    assert capsys.readouterr().out.endswith(f"\nSet one up: {brings}\n")


def test_find_names_the_kind_of_draft_layers(hub: LoopbackHub, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = write_target(home / "t.gguf").read_bytes() + bytes(1 << 20)
    layers = {"big-dflash-Q8_0.gguf": write_dflash, "big-eagle3-Q6_K.gguf": write_eagle3}
    files = {name: write(home / name).read_bytes() for name, write in layers.items()}
    hub.add(TARGET, {"big-Q4_K_M.gguf": target, **files})

    assert main(["pairs", "find", TARGET]) == 0
    first, second, *_ = capsys.readouterr().out.splitlines()
    assert first.endswith(f"{TARGET}:big-dflash-Q8_0.gguf  DFlash block  (hub)")
    assert second.endswith(f"{TARGET}:big-eagle3-Q6_K.gguf  EAGLE-3 head  (hub)")


def test_find_measures_the_drafts_that_are_here(
    pair: LoopbackHub, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
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

    assert main(["pairs", "find", str(own), "--measure"]) == 1
    assert "owner/fam-1m-GGUF is not on this machine yet." in capsys.readouterr().err
    assert main(["setup", "--target", str(own), "--draft", "owner/fam-1m-GGUF", "--yes", "--no-trial"]) == 0
    assert main(["pairs", "find", str(own), "--measure"]) == 0
    assert [Path(draft).name for draft in measured] == ["fam-1m-Q8_0.gguf"]


def test_local_files_are_used_where_they_lie(home: Path, hub: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    tiny(home / "mine", "t.gguf", general__name="Own")

    assert main(["pairs", "add", "own", str(home / "mine" / "t.gguf")]) == 0

    assert registry().read().pairs["own"].target.path == home / "mine" / "t.gguf"
    assert not list(cache.folder().rglob("*.gguf"))
    assert main(["run", "--pair", "own", "--max-tokens", "2", "hi"]) == 0
    assert main(["pairs", "remove", "own", "--yes"]) == 0
    assert (home / "mine" / "t.gguf").exists()
    said = capsys.readouterr().err
    assert "your own file" in said
    assert "commands use demo until you choose another" in said


def test_a_pair_name_is_not_reused_for_other_models(
    home: Path, hub: LoopbackHub, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = (str(home / "mine" / name) for name in ("One-Q8_0.gguf", "other.gguf"))
    for path in (one, other):
        tiny(home / "mine", Path(path).name)
    assert main(["pairs", "add", "own", one]) == 0
    assert main(["pairs", "add", "own", one]) == 0, "the same again is nothing else"

    assert main(["pairs", "add", "own", other]) == 2
    assert '"own" is the name of another pair.' in capsys.readouterr().err
    assert registry().read().pairs["own"].target.path == Path(one)
    for name in ("", "a/b", "a\x1b[31m", "  "):
        assert main(["pairs", "add", name, one]) == 2
        assert "is no name for a pair" in capsys.readouterr().err
    assert main(["setup", "--target", one, "--no-trial", "--yes"]) == 0
    assert main(["setup", "--target", one, "--draft", other, "--no-trial", "--yes"]) == 0
    assert list(registry().read().pairs) == ["own", "one-q8-0", "one-q8-0-2"], "another draft makes another pair"


def test_remove_deletes_what_tandem_downloaded_and_only_that(
    pair: LoopbackHub, capsys: pytest.CaptureFixture[str]
) -> None:
    from huggingface_hub import hf_hub_download

    theirs = Path(hf_hub_download(DRAFT, "small-Q8_0.gguf"))
    assert main(["setup", *BOTH, "--name", "one", "--yes", "--no-trial"]) == 0
    assert main(["setup", "--target", f"{TARGET}:q4_k_m", "--name", "two", "--yes", "--no-trial"]) == 0
    target = registry().read().pairs["one"].target.path

    assert main(["pairs", "remove", "one", "--yes"]) == 0
    assert target.exists(), "the other pair uses it"
    assert theirs.exists(), "another program brought it"
    said = capsys.readouterr().err
    assert "another pair uses it" in said
    assert "Tandem did not download it" in said
    content = target.resolve()
    assert main(["pairs", "remove", "two", "--yes"]) == 0
    assert not target.exists()
    assert not content.exists()
    assert theirs.exists()
    assert registry().read().default is None


def test_unused_downloads_are_reported_and_removed(
    pair: LoopbackHub, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["setup", *BOTH, "--name", "one", "--yes", "--no-trial"]) == 0
    old = registry().read().pairs["one"].target.path
    assert main(["pairs", "remove", "--unused"]) == 0
    assert "Every downloaded file belongs to a pair." in capsys.readouterr().err

    pair.replace(TARGET, "big-Q4_K_M.gguf", tiny(home / "made", general__name="Big, made again"))
    assert main(["setup", *BOTH, "--name", "one", "--yes", "--no-trial"]) == 0
    new = registry().read().pairs["one"].target.path
    (line,) = [line for line in hub_section().lines if line.label == "unused"]
    assert (line.state, line.hint[-1]) == ("warning", "  tandem pairs remove --unused")

    coming = cache.folder() / "models--owner--other" / "blobs" / "abc.incomplete"
    coming.parent.mkdir(parents=True)
    coming.touch()
    with locked_content(coming.with_name("abc")):
        assert main(["pairs", "remove", "--unused", "--yes"]) == 1, "it may be of the pair that comes"
    assert main(["pairs", "remove", "--unused"]) == 2
    assert old.exists(), "no one could be asked"
    assert main(["pairs", "remove", "--unused", "--yes"]) == 0
    assert (old.exists(), new.exists(), registry().read().unused) == (False, True, {})
    assert not [line for line in hub_section().lines if line.label == "unused"]


def test_the_same_file_of_another_revision_is_in_use(pair: LoopbackHub, home: Path) -> None:
    assert main(["setup", *BOTH, "--name", "one", "--yes", "--no-trial"]) == 0
    old = registry().read().pairs["one"].target.path
    pair.replace(TARGET, "more.gguf", tiny(home / "made", general__name="More"))
    assert main(["setup", *BOTH, "--name", "one", "--yes", "--no-trial"]) == 0
    assert registry().read().pairs["one"].target.path != old
    assert registry().read().unused == {}


@pytest.mark.parametrize("words", [[], ["one", "--unused"], ["--unused", "--all-files"]])
def test_what_is_removed_is_one_pair_or_what_none_has(words: list[str], home: Path) -> None:
    assert main(["pairs", "remove", *words, "--yes"]) == 2


def test_removal_leaves_a_valid_cache(pair: LoopbackHub) -> None:
    assert main(["setup", *BOTH, "--name", "one", "--yes", "--no-trial"]) == 0
    assert main(["setup", "--target", f"{TARGET}:q8_0", "--name", "two", "--yes", "--no-trial"]) == 0
    assert main(["pairs", "remove", "one", "--yes"]) == 0
    assert try_to_load_from_cache(TARGET, "big-Q8_0.gguf"), "the branch leads to what is left"
    assert not scan_cache_dir(cache.folder()).warnings

    assert main(["pairs", "remove", "two", "--yes"]) == 0

    assert not scan_cache_dir(cache.folder()).warnings
    assert scan_cache_dir(cache.folder()).size_on_disk == 0


@pytest.mark.parametrize("known", [True, False])
def test_partial_downloads_are_removed_with_their_pair(
    pair: LoopbackHub, home: Path, capsys: pytest.CaptureFixture[str], known: bool
) -> None:
    listed = repository(TARGET, "main")
    file = next(file for file in listed.files if file.path == "big-Q4_K_M.gguf")
    pinned, draft = (f', sha256 = "{file.sha256}"', "") if known else ("", f'draft = {{ repo = "{TARGET}" }}')
    (home / "config").mkdir()
    (home / "config" / "models.toml").write_text(
        f'[pairs.mine]\ntarget = {{ repo = "{TARGET}", file = "{file.path}"{pinned} }}\n{draft}', encoding="utf-8"
    )
    part = cache.partial_path(file)
    assert main(["pairs", "remove", "mine", "--yes"]) == 2
    part.parent.mkdir(parents=True)
    part.write_bytes(bytes(2_000_000))
    theirs, other = part.with_name(f"{part.stem}.0123abcd.incomplete"), part.with_name(f"{'b' * 64}.incomplete")
    theirs.touch()
    other.touch()

    with cache.locked_content(cache.blob_path(file)) as ours:
        assert ours
        assert main(["pairs", "remove", "mine", "--yes"]) == (2 if known else 0)
    assert part.exists(), "it still comes"
    capsys.readouterr()
    assert main(["pairs", "remove", "mine", "--yes"]) == 0

    said = capsys.readouterr().err
    assert f"delete      2 MB  {part}  (from a download that was stopped)" in said
    assert "mine was not set up yet. 2 MB freed." in said
    assert (part.exists(), theirs.exists(), other.exists()) == (False, known, known)


def test_list_show_and_default(pair: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["setup", *BOTH, "--name", "mine", "--yes", "--no-trial", "--no-default"]) == 0
    assert main(["setup", "--target", TARGET, "--name", "alone", "--yes", "--no-trial", "--no-default"]) == 0
    assert main(["pairs", "default", "alone"]) == 0
    capsys.readouterr()

    assert main(["pairs", "list", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert (rows["alone"]["default"], rows["mine"]["default"], rows["mine"]["here"]) == (True, False, True)
    assert rows["qwen3.8-27b"]["download"] > 10**10
    assert list(rows)[:2] == ["alone", "mine"]
    assert all(row["drafting"] == "" for row in rows.values() if row["name"] in ("alone", "demo", "qwen3-coder-30b"))
    assert main(["pairs", "show", "mine"]) == 0
    assert "small-Q8_0.gguf" in capsys.readouterr().out
    assert main(["pairs", "default", "qwen3.8-27b"]) == 2
    assert main(["pairs", "show", "qwen3.8-72b"]) == 2
    assert 'Did you mean "qwen3.8-27b"' in capsys.readouterr().err


def test_a_size_that_is_not_known_shows_how_it_can_be(
    hub: LoopbackHub, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny(home / "mine", "t.gguf")
    known, unknown = '{ repo = "a/b", size = 9000000000 }', '{ repo = "a/c" }'
    pairs = {
        "open": f"target = {unknown}",
        "half": f"target = {known}\ndraft = {unknown}",
        "gone": 'target = "/no/such.gguf"',
        "own": f'target = "{home / "mine" / "t.gguf"}"',
    }
    (home / "config").mkdir()
    entries = "\n".join(f"[pairs.{name}]\n{entry}" for name, entry in pairs.items())
    (home / "config" / "models.toml").write_text(entries, encoding="utf-8")

    assert main(["pairs", "list"]) == 0

    said = capsys.readouterr().out
    shown = {line[2:].split()[0]: line for line in said.splitlines() if line[2:].strip()}
    assert " ? " in shown["open"]
    assert ">9.0 GB" in shown["half"]
    assert "no file" in shown["gone"]
    assert " 0 MB" in shown["own"]
    assert "0.2 GB" in shown["demo"]
    assert "tandem pairs check NAME" in said


def test_titles_cannot_control_the_terminal(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "config").mkdir()
    (home / "config" / "models.toml").write_text(
        '[pairs.good]\ntarget = "x.gguf"\ntitle = "\\u001b[31mred"\n', encoding="utf-8"
    )

    assert main(["pairs", "list"]) == 0
    assert main(["pairs", "show", "good"]) == 0
    said = capsys.readouterr().out
    assert "[31mred" in said
    assert "\x1b" not in said


@pytest.mark.parametrize("command", [["run", "--pair", "bad", "hi"], ["pairs", "check", "bad"]])
def test_an_invalid_entry_is_reported_by_its_name(
    home: Path, hub: LoopbackHub, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    (home / "config").mkdir()
    (home / "config" / "models.toml").write_text('[pairs.bad]\ntraget = "x"\n', encoding="utf-8")

    assert main(["pairs", "list"]) == 0
    said = capsys.readouterr()
    assert "qwen3.8-27b" in said.out
    assert 'pairs.bad has the unknown key "traget". Did you mean "target"?' in said.err
    assert main(command) == 1
    assert "pairs.bad has the unknown key" in capsys.readouterr().err


def test_an_invalid_user_catalog_is_reported_by_every_command(
    home: Path, hub: LoopbackHub, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny(home / "mine", "t.gguf")
    assert main(["pairs", "add", "good", str(home / "mine" / "t.gguf")]) == 0
    capsys.readouterr()
    (home / "config").mkdir(exist_ok=True)
    (home / "config" / "models.toml").write_text("[pairs.mine]\ntarget = x\n", encoding="utf-8")

    for command in (
        ["run", "--pair", "good", "--max-tokens", "2", "hi"],
        ["pairs", "list"],
        ["pairs", "show", "qwen3.8-27b"],
        ["setup", "good", "--no-trial"],
    ):
        assert main(command) == 0
        said = " ".join(capsys.readouterr().err.split())
        assert said.count("models.toml cannot be read: ") == 1
        assert "(at line 2, column " in said
    tiny(home / "mine", "u.gguf")
    assert main(["run", "--target", str(home / "mine" / "u.gguf"), "--max-tokens", "2", "hi"]) == 0
    assert "models.toml" not in capsys.readouterr().err
    assert main(["run", "--pair", "mine", "hi"]) == 1
    assert capsys.readouterr().err.count("models.toml cannot be read: ") == 1


@pytest.mark.parametrize("is_terminal", [True, False])
@pytest.mark.parametrize("words", [["pairs", "check"], ["setup", "--name", "mine", "--no-trial", "--target"]])
def test_what_a_file_is_called_steers_no_terminal(
    home: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    is_terminal: bool,
) -> None:
    name = "\u00fc\u009b31m"
    tiny(home / "mine", f"{name}.gguf")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal)

    assert main([*words, str(home / "mine" / f"{name}.gguf"), "--json"]) == 0

    out = capsys.readouterr().out
    assert out.isascii() == is_terminal
    assert "\u00fc" in str(json.loads(out)["target"])
