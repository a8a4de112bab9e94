"""The prompts of a benchmark, by kind of text."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path, PurePath
from typing import Any, BinaryIO

from app.conversations.message import Message, Role
from app.conversations.textfile import marked_encoding
from app.core.errors import ContextOverflowError, Interrupted, UsageError
from app.core.printable import printable
from app.core.regular_file import with_line_feeds
from app.engine.interfaces import Cancelled
from app.worker.overflow import refuse_overflow
from app.worker.request import AnswerRequest, LoadedPair

_OWN = Path(__file__).with_name("prompts.toml")
_YOURS = "yours"
_LONGEST = 100_000
_MOST_BYTES = 10_000_000
_TABLES = 'Tables [[prompt]] with kind = "...", name = "..." and text = "..." are wanted.'
_NO_SUITES = (".json", ".jsonl", ".ndjson")
"""Whose lines are no prompts, though they would be taken for such."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """One question of a suite.

    Attributes:
        kind: Kind of text.
        name: What it is called, different for each of a kind.
        text: What is asked.
    """

    kind: str
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}, {self.name}"

    def put_to(self, request: AnswerRequest) -> AnswerRequest:
        """A request with this prompt at its end."""
        return replace(request, messages=(*request.messages, Message(Role.USER, self.text)))


def load_suite(file: Path | None = None) -> tuple[Prompt, ...]:
    """Our own prompts, or those of a file; see `read_suite`.

    Raises:
        UsageError: The file cannot be read, is not of that form, or holds no prompt.
    """
    file = file or _OWN
    try:
        source = file.open("rb")
    except OSError as error:
        raise _unreadable(str(file), error) from error
    with source:
        return read_suite(source, str(file))


def read_suite(source: BinaryIO, name: str) -> tuple[Prompt, ...]:
    """The prompts of a file or a pipe.

    A `.toml` file has tables `[[prompt]]` with `kind`, `name` and `text`; any other has a prompt a line, empty lines
    apart. It is UTF-8, or what its first bytes say, as PowerShell's do.

    Args:
        source: Where it comes from.
        name: What that is called; the ending says of which form it is.

    Raises:
        UsageError: It cannot be read, is not of that form, or holds no prompt.
    """
    suffix = PurePath(name).suffix.lower()
    if suffix in _NO_SUITES:
        raise UsageError(f"{name} is JSON, and prompts are TOML by kind, or one a line.", _TABLES)
    try:
        raw = source.read(_MOST_BYTES + 1)
    except OSError as error:
        raise _unreadable(name, error) from error
    if len(raw) > _MOST_BYTES:
        raise UsageError(f"{name} is larger than {_MOST_BYTES:,} bytes.", "Give a file of prompts.")
    try:
        text = with_line_feeds(raw.decode(marked_encoding(raw) or "utf-8"))
        prompts = _tables(text) if suffix == ".toml" else _lines(text)
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not {error.encoding.upper()} text.", "Give a file of prompts.") from None
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{name} holds no prompts: {error}.", _TABLES) from error
    if not prompts:
        raise UsageError(f"{name} holds no prompts.", "Write one a line.")
    return prompts


def _unreadable(name: str, error: OSError) -> UsageError:
    return UsageError(f"{name} cannot be read: {error.strerror}.", "Check the path.")


def choose(prompts: Sequence[Prompt], kinds: Sequence[str] | None, per_kind: int | None) -> tuple[Prompt, ...]:
    """Choose the first prompts of some kinds, one of each kind first, so that a run that stops early covers all.

    Raises:
        UsageError: There is no prompt of such a kind.
    """
    known = list(dict.fromkeys(prompt.kind for prompt in prompts))
    for kind in kinds or ():
        if kind not in known:
            raise UsageError(f'There are no prompts of kind "{printable(kind)}".', f"Kinds are: {', '.join(known)}.")
    chosen = [kind for kind in known if kinds is None or kind in kinds]
    by_kind = [[prompt for prompt in prompts if prompt.kind == kind][:per_kind] for kind in chosen]
    return tuple(prompt for turn in zip_longest(*by_kind) for prompt in turn if prompt is not None)


def refuse_overlong(
    pair: LoadedPair, prompts: Iterable[Prompt], request: AnswerRequest, cancelled: Cancelled
) -> Mapping[Prompt, int]:
    """Refuse a suite with a prompt that does not fit into the context: found on the way, it would end hours of work.

    Args:
        pair: Who is to answer.
        prompts: The suite.
        request: How to answer; a system message stays in front of every prompt.
        cancelled: Read between prompts.

    Returns:
        Tokens of each prompt, as it is put to the model.

    Raises:
        ContextOverflowError: The longest does not fit; it is named, and what would hold it holds all.
        Interrupted: Cancelled.
    """
    lengths: dict[Prompt, int] = {}
    for prompt in prompts:
        if cancelled():
            raise Interrupted
        asked = prompt.put_to(request)
        lengths[prompt] = len(pair.build_prompt(asked.messages, None, asked.thinking).tokens)
    longest = max(lengths, key=lengths.__getitem__)
    try:
        refuse_overflow(pair, longest.put_to(request), lengths[longest])
    except ContextOverflowError as error:
        told = f"{printable(str(longest))}: {error.message}"
        raise ContextOverflowError(told, error.hint, whose=error.whose, n_tokens=error.n_tokens) from error
    return lengths


def _lines(text: str) -> tuple[Prompt, ...]:
    # The rarer line ends are part of what somebody asks.
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    return tuple(Prompt(_YOURS, str(number), line) for number, line in enumerate(lines, start=1))


def _tables(text: str) -> tuple[Prompt, ...]:
    prompts = [
        Prompt(_word(entry, "kind"), _word(entry, "name"), _word(entry, "text"))
        for entry in tomllib.loads(text)["prompt"]
    ]
    names = [(prompt.kind, prompt.name) for prompt in prompts]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name[0]} {name[1]!r} is there twice")
    return tuple(prompts)


def _word(entry: Any, key: str) -> str:
    value = entry[key]
    if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST:
        raise ValueError(f"{key} must be a text")
    return value.strip()
