"""Pictures in libmtmd: bitmaps, and a projector's chunks of text and rows."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.core.errors import DecodeError, ModelLoadError
from app.core.printable import one_line
from app.llama import library
from app.llama.batch import PictureSlice

try:
    import llama_cpp.mtmd_cpp
except (ImportError, OSError, RuntimeError, AttributeError) as error:
    raise ModelLoadError(
        f"This llama-cpp-python cannot read pictures: {one_line(str(error))}.",
        "Install a build with libmtmd, or load no projector (⟨model.mmproj=none⟩).",
    ) from error

mtmd: Any = llama_cpp.mtmd_cpp
_N_SECTIONS = 4
"""Positions per row with M-RoPE."""
_PICTURE_MARKER: bytes = mtmd.mtmd_default_marker()


Layout = tuple[tuple[int, ...] | PictureSlice, ...]
"""Tokens and slices of a picture, in order."""


class Chunks:
    """Owns the native chunks of a bitmap. Raises DecodeError if libmtmd refuses it; `name` is the picture's."""

    def __init__(self, projector: Any, lent: Any, name: str = "A picture") -> None:
        self._projector = projector
        self._handle = mtmd.mtmd_input_chunks_init()
        library.clear_errors()
        text = mtmd.mtmd_input_text(_PICTURE_MARKER, len(_PICTURE_MARKER), False, True)
        bitmaps = (mtmd.mtmd_bitmap_p_ctypes * 1)(lent)
        if mtmd.mtmd_tokenize(projector, self._handle, ctypes.byref(text), bitmaps, 1):
            self.close()
            raise _unreadable(name)
        self._all = [
            mtmd.mtmd_input_chunks_get(self._handle, i) for i in range(mtmd.mtmd_input_chunks_size(self._handle))
        ]

    @property
    def slices(self) -> list[Any]:
        """Return the native chunks with pictures."""
        return [chunk for chunk in self._all if not _is_text(chunk)]

    @property
    def layout(self) -> Layout:
        return tuple(self._tokens(chunk) if _is_text(chunk) else self._slice(chunk) for chunk in self._all)

    def _tokens(self, chunk: Any) -> tuple[int, ...]:
        n = ctypes.c_size_t()
        found = mtmd.mtmd_input_chunk_get_tokens_text(chunk, ctypes.byref(n))
        return tuple(found[: n.value])

    def _slice(self, chunk: Any) -> PictureSlice:
        n = int(mtmd.mtmd_input_chunk_get_n_tokens(chunk))
        at_0, at_1 = self._positions(chunk, n, 0), self._positions(chunk, n, 1)
        is_causal = not mtmd.mtmd_decode_use_non_causal(self._projector, chunk)
        return PictureSlice(n, int(mtmd.mtmd_input_chunk_get_n_pos(chunk)), is_causal, at_0, at_1 - at_0)

    def _positions(self, chunk: Any, n: int, first: int) -> NDArray[np.int32]:
        if not mtmd.mtmd_decode_use_mrope(self._projector):
            return np.arange(first, first + n, dtype=np.int32)[None]
        found = (mtmd.mtmd_decoder_pos * n)()
        mtmd.mtmd_helper_image_get_decoder_pos(mtmd.mtmd_input_chunk_get_tokens_image(chunk), first, found)
        t, x, y, z = np.frombuffer(found, np.int32).reshape(n, _N_SECTIONS).T
        return np.stack([t, y, x, z])

    def close(self) -> None:
        """Free the chunks. A second call does nothing."""
        handle, self._handle, self._all = self._handle, None, []
        if handle:
            mtmd.mtmd_input_chunks_free(handle)


def _is_text(chunk: Any) -> bool:
    return bool(mtmd.mtmd_input_chunk_get_type(chunk) == mtmd.MTMD_INPUT_CHUNK_TYPE_TEXT)


@contextmanager
def bitmap(width: int, height: int, rgb: NDArray[np.uint8] | None = None) -> Iterator[Any]:
    """Lend a bitmap of these pixels, shape (height, width, 3); without pixels, its chunks have the same layout."""
    data = rgb.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8)) if rgb is not None else None
    handle = mtmd.mtmd_bitmap_init(width, height, data)
    try:
        yield handle
    finally:
        mtmd.mtmd_bitmap_free(handle)


def _unreadable(name: str) -> DecodeError:
    reason = one_line(library.last_errors())
    return DecodeError(f"{name} cannot be read{f': {reason}' if reason else ''}.", "Save it again as PNG or JPEG.")
