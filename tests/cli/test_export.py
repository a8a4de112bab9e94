"""`tandem export` and `tandem import`."""

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from unittest.mock import Mock

import pytest

from app.cli import export as export_command
from app.conversations.message import Role
from app.conversations.store import Store
from tests.cli.json_keys import JSON_KEYS
from tests.tandem import Tandem


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "data" / "conversations.db"
    monkeypatch.setattr(export_command, "conversations_file", lambda: file)
    return file


@pytest.fixture
def filled(file: Path) -> Iterator[Store]:
    """Three conversations in the store of a running Tandem."""
    with closing(Store(file)) as store:
        for name in ("Trip to Trieste", "Trip to Turin", "Quicksort"):
            conversation = store.create()
            asked = store.add(conversation, Role.USER, name, parent=None)
            store.add(conversation, Role.ASSISTANT, f"About {name}: \x1b[2Jyes.", parent=asked.id)
        store.pin(conversation, True)
        yield store


def test_the_last_conversation_goes_to_standard_output(filled: Store, tandem: Tandem) -> None:
    out = tandem("export").out
    assert "# Quicksort\n" in out
    assert "## You\n\nQuicksort\n" in out
    assert "Trieste" not in out


def test_markdown_reports_omitted_branches(filled: Store, tandem: Tandem) -> None:
    (asked, _) = filled.load(3).tree.path
    filled.add(3, Role.ASSISTANT, "Another answer.", parent=asked.id)
    assert tandem("export", "3").err == "1 message of other branches left out; --format json has all.\n"
    for complete in (("3", "--format", "json"), ("2",), ("--list",)):
        assert tandem("export", *complete).err == ""


@pytest.mark.parametrize(("which", "title"), [("1", "Trip to Trieste"), ("turin", "Trip to Turin")])
def test_conversation_is_chosen_by_number_or_title(filled: Store, tandem: Tandem, which: str, title: str) -> None:
    [only] = tandem("export", which, "--format", "json").json["conversations"]
    assert only["title"] == title


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["trip"], ['2 conversations have a title with "trip".', "Give a number: 2, 1."]),
        (["xyz"], ['No conversation is called "xyz".', "To list them: tandem export --list"]),
        (["9"], ['No conversation is called "9".']),
        (["1", "--all"], ["Give a conversation, or --all, or --list."]),
        (["--all", "--list"], ["Give a conversation, or --all, or --list."]),
        (["1", "--list"], ["Give a conversation, or --all, or --list."]),
    ],
    ids=" ".join,
)
def test_no_or_several_conversations_are_an_error(
    filled: Store, tandem: Tandem, given: list[str], said: list[str]
) -> None:
    told = tandem("export", *given, code=2).err
    assert all(sentence in told for sentence in said), told


def test_existing_file_is_overwritten_only_with_force(filled: Store, tmp_path: Path, tandem: Tandem) -> None:
    out = tmp_path / "all.json"
    tandem("export", "--all", "--output", str(out))
    before = out.read_bytes()
    assert len(json.loads(before)["conversations"]) == 3
    assert "exists already" in tandem("export", "--output", str(out), code=2).err
    assert out.read_bytes() == before

    tandem("export", "--output", str(out), "--format", "markdown", "--force")
    assert out.read_text(encoding="utf-8").startswith("<!-- tandem:conversation")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["all.json", "data"]


@pytest.mark.parametrize(
    ("flags", "what"),
    [
        (["--all"], "3 conversations"),
        (["turin"], 'conversation 2, "Trip to Turin"'),
        (["--list"], "the list of 3 conversations"),
    ],
)
def test_export_reports_the_written_file(
    filled: Store, tmp_path: Path, tandem: Tandem, flags: list[str], what: str
) -> None:
    out = tmp_path / "out.md"
    assert tandem("export", *flags, "--output", str(out)) == ("", f"{out} is written: {what}.\n")


def test_list_is_printed_as_text_and_json(filled: Store, tandem: Tandem) -> None:
    lines = tandem("export", "--list").out.splitlines()
    assert lines[0].endswith("* Quicksort")
    assert [line.split()[0] for line in lines] == ["3", "2", "1"]
    first = tandem("export", "--list", "--format", "json").json[0]
    assert (tuple(first), first["title"]) == (JSON_KEYS["export"], "Quicksort")


@pytest.mark.parametrize("name", ["", "one.md", "one.json"])
def test_no_export_has_control_characters(filled: Store, tmp_path: Path, tandem: Tandem, name: str) -> None:
    conversation = filled.create()
    filled.add(conversation, Role.USER, "a\x1b]52;c;eA==\x07\u202e\x9b2J\U000e0041\u200bb", parent=None)
    filled.rename(conversation, "Evil")
    output = tmp_path / (name or "none")

    said = tandem("export", "Evil", *(["--output", str(output)] if name else []))
    text = output.read_text(encoding="utf-8") if name else said.out
    assert text.replace("\n", "").isprintable()
    assert ("\\u001b]52" in text) == (name == "one.json")


def test_nothing_to_export_is_an_error(tandem: Tandem) -> None:
    assert "no conversations yet" in tandem("export", "--all", code=1).err
    assert tandem("export", "--list").out == "There are no conversations yet.\n"


@pytest.mark.parametrize("name", ["all.json", "all.md"])
def test_import_skips_existing_conversations(filled: Store, tmp_path: Path, tandem: Tandem, name: str) -> None:
    out = str(tmp_path / name)
    tandem("export", "--all", "--output", out)
    filled.add(3, Role.USER, "And mergesort?", parent=filled.load(3).tree.leaf)
    filled.delete(2)
    assert tandem("import", out).out.splitlines() == [
        "     3  Quicksort  (2 messages, already there)",
        "     2  Trip to Turin  (2 messages, restored)",
        "     1  Trip to Trieste  (2 messages, already there)",
        "3 conversations, 0 new",
    ]
    assert [node.text for node in filled.load(3).tree.path][-1] == "And mergesort?"
    assert len(filled.summaries()) == 3


@pytest.fixture
def exported(filled: Store, tmp_path: Path, tandem: Tandem) -> Path:
    """The Markdown file of a fourth conversation, which has a system prompt."""
    filled.add(filled.create({"answer": {"system": "Be brief."}}), Role.USER, "Hello", parent=None)
    filled.rename(4, "C# *first*")
    tandem("export", "4", "--output", str(tmp_path / "one.md"))
    return tmp_path / "one.md"


def test_a_title_that_is_edited_in_the_heading_is_taken(filled: Store, exported: Path, tandem: Tandem) -> None:
    first = tandem("import", str(exported)).out.splitlines()[0]
    assert first == "     4  C# *first*  (1 message, already there)"
    exported.write_text(exported.read_text().replace("# C\\# \\*first\\*", "# My\\_title"))
    second = tandem("import", str(exported)).out.splitlines()[0]
    assert second == '     4  My_title  (1 message, already there; renamed from "C# *first*")'
    assert filled.title(4) == "My_title"


def test_the_title_of_an_older_file_is_not_taken_and_an_edited_system_prompt_is(
    filled: Store, exported: Path, tandem: Tandem
) -> None:
    filled.rename(4, "Newer")
    about = '1 message, already there; its title was not changed to "C# *first*"'
    assert tandem("import", str(exported)).out.splitlines()[0] == f"     4  Newer  ({about})"
    exported.write_text(exported.read_text().replace("Be brief.", "Be wordy."))
    lines = tandem("import", str(exported)).out.splitlines()
    assert lines == ["     5  C# *first*  (1 message)", "1 conversation, 1 new"]


@pytest.mark.parametrize("name", ["all.json", "all.md"])
def test_an_export_is_imported_once_even_a_conversation_without_messages(
    filled: Store, tmp_path: Path, tandem: Tandem, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    filled.rename(filled.create(), "Empty")
    tandem("export", "--all", "--output", str(tmp_path / name))
    monkeypatch.setattr(export_command, "conversations_file", lambda: tmp_path / "other.db")
    for n_new in (4, 0):
        said = tandem("import", str(tmp_path / name)).out
        assert said.splitlines()[-1] == f"4 conversations, {n_new} new"
    with closing(Store(tmp_path / "other.db")) as store:
        titles = {summary.title for summary in store.summaries()}
    assert titles == {"Quicksort", "Trip to Turin", "Trip to Trieste", "Empty"}


def test_several_files_and_folders_are_imported(filled: Store, tmp_path: Path, tandem: Tandem) -> None:
    folder = tmp_path / "chats"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.md").write_text("## You\nA?\n## Answer\nB")
    (folder / "deep" / "b.json").write_text('{"messages": [{"role": "user", "content": "C?"}]}')
    (notes := folder / "notes.md").write_text("no conversation")
    (folder / "photo.png").write_bytes(b"x")
    said = tandem("import", str(folder))
    assert said.out.splitlines()[-1] == "2 conversations, 2 new"
    assert said.err.count("was not imported") == 1
    said = tandem("import", *map(str, (folder / "a.md", folder / "deep", notes)), code=1)
    assert said.out.splitlines()[-1] == "2 conversations, 0 new"
    assert "notes.md was not imported" in tandem("import", str(notes), code=1).err
    assert "No file was imported" in tandem("import", str(tmp_path / "gone.md"), str(notes), code=1).err
    (tmp_path / "empty").mkdir()
    assert "no files with conversations" in tandem("import", str(tmp_path / "empty"), code=1).err


def test_a_full_disk_is_an_error(
    filled: Store, tmp_path: Path, tandem: Tandem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", Mock(side_effect=OSError(28, "No space left on device")))
    for flags in ([], ["--force"]):
        said = tandem("export", "--output", str(tmp_path / "new.md"), *flags, code=1).err
        assert "new.md cannot be written: No space left on device." in said


def test_damaged_store_is_reported(file: Path, tandem: Tandem) -> None:
    file.parent.mkdir()
    file.write_bytes(b"no database at all, and longer than a header" * 20)
    assert "The conversations were damaged and have no backup" in tandem("export", "--list").err


def test_a_dash_is_standard_output(
    filled: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tandem: Tandem
) -> None:
    monkeypatch.chdir(tmp_path)
    assert tandem("export", "--list", "--output", "-") == tandem("export", "--list")
    assert not (tmp_path / "-").exists()
