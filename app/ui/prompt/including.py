"""The files that a prompt names with `@`: what they would cost, and the message with them in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.chat.attached import Attachment, compose, rough_tokens
from app.chat.textfile import MAX_BYTES, MissingFile, read_text, text_size
from app.errors import AppError
from app.source import home_expanded
from app.ui.prompt.references import Reference, references
from app.ui.text import size, tokens

_FEWEST_BYTES_A_TOKEN = 8
"""More than that no ordinary text has; whether a smaller one fits is for the tokenizer to say."""

_MOST_NAMED = 3
"""Files and pastes of which each is named where they are counted; they all stand in the prompt."""


@dataclass(frozen=True, slots=True)
class Named:
    """What one `@path` stands for.

    Attributes:
        name: The path as it will be called.
        path: Where it is.
        bytes: Its size.
    """

    name: str
    path: Path
    bytes: int


def gather(
    question: str, pastes: Sequence[Attachment], base: Path, n_ctx: int | None, *, but_missing: bool = False
) -> str:
    """The message for a question: what it refers to, in front of it. Reads files.

    Args:
        question: As typed.
        pastes: What was pasted into it.
        base: What relative paths start from.
        n_ctx: Tokens that the context holds, if that is known.
        but_missing: Whether a path without a file is just text.

    Raises:
        MissingFile: A path names no file, and can only be meant as one.
        AppError: A file cannot be included.
    """
    attachments = []
    for named in files(question, base, but_missing=but_missing):
        if n_ctx is not None and named.bytes > n_ctx * _FEWEST_BYTES_A_TOKEN:
            about = rough_tokens(named.bytes)
            raise AppError(
                f"{named.name} is about {about:,} tokens, and the context holds {n_ctx:,}.", "Include a part of it."
            )
        attachments.append(Attachment(named.name, read_text(named.path, named.name, MAX_BYTES).text))
    return compose(question, [*attachments, *pastes])


def files(question: str, base: Path, *, but_missing: bool = False) -> Iterator[Named]:
    """The files that a question names, each once. Raises as `gather`."""
    seen = set()
    for reference in references(question):
        named = _find(reference, base, but_missing=but_missing)
        if named is not None and named.name not in seen:
            seen.add(named.name)
            yield named


def estimate(question: str, pastes: Sequence[Attachment], base: Path, n_ctx: int | None) -> str:
    """One line on what a question includes: sizes, about how many tokens, and their share of the context.

    Returns:
        The line; what cannot be included is said in it. Empty if there is nothing to say.
    """
    parts, problems, total = [], [], 0
    for reference in references(question):
        try:
            named = _find(reference, base)
        except MissingFile as error:
            # Half a path, while it is typed, is no mistake.
            if reference.end < len(question):
                problems.append(error.message.rstrip("."))
            continue
        except AppError as error:
            problems.append(error.message.rstrip("."))
            continue
        text = f"{named.path.name} {size(named.bytes)}" if named is not None else ""
        if named is not None and text not in parts:
            parts.append(text)
            total += named.bytes
    for paste in pastes:
        parts.append(paste.name)
        total += paste.size
    if len(parts) > _MOST_NAMED:
        kinds = {"files": len(parts) - len(pastes), "pastes": len(pastes)}
        parts = [f"{len(parts)} {' and '.join(kind for kind, count in kinds.items() if count)}, {size(total)}"]
    if total:
        about = rough_tokens(total)
        rough = f"about {about:,} token{'s' * (about != 1)}"
        parts = [f"{', '.join(parts)}, {rough}", *([_share(about, n_ctx)] if n_ctx else [])]
    return "; ".join([*parts, *dict.fromkeys(problems)])


def _share(count: int, n_ctx: int) -> str:
    if count > n_ctx:
        return f"the context holds {tokens(n_ctx)}"
    return f"{count / n_ctx * 100:.0f}% of the context"


def _find(reference: Reference, base: Path, *, but_missing: bool = False) -> Named | None:
    """The file that is meant; None for what is just text. Raises as `gather`."""
    missing: MissingFile | None = None
    for name in reference.readings:
        try:
            path = base / home_expanded(name)
            return Named(name, path, text_size(path, name))
        except MissingFile as error:
            missing = error
        except ValueError:
            # A home directory of a user whom no system can have.
            missing = MissingFile(f"There is no file {name}.")
        except AppError:
            if reference.must_exist or reference.quoted:
                raise
            return None
    if missing is None or but_missing or not reference.must_exist:
        return None
    raise missing
