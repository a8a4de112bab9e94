"""Paths in a prompt: found, completed, included, refused."""

import os
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.conversations.attached import Attachment, compose, question_of, split
from app.core.errors import AppError
from app.core.regular_file import MissingFile
from app.ui.composer.completion import completions
from app.ui.composer.included_files import chosen_file, include_files, reference_at, references
from app.ui.widgets.path_completion import MOST, matching_paths
from tests.core.test_included import pdf


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("see @notes.md", ["notes.md"]),
        ("@a.py and (@b.py)", ["a.py", "b.py)"]),
        ('@"my notes.md" now', ["my notes.md"]),
        ("me@example.org", []),
        ("[@click=app.quit]x[/]", []),
        ("@ nothing", []),
        ("~ @~/x", ["~/x"]),
    ],
)
def test_paths_are_found_after_an_at_sign(text: str, paths: list[str]) -> None:
    assert [each.path for each in references(text)] == paths


@pytest.mark.parametrize(
    ("text", "must"),
    [("@notes.md", True), ("@src/x", True), ('@"x"', True), ("@property", False), ("@app.route", False)],
)
def test_only_what_looks_like_a_path_must_be_one(text: str, must: bool) -> None:
    assert next(references(text)).must_exist is must


@given(st.text(st.sampled_from('@"/ ~.\\a\n(\x00é')), st.integers(0, 30))
def test_any_text_can_be_completed(text: str, cursor: int) -> None:
    for reference in references(text):
        assert 0 < len(reference.readings) <= 2
    reference_at(text, min(cursor, len(text)))
    for typed in (text, "/" + text):
        completions(typed, min(cursor, len(typed)), Path())


def test_the_path_before_the_cursor_is_completed() -> None:
    assert reference_at("see @no and", 7) == (4, "no")
    assert reference_at("see @", 5) == (4, "")
    assert reference_at('@"my no', 7) == (0, "my no")
    assert reference_at('@"my ""o', 8) == (0, 'my "o')
    assert reference_at('@"done" ', 7) is None
    assert reference_at("see @no and", 11) is None


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("notes.md", "Nonsense.txt", "other.md", ".hidden", "photo.png", 'quo"te.md'):
        (tmp_path / name).write_text("some text")
    (tmp_path / "binary").write_bytes(b"\x00\x01")
    (tmp_path / "north").mkdir()
    (tmp_path / "north" / "in it.md").write_text("x")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "nopipe")
    return tmp_path


def test_files_and_directories_are_offered(tree: Path) -> None:
    matching = partial(matching_paths, base=tree)
    assert matching("no") == ("north/", "Nonsense.txt", "notes.md")
    assert matching("") == ("north/", "binary", "Nonsense.txt", "notes.md", "other.md", "photo.png", 'quo"te.md')
    assert matching("ot") == ("other.md", "notes.md", "photo.png")
    assert matching("north/") == ("north/in it.md",)
    assert matching(".hi") == (".hidden",)
    assert matching("none/x") == matching("\0") == ()


def test_a_new_file_is_offered(tree: Path) -> None:
    matching = partial(matching_paths, base=tree)
    assert matching("new") == ()
    (tree / "new.md").write_text("x")
    os.utime(tree, ns=(1, 1))
    assert matching("new") == ("new.md",)


def test_the_list_has_an_end(tmp_path: Path) -> None:
    for number in range(MOST + 5):
        (tmp_path / f"{number}.md").touch()
    assert len(matching_paths("", tmp_path)) == MOST


def test_a_command_knows_what_its_argument_is(tree: Path) -> None:
    for line, offered in (("/import not", ["notes.md"]), ("/export not", []), ("/export no", ["north/"])):
        found = completions(line, len(line), tree)
        assert found is not None
        assert [each.value for each in found[1]] == offered


def test_files_stand_before_the_question_and_pastes_too(tree: Path) -> None:
    paste = Attachment("pasted 1 KB, 2 lines", "p", is_file=False)
    question = "compare @notes.md, @notes.md. with [pasted 1 KB, 2 lines] and @no one"
    assert include_files(question, [paste], tree)[0] == compose(question, [Attachment("notes.md", "some text"), paste])


@pytest.mark.parametrize(
    ("question", "read_as"),
    [
        ("see @my docs/note one.txt", 'see @"my docs/note one.txt"'),
        ("see @my docs/note one.txt, please", 'see @"my docs/note one.txt", please'),
        ("@my docs/note one.txt and @notes.md.", '@"my docs/note one.txt" and @notes.md.'),
        ("(@my notes.txt)\nmore", '(@"my notes.txt")\nmore'),
        ('@"my notes.txt"', '@"my notes.txt"'),
    ],
)
def test_a_path_with_spaces_needs_no_quotation_marks(question: str, read_as: str, tree: Path) -> None:
    (tree / "my docs").mkdir()
    for name in ("my docs/note one.txt", "my notes.txt"):
        (tree / name).write_text("spaced")
    message = include_files(question, (), tree)[0]
    assert question_of(message) == read_as
    assert "spaced" in message


@pytest.mark.parametrize("question", ["@my docs/note two.txt", "see @my docs/none at all", "@my ideas.txt, please"])
def test_a_missing_path_with_spaces_is_an_error(question: str, tree: Path) -> None:
    (tree / "my docs").mkdir()
    with pytest.raises(MissingFile, match="There is no"):
        include_files(question, (), tree)


@pytest.mark.parametrize("question", ["what does @property in a/b.py do", "@john, see notes.md", "@app.route or a/b"])
def test_words_behind_an_at_sign_stay_text(question: str, tree: Path) -> None:
    assert include_files(question, (), tree)[0] == question


def test_a_file_that_cannot_be_included_is_an_error(tree: Path) -> None:
    for question, sentence in [
        ("@nots.md", "There is no file nots.md."),
        ("@nots.md sum it up", "There is no file nots.md."),
        ("@/none/nots.md sum", "There is no file /none/nots.md."),
        ("@./nots sum", "There is no file ./nots."),
        ("@north sum", "north is a folder."),
        *([("@nopipe, sum", "nopipe is a device or a pipe, not a file.")] if hasattr(os, "mkfifo") else []),
        ("@north/", "north/ is a folder."),
        ("@/ or @.", "/ is a folder."),
        ("look in @./", "./ is a folder."),
        ('@"binary"', "binary is not text."),
    ]:
        with pytest.raises(AppError, match=sentence.replace(".", r"\.")):
            include_files(question, (), tree)


def test_a_chosen_file_that_cannot_be_read_is_refused_and_a_folder_stays_open(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree)
    assert (chosen_file("notes.md"), chosen_file("north")) == ("@notes.md ", "@north/")
    for path in ("gone", "gone" * 80, "nopipe" if hasattr(os, "mkfifo") else "\0"):
        with pytest.raises(AppError, match=r"There is no file|cannot be read|is a device or a pipe"):
            chosen_file(path)


def test_a_scanned_document_is_sent_as_pictures_of_its_pages(tmp_path: Path) -> None:
    pytest.importorskip("kreuzberg")
    (tmp_path / "a.pdf").write_bytes(pdf("", ""))
    (tmp_path / "a.pdf.txt").write_text("text")
    message, pictures = include_files("Is @a.pdf like @a.pdf.txt and @a.pdf:2?", (), tmp_path)
    question, attachments = split(message)
    assert question == "Is @a.pdf:1 @a.pdf:2 like @a.pdf.txt and @a.pdf:2?"
    assert sorted(each.name for each in attachments) == ["a.pdf.txt", "a.pdf:1", "a.pdf:2"]
    shown = {each.picture.digest for each in attachments if each.picture is not None}
    assert {each.digest for each in pictures} == shown
