"""Check that an unreadable folder gives one clear error."""

import errno
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.cli.doctor_checks import own_files
from app.core import regular_file
from app.core.errors import ModelFileError, ModelLoadError
from app.core.paths import config_dir
from app.llama import demo
from app.models.catalog import Catalog, shipped_file
from app.models.progress import Watcher
from app.models.resolve import resolve
from app.models.source import LocalModel


@pytest.fixture
def closed(folders: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without access; the superuser could access a real folder."""
    folder = folders / "closed"
    folder.mkdir()

    def guarded(act: Callable[..., Any]) -> Callable[..., Any]:
        def refuse(path: Any, *more: Any, **named: Any) -> Any:
            if isinstance(path, str | os.PathLike) and folder in Path(path).parents:
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return act(path, *more, **named)

        return refuse

    for name in ("stat", "lstat", "open", "mkdir", "access"):
        monkeypatch.setattr(os, name, guarded(getattr(os, name)))
    monkeypatch.setattr(io, "open", guarded(io.open))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    monkeypatch.setenv("XDG_DATA_HOME", str(folder))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


def test_unreadable_path_is_not_missing(closed: Path) -> None:
    assert not regular_file.is_gone(closed / "file")
    assert regular_file.is_gone(closed.with_name("nothing"))
    (link := closed.with_name("link")).symlink_to("nothing")
    assert not regular_file.is_gone(link)


def test_unreadable_catalog_is_reported(closed: Path) -> None:
    known = Catalog(shipped_file(), config_dir() / "models.toml")
    assert known.pairs
    assert known.unread is not None
    assert f"{closed / 'tandem' / 'models.toml'} cannot be read: Permission denied." in known.unread.message


def test_doctor_reports_each_unreadable_file(closed: Path) -> None:
    found = {check.label: check.state for check in own_files() if "Permission denied" in check.text}
    assert found == dict.fromkeys(("models.toml", "pairs.toml", "chats"), "problem")


def test_demo_draft_cannot_be_written(closed: Path, demo_target: Path) -> None:
    with pytest.raises(ModelLoadError, match="cannot be written: Permission denied"):
        demo.draft_file(closed / "tandem")


def test_unreadable_model_is_reported(closed: Path) -> None:
    with pytest.raises(ModelFileError, match="cannot be read: Permission denied"):
        resolve(LocalModel(closed / "deeper" / "model.gguf"), lambda part: closed, Watcher())
