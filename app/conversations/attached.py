"""A prompt with files, pastes and pictures before it, as one message.

Each text is in a code fence below its name, and the question refers to it by that name, so other Markdown is not
mistaken for an attachment; the fence of a picture holds its digest and size. `split` separates the message again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from app.core.pictures import MARK, Picture, without_marks

PICTURE_LANGUAGE = "tandem-picture"
"""Language of a picture's fence; no file has a suffix that long."""
_FENCED_FILE = re.compile(r"([^\n]+):\n(`{3,})([\w+#-]*)\n(.*?)\n\2\n\n", re.DOTALL)
_PICTURE_FACTS = re.compile(r"([0-9a-f]{64}) (image/[a-z0-9.-]{1,20}) ([0-9]{1,8})x([0-9]{1,8})", re.ASCII)
_PICTURE_BLOCK = re.compile(rf"^[^\n]+:\n(`{{3,}}){PICTURE_LANGUAGE}\n{_PICTURE_FACTS.pattern}\n\1\n\n", re.MULTILINE)
_BACKTICK_RUN = re.compile("`{3,}")
_NEEDS_QUOTES = re.compile(r"""[\s"]|^@""")
_LANGUAGE_NAME = re.compile(r"[A-Za-z0-9+#-]{1,12}")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A text or picture before a question.

    Attributes:
        name: One line; a file's path as typed.
        is_file: Whether the question refers to it as `@name` instead of `[name]`.
    """

    name: str
    text: str
    is_file: bool = True
    picture: Picture | None = None

    @classmethod
    def of(cls, picture: Picture, name: str, *, is_file: bool = True) -> Attachment:
        """Return a picture as an attachment with a name."""
        facts = f"{picture.digest} {picture.media_type} {picture.width}x{picture.height}"
        # The store has the bytes; pastes stay in memory after their prompt.
        shown = Picture(picture.digest, picture.media_type, picture.width, picture.height, name)
        return cls(name, facts, is_file, shown)

    @property
    def reference(self) -> str:
        return file_reference(self.name) if self.is_file else f"[{self.name}]"

    @property
    def references(self) -> tuple[str, ...]:
        """All ways to refer to it; a path may be quoted."""
        return (self.reference, quoted_reference(self.name)) if self.is_file else (self.reference,)

    @property
    def size(self) -> int:
        """Size in bytes."""
        return len(self.text.encode("utf-8", "replace"))


def file_reference(path: str) -> str:
    """Return a path as written in a prompt."""
    return quoted_reference(path) if _NEEDS_QUOTES.search(path) else f"@{path}"


def quoted_reference(path: str) -> str:
    """Return a path in quotes; quotation marks in it are doubled."""
    return '@"' + path.replace('"', '""') + '"'


def compose(question: str, attachments: Sequence[Attachment]) -> str:
    """Return the message; `split` reverses it if the question refers to every attachment."""
    return "".join(map(_block, attachments)) + question


def split(message: str) -> tuple[str, tuple[Attachment, ...]]:
    """Return the question and its attachments; `compose` restores the message."""
    found = []
    at = 0
    while block := _FENCED_FILE.match(message, at):
        found.append(block)
        at = block.end()
    question = message[at:]
    attachments = tuple(
        _attachment(name, language, text, question) for name, _, language, text in (block.groups() for block in found)
    )
    # The user typed anything else that looks like an attachment; keep it.
    is_whole = all(any(reference in question for reference in each.references) for each in attachments)
    return (question, attachments) if is_whole and compose(question, attachments) == message else (message, ())


def with_marks(message: str) -> tuple[str, tuple[Picture, ...]]:
    """Return a message for a model, with a `MARK` at the first reference to each picture, and these pictures."""
    question, attachments = split(without_marks(message))
    shown = [(each.references, each.picture) for each in attachments if each.picture is not None]
    by_reference = {reference: picture for references, picture in shown for reference in references}
    if not by_reference:
        return without_marks(message), ()
    found: list[Picture] = []

    def marked(reference: re.Match[str]) -> str:
        picture = by_reference[reference[0]]
        if picture in found:
            return reference[0]
        found.append(picture)
        return MARK

    longest_first = sorted(by_reference, key=len, reverse=True)
    question = re.sub("|".join(map(re.escape, longest_first)), marked, question)
    return compose(question, [each for each in attachments if each.picture is None]), tuple(found)


def searchable(message: str) -> str:
    """Return a message without the digests and sizes of its pictures; the question has their names."""
    return _PICTURE_BLOCK.sub("", message) if PICTURE_LANGUAGE in message else message


def joined(first: str, then: str) -> str:
    """Join two messages: all attachments, then both questions with a blank line between them."""
    (question, before), (more, behind) = split(first), split(then)
    return compose(f"{question}\n\n{more}".strip("\n"), (*before, *behind))


def question_of(message: str) -> str:
    """Return the question of a message."""
    return split(message)[0]


def replace_references(question: str, words: Mapping[str, str]) -> str:
    """Replace references in a question, all at once, because a replacement may look like another reference."""
    references = "|".join(map(re.escape, sorted(words, key=len, reverse=True)))
    return re.sub(references, lambda found: words[found[0]], question) if words else question


def _attachment(name: str, language: str, text: str, question: str) -> Attachment:
    facts = _PICTURE_FACTS.fullmatch(text) if language == PICTURE_LANGUAGE else None
    is_file = (bool(language) and facts is None) or f"[{name}]" not in question
    picture = Picture(facts[1], facts[2], int(facts[3]), int(facts[4]), name) if facts is not None else None
    return Attachment(name, text, is_file, picture)


def _block(attachment: Attachment) -> str:
    longest = max(map(len, _BACKTICK_RUN.findall(attachment.text)), default=2)
    fence = "`" * (longest + 1)
    suffix = PurePath(attachment.name).suffix[1:] if attachment.is_file else ""
    language = suffix if _LANGUAGE_NAME.fullmatch(suffix) else ""
    if attachment.picture is not None:
        language = PICTURE_LANGUAGE
    return f"{attachment.name}:\n{fence}{language}\n{attachment.text}\n{fence}\n\n"
