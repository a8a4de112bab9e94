"""Completion of unusual file names: the completed path is read and completed again."""

import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from app.conversations.attached import Attachment, compose, split
from app.ui.composer.completion import Suggestion, completions
from app.ui.composer.included_files import completed, include_files, references

NAMES = [
    "plain.txt",
    "two words.txt",
    " leading and trailing ",
    "-dash.txt",
    "--flag",
    "~home.txt",
    "@at.txt",
    "it's.txt",
    "'quoted'.txt",
    "dots...",
    "brackets(1)[2].txt",
    "#hash & $HOME %d.txt",
    "日本語 ファイル.txt",
    "naïve.txt",
    "emoji🎉.txt",
    "no\N{NO-BREAK SPACE}break.txt",
]
IMPOSSIBLE_ON_WINDOWS = [
    'a"b.txt',
    'a""b.txt',
    '"all".txt',
    '"',
    'two "words" and a space.txt',
    "back\\slash.txt",
    'back\\"both.txt',
    "star*?.txt",
    "ends in a colon:",
]
if sys.platform != "win32":
    NAMES += IMPOSSIBLE_ON_WINDOWS


def suggested(text: str, base: Path) -> Sequence[Suggestion]:
    found = completions(text, len(text), base)
    assert found is not None
    return found[1]


def test_pictures_are_offered_with_the_reason_not_to_take_them(tmp_path: Path) -> None:
    for name in ("red.png", "red.txt", "red.mp4"):
        (tmp_path / name).touch()
    found = completions("@red", 4, tmp_path, ["red.png", "red.txt"], "no pictures")
    assert found is not None
    assert {(each.label, each.note) for each in found[1]} == {("red.png", "no pictures"), ("red.txt", "")}
    assert [each.note for each in suggested("@red", tmp_path)] == ["", ""]


@pytest.mark.parametrize("name", NAMES)
def test_a_chosen_file_is_read_and_folds_again(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("its text", encoding="utf-8")
    (offered,) = suggested("see @", tmp_path)
    question = f"see {offered.value}and say"

    (reference,) = references(question)
    assert reference.path == name
    message = include_files(question, (), tmp_path)[0]
    assert split(message) == (question, (Attachment(reference.path, "its text"),))


@pytest.mark.parametrize("name", NAMES)
def test_the_beginning_of_a_name_finds_the_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("its text", encoding="utf-8")
    whole = completed(name).rstrip(" ").removesuffix('"') if completed(name).startswith('@"') else f"@{name}"
    for cursor in range(len('@"x') if whole.startswith('@"') else len("@x"), len(whole) + 1):
        if whole[2:cursor].count('"') % 2:
            # A single quotation mark of a pair ends the path.
            continue
        assert len(suggested(whole[:cursor], tmp_path)) == 1, whole[:cursor]


@pytest.mark.skipif(sys.platform == "win32", reason="names of POSIX")
def test_a_folder_with_an_odd_name_stays_open_for_the_rest(tmp_path: Path) -> None:
    folder = tmp_path / 'my "own"'
    folder.mkdir()
    (folder / "a b.txt").write_text("its text")
    (first,) = suggested("@my", tmp_path)
    assert first.value == '@"my ""own""/'
    (second,) = suggested(first.value, tmp_path)

    assert include_files(second.value, (), tmp_path)[0] == compose(
        second.value, [Attachment('my "own"/a b.txt', "its text")]
    )


@pytest.mark.skipif(sys.platform == "win32", reason="names of POSIX")
def test_a_name_that_no_line_can_hold_is_not_offered(tmp_path: Path) -> None:
    for name in ("new\nline.txt", "bell\x07.txt", "tab\t.txt"):
        (tmp_path / name).write_text("its text")
    assert suggested("@", tmp_path) == []


def test_quotes_that_are_not_needed_fold_as_well(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_text("its text")
    message = include_files('see @"plain.txt"', (), tmp_path)[0]

    assert split(message) == ('see @"plain.txt"', (Attachment("plain.txt", "its text"),))
