"""A loaded model: weights, vocabulary, metadata."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property
from typing import Any

from app.core.errors import DecodeError, ModelLoadError, UsageError
from app.core.printable import one_line
from app.engine.vocab_compatibility import VocabInfo
from app.llama import library
from app.llama.checks import ModelFile
from app.llama.library import native
from app.llama.loading import devices_of, load
from app.models.draft_kinds import head_facts
from app.models.model_names import file_type, known_as
from app.models.pair_info import ModelInfo
from app.settings.model_params import ModelParams
from app.settings.table import MAX_CONTEXT

# llama_token_attr and, in the file, llama_token_type of tokens that only special texts may become
_SPECIAL_ATTRIBUTES = 1 << 0 | 1 << 3
_USER_DEFINED = 1 << 4
_SPECIAL_TYPES = (2, 3)
_WIDE_BAR = b"\xef\xbd\x9c"
_NO_TOKEN = -1
_PIECE_BYTES = 256
_MAX_TEXT_BYTES = 1 << 26
"""Limit for a text; a megabyte takes most of a second, and llama.cpp counts in 32 bits."""


class Model:
    """Owns a native model. Its contexts are freed before it; llama.cpp aborts in the other order.

    Args:
        file: From `open_model_file`; the first part of a split model.
        on_progress: Called with the loaded share, 0 to 1; False cancels.

    Attributes:
        on_cpu: Whether the CPU computes all layers.
        on_gpu: Whether GPUs compute all layers.

    Raises:
        ModelLoadError: llama.cpp refused it.
        Interrupted: `on_progress` returned False.
        Exception: An exception of `on_progress`.
    """

    def __init__(
        self,
        file: ModelFile,
        params: ModelParams | None = None,
        on_progress: Callable[[float], bool] = lambda share: True,
    ) -> None:
        self.path = file.path
        self.header = file.header
        library.start()
        self._pieces: dict[int, bytes] = {}
        self._ends: dict[int, bool] = {}
        params = params or ModelParams()
        self.on_cpu = not devices_of(params)
        self._handle: Any
        self._handle, self._kept = load(file.path, params, on_progress)
        self.on_gpu = not self.on_cpu and params.is_whole_on_gpu(native.llama_model_n_layer(self._handle))
        self._owned = ExitStack()
        self._owned.callback(native.llama_model_free, self._handle)
        self._vocab_handle: Any = native.llama_model_get_vocab(self._handle)
        self.n_vocab: int = native.llama_vocab_n_tokens(self._vocab_handle)
        is_encoder = native.llama_model_has_encoder(self._handle) and head_facts(file.header) is None
        if is_encoder or not native.llama_model_has_decoder(self._handle):
            self.close()
            raise ModelLoadError(
                f"{self.path} cannot be run: it is an encoder model, which cannot chat.",
                "Choose a chat model.",
            )

    @property
    def handle(self) -> Any:
        """Return the native pointer, only for this package. Raises UsageError after `close`."""
        if self._handle is None:
            raise UsageError(f"{self.path.name} is not loaded any more.")
        return self._handle

    def free_first(self, context: Any) -> None:
        """Close a context before this model, even if nothing references the context any more."""
        self._owned.callback(context.close)

    def close(self) -> None:
        """Free the contexts, then the weights. A second call does nothing."""
        self._owned.close()
        self._vocab_handle = self._handle = None

    # What the model is

    @cached_property
    def name(self) -> str:
        """Return the display name; see `known_as`."""
        value = self.header.metadata.get("general.name")
        return known_as(one_line(self.path.name), one_line(value) if isinstance(value, str) else "")

    @cached_property
    def info(self) -> ModelInfo:
        """Return the model as values, for the screen and for JSON."""
        quantization = native.llama_ftype_name(native.llama_model_ftype(self.handle))
        return ModelInfo(
            name=self.name,
            file=self.path.name,
            quantization=file_type(quantization.decode() if quantization else "unknown"),
            size_bytes=int(native.llama_model_size(self.handle)),
            n_vocab=self.n_vocab,
            n_ctx_train=self.n_ctx_train,
            chat_template=self.chat_template or "",
            bos=self.text_of(self.vocab.bos),
            eos=self.text_of(self.vocab.eos),
        )

    @cached_property
    def n_ctx_train(self) -> int:
        """Return the context length of the training in tokens, at most the longest that can be set."""
        # llama.cpp returns lengths from 2^31 as negative numbers.
        return min(int(native.llama_model_n_ctx_train(self.handle)) & 0xFFFFFFFF, MAX_CONTEXT)

    @cached_property
    def can_rollback(self) -> bool:
        """Return whether the KV cache can be cut anywhere; recurrent state cannot."""
        return not (native.llama_model_is_recurrent(self.handle) or native.llama_model_is_hybrid(self.handle))

    @cached_property
    def chat_template(self) -> str | None:
        """Return the Jinja source of the chat template, if the model has a template."""
        value = self.header.metadata.get("tokenizer.chat_template")
        return value if isinstance(value, str) and value.strip() else None

    # Vocabulary

    @property
    def native_vocab(self) -> Any:
        """Return the native vocabulary, only for this package."""
        # The vocabulary belongs to the model: llama.cpp would read freed memory.
        if self._vocab_handle is None:
            raise UsageError(f"{self.path.name} is not loaded any more.")
        return self._vocab_handle

    @cached_property
    def vocab(self) -> VocabInfo:
        """Return the vocabulary, which decides which drafts are compatible."""
        kind = self.header.metadata.get("tokenizer.ggml.model")
        return VocabInfo(
            kind=kind if isinstance(kind, str) else "",
            tokens=self.header.tokens,
            bos=_token(native.llama_vocab_bos(self.native_vocab)),
            eos=_token(native.llama_vocab_eos(self.native_vocab)),
            add_bos=bool(native.llama_vocab_get_add_bos(self.native_vocab)),
            add_eos=bool(native.llama_vocab_get_add_eos(self.native_vocab)),
        )

    def is_end(self, token: int) -> bool:
        """Return whether a token ends a generation."""
        vocab = self.native_vocab
        ends = self._ends.get(token)
        if ends is None:
            # Cached: called for every drafted token.
            ends = self._ends[token] = bool(native.llama_vocab_is_eog(vocab, token))
        return ends

    @cached_property
    def end_tokens(self) -> tuple[int, ...]:
        """Return the tokens that end a generation."""
        return tuple(token for token in range(self.n_vocab) if native.llama_vocab_is_eog(self.native_vocab, token))

    @cached_property
    def suppressed(self) -> tuple[int, ...]:
        """Return the tokens that the file forbids in any text."""
        n = ctypes.c_int32(0)
        found = native.llama_vocab_get_suppress_tokens(self.native_vocab, ctypes.byref(n))
        return tuple(found[: n.value])

    @cached_property
    def control_tokens(self) -> dict[str, int]:
        """Return the tokens that steer the model, by the text that could forge them.

        These are special tokens, by the file or by llama.cpp, and user-defined tokens in the chat template. llama.cpp
        is asked only about likely tokens: a whole vocabulary takes a tenth of a second.
        """
        vocab, template = self.native_vocab, self.chat_template or ""
        types = self.header.token_types[: self.n_vocab]
        named = {t for t, kind in enumerate(types) if kind in _SPECIAL_TYPES}
        looks = {
            t
            for t, text in enumerate(self.header.tokens[: self.n_vocab])
            if b"<" in text or b"[" in text or _WIDE_BAR in text
        }
        found: dict[str, int] = {}
        for token in sorted(named | looks):
            attributes = native.llama_vocab_get_attr(vocab, token)
            text = self.text_of(token)
            written = attributes & _USER_DEFINED and text in template
            if token in named or attributes & _SPECIAL_ATTRIBUTES or written:
                found[text] = token
        return found

    def text_of(self, token: int | None) -> str:
        """Return the vocabulary's text of a token, even of a special token; None has an empty text."""
        vocab = self.native_vocab
        if token is None:
            return ""
        self.check_tokens((token,))
        return bytes(native.llama_vocab_get_text(vocab, token)).decode("utf-8", errors="replace")

    def piece(self, token: int) -> bytes:
        """Return the bytes of a token; empty for a control token."""
        piece = self._pieces.get(token)
        if piece is None:
            piece = self._pieces[token] = self._piece(token)
        return piece

    def _piece(self, token: int) -> bytes:
        vocab = self.native_vocab
        self.check_tokens((token,))
        size = _PIECE_BYTES
        while True:
            buffer = ctypes.create_string_buffer(size)
            n = native.llama_token_to_piece(vocab, token, buffer, size, 0, False)
            if n >= 0:
                return buffer.raw[:n]
            size = -n

    def tokenize(self, text: str, *, parse_special: bool) -> list[int]:
        """Return the tokens of a text, without BOS or EOS.

        Args:
            text: Any text; lone surrogates become "?".
            parse_special: Whether texts of special tokens become these tokens.
        """
        data = text.encode("utf-8", errors="replace")
        if len(data) > _MAX_TEXT_BYTES:
            raise UsageError(f"A text of {len(data):,} bytes is longer than any context.", "Shorten it.")
        # SentencePiece, which splits without patterns, would put a space before each part.
        if self.vocab.kind == "llama":
            return self._tokenize(data, parse_special=parse_special)
        out: list[int] = []
        for part in tokenizer_parts(text, self.control_tokens):
            out += self._tokenize(part.encode("utf-8", errors="replace"), parse_special=parse_special)
        return out

    def _tokenize(self, data: bytes, *, parse_special: bool) -> list[int]:
        capacity = len(data) + 8
        tokens = (native.llama_token * capacity)()
        n = native.llama_tokenize(self.native_vocab, data, len(data), tokens, capacity, False, parse_special)
        if n < 0:
            tokens = (native.llama_token * -n)()
            n = native.llama_tokenize(self.native_vocab, data, len(data), tokens, -n, False, parse_special)
        if n < 0:
            raise DecodeError("The text could not be turned into tokens.", "It may be too long; shorten it.")
        return list(tokens[:n])

    def with_bos(self, tokens: list[int]) -> list[int]:
        """Return tokens with BOS in front, if the model expects it and it is not there."""
        bos = self.vocab.bos if self.vocab.add_bos else None
        return tokens if bos is None or tokens[:1] == [bos] else [bos, *tokens]

    def detokenize(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, with the texts of control tokens but without a leading BOS."""
        self.check_tokens(tokens)
        given = (native.llama_token * len(tokens))(*tokens)
        size = _PIECE_BYTES
        while True:
            buffer = ctypes.create_string_buffer(size)
            n = native.llama_detokenize(self.native_vocab, given, len(tokens), buffer, size, True, True)
            if n >= 0:
                return buffer.raw[:n].decode("utf-8", errors="replace")
            size = -n

    def check_tokens(self, tokens: Sequence[int]) -> None:
        """Refuse ids outside the vocabulary.

        Raises:
            UsageError: It names the first wrong id.
        """
        if tokens and not (min(tokens) >= 0 and max(tokens) < self.n_vocab):
            wrong = next(t for t in tokens if not 0 <= t < self.n_vocab)
            raise UsageError(f"Token {wrong} is not in the vocabulary of {self.n_vocab:,}.")


def _token(value: int) -> int | None:
    return None if value == _NO_TOKEN else int(value)


MAX_RUN = 2_000
"""Longest run of characters without white space, or of white space, that llama.cpp's patterns survive."""
# Matches only at the beginning of a run, so that a long run is scanned once.
_LONG_RUN = re.compile(rf"(?<!\S)\S{{{MAX_RUN + 1},}}|(?<!\s)\s{{{MAX_RUN + 1},}}")


def tokenizer_parts(text: str, kept: Iterable[str]) -> Iterator[str]:
    """Yield parts of a text for separate tokenization, cut after words where possible; usually one part.

    Texts of control tokens stay whole.
    """
    whole: re.Pattern[str] | None = None
    reach = begin = 0
    for run in _LONG_RUN.finditer(text):
        if whole is None:
            texts = sorted(filter(None, kept), key=len, reverse=True)
            whole, reach = re.compile("|".join(map(re.escape, texts)) or r"(?!)"), max(map(len, texts), default=0)
        start = max(begin, run.start())
        while run.end() - start > MAX_RUN:
            cut = _word_end(text, start + MAX_RUN // 2, start + MAX_RUN)
            around = whole.finditer(text, max(begin, cut - reach), cut + reach)
            cut = next((token.end() for token in around if token.start() < cut < token.end()), cut)
            yield text[begin:cut]
            begin = start = cut
    if begin < len(text):
        yield text[begin:]


def _word_end(text: str, first: int, last: int) -> int:
    return next((at for at in range(last, first, -1) if text[at - 1].isalnum() and not text[at].isalnum()), last)
