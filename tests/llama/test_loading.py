"""Loading: one progress value for both models, reading a file before llama.cpp maps it, and pages of its buffers."""

import ctypes
import mmap
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.llama import loading as module
from app.llama.loading import PairProgress, prefer_huge_pages, read_ahead


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK_BYTES", 4)


def write(file: Path, n_bytes: int) -> Path:
    file.write_bytes(bytes(n_bytes))
    return file


def test_both_models_are_one_share_by_bytes(tmp_path: Path) -> None:
    told: list[float] = []

    def tell(share: float) -> bool:
        told.append(share)
        return share < 1

    progress = PairProgress(tell, target=write(tmp_path / "target", 30), draft=write(tmp_path / "draft", 10))
    answers = [progress(*said) for said in [("draft", 0), ("target", 0.5), ("target", 1), ("draft", 0), ("draft", 1)]]

    assert told == [0, 0.375, 0.75, 0.75, 1]
    assert answers == [True] * 4 + [False]


def test_every_part_of_a_model_is_read_with_progress(tmp_path: Path) -> None:
    first = write(tmp_path / "m-00001-of-00002.gguf", 10)
    write(tmp_path / "m-00002-of-00002.gguf", 6)
    told: list[float] = []

    def tell(share: float) -> bool:
        told.append(share)
        return True

    assert read_ahead(first, tell)
    assert told == [4 / 16, 8 / 16, 10 / 16, 14 / 16, 1]


def test_reading_stops_when_progress_returns_false(tmp_path: Path) -> None:
    told: list[float] = []

    def tell(share: float) -> bool:
        told.append(share)
        return share < 0.5

    assert not read_ahead(write(tmp_path / "m.gguf", 12), tell)
    assert told == [4 / 12, 8 / 12]


def test_a_model_larger_than_the_available_memory_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(available=7))
    assert read_ahead(write(tmp_path / "m.gguf", 8), lambda _: pytest.fail("it was read"))


def test_cached_pages_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_is_cached", lambda *_: True)
    # It would be read into this buffer, which accepts nothing.
    monkeypatch.setattr(module, "bytearray", bytes, raising=False)
    assert read_ahead(write(tmp_path / "m.gguf", 8), lambda _: True)


@pytest.mark.skipif(sys.platform != "linux", reason="Only Linux is told.")
def test_large_buffers_are_written_in_huge_pages() -> None:
    def flags(buffer: mmap.mmap) -> str:
        at = ctypes.addressof(ctypes.c_char.from_buffer(buffer))
        maps = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", Path("/proc/self/smaps").read_text(), flags=re.MULTILINE)
        edges = (re.match(r"(\w+)-(\w+)", each) for each in maps)
        found = next(n for n, edge in enumerate(edges) if edge and int(edge[1], 16) <= at < int(edge[2], 16))
        return maps[found].rpartition("VmFlags:")[2]

    with mmap.mmap(-1, 64 << 20, access=mmap.ACCESS_COPY) as large:
        assert " hg" not in flags(large)
        prefer_huge_pages()
        assert " hg" in flags(large)
