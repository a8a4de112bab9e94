"""Writing, deleting and repairing files in the cache, with links and without, as on Windows."""

import errno
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from huggingface_hub import constants, hf_hub_download

from app.core import paths
from app.core.errors import CacheError
from app.models.hub import cache
from app.models.progress import Watcher
from app.models.resolve import resolve
from app.models.source import HubModel
from app.worker.known_pairs import registry
from tests.models.hub.faults import edit_json
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import BOTH, CONTENT, SETUP, TARGET, Watched, brought, no_demo, publish, sha256
from tests.tandem import Tandem

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
    # Every other client finds it in this place.
    assert Path(hf_hub_download(TARGET, NAME, revision=file.commit)) == path

    assert cache.delete_file(path) == len(CONTENT)
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
            cache.delete_file(path)

    assert path.is_symlink()
    assert cache.delete_file(path) == len(CONTENT)
    assert not content.exists()


def test_a_file_outside_of_the_cache_leaves_its_folder(hub: LoopbackHub, tmp_path: Path) -> None:
    mine = tmp_path / "snapshots" / "mine.gguf"
    mine.parent.mkdir()
    mine.write_bytes(b"GGUF")

    assert cache.delete_file(mine) == 4
    assert mine.parent.is_dir()


pytestmark = pytest.mark.usefixtures("home")
FILE = "big-Q4_K_M.gguf"
MINE = HubModel(TARGET, file=FILE)


def damage(path: Path, at: int) -> bytes:
    """Change some bytes of a file; return the old content."""
    true = path.read_bytes()
    at %= len(true)
    path.write_bytes(true[:at] + b"\xff" * 9 + true[at + 9 :])
    return true


@pytest.mark.parametrize("links", [True, False])
@pytest.mark.parametrize("at", [0, 60, -50], ids=["magic", "header", "weights"])
def test_a_file_of_another_program_is_verified(
    pair: LoopbackHub, monkeypatch: pytest.MonkeyPatch, links: bool, at: int
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_SYMLINKS", not links)
    path = Path(hf_hub_download(TARGET, FILE))
    asked = len(pair.asked(FILE, origin="cdn"))
    assert not registry().read().downloaded & set(brought(paths.pairs_file(), MINE).target.parts)
    assert len(pair.asked(FILE, origin="cdn")) == asked, "it is right"

    true = damage(path, at)
    now = brought(paths.pairs_file(), MINE).target
    assert now.path.read_bytes() == true
    assert now.path in registry().read().downloaded, "this program has downloaded it now"


def test_setup_repairs_a_pair(pair: LoopbackHub, tandem: Tandem) -> None:
    tandem(*SETUP, *BOTH, "--name", "mine")
    path = registry().read().pairs["mine"].target.path
    true = damage(path, 8)
    assert (
        "tandem setup does that for a pair"
        in tandem("run", "--pair", "mine", "--max-tokens", "2", "hi", code=1).sentences
    )

    ran = tandem("setup", "mine", "--yes")
    assert path.read_bytes() == true
    assert f"{FILE} was damaged here; it is downloaded again." in ran.err


def test_a_good_file_survives_another_listed_checksum(pair: LoopbackHub) -> None:
    path = Path(hf_hub_download(TARGET, FILE))

    def lie(told: dict[str, Any]) -> dict[str, Any]:
        for sibling in told["siblings"]:
            sibling["lfs"] = {**sibling["lfs"], "sha256": "0" * 64}
        return told

    pair.faults.add(edit_json(lie), "/api/models/*", times=None)

    assert brought(paths.pairs_file(), MINE).target.path == path
    assert cache.sha256_of(path) is not None


# Files that another program downloaded


def _left_by_another_program(hub: LoopbackHub) -> Path:
    hub.add(TARGET, {NAME: CONTENT, "big-Q8_0.gguf": CONTENT + b"8"})
    return Path(hf_hub_download(TARGET, NAME))


@pytest.mark.parametrize("source", [HubModel(TARGET, "q4_k_m"), HubModel(TARGET), HubModel(TARGET, file=NAME)], ids=str)
def test_a_file_of_another_program_is_found_however_it_is_named(hub: LoopbackHub, source: HubModel) -> None:
    path = _left_by_another_program(hub)
    hub.close()

    assert cache.cached_file(source) == path
    assert resolve(source, no_demo, Watcher()).path == path
    assert cache.cached_file(HubModel(TARGET, "Q8_0")) is None


def test_a_file_is_found_without_a_branch_and_in_an_earlier_commit(hub: LoopbackHub) -> None:
    path = _left_by_another_program(hub)
    hub.repos[TARGET].change({"README.md": b"new"})
    hf_hub_download(TARGET, "README.md")
    assert cache.cached_file(HubModel(TARGET, "Q4_K_M")) == path

    shutil.rmtree(cache.folder() / f"models--{TARGET.replace('/', '--')}" / "refs")
    assert cache.cached_file(HubModel(TARGET, "Q4_K_M")) == path


@pytest.mark.parametrize("links", [True, False])
def test_a_pinned_file_of_another_commit_counts_by_its_checksum(
    hub: LoopbackHub, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_SYMLINKS", not links)
    path = _left_by_another_program(hub)
    pinned = HubModel(TARGET, file=NAME, revision="0" * 40, size=len(CONTENT), sha256=sha256(CONTENT))

    assert cache.cached_file(pinned) == (path if links else None)
    assert cache.cached_file(replace(pinned, revision="main")) == path
    assert cache.cached_file(replace(pinned, sha256="0" * 64)) is None
    # Without links only reading the whole file would show its checksum.
    assert (cache.cached_file(replace(pinned, revision="main", sha256="0" * 64)) is None) is links
    assert cache.cached_file(replace(pinned, sha256=None)) is None


def test_a_split_model_is_found_with_all_of_its_parts(hub: LoopbackHub) -> None:
    parts = [f"big-Q4_K_M-0000{i}-of-00002.gguf" for i in (1, 2)]
    hub.add(TARGET, dict.fromkeys(parts, CONTENT))
    source = HubModel(TARGET, "Q4_K_M")

    first = Path(hf_hub_download(TARGET, parts[0]))
    assert cache.cached_file(source) is None
    hf_hub_download(TARGET, parts[1])
    assert cache.cached_file(source) == first
    hub.close()
    assert resolve(source, no_demo, Watcher()).size == 2 * len(CONTENT)
