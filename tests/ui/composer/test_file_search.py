"""The files below a folder that `@` offers, and their order."""

from pathlib import Path

import pytest

from app.ui.composer import file_search
from app.ui.composer.file_search import index_files, search_files


def tree(base: Path, *paths: str) -> Path:
    for path in paths:
        file = base / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("text")
    return base


def ignore(folder: Path, *patterns: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("\n".join(patterns))


def test_files_in_all_folders_are_found_the_nearest_first(tmp_path: Path) -> None:
    tree(tmp_path, "src/deep/c.py", "src/b.py", "a.py", "proj/my notes.md")

    assert index_files(tmp_path) == ("a.py", "proj/my notes.md", "src/b.py", "src/deep/c.py")


def test_hidden_files_and_sounds_are_left_out(tmp_path: Path) -> None:
    tree(tmp_path, ".env", ".venv/a.py", "song.mp3", "photo.png", "a.py")

    assert index_files(tmp_path) == ("a.py", "photo.png")


@pytest.mark.parametrize(
    ("patterns", "left"),
    [
        (["*.log"], ("a.py", "build/c.py", "src/b.py")),
        (["build/"], ("a.py", "a.log", "src/b.py", "src/b.log")),
        (["/a.*", "*.log", "!src/b.log"], ("build/c.py", "src/b.py", "src/b.log")),
    ],
)
def test_gitignore_excludes_files(tmp_path: Path, patterns: list[str], left: tuple[str, ...]) -> None:
    tree(tmp_path, "a.py", "a.log", "src/b.py", "src/b.log", "build/c.py")
    ignore(tmp_path, *patterns)

    assert sorted(index_files(tmp_path)) == sorted(left)


def test_an_inner_gitignore_overrides_an_outer_one(tmp_path: Path) -> None:
    tree(tmp_path, "a.log", "src/a.log")
    ignore(tmp_path, "*.log")
    ignore(tmp_path / "src", "!a.log")

    assert index_files(tmp_path) == ("src/a.log",)


def test_the_gitignore_of_the_repository_counts_in_its_folders(tmp_path: Path) -> None:
    tree(tmp_path, "src/a.log", "src/a.py")
    (tmp_path / ".git").mkdir()
    ignore(tmp_path, "*.log")

    assert index_files(tmp_path / "src") == ("a.py",)


def test_a_link_to_its_own_folder_ends(tmp_path: Path) -> None:
    tree(tmp_path, "a.py")
    (tmp_path / "again").symlink_to(tmp_path, target_is_directory=True)

    assert index_files(tmp_path) == ("a.py",)


def test_a_large_tree_is_cut_at_the_deepest_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_search, "MAX_FILES", 2)
    tree(tmp_path, "z.py", "a/b.py", "a/b/c.py")

    assert index_files(tmp_path) == ("z.py", "a/b.py")


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("my", "proj/my notes.md"),
        ("notes", "proj/my notes.md"),
        ("strat", "app/strategy.py"),
        ("ap/st", "app/strategy.py"),
        ("tstr", "tests/test_strategy.py"),
        ("APPS", "app/strategy.py"),
    ],
)
def test_parts_of_a_path_find_it(typed: str, first: str) -> None:
    paths = ("README.md", "app/strategy.py", "tests/test_strategy.py", "proj/my notes.md")

    assert search_files(typed, paths)[0] == first


def test_a_name_that_begins_as_typed_comes_first() -> None:
    paths = ("a/b/contest.py", "test/other.py", "deep/in/a/folder/test.py")

    assert search_files("test", paths) == ("deep/in/a/folder/test.py", "a/b/contest.py", "test/other.py")


def test_other_files_are_not_offered() -> None:
    assert search_files("xyz", ("a.py",)) == ()
