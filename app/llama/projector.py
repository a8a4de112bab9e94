"""Projector: encode pictures into rows that a target reads instead of tokens, with llama.cpp's libmtmd."""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.core.errors import DecodeError, Interrupted, ModelLoadError, UsageError
from app.core.pictures import PictureData, pixels
from app.core.printable import one_line
from app.engine.pictures import IDENTITY_IDS, picture_ids
from app.llama import library
from app.llama.batch import EncodedPicture, PictureSlice
from app.llama.library import native
from app.llama.params import FLASH_ATTENTION
from app.llama.picture_chunks import Chunks, Layout, bitmap, mtmd
from app.llama.stored_measurements import fingerprint

_NODES_PER_CHECK = 16
"""Graph nodes between two checks of the cancel flag, each a call into Python; measured to cost nothing."""
_ROWS_BYTES = 256 << 20
"""Memory for the rows of the last encoded pictures."""
_ASKED_BYTES = 64 << 20
"""Bytes of earlier prompts' picture files that stay known."""
LARGEST_SIDE = 2048
"""Side in pixels of a picture with the largest number of rows."""


@dataclass(frozen=True)
class ProjectorParams:
    """Parameters of a projector.

    Attributes:
        device: llama.cpp's pointer to the device; None for the CPU.
        flash_attention: "auto", "on" or "off".
        n_batch: Largest number of rows of a picture that must be in one batch.
        warmup: Whether to reserve memory for a usual picture; this also decides whether flash attention can be used.
    """

    device: int | None
    n_threads: int
    flash_attention: str
    n_batch: int
    warmup: bool = True


class Projector:
    """Owns a projector for one target. It belongs to the target's thread.

    Args:
        path: GGUF file that survived a trial in a child process: llama.cpp aborts on many faults.
        target: Native handle of the target, which must stay loaded as long.
        cancelled: Polled while a picture is encoded; True stops it.
        on_progress: Called with the loaded share; False cancels.

    Raises:
        ModelLoadError: It cannot be loaded, or is for another target.
        Interrupted: `on_progress` returned False.
    """

    def __init__(
        self,
        path: Path,
        target: Any,
        target_name: str,
        params: ProjectorParams,
        cancelled: Callable[[], bool] = lambda: False,
        on_progress: Callable[[float], bool] = lambda share: True,
    ) -> None:
        self.path = path
        self._target = target
        self._target_name = target_name
        self._cancelled = cancelled
        self._params = params
        self._n_nodes = 0
        self._width = int(native.llama_model_n_embd_inp(target))
        self._layout = lru_cache(self._new_layout)
        self._asked: OrderedDict[tuple[int, ...], tuple[PictureData, int, PictureSlice]] = OrderedDict()
        """Slices of the pictures of the last prompts, by their first ids; the number counts earlier slices."""
        self._encoded: OrderedDict[tuple[int, ...], EncodedPicture] = OrderedDict()
        """Encoded pictures by their first ids, last used at the end."""
        self._open: tuple[str, Chunks] | None = None
        """Digest and preprocessed chunks of the last slice's picture, shared by its slices."""
        # Held as long as the native context, which keeps bare pointers.
        self._on_node = native.ggml_backend_sched_eval_callback(self._goes_on)
        self._on_progress = mtmd.mtmd_progress_callback(lambda share, _: on_progress(share))
        self._handle: Any = None
        try:
            self._load(None)
            if self._most_in_one_batch() > params.n_batch:
                self._load(params.n_batch)
                if (n := self._most_in_one_batch()) > params.n_batch:
                    raise ModelLoadError(  # noqa: TRY301 - the same cleanup as for other errors
                        f"{path.name} makes {n:,} rows of a picture, and one batch here has {params.n_batch:,}.",
                        "Use a longer context (⟨model.ctx⟩), or load no projector (⟨model.mmproj=none⟩).",
                    )
        except BaseException:
            self.close()
            raise

    def _load(self, max_tokens: int | None) -> None:
        """Load the file, with a limit for the rows of a picture; None leaves it to the file."""
        self.close()
        params = self._params
        raw: Any = mtmd.mtmd_context_params_default()
        raw.use_gpu, raw.device = params.device is not None, params.device
        raw.print_timings, raw.warmup = False, params.warmup
        raw.n_threads = params.n_threads
        raw.flash_attn_type = FLASH_ATTENTION[params.flash_attention]
        raw.cb_eval, raw.progress_callback = self._on_node, self._on_progress
        if max_tokens is not None:
            raw.image_max_tokens = max_tokens
        mtmd.mtmd_helper_log_set(library.log_callback, ctypes.c_void_p(0))
        library.clear_errors()
        self._handle = mtmd.mtmd_init_from_file(os.fsencode(self.path), self._target, raw)
        if not self._handle:
            if not self._on_progress(0.0, None):
                raise Interrupted
            raise self._of_another_target(one_line(library.last_errors()) or "no reason was given")
        # A picture's ids name its rows, which depend on the file and on the limit.
        self._identity = f"{fingerprint(self.path)} {max_tokens}"
        self._layout.cache_clear()

    def _of_another_target(self, reason: str) -> ModelLoadError:
        return ModelLoadError(
            f"{self.path.name} cannot read pictures for {self._target_name}: {reason}.",
            "Choose its projector (⟨model.mmproj⟩), or none (⟨model.mmproj=none⟩).",
        )

    def _goes_on(self, _tensor: Any, is_question: bool, _user: Any) -> bool:
        """Tell libmtmd after which nodes to ask, and then whether to continue."""
        if is_question:
            self._n_nodes += 1
            return self._n_nodes % _NODES_PER_CHECK == 0
        return not self._cancelled()

    # Size of a picture

    def n_picture_tokens(self, width: int, height: int) -> int:
        """Return the cells of a picture, including the tokens around it. Raises DecodeError."""
        return sum(len(part) if isinstance(part, tuple) else part.n_cells for part in self._layout(width, height))

    def tokens(self, pictures: Sequence[PictureData]) -> list[tuple[int, ...]]:
        """Return the tokens of each picture of a prompt, so that it can be encoded. Raises DecodeError."""
        found: list[tuple[int, ...]] = []
        n_slices_of_all = 0
        for picture in pictures:
            ids: list[int] = []
            n_slices = 0
            for part in self._layout(picture.width, picture.height):
                if isinstance(part, tuple):
                    ids += part
                    continue
                name = f"{self._identity} {picture.digest} {n_slices}".encode()
                run = picture_ids(hashlib.sha256(name).digest(), part.n_cells, part.n_positions, is_first=not n_slices)
                key = tuple(run[:IDENTITY_IDS])
                self._asked[key] = picture, n_slices, part
                self._asked.move_to_end(key)
                ids += run
                n_slices += 1
            n_slices_of_all += n_slices
            found.append(tuple(ids))
        n_bytes = sum(len(picture.data) for picture, _, _ in self._asked.values())
        while n_bytes > _ASKED_BYTES and len(self._asked) > n_slices_of_all:
            n_bytes -= len(self._asked.popitem(last=False)[1][0].data)
        return found

    def _new_layout(self, width: int, height: int) -> Layout:
        with bitmap(width, height) as lent:
            chunks = Chunks(self._handle, lent)
            found = chunks.layout
            chunks.close()
        if any(token < 0 for part in found if isinstance(part, tuple) for token in part):
            raise self._of_another_target("its vocabulary lacks the marks around a picture")
        return found

    def _most_in_one_batch(self) -> int:
        parts = self._layout(LARGEST_SIDE, LARGEST_SIDE)
        return max((part.n_cells for part in parts if isinstance(part, PictureSlice) and not part.is_causal), default=0)

    # Rows of a picture

    def encoded(self, ids: Sequence[int]) -> EncodedPicture:
        """Return the picture that begins with these ids.

        Raises:
            DecodeError: It cannot be encoded.
            Interrupted: A cancellation ended the encoding.
        """
        key = tuple(ids[:IDENTITY_IDS])
        if key in self._encoded:
            self._encoded.move_to_end(key)
            return self._encoded[key]
        if key not in self._asked:
            raise UsageError("The bytes of a picture in the prompt are missing.")
        picture, n_before, part = self._asked[key]
        return self._keep(key, part, self._rows(picture, n_before, part))

    def encode_as_zeros(self, ids: Sequence[int]) -> None:
        """Give a picture that begins with these ids rows of zeros."""
        key = tuple(ids[:IDENTITY_IDS])
        _, _, part = self._asked[key]
        self._keep(key, part, np.zeros((part.n_cells, self._width), np.float32))

    def _keep(self, key: tuple[int, ...], part: PictureSlice, rows: NDArray[np.float32]) -> EncodedPicture:
        self._encoded[key] = found = EncodedPicture(rows, part)
        while len(self._encoded) > 1 and sum(kept.rows.nbytes for kept in self._encoded.values()) > _ROWS_BYTES:
            self._encoded.popitem(last=False)
        return found

    def _rows(self, picture: PictureData, n_before: int, part: PictureSlice) -> NDArray[np.float32]:
        name, slices = picture.shown, self.preprocess(picture).slices
        if n_before >= len(slices) or mtmd.mtmd_input_chunk_get_n_tokens(slices[n_before]) != part.n_cells:
            raise DecodeError(f"{name} has another size than its header says.", "Save it again as PNG or JPEG.")
        library.clear_errors()
        code = mtmd.mtmd_encode_chunk(self._handle, slices[n_before])
        if self._cancelled():
            # The rows belong to one part of the graph.
            raise Interrupted
        if code:
            raise DecodeError(f"{name} could not be encoded: {one_line(library.last_errors()) or f'code {code}'}.")
        n = part.n_cells * self._width
        rows = np.ctypeslib.as_array(mtmd.mtmd_get_output_embd(self._handle), (n,)).reshape(-1, self._width).copy()
        if not np.isfinite(rows).all():
            raise DecodeError(f"{self.path.name} computed values that are not numbers.", "Its file is damaged.")
        if n_before == len(slices) - 1:
            self._forget_chunks()
        return rows

    def preprocess(self, picture: PictureData) -> Chunks:
        """Return a picture's chunks with their pixels, which stay in RAM until the last slice is encoded."""
        if self._open is not None and self._open[0] == picture.digest:
            return self._open[1]
        self._forget_chunks()
        rgb = np.asarray(pixels(picture))
        with bitmap(rgb.shape[1], rgb.shape[0], rgb) as lent:
            chunks = Chunks(self._handle, lent, picture.shown)
        self._open = picture.digest, chunks
        return chunks

    def _forget_chunks(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def close(self) -> None:
        """Free the projector. A second call does nothing."""
        self._forget_chunks()
        self._encoded.clear()
        handle, self._handle = self._handle, None
        if handle:
            mtmd.mtmd_free(handle)
