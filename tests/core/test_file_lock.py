"""Check that programs take turns at a file, and the error if they cannot."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from filelock import FileLock

from app.core.atomic import exclusive
from app.core.errors import CatalogError, SettingsError


def test_it_makes_the_folder_and_lets_go(tmp_path: Path) -> None:
    file = tmp_path / "new" / "settings.toml"
    for text in ("a", "b"):
        with exclusive(file, SettingsError, timeout_s=0):
            file.write_text(text)

    assert file.read_text() == "b"


def test_another_program_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "pairs.toml"
    held = FileLock(file.with_suffix(".lock"), thread_local=False)
    with held, pytest.raises(CatalogError, match=r"pairs\.toml is locked by another program"):
        _enter(file)


def test_a_disk_that_refuses_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CatalogError, match=f"cannot be written: {os.strerror(17)}|{os.strerror(20)}"):
        _enter(tmp_path / "file" / "pairs.toml")


def _enter(file: Path) -> None:
    with exclusive(file, CatalogError, timeout_s=0):
        pytest.fail("somebody else has it")
