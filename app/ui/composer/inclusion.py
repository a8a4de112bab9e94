"""What a prompt would include, before it is sent: in sizes, in tokens, and what cannot be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from app.conversations.attached import Attachment, compose
from app.conversations.textfile import FolderNamed, MissingFile, read_text
from app.conversations.token_estimate import estimated_tokens, in_tokens
from app.core.errors import AppError
from app.ui.composer.including import Named, find
from app.ui.composer.references import references
from app.ui.text import size, tokens

_MOST_NAMED = 3
"""Files and pastes of which each is named where they are counted; they all stand in the prompt."""
_MOST_READ = 1 << 18
"""Bytes that are read, and counted by the model's own vocabulary, while somebody types: a tenth of a second's work."""


@dataclass(frozen=True, slots=True)
class Inclusion:
    """What stands before a question.

    Attributes:
        names: Files and pastes with their sizes, as they are told.
        text: All of it, as the model would read it; "" where there is nothing, or too much to be counted here.
        about: Tokens of it, roughly.
        problems: Why some of it cannot be included, in sentences without a full stop.
    """

    names: str = ""
    text: str = ""
    about: int = 0
    problems: tuple[str, ...] = ()

    def line(self, n_ctx: int | None, counted: int | None = None) -> str:
        """It in one line; "" if there is nothing to say.

        Args:
            n_ctx: Tokens that the context holds, if that is known.
            counted: Tokens of it, where they were counted.
        """
        found = []
        if self.names:
            count = self.about if counted is None else counted
            told = f"{self.names}, {in_tokens(count, exact=counted is not None)}"
            found = [told, *([_share(count, n_ctx)] if n_ctx else [])]
        return ". ".join(filter(None, ["; ".join(found), *self.problems]))


def included(question: str, pastes: Sequence[Attachment], base: Path) -> Inclusion:
    """What a question would include. Reads files, as far as they are short.

    Args:
        question: As typed, perhaps not yet to its end.
        pastes: What was pasted into it.
        base: What relative paths start from.
    """
    attachments: dict[str, tuple[str, int, Attachment | int]] = {}
    problems = []
    for reference in references(question):
        try:
            named = find(reference, base)
            if named is not None and named.name not in attachments:
                attachments[named.name] = (f"{named.path.name} {size(named.bytes)}", named.bytes, _read(named))
        except (MissingFile, FolderNamed) as error:
            # Half a path, while it is typed, is no mistake.
            if reference.end < len(question):
                problems.append(error.message.rstrip("."))
        except AppError as error:
            problems.append(error.message.rstrip("."))
        except OSError:
            # It went while it was looked at; the next key finds it missing.
            continue
    found = [*attachments.values(), *((paste.name, paste.size, paste) for paste in pastes)]
    names = [name for name, _, _ in found]
    if len(names) > _MOST_NAMED:
        kinds = {"files": len(attachments), "pastes": len(pastes)}
        total = size(sum(n_bytes for _, n_bytes, _ in found))
        names = [f"{len(names)} {' and '.join(kind for kind, count in kinds.items() if count)}, {total}"]
    whole = [content for _, _, content in found if isinstance(content, Attachment)]
    rest = sum(content for _, _, content in found if isinstance(content, int))
    text = compose("", whole)
    is_short = not rest and len(text) <= _MOST_READ
    about = rest + _estimated(text) if found else 0
    return Inclusion(", ".join(names), text if is_short else "", about, tuple(dict.fromkeys(problems)))


def _read(named: Named) -> Attachment | int:
    """The file's text; of a long one only about how many tokens it has."""
    if named.bytes > _MOST_READ:
        return named.about_tokens()
    found = named.path.stat()
    return Attachment(named.name, _text(named.path, named.name, found.st_size, found.st_mtime_ns))


@lru_cache(maxsize=16)
def _text(path: Path, name: str, n_bytes: int, changed_ns: int) -> str:
    """What is in a file of this size and time: it is asked for with every key."""
    return read_text(path, name, _MOST_READ).text


@lru_cache(maxsize=4)
def _estimated(text: str) -> int:
    return estimated_tokens(text)


def _share(count: int, n_ctx: int) -> str:
    if count > n_ctx:
        return f"the context holds {tokens(n_ctx)}"
    return f"{count / n_ctx * 100:.0f}% of the context"
