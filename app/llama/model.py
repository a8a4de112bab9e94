"""A loaded model: weights, vocabulary, metadata."""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

from app.engine.vocab import VocabInfo
from app.errors import DecodeError, Interrupted, ModelLoadError, UsageError
from app.llama import library
from app.llama.checks import ModelFile
from app.llama.library import native
from app.llama.params import ModelParams

_CONTROL = 1 << 3
_NO_TOKEN = -1
_PIECE_BYTES = 256
_MMAP, _READ = 1, 0


class Model:
    """Owns one native model.

    Contexts made from it are closed before it, whoever closes first; llama.cpp aborts the other way round.

    Args:
        file: From `open_model_file`; of a split model the first part.
        params: How to load it.
        on_progress: Told the share loaded, 0 to 1; False cancels.

    Raises:
        ModelLoadError: llama.cpp refused it.
        Interrupted: `on_progress` said False.
    """

    def __init__(
        self,
        file: ModelFile,
        params: ModelParams | None = None,
        on_progress: Callable[[float], bool] | None = None,
    ) -> None:
        params = params or ModelParams()
        self.path = file.path
        self.header = file.header
        library.start()
        self._contexts: weakref.WeakSet[Any] = weakref.WeakSet()
        self._handle: Any = None
        self._load(params, on_progress)
        self._vocab = native.llama_model_get_vocab(self._handle)
        self.n_vocab: int = native.llama_vocab_n_tokens(self._vocab)

    def _load(self, params: ModelParams, on_progress: Callable[[float], bool] | None) -> None:
        cancelled = False

        def progress(share: float, _: object) -> bool:
            nonlocal cancelled
            try:
                cancelled = on_progress is not None and not on_progress(share)
            except Exception:
                # It would vanish in C; the load is given up instead.
                cancelled = True
            return not cancelled

        raw = native.llama_model_default_params()
        raw.n_gpu_layers = params.n_gpu_layers
        raw.load_mode = _MMAP if params.use_mmap and native.llama_supports_mmap() else _READ
        # Kept on the object: llama.cpp holds the bare pointer while it loads.
        self._progress_callback = native.llama_progress_callback(progress)
        raw.progress_callback = self._progress_callback
        library.clear_errors()
        self._handle = native.llama_model_load_from_file(os.fsencode(self.path), raw)
        if not self._handle:
            if cancelled:
                raise Interrupted
            reason = library.last_errors() or "no reason was given"
            raise ModelLoadError(
                f"llama.cpp could not load {self.path}: {reason}.",
                "The file may be cut short (download it again), or newer than this llama.cpp.",
            )

    @property
    def handle(self) -> Any:
        """The native pointer, for this package only.

        Raises:
            UsageError: The model was closed.
        """
        if self._handle is None:
            raise UsageError(f"{self.path.name} is not loaded any more.")
        return self._handle

    def adopt(self, context: Any) -> None:
        """Remember a context that must be freed before this model."""
        self._contexts.add(context)

    def close(self) -> None:
        """Free the contexts, then the weights. A second call does nothing."""
        for context in list(self._contexts):
            context.close()
        handle, self._handle = self._handle, None
        if handle:
            native.llama_model_free(handle)

    # What the model is

    @cached_property
    def name(self) -> str:
        """The model's own name, or its file's."""
        value = self.header.metadata.get("general.name")
        return value if isinstance(value, str) and value.strip() else self.path.stem

    @cached_property
    def quantisation(self) -> str:
        """llama.cpp's name of the file type, such as "Q4_K - Medium"."""
        name = native.llama_ftype_name(native.llama_model_ftype(self.handle))
        return name.decode() if name else "unknown"

    @cached_property
    def size_bytes(self) -> int:
        """Bytes of all tensors."""
        return int(native.llama_model_size(self.handle))

    @cached_property
    def n_params(self) -> int:
        return int(native.llama_model_n_params(self.handle))

    @cached_property
    def n_ctx_train(self) -> int:
        """Context length the model was trained for, in tokens."""
        return int(native.llama_model_n_ctx_train(self.handle))

    @cached_property
    def can_rollback(self) -> bool:
        """Whether the cache can be cut anywhere; a recurrent state cannot."""
        return not (native.llama_model_is_recurrent(self.handle) or native.llama_model_is_hybrid(self.handle))

    @cached_property
    def chat_template(self) -> str | None:
        """The Jinja source of the model's chat template."""
        value = self.header.metadata.get("tokenizer.chat_template")
        return value if isinstance(value, str) and value.strip() else None

    # Vocabulary

    @cached_property
    def vocab(self) -> VocabInfo:
        """What decides which drafts fit."""
        kind = self.header.metadata.get("tokenizer.ggml.model")
        return VocabInfo(
            kind=kind if isinstance(kind, str) else "",
            tokens=self.header.tokens,
            bos=self.bos,
            eos=_token(native.llama_vocab_eos(self._vocab)),
            add_bos=self.add_bos,
            add_eos=bool(native.llama_vocab_get_add_eos(self._vocab)),
        )

    @cached_property
    def bos(self) -> int | None:
        return _token(native.llama_vocab_bos(self._vocab))

    @cached_property
    def eos(self) -> int | None:
        return _token(native.llama_vocab_eos(self._vocab))

    @cached_property
    def add_bos(self) -> bool:
        """Whether every text begins with `bos`."""
        return bool(native.llama_vocab_get_add_bos(self._vocab))

    def is_end(self, token: int) -> bool:
        """Whether a token ends a generation."""
        return bool(native.llama_vocab_is_eog(self._vocab, token))

    @cached_property
    def control_tokens(self) -> dict[str, int]:
        """The tokens that steer the model, by the text that could forge them.

        llama.cpp promotes a few tokens by their looks, so it is asked, but only about those that look the part:
        asking about a whole vocabulary takes a tenth of a second.
        """
        looks = [
            t for t, text in enumerate(self.header.tokens) if text[:1] in (b"<", b"[") or text[:3] == b"\xef\xbd\x9c"
        ]
        return {self.text_of(t): t for t in looks if native.llama_vocab_get_attr(self._vocab, t) & _CONTROL}

    def text_of(self, token: int) -> str:
        """The vocabulary's own text of a token, special ones included."""
        return bytes(native.llama_vocab_get_text(self._vocab, self._checked(token))).decode("utf-8", errors="replace")

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """The bytes that a token stands for; control tokens are empty unless `special`."""
        token = self._checked(token)
        buffer = ctypes.create_string_buffer(_PIECE_BYTES)
        n = native.llama_token_to_piece(self._vocab, token, buffer, _PIECE_BYTES, 0, special)
        if n < 0:
            buffer = ctypes.create_string_buffer(-n)
            n = native.llama_token_to_piece(self._vocab, token, buffer, -n, 0, special)
        return buffer.raw[:n]

    def tokenize(self, text: str, *, parse_special: bool) -> list[int]:
        """Token ids of a text, with nothing added in front or behind.

        Args:
            text: Any text; lone surrogates become "?".
            parse_special: Whether the texts of special tokens mean those tokens or just their characters.
        """
        data = text.encode("utf-8", errors="replace")
        capacity = len(data) + 8
        tokens = (native.llama_token * capacity)()
        n = native.llama_tokenize(self._vocab, data, len(data), tokens, capacity, False, parse_special)
        if n < 0:
            tokens = (native.llama_token * -n)()
            n = native.llama_tokenize(self._vocab, data, len(data), tokens, -n, False, parse_special)
        if n < 0:
            raise DecodeError("The text could not be turned into tokens.", "It may be too long; shorten it.")
        return list(tokens[:n])

    def check_tokens(self, tokens: Sequence[int]) -> None:
        """Refuse ids outside the vocabulary.

        Raises:
            UsageError: Naming the first wrong id.
        """
        if tokens and not (min(tokens) >= 0 and max(tokens) < self.n_vocab):
            wrong = next(t for t in tokens if not 0 <= t < self.n_vocab)
            raise UsageError(f"Token {wrong} is not in the vocabulary of {self.n_vocab:,}.")

    def _checked(self, token: int) -> int:
        self.check_tokens((token,))
        return token


def _token(value: int) -> int | None:
    return None if value == _NO_TOKEN else int(value)
