"""Writing and deleting in the cache, with links and without, as on Windows."""

from __future__ import annotations

import errno
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import constants, hf_hub_download

from app.cli.pairs_remove import delete_file
from app.core.errors import CacheError
from app.models.hub import cache
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import CONTENT, TARGET, Watched, publish

NAME = "quants/big-Q4_K_M.gguf"


@pytest.mark.parametrize("links", [True, False])
def test_a_file_is_kept_once_and_deleted_with_its_folders(
    hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_SYMLINKS", not links)
    file = publish(hub, name=NAME)
    monkeypatch.setattr(shutil, "copyfile", lambda *_: pytest.fail("gigabytes were copied"))

    path = Watched().fetch(file)

    assert path.is_symlink() is cache.blob_path(file).exists() is links
    assert path.read_bytes() == CONTENT
    assert cache.missing_bytes(file) == 0
    # Every other client finds it there.
    assert Path(hf_hub_download(TARGET, NAME, revision=file.commit)) == path

    assert delete_file(path) == len(CONTENT)
    assert not list(cache.folder().rglob("*.gguf"))
    assert not (cache.blob_path(file).parents[1] / "snapshots").exists()


def test_content_without_a_name_is_not_downloaded_again(hub: LoopbackHub) -> None:
    file = publish(hub, name=NAME)
    content = cache.blob_path(file)
    content.parent.mkdir(parents=True)
    content.write_bytes(CONTENT)
    watched = Watched()

    assert watched.fetch(file).read_bytes() == CONTENT
    assert (watched.came, watched.here) == (0, len(CONTENT))


def test_a_virus_scanner_is_waited_for(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    file = publish(hub, name=NAME)
    replace, looks = Path.replace, iter(["once"])

    def refuse_once(path: Path, other: Path) -> Path:
        if other.name == file.sha256 and (why := next(looks, "")):
            raise PermissionError(errno.EACCES, why, str(path))
        return replace(path, other)

    monkeypatch.setattr(Path, "replace", refuse_once)
    monkeypatch.setattr("app.core.atomic.sys", SimpleNamespace(platform="win32"))

    assert Watched().fetch(file).read_bytes() == CONTENT
    assert next(looks, None) is None


def test_a_file_in_use_keeps_its_name_and_can_be_deleted_later(
    hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = publish(hub, name=NAME)
    path = Watched().fetch(file)
    content, unlink = path.resolve(), Path.unlink

    def refuse(one: Path, missing_ok: bool = False) -> None:
        if one == content:
            raise PermissionError(errno.EACCES, "in use", str(one))
        unlink(one, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        with pytest.raises(CacheError, match="in use"):
            delete_file(path)

    assert path.is_symlink()
    assert delete_file(path) == len(CONTENT)
    assert not content.exists()


def test_a_file_outside_of_the_cache_leaves_its_folder(hub: LoopbackHub, tmp_path: Path) -> None:
    mine = tmp_path / "snapshots" / "mine.gguf"
    mine.parent.mkdir()
    mine.write_bytes(b"GGUF")

    assert delete_file(mine) == 4
    assert mine.parent.is_dir()
