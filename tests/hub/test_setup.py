"""`tandem setup` and `tandem pairs`, as a person runs them, against the loopback hub."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from app.catalog import Pair
from app.cli import main
from app.cli.json_keys import JSON_KEYS
from app.cli.known_pairs import registry
from app.errors import AppError, CatalogError, PairError
from app.fitting.place import Place
from app.hub import store
from app.pairing.propose import Room
from app.pairing.setup import Ready, Setup
from app.registry import Registry
from app.source import parse_source
from tests.hub.faults import Cut, Status
from tests.hub.loopback import LoopbackHub
from tests.hub.models import DRAFT, TARGET, tiny
from tests.native.gguf_files import I32, STRING, Array

BOTH = ["--target", f"{TARGET}:q4_k_m", "--draft", DRAFT]
Usage = namedtuple("Usage", "total used free")


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings and data of this test alone."""
    for name in ("app.cli.known_pairs.pairs_file", "app.paths.pairs_file"):
        monkeypatch.setattr(name, lambda: tmp_path / "data" / "pairs.toml")
    monkeypatch.setattr("app.cli.known_pairs.config_dir", lambda: tmp_path / "config")
    monkeypatch.setattr("app.cli.setup.memory_dir", lambda: tmp_path / "memory")
    return tmp_path


@pytest.fixture
def pair(hub: LoopbackHub, tmp_path: Path) -> LoopbackHub:
    """A matched pair of tiny models, and one that does not match."""
    target = tiny(tmp_path / "made", "target.gguf", general__name="Big")
    hub.add(TARGET, {"big-Q4_K_M.gguf": target, "big-Q8_0.gguf": target + b"\0" * 64}, licence="mit")
    hub.add(DRAFT, {"small-Q8_0.gguf": tiny(tmp_path / "made", "draft.gguf", general__name="Small")})
    other = tiny(
        tmp_path / "made",
        "other.gguf",
        general__name="Other",
        tokenizer__ggml__tokens=Array(STRING, ["x", "y", "z"]),
        tokenizer__ggml__token_type=Array(I32, [1, 1, 1]),
    )
    hub.add("owner/other-GGUF", {"other-Q8_0.gguf": other})
    return hub


def test_one_command_downloads_checks_tries_and_remembers(
    pair: LoopbackHub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["setup", *BOTH, "--name", "mine", "--yes"]) == 0

    said = capsys.readouterr().err
    assert "They can ride together" in said
    assert "mine is set up. Tried:" in said
    assert "are used.\n" in said, "what there is to notice ends in one full stop"
    known = registry().read()
    assert known.default == "mine"
    assert known.pairs["mine"].is_here
    assert all(model.ours for model in known.pairs["mine"].models)
    assert known.pairs["mine"].pair.licence == "mit"


def test_a_second_run_downloads_nothing(pair: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["setup", *BOTH, "--yes", "--no-trial"]) == 0
    asked = len(pair.asked(origin="cdn"))

    assert main(["setup", *BOTH, "--yes", "--no-trial"]) == 0

    assert len(pair.asked(origin="cdn")) == asked
    assert "here already" in capsys.readouterr().err
    assert all(model.ours for one in registry().read().pairs.values() for model in one.models)


def test_what_was_set_up_answers_by_name_and_by_its_models(
    pair: LoopbackHub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["setup", *BOTH, "--name", "mine", "--yes", "--no-trial", "--no-default"]) == 0
    capsys.readouterr()

    assert main(["run", "--pair", "mine", "--max-tokens", "3", "--json", "hi"]) == 0
    assert json.loads(capsys.readouterr().out)["models"]["target"]["name"] == "big"
    assert main(["run", *BOTH, "--max-tokens", "3", "--json", "hi"]) == 0
    assert json.loads(capsys.readouterr().out)["models"]["draft"]["name"] == "small"


def test_what_is_not_here_yet_names_the_command_that_brings_it(
    hub: LoopbackHub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", "--pair", "coder-32b", "hi"]) == 1
    assert "tandem setup coder-32b" in capsys.readouterr().err
    assert main(["run", "--target", "owner/big-GGUF:Q8_0", "hi"]) == 1
    assert "tandem setup --target owner/big-GGUF:Q8_0" in capsys.readouterr().err


def test_models_that_do_not_match_are_told_before_anything_large_moves(
    pair: LoopbackHub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["setup", "--target", TARGET, "--draft", "owner/other-GGUF", "--yes"]) == 1

    said = capsys.readouterr().err
    assert "The vocabularies differ: token" in said or "vocabularies have" in said
    assert not list(store.folder().rglob("*.gguf"))
    assert main(["pairs", "check", TARGET, "owner/other-GGUF", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["compatible"] is False
    assert main(["pairs", "check", TARGET, DRAFT]) == 0
    assert "They can ride together" in capsys.readouterr().out


def test_what_the_makers_recommend_is_known_before_anything_moves(
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
    assert main(["pairs", "check", "mime"]) == 2
    assert 'Did you mean the pair "mine"?' in capsys.readouterr().err


def test_which_pair_is_the_default_is_said(pair: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["setup", *BOTH, "--name", "first", "--yes", "--no-trial"]) == 0
    assert "opens with" not in capsys.readouterr().err, "there was none before"
    assert main(["setup", *BOTH, "--name", "second", "--yes", "--no-trial"]) == 0
    assert "opens with it from now on; first comes back with: tandem pairs default first" in capsys.readouterr().err
    assert main(["setup", *BOTH, "--name", "third", "--yes", "--no-trial", "--no-default"]) == 0
    assert "still opens with second; to change that: tandem pairs default third" in capsys.readouterr().err


def test_a_disk_that_is_too_small_is_told_before_the_download(
    pair: LoopbackHub, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**9, 10**9 - 1000, 1000))

    assert main(["setup", *BOTH, "--yes"]) == 1

    assert "are free there" in capsys.readouterr().err
    assert not list(store.folder().rglob("*.incomplete"))


def test_one_failed_download_stops_the_other_and_both_go_on_later(pair: LoopbackHub, home: Path) -> None:
    pair.faults.add(Status(403), "small-Q8_0.gguf", origin="cdn", method="GET", times=None, when=_without_small_range)
    steps = _steps(home)
    prepared = steps.prepare(_pair())
    with pytest.raises(AppError, match="refuses access"):
        list(steps.bring(prepared))
    pair.faults.clear()

    again = _steps(home)
    *_, last = again.bring(again.prepare(_pair()))

    assert isinstance(last, Ready)
    assert last.pair.is_here


def _without_small_range(request: object) -> bool:
    # The header is read by a range from the first byte; the download asks without one.
    return "range" not in getattr(request, "headers", {})


def test_an_interrupted_set_up_is_not_remembered_and_goes_on(pair: LoopbackHub, home: Path) -> None:
    pair.faults.add(Cut(500), "big-Q4_K_M.gguf", origin="cdn", times=1, when=_without_small_range)
    steps = _steps(home)
    steps.retry = type(steps.retry)(lambda seconds: False)
    *_, last = steps.bring(steps.prepare(_pair()))

    assert isinstance(last, Ready)
    assert last.pair.target.path.stat().st_size == last.pair.target.size


def test_a_pair_that_cannot_be_remembered_is_a_failure(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, default: bool) -> None:
        raise CatalogError("pairs.toml cannot be written: Read-only file system.", "Check the disk.")

    monkeypatch.setattr(Registry, "add", refuse)
    tiny(home / "mine", "t.gguf", general__name="Own")
    assert main(["setup", "--target", str(home / "mine" / "t.gguf"), "--no-trial"]) == 1
    assert "Read-only file system" in capsys.readouterr().err


def test_a_pair_that_says_nothing_is_not_remembered(pair: LoopbackHub, home: Path) -> None:
    def silent(*_: object) -> str:
        raise PairError("The pair loads but says nothing.")

    steps = Setup(Registry(home / "data" / "pairs.toml"), _no_demo, silent)
    with pytest.raises(PairError):
        list(steps.bring(steps.prepare(_pair())))

    assert not registry().read().pairs


def _pair() -> Pair:
    return Pair("mine", "Mine", parse_source(f"{TARGET}:q4_k_m"), parse_source(DRAFT))


def _steps(home: Path) -> Setup:
    return Setup(Registry(home / "data" / "pairs.toml"), _no_demo, None)


def _no_demo(part: str) -> Path:
    raise AssertionError(part)


# Managing


def test_local_files_are_used_where_they_lie(home: Path, hub: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    tiny(home / "mine", "t.gguf", general__name="Own")

    assert main(["pairs", "add", "own", str(home / "mine" / "t.gguf")]) == 0

    assert registry().read().pairs["own"].target.path == home / "mine" / "t.gguf"
    assert not list(store.folder().rglob("*.gguf"))
    assert main(["run", "--pair", "own", "--max-tokens", "2", "hi"]) == 0
    assert main(["pairs", "remove", "own", "--yes"]) == 0
    assert (home / "mine" / "t.gguf").exists()
    assert "your own file" in capsys.readouterr().err


def test_remove_deletes_what_tandem_brought_and_only_that(
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


def test_list_show_and_default(pair: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["setup", *BOTH, "--name", "mine", "--yes", "--no-trial", "--no-default"]) == 0
    assert main(["setup", "--target", TARGET, "--name", "alone", "--yes", "--no-trial", "--no-default"]) == 0
    assert main(["pairs", "default", "alone"]) == 0
    capsys.readouterr()

    assert main(["pairs", "list", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert (rows["alone"]["default"], rows["mine"]["default"], rows["mine"]["here"]) == (True, False, True)
    assert rows["coder-32b"]["download"] > 10**10
    assert list(rows)[:2] == ["alone", "mine"]
    assert all(row["drafting"] == "" for row in rows.values() if row["name"] in ("alone", "demo", "nemo-12b"))
    assert main(["pairs", "show", "mine"]) == 0
    assert "small-Q8_0.gguf" in capsys.readouterr().out
    assert main(["pairs", "default", "coder-32b"]) == 2
    assert main(["pairs", "show", "coder-23b"]) == 2
    assert 'Did you mean "coder-32b"' in capsys.readouterr().err


def test_a_size_that_is_not_known_says_how_it_can_be(
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


def test_without_the_hub_what_needs_none_is_named(hub: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    hub.close()
    assert main(["setup", "coder-1.5b", "--yes"]) == 1
    said = capsys.readouterr().err
    assert "cannot be reached" in said
    assert "\n        demo is on this machine and needs no download: tandem setup demo\n" in said


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


def test_a_script_is_not_asked(hub: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["setup"]) == 2
    assert "--yes" in capsys.readouterr().err


def test_a_file_stays_ours_when_the_set_up_is_stopped_behind_it(pair: LoopbackHub, home: Path) -> None:
    pair.faults.add(Status(403), "big-Q4_K_M.gguf", origin="cdn", method="GET", times=None, when=_without_small_range)
    steps = _steps(home)
    prepared = steps.prepare(_pair())
    with pytest.raises(AppError):
        list(steps.bring(prepared))
    pair.faults.clear()
    again = _steps(home)
    *_, last = again.bring(again.prepare(_pair()))

    assert isinstance(last, Ready)
    assert all(model.ours for model in last.pair.models)


def test_a_name_of_the_catalogue_is_not_given_to_other_models(
    pair: LoopbackHub, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["setup", "--target", TARGET, "--name", "demo", "--yes"]) == 2
    assert "the name of another pair, in the catalogue" in capsys.readouterr().err
    assert main(["setup", TARGET]) == 2
    assert f"tandem setup --target {TARGET}" in capsys.readouterr().err


def test_a_name_that_was_given_to_other_models_is_not_given_again(
    home: Path, hub: LoopbackHub, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = (str(home / "mine" / name) for name in ("One-Q8_0.gguf", "other.gguf"))
    for path in (one, other):
        tiny(home / "mine", Path(path).name)
    assert main(["pairs", "add", "own", one]) == 0
    assert main(["pairs", "add", "own", one]) == 0, "the same again is nothing else"

    assert main(["pairs", "add", "own", other]) == 2
    assert '"own" is another pair that was set up here.' in capsys.readouterr().err
    assert registry().read().pairs["own"].target.path == Path(one)
    for name in ("", "a/b", "a\x1b[31m", "  "):
        assert main(["pairs", "add", name, one]) == 2
        assert "is no name for a pair" in capsys.readouterr().err
    assert main(["setup", "--target", one, "--no-trial", "--yes"]) == 0
    assert main(["setup", "--target", one, "--draft", other, "--no-trial", "--yes"]) == 0
    assert list(registry().read().pairs) == ["own", "one-q8-0", "one-q8-0-2"], "another draft makes another pair"


def test_one_wrong_entry_is_told_and_every_other_pair_goes_on(
    home: Path, hub: LoopbackHub, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny(home / "mine", "t.gguf")
    (home / "config").mkdir()
    (home / "config" / "models.toml").write_text(
        f'[pairs.good]\ntarget = "{home / "mine" / "t.gguf"}"\ntitle = "\\u001b[31mred"\n[pairs.bad]\ntraget = "x"\n',
        encoding="utf-8",
    )

    assert main(["pairs", "list"]) == 0
    said = capsys.readouterr()
    assert "good" in said.out
    assert "coder-32b" in said.out
    assert 'pairs.bad has the unknown key "traget". Did you mean "target"?' in said.err
    assert main(["pairs", "show", "good"]) == 0
    assert "\x1b" not in said.out + capsys.readouterr().out
    assert main(["run", "--pair", "good", "--max-tokens", "2", "hi"]) == 0
    capsys.readouterr()
    for command in (
        ["run", "--pair", "bad", "hi"],
        ["setup", "bad"],
        ["pairs", "show", "bad"],
        ["pairs", "check", "bad"],
    ):
        assert main(command) == 1
        assert "pairs.bad has the unknown key" in capsys.readouterr().err


def test_a_long_name_moves_its_own_line_only(home: Path, hub: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    tiny(home / "mine", "t.gguf")
    assert main(["pairs", "add", "n" * 200, str(home / "mine" / "t.gguf")]) == 0
    assert main(["pairs", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("* " + "n" * 200)
    assert len(lines[1]) < 120


def test_what_was_set_up_is_checked_without_the_hub(pair: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["setup", *BOTH, "--name", "mine", "--yes", "--no-trial"]) == 0
    pair.faults.add(Status(503), "*", times=None)
    capsys.readouterr()
    assert main(["pairs", "check", "mine"]) == 0
    assert "They can ride together" in capsys.readouterr().out


def test_a_default_that_is_forgotten_says_what_comes_then(
    home: Path, hub: LoopbackHub, capsys: pytest.CaptureFixture[str]
) -> None:
    tiny(home / "mine", "t.gguf")
    assert main(["pairs", "add", "own", str(home / "mine" / "t.gguf")]) == 0
    assert main(["pairs", "remove", "own", "--yes"]) == 0
    assert "the chat asks for a pair and commands take demo" in capsys.readouterr().err


def test_a_reader_that_has_read_enough_is_no_failure(hub: LoopbackHub) -> None:
    command = f"{sys.executable} -m app pairs list | head -1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)

    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1


def test_all_parts_of_a_split_model_come_and_go_together(
    hub: LoopbackHub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"big-Q4_K_M-0000{part}-of-00003.gguf" for part in (1, 2, 3)]
    hub.add(TARGET, {names[0]: tiny(tmp_path / "made"), names[1]: b"second", names[2]: b"third"})

    assert main(["setup", "--target", TARGET, "--name", "split", "--yes", "--no-trial"]) == 0

    target = registry().read().pairs["split"].target
    assert target.path.name == names[0]
    assert [(target.path.parent / name).is_file() for name in names] == [True] * 3
    assert main(["pairs", "remove", "split", "--yes"]) == 0
    assert not list(store.folder().rglob("*.gguf"))


def test_a_proposal_from_speeds_measured_beside_other_programs_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    busy = Room(16_000_000_000, bytes_per_s=10e9, at_least=True)
    monkeypatch.setattr("app.cli.setup.place", lambda: Place(busy, "a machine"))
    assert main(["setup"]) == 2, "nobody is there to be asked"
    assert f"{busy.doubt} All others: tandem pairs list" in capsys.readouterr().err
