"""A cache on a disk without links, as Windows has it: files lie under their names, once, and go with them."""

from __future__ import annotations

import errno
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from huggingface_hub import constants, hf_hub_download

from app.core.errors import CacheError
from app.models.hub import cache
from app.models.hub.client import safe_name
from app.models.hub.errors import sentence
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import CONTENT, TARGET, Watched, publish

NAME = "quants/big-Q4_K_M.gguf"


@pytest.fixture(autouse=True)
def without_links(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_SYMLINKS", True)


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*.gguf") if path.is_file()]


def test_a_file_is_kept_once_and_never_copied(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, file = publish(hub, name=NAME)
    monkeypatch.setattr(shutil, "copyfile", lambda *_: pytest.fail("gigabytes were copied"))

    path = Watched().fetch(commit, file)

    assert not path.is_symlink()
    assert path.read_bytes() == CONTENT
    assert not cache.blob(TARGET, file).exists()
    assert cache.missing_bytes(TARGET, commit, (file,)) == 0
    # Every other client finds it there.
    assert Path(hf_hub_download(TARGET, NAME, revision=commit)) == path


def test_content_that_waits_for_its_name_is_not_downloaded_again(hub: LoopbackHub) -> None:
    commit, file = publish(hub, name=NAME)
    content = cache.blob(TARGET, file)
    content.parent.mkdir(parents=True)
    content.write_bytes(CONTENT)
    watched = Watched()

    assert watched.fetch(commit, file).read_bytes() == CONTENT
    assert (watched.came, watched.here) == (0, len(CONTENT))


def test_two_that_give_the_name_at_once_both_have_it(hub: LoopbackHub) -> None:
    commit, file = publish(hub, name=NAME)
    path = Watched().fetch(commit, file)

    assert cache.place(TARGET, commit, file) == path


def test_what_is_removed_leaves_no_folder_behind(hub: LoopbackHub) -> None:
    commit, file = publish(hub, name=NAME)
    path = Watched().fetch(commit, file)

    assert cache.delete(path) == len(CONTENT)

    assert files(cache.folder()) == []
    assert not (cache.blob(TARGET, file).parents[1] / "snapshots").exists()


def test_a_virus_scanner_that_looks_at_it_is_waited_for(hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch) -> None:
    commit, file = publish(hub, name=NAME)
    replace, looks = Path.replace, iter(["at what has come", "at what is named"])

    def refuse_once(path: Path, other: Path) -> Path:
        if other.name in (NAME.rpartition("/")[2], file.sha256) and (why := next(looks, "")):
            raise PermissionError(errno.EACCES, why, str(path))
        return replace(path, other)

    monkeypatch.setattr(Path, "replace", refuse_once)
    monkeypatch.setattr("app.core.atomic.sys", SimpleNamespace(platform="win32"))

    assert Watched().fetch(commit, file).read_bytes() == CONTENT
    assert next(looks, None) is None


def test_of_a_file_in_use_the_name_stays_so_that_it_can_be_removed_later(
    hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_SYMLINKS", False)
    commit, file = publish(hub, name=NAME)
    path = Watched().fetch(commit, file)
    content, unlink = path.resolve(), Path.unlink

    def refuse(one: Path, missing_ok: bool = False) -> None:
        if one == content:
            raise PermissionError(errno.EACCES, "in use", str(one))
        unlink(one, missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", refuse)
        with pytest.raises(CacheError):
            cache.delete(path)

    assert path.is_symlink()
    assert cache.delete(path) == len(CONTENT)
    assert not content.exists()


def test_a_file_outside_of_the_cache_leaves_its_folder(hub: LoopbackHub, tmp_path: Path) -> None:
    mine = tmp_path / "snapshots" / "mine.gguf"
    mine.parent.mkdir()
    mine.write_bytes(b"GGUF")

    assert cache.delete(mine) == 4
    assert mine.parent.is_dir()


def test_a_file_that_another_program_uses_is_no_question_of_permissions() -> None:
    error = PermissionError(errno.EACCES, "The process cannot access the file", "C:/hub/big.gguf")
    # Only Windows' own errors have it.
    vars(error)["winerror"] = 32

    found = sentence(error, TARGET)

    assert found.message == "C:/hub/big.gguf is in use."
    assert "another Tandem" in found.hint


@pytest.mark.parametrize("name", ["aux.gguf", "CON", "a/nul.gguf", "what?.gguf", "a|b.gguf", "end.", "end "])
def test_names_that_windows_cannot_have_are_left_out_there(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert safe_name(name)

    monkeypatch.setattr(sys, "platform", "win32")

    assert not safe_name(name)
    assert safe_name("quants/auxiliary-00001-of-00002.gguf")
