"""Files of the catalog that changed on Hugging Face: the pinned revision, or the current file if it is offered."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.cli import main
from app.cli.output import TerminalLine
from app.models.source import HubModel
from app.worker.known_pairs import about_catalog, named_pair, newest, registry
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import DRAFT, TARGET, sha256, write_catalog
from tests.tandem import Tandem

FILE = "big-Q4_K_M.gguf"
SETUP = ["setup", "mine", "--yes", "--no-trial"]
LATEST = [*SETUP, "--latest"]
Entry = Callable[..., HubModel]


@pytest.fixture
def entry(pair: LoopbackHub, home: Path) -> Entry:
    """Write the pair "mine" into the user's catalog, pinned to the hub's current files; keywords replace values."""
    repo = pair.repos[TARGET]

    def write(**changes: Any) -> HubModel:
        file = repo.files[FILE]
        known = {"repo": TARGET, "file": FILE, "revision": repo.resolve("main"), "size": file.size}
        known = {**known, "sha256": file.sha256, **changes}
        keys = "\n".join(f"{key} = {json.dumps(value)}" for key, value in known.items() if value is not None)
        draft = f'[pairs.mine.draft]\nrepo = "{DRAFT}"\n'
        write_catalog(home, f'[pairs.mine]\ntitle = "Mine"\n[pairs.mine.target]\n{keys}\n{draft}')
        source = newest("mine").target
        assert isinstance(source, HubModel)
        return source

    return write


def _change(hub: LoopbackHub, *, forget: bool) -> bytes:
    """Commit another file, longer by a few bytes; return it."""
    repo = hub.repos[TARGET]
    pinned, content = repo.resolve("main"), repo.files[FILE].content + bytes(32)
    repo.change({FILE: content})
    if forget:
        del repo.commits[pinned or ""]
    return content


def _content() -> bytes:
    return registry().read().pairs["mine"].target.path.read_bytes()


def test_the_pinned_revision_is_used_while_it_is_there(pair: LoopbackHub, entry: Entry, tandem: Tandem) -> None:
    pinned = entry().revision
    before = pair.repos[TARGET].files[FILE].content
    _change(pair, forget=False)

    ran = tandem(*SETUP)

    assert _content() == before
    said = ran.sentences
    assert f"{TARGET} has another {FILE} now; revision {pinned[:7]} is used" in said
    assert "tandem setup mine --latest" in said


def test_the_same_file_of_another_revision_is_used_without_a_question(pair: LoopbackHub, entry: Entry) -> None:
    pinned = entry().revision
    repo = pair.repos[TARGET]
    repo.change({"README.md": b"new"})
    del repo.commits[pinned]

    assert main(SETUP) == 0
    assert sha256(_content()) == repo.files[FILE].sha256


@pytest.mark.parametrize("known", ["hash", "size"])
def test_a_missing_file_is_named_and_the_current_file_is_offered(
    pair: LoopbackHub, entry: Entry, tandem: Tandem, known: str
) -> None:
    entry(**({} if known == "hash" else {"sha256": None}))
    current = _change(pair, forget=True)

    said = tandem(*SETUP, code=1).sentences
    assert "To use the current file, without a checksum: tandem setup mine --latest" in said
    assert "mine" not in registry().read().pairs

    tandem(*LATEST)
    assert _content() == current
    found = named_pair("mine")
    assert found.files is not None
    assert found.files.is_of(newest("mine")), "it is the pair of this entry until the entry changes"
    assert about_catalog(found.pair) == ()


def test_the_current_file_is_found_by_its_quantization(pair: LoopbackHub, entry: Entry) -> None:
    entry()
    repo = pair.repos[TARGET]
    content = repo.files[FILE].content + bytes(32)
    pair.add(TARGET, {"renamed/big-v2-Q4_K_M.gguf": content, "big-v2-Q8_0.gguf": content + b"\0"})

    assert main(SETUP) == 1
    assert main(LATEST) == 0
    assert _content() == content


def test_the_current_file_is_checked_like_every_model(pair: LoopbackHub, entry: Entry, tandem: Tandem) -> None:
    entry()
    other = next(iter(pair.repos["owner/other-GGUF"].files.values())).content
    pair.add(TARGET, {FILE: other})

    said = tandem(*LATEST, code=1).err
    assert "vocabular" in said
    assert f"tandem pairs find {TARGET}:{FILE}" in said, "and not at the revision that is gone"


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"revision": "0" * 40, "sha256": None}, "has no such revision"),
        ({"size": 7, "sha256": None}, "it has {size} bytes, not 7"),
        ({"sha256": "0" * 64}, "its SHA-256 is {sha256}, not " + "0" * 64),
        ({"file": "big-Q5_K_M.gguf"}, "has no complete file big-Q5_K_M.gguf"),
        ({"repo": "owner/removed-GGUF"}, "owner/removed-GGUF is gone from"),
    ],
    ids=["revision", "size", "hash", "file", "repository"],
)
def test_a_wrong_entry_is_one_sentence_and_a_fix(
    pair: LoopbackHub, entry: Entry, tandem: Tandem, wrong: dict[str, Any], sentence: str
) -> None:
    entry(**wrong)
    file = pair.repos[TARGET].files[FILE]

    said = tandem(*SETUP, code=1).sentences
    assert sentence.format(size=f"{file.size:,}", sha256=file.sha256) in said
    fix = "tandem pairs list" if "repo" in wrong else "tandem setup mine --latest"
    assert fix in said

    again = tandem("pairs", "check", "mine", code=1).sentences
    assert sentence.format(size=f"{file.size:,}", sha256=file.sha256) in again
    assert fix in again


def test_a_renamed_repository_is_named_and_used(pair: LoopbackHub, entry: Entry, tandem: Tandem) -> None:
    entry()
    pair.rename(TARGET, "newowner/big-GGUF")

    assert "was renamed to newowner/big-GGUF" in tandem(*SETUP).sentences


def test_what_is_here_answers_while_the_file_is_gone(pair: LoopbackHub, entry: Entry) -> None:
    entry()
    assert main(SETUP) == 0
    before = _content()
    _change(pair, forget=True)

    assert main(SETUP) == 0
    assert _content() == before


@pytest.mark.parametrize(("reply", "code"), [("y", 0), ("", 1)])
def test_a_person_is_asked_whether_to_use_the_current_file(
    pair: LoopbackHub, entry: Entry, monkeypatch: pytest.MonkeyPatch, reply: str, code: int
) -> None:
    entry()
    current = _change(pair, forget=True)
    asked: list[str] = []

    def answer(self: object, question: str) -> str:
        asked.append(question)
        return reply

    monkeypatch.setattr(TerminalLine, "can_ask", property(lambda self: True))
    monkeypatch.setattr(TerminalLine, "ask", answer)

    assert main(["setup", "mine", "--no-trial"]) == code
    assert asked[0].startswith("Use the current file instead, without a checksum?")
    if code == 0:
        assert _content() == current


def test_latest_is_about_a_pair(pair: LoopbackHub, tandem: Tandem) -> None:
    assert "--latest needs the name of a pair" in tandem("setup", "--target", TARGET, "--latest", code=2).err
