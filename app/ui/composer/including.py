"""The files that a prompt names with `@`: what they would cost, and the message with them in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.conversations.attached import Attachment, compose, file_reference
from app.conversations.textfile import MAX_BYTES, FolderNamed, MissingFile, marked_encoding, read_text, text_size
from app.conversations.token_estimate import estimated_tokens, in_tokens
from app.core.errors import AppError, ContextOverflowError
from app.models.source import home_expanded
from app.ui.composer.references import Reference, references
from app.ui.widgets.path_completion import PathCompletion

_FEWEST_BYTES_A_TOKEN = 8
"""More than that no ordinary text has; whether a smaller one fits is for the tokenizer to say."""
_QUICKLY_COUNTED = 1 << 18
"""Bytes that it counts before anybody minds."""
_LOOK = 1 << 16
"""Bytes of a long file that stand for the others."""
_EXAMPLES = 2


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

    def about_tokens(self) -> int:
        """How many tokens it has, roughly, by its beginning."""
        try:
            with self.path.open("rb") as file:
                head = file.read(_LOOK)
        except OSError:
            return 0
        text = head.decode(marked_encoding(head) or "utf-8", "replace")
        return estimated_tokens(text) * self.bytes // max(1, len(head))


def gather(
    question: str, pastes: Sequence[Attachment], base: Path, n_ctx: int | None, *, but_missing: bool = False
) -> str:
    """The message for a question: what it refers to, in front of it. Reads files.

    Args:
        question: As typed.
        pastes: What was pasted into it.
        base: What relative paths start from.
        n_ctx: Tokens that the context holds, if that is known.
        but_missing: Whether a path without a file, or of a folder, is just text.

    Raises:
        MissingFile: A path names no file, and can only be meant as one.
        FolderNamed: It names a folder.
        AppError: A file cannot be included.
    """
    attachments = []
    for named in files(question, base, but_missing=but_missing):
        is_long = n_ctx is not None and named.bytes > max(_QUICKLY_COUNTED, n_ctx * _FEWEST_BYTES_A_TOKEN)
        # What is nearer to the limit is counted by the model.
        if n_ctx is not None and is_long and (about := named.about_tokens()) > n_ctx:
            raise ContextOverflowError(
                f"{named.name} has {in_tokens(about)}, and the context holds {n_ctx:,}.",
                "Include a part of it.",
                whose="file",
                n_tokens=about,
            )
        attachments.append(Attachment(named.name, read_text(named.path, named.name, MAX_BYTES).text))
    return compose(question, [*attachments, *pastes])


def files(question: str, base: Path, *, but_missing: bool = False) -> Iterator[Named]:
    """The files that a question names, each once. Raises as `gather`."""
    seen = set()
    for reference in references(question):
        try:
            named = find(reference, base, but_missing=but_missing)
        except FolderNamed as error:
            raise FolderNamed(error.message, _its_files(reference, base)) from None
        if named is not None and named.name not in seen:
            seen.add(named.name)
            yield named


def find(reference: Reference, base: Path, *, but_missing: bool = False) -> Named | None:
    """The file that is meant; None for what is just text. Raises as `gather`."""
    missing: MissingFile | None = None
    for name in reference.readings:
        try:
            path = base / home_expanded(name)
            return Named(name, path, text_size(path, name))
        except MissingFile as error:
            missing = error
        except ValueError:
            # A home folder of a user whom no system can have.
            missing = MissingFile(f"There is no file {name}.")
        except FolderNamed:
            if but_missing:
                return None
            raise
        except AppError:
            if reference.must_exist or reference.quoted:
                raise
            return None
    if missing is None or but_missing or not reference.must_exist:
        return None
    raise missing


def _its_files(folder: Reference, base: Path) -> str:
    """What could be included of a folder, as a sentence."""
    matching = PathCompletion(base).matching
    paths: Sequence[str] = next(
        (found for name in folder.readings if (found := matching(name.rstrip("/\\") + "/"))), []
    )
    files = [file_reference(path) for path in paths if not path.endswith("/")][:_EXAMPLES]
    return f"Files can be included, such as {' or '.join(files)}." if files else "No text file is directly in it."
