"""`tandem export` and `tandem import`."""

import json
import os
from contextlib import closing
from pathlib import Path

import pytest

from app.cli import export as export_command
from app.cli.command_line import parse_args
from app.cli.export import export, import_
from app.conversations.message import Role
from app.conversations.store import Store
from app.core.errors import AppError, UsageError
from tests.cli.json_keys import JSON_KEYS


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "data" / "conversations.db"
    monkeypatch.setattr(export_command, "conversations_file", lambda: file)
    return file


@pytest.fixture
def filled(file: Path) -> Path:
    store = Store(file)
    for name in ("Trip to Trieste", "Trip to Turin", "Quicksort"):
        conversation = store.create()
        asked = store.add(conversation, Role.USER, name, parent=None)
        store.add(conversation, Role.ASSISTANT, f"About {name}: \x1b[2Jyes.", parent=asked.id)
    store.pin(conversation, True)
    store.close()
    return file


def run(*given: str) -> int:
    return export(**parse_args(["export", *given]).given)


def test_the_last_conversation_goes_to_standard_output(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    out = capsys.readouterr().out

    assert "# Quicksort\n" in out
    assert "## You\n\nQuicksort\n" in out
    assert "Trieste" not in out


def test_markdown_reports_omitted_branches(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with closing(Store(filled)) as store:
        (asked, _) = store.load(3).tree.path
        store.add(3, Role.ASSISTANT, "Another answer.", parent=asked.id)
    assert run("3") == 0
    assert capsys.readouterr().err == "1 message of other branches left out; --format json has all.\n"
    for complete in (("3", "--format", "json"), ("2",), ("--list",)):
        assert run(*complete) == 0
        assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("which", "title"), [("1", "Trip to Trieste"), ("turin", "Trip to Turin")])
def test_conversation_is_chosen_by_number_or_title(
    filled: Path, capsys: pytest.CaptureFixture[str], which: str, title: str
) -> None:
    assert run(which, "--format", "json") == 0

    [only] = json.loads(capsys.readouterr().out)["conversations"]
    assert only["title"] == title


@pytest.mark.parametrize(
    ("which", "reason"), [("trip", "2 conversations have a title with"), ("xyz", "No conversation"), ("9", "No conv")]
)
def test_unknown_or_ambiguous_title_is_an_error(filled: Path, which: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as caught:
        run(which)
    assert caught.value.hint


def test_existing_file_is_overwritten_only_with_force(filled: Path, tmp_path: Path) -> None:
    out = tmp_path / "all.json"
    assert run("--all", "--output", str(out)) == 0
    before = out.read_bytes()
    assert len(json.loads(before)["conversations"]) == 3
    with pytest.raises(UsageError, match="exists already"):
        run("--output", str(out))
    assert out.read_bytes() == before

    assert run("--output", str(out), "--format", "markdown", "--force") == 0
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
    filled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], flags: list[str], what: str
) -> None:
    out = tmp_path / "out.md"
    assert run(*flags, "--output", str(out)) == 0
    assert capsys.readouterr() == ("", f"{out} is written: {what}.\n")


def test_list_is_printed_as_text_and_json(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("* Quicksort")
    assert [line.split()[0] for line in lines] == ["3", "2", "1"]

    assert run("--list", "--format", "json") == 0
    first = json.loads(capsys.readouterr().out)[0]
    assert (tuple(first), first["title"]) == (JSON_KEYS["export"], "Quicksort")


def test_conflicting_selections_are_wrong_usage(filled: Path) -> None:
    for given in (("1", "--all"), ("--all", "--list"), ("1", "--list")):
        with pytest.raises(UsageError):
            run(*given)


@pytest.mark.parametrize("name", ["", "one.md", "one.json"])
def test_no_export_has_control_characters(filled: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    store = Store(filled)
    conversation = store.create()
    store.add(conversation, Role.USER, "a\x1b]52;c;eA==\x07\u202e\x9b2J\U000e0041\u200bb", parent=None)
    store.rename(conversation, "Evil")
    store.close()
    output = filled.with_name(name or "none")

    run("Evil", *(["--output", str(output)] if name else []))

    text = output.read_text(encoding="utf-8") if name else capsys.readouterr().out
    assert text.replace("\n", "").isprintable()
    assert ("\\u001b]52" in text) == (name == "one.json")


def test_nothing_to_export_is_an_error(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(AppError, match="no conversations yet"):
        run("--all")
    assert run("--list") == 0
    assert capsys.readouterr().out == "There are no conversations yet.\n"


def test_export_is_imported(
    filled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "all.json"
    run("--all", "--output", str(out))
    other = tmp_path / "other" / "conversations.db"
    monkeypatch.setattr(export_command, "conversations_file", lambda: other)
    assert import_([out]) == 0

    assert capsys.readouterr().out.splitlines()[0] == "     1  Quicksort  (2 messages)"
    store = Store(other)
    assert [summary.title for summary in store.summaries()] == ["Quicksort", "Trip to Turin", "Trip to Trieste"]
    store.close()


@pytest.mark.parametrize("name", ["all.json", "all.md"])
def test_import_skips_existing_conversations(
    filled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    out = tmp_path / name
    run("--all", "--output", str(out))
    store = Store(filled)
    (quicksort,) = (summary.id for summary in store.summaries() if summary.title == "Quicksort")
    store.add(quicksort, Role.USER, "And mergesort?", parent=store.load(quicksort).tree.leaf)
    (turin,) = (summary.id for summary in store.summaries() if summary.title == "Trip to Turin")
    store.delete(turin)
    store.close()
    assert import_([out]) == 0

    assert capsys.readouterr().out.splitlines() == [
        "     3  Quicksort  (2 messages, already there)",
        "     2  Trip to Turin  (2 messages, restored)",
        "     1  Trip to Trieste  (2 messages, already there)",
        "3 conversations, 0 new",
    ]
    store = Store(filled)
    assert [node.text for node in store.load(quicksort).tree.path][-1] == "And mergesort?"
    assert len(store.summaries()) == 3
    store.close()


def exported(filled: Path, tmp_path: Path, title: str) -> Path:
    """Return the Markdown file of a fourth conversation, which has a system prompt."""
    with closing(Store(filled)) as store:
        number = store.create({"answer": {"system": "Be brief."}})
        store.add(number, Role.USER, "Hello", parent=None)
        store.rename(number, title)
    run("4", "--output", str(tmp_path / "one.md"))
    return tmp_path / "one.md"


def test_a_title_that_is_edited_in_the_heading_is_taken(
    filled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = exported(filled, tmp_path, "C# *first*")
    assert import_([out]) == 0
    out.write_text(out.read_text().replace("# C\\# \\*first\\*", "# My\\_title"))
    assert import_([out]) == 0
    first, _, second, _ = capsys.readouterr().out.splitlines()
    assert first == "     4  C# *first*  (1 message, already there)"
    assert second == '     4  My_title  (1 message, already there; renamed from "C# *first*")'
    with closing(Store(filled)) as store:
        assert store.title(4) == "My_title"


def test_the_title_of_an_older_file_is_not_taken_and_an_edited_system_prompt_is(
    filled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = exported(filled, tmp_path, "Older")
    with closing(Store(filled)) as store:
        store.rename(4, "Newer")
    import_([out])
    about = '1 message, already there; its title was not changed to "Older"'
    assert capsys.readouterr().out.splitlines()[0] == f"     4  Newer  ({about})"
    out.write_text(out.read_text().replace("Be brief.", "Be wordy."))
    import_([out])
    assert capsys.readouterr().out.splitlines() == ["     5  Older  (1 message)", "1 conversation, 1 new"]


@pytest.mark.parametrize("name", ["all.json", "all.md"])
def test_a_conversation_without_messages_is_imported_once(
    filled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    store = Store(filled)
    store.rename(store.create(), "Empty")
    store.close()
    run("--all", "--output", str(tmp_path / name))
    monkeypatch.setattr(export_command, "conversations_file", lambda: tmp_path / "other.db")
    for n_new in (4, 0):
        import_([tmp_path / name])
        assert capsys.readouterr().out.splitlines()[-1] == f"4 conversations, {n_new} new"


def test_several_files_and_folders_are_imported(
    filled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "chats"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.md").write_text("## You\nA?\n## Answer\nB")
    (folder / "deep" / "b.json").write_text('{"messages": [{"role": "user", "content": "C?"}]}')
    (folder / "notes.md").write_text("no conversation")
    (folder / "photo.png").write_bytes(b"x")
    assert import_([folder]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[-1] == "2 conversations, 2 new"
    assert err.count("was not imported") == 1
    assert import_([folder / "a.md", folder / "deep", folder / "notes.md"]) == 1
    assert capsys.readouterr().out.splitlines()[-1] == "2 conversations, 0 new"
    for wrong in ((folder / "notes.md",), (tmp_path / "gone.md", folder / "notes.md")):
        with pytest.raises(AppError, match=r"imported|no file"):
            import_([*wrong])
    (tmp_path / "empty").mkdir()
    with pytest.raises(AppError, match="no files with conversations"):
        import_([tmp_path / "empty"])


def test_full_disk_leaves_existing_files_unchanged(
    filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    new, old = tmp_path / "new.md", tmp_path / "old.md"
    old.write_text("old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for arguments in ([str(new)], [str(old), "--force"]):
        with pytest.raises(AppError, match="No space left"):
            run("--output", *arguments)
    assert not new.exists()
    assert old.read_text() == "old"


def test_damaged_store_is_reported(filled: Path, capsys: pytest.CaptureFixture[str]) -> None:
    filled.write_bytes(b"no database at all, and longer than a header" * 20)
    assert run("--list") == 0
    assert "The conversations were damaged and have no backup" in capsys.readouterr().err


def test_a_dash_is_standard_output(
    filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("--list") == 0
    listed = capsys.readouterr()
    assert run("--list", "--output", "-") == 0
    assert capsys.readouterr() == listed
    assert not (tmp_path / "-").exists()
