"""The prompts of a benchmark, by kind of text."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.engine.text import printable
from app.errors import UsageError

_OWN = Path(__file__).with_name("prompts.toml")
_YOURS = "yours"
_LONGEST = 100_000
_MOST_BYTES = 10_000_000


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


def load_suite(file: Path | None = None) -> tuple[Prompt, ...]:
    """Our own prompts, or those of a file.

    A `.toml` file has tables `[[prompt]]` with `kind`, `name` and `text`; any other has a prompt a line, empty lines
    apart.

    Raises:
        UsageError: The file cannot be read, is not of that form, or holds no prompt.
    """
    try:
        with (file or _OWN).open("rb") as source:
            raw = source.read(_MOST_BYTES + 1)
        if len(raw) > _MOST_BYTES:
            raise UsageError(f"{file} is larger than {_MOST_BYTES:,} bytes.", "Give a file of prompts.")
        text = raw.decode("utf-8-sig")
        prompts = _lines(text) if file is not None and file.suffix != ".toml" else _tables(text)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}.", "Check the path.") from error
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8 text.", "Give a file of prompts.") from None
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        form = 'Tables [[prompt]] with kind = "...", name = "..." and text = "..." are wanted.'
        raise UsageError(f"{file} holds no prompts: {error}.", form) from error
    if not prompts:
        raise UsageError(f"{file} holds no prompts.", "Write one a line.")
    return prompts


def choose(prompts: Sequence[Prompt], kinds: Sequence[str] | None, per_kind: int | None) -> tuple[Prompt, ...]:
    """Some kinds only, and of each the first few.

    Raises:
        UsageError: There is no prompt of such a kind.
    """
    known = list(dict.fromkeys(prompt.kind for prompt in prompts))
    for kind in kinds or ():
        if kind not in known:
            raise UsageError(f'There are no prompts of kind "{printable(kind)}".', f"Kinds are: {', '.join(known)}.")
    chosen: list[Prompt] = []
    for kind in known:
        if kinds is None or kind in kinds:
            chosen += [prompt for prompt in prompts if prompt.kind == kind][:per_kind]
    return tuple(chosen)


def _lines(text: str) -> tuple[Prompt, ...]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
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
