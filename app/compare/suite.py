"""The prompts of a benchmark, by kind of text."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path, PurePath
from typing import Any

from app.conversations.message import Message, Role
from app.conversations.textfile import marked_encoding
from app.core.errors import UsageError
from app.core.printable import printable
from app.core.regular_file import with_line_feeds
from app.worker.request import AnswerRequest

_OWN = Path(__file__).with_name("prompts.toml")
_LONGEST = 100_000
_FORM = 'Write one prompt per line, or TOML tables [[prompt]] with kind = "...", name = "..." and text = "...".'


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt of a suite; its name is unique in its kind of text."""

    kind: str
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.kind}, {self.name}"

    def put_to(self, request: AnswerRequest) -> AnswerRequest:
        """Return a request with this prompt at its end."""
        return replace(request, messages=(*request.messages, Message(Role.USER, self.text)))


def load_suite(file: Path | None = None) -> tuple[Prompt, ...]:
    """Return the built-in prompts, or those of a file; see `read_suite`. Raises UsageError."""
    file = file or _OWN
    try:
        return read_suite(file.read_bytes(), str(file))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.", "Check the path.") from error


def read_suite(raw: bytes, name: str) -> tuple[Prompt, ...]:
    """Return the prompts of a file. Raises UsageError.

    A `.toml` file has tables `[[prompt]]` with `kind`, `name` and `text`; any other has a prompt per line.

    Args:
        raw: UTF-8, or text with a byte order mark.
        name: Name of the file.
    """
    suffix = PurePath(name).suffix.lower()
    try:
        text = with_line_feeds(raw.decode(marked_encoding(raw) or "utf-8"))
        prompts = _tables(text) if suffix == ".toml" else _lines(text)
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} has no prompts: it is not {error.encoding.upper()} text.", _FORM) from None
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise UsageError(f"{name} has no prompts: {error}.", _FORM) from error
    if not prompts or suffix in (".json", ".jsonl"):
        raise UsageError(f"{name} has no prompts.", _FORM)
    return prompts


def _lines(text: str) -> tuple[Prompt, ...]:
    # Only at line feeds: the rarer line ends are part of a prompt.
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    return tuple(Prompt("yours", str(number), line) for number, line in enumerate(lines, start=1))


def _tables(text: str) -> tuple[Prompt, ...]:
    prompts = tuple(
        Prompt(_word(entry, "kind"), _word(entry, "name"), _word(entry, "text"))
        for entry in tomllib.loads(text)["prompt"]
    )
    if len({str(prompt) for prompt in prompts}) < len(prompts):
        raise ValueError("two prompts have the same kind and name")
    return prompts


def _word(entry: Any, key: str) -> str:
    value = entry[key]
    if not isinstance(value, str) or not value.strip() or len(value) > _LONGEST:
        raise ValueError(f"{key} must be a text")
    return value.strip()


def choose(prompts: Sequence[Prompt], kinds: Sequence[str] | None, per_kind: int | None) -> tuple[Prompt, ...]:
    """Choose the first prompts of some kinds, one of each kind in turn. Raises UsageError for an unknown kind."""
    known = list(dict.fromkeys(prompt.kind for prompt in prompts))
    for kind in kinds or ():
        if kind not in known:
            raise UsageError(f'There are no prompts of kind "{printable(kind)}".', f"Kinds are: {', '.join(known)}.")
    chosen = [kind for kind in known if kinds is None or kind in kinds]
    by_kind = [[prompt for prompt in prompts if prompt.kind == kind][:per_kind] for kind in chosen]
    return tuple(prompt for turn in zip_longest(*by_kind) for prompt in turn if prompt is not None)
