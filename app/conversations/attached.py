"""A prompt with files and pastes in front of it, as one message.

Each text stands in a fence below its name, and the question refers to it by that name, so no other Markdown is taken
for one. `split` takes a message apart again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

_FENCED_FILE = re.compile(r"([^\n]+):\n(`{3,})([\w+#-]*)\n(.*?)\n\2\n\n", re.DOTALL)
_BACKTICK_RUN = re.compile("`{3,}")
_NEEDS_QUOTES = re.compile(r"""[\s"]|^@""")
_LANGUAGE_NAME = re.compile(r"[A-Za-z0-9+#-]{1,12}")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A text in front of a question.

    Attributes:
        name: One line; a file's path as typed.
        is_file: Whether the question refers to it as `@name`, not as `[name]`.
    """

    name: str
    text: str
    is_file: bool = True

    @property
    def reference(self) -> str:
        """The reference in the question."""
        return file_reference(self.name) if self.is_file else f"[{self.name}]"

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.text.encode("utf-8", "replace"))


def file_reference(path: str) -> str:
    """Return a path as it stands in a prompt."""
    return quoted_reference(path) if _NEEDS_QUOTES.search(path) else f"@{path}"


def quoted_reference(path: str) -> str:
    """Return a path in quotes; a quotation mark in it is doubled."""
    return '@"' + path.replace('"', '""') + '"'


def compose(question: str, attachments: Sequence[Attachment]) -> str:
    """Return the message; `split` takes it apart if the question refers to every attachment."""
    return "".join(map(_block, attachments)) + question


def split(message: str) -> tuple[str, tuple[Attachment, ...]]:
    """Return the question and its attachments, of which `compose` makes the same message."""
    found = []
    at = 0
    while block := _FENCED_FILE.match(message, at):
        found.append(block)
        at = block.end()
    question = message[at:]
    attachments = tuple(
        Attachment(name, text, is_file=bool(language) or f"[{name}]" not in question)
        for name, _, language, text in (block.groups() for block in found)
    )
    # Anything else that looks so was typed, and stays whole.
    if not all(_is_referred_to(each, question) for each in attachments) or compose(question, attachments) != message:
        return message, ()
    return question, attachments


def joined(first: str, then: str) -> str:
    """Join two messages: all attachments, then both questions with a blank line between them."""
    (question, before), (more, behind) = split(first), split(then)
    return compose(f"{question}\n\n{more}".strip("\n"), (*before, *behind))


def question_of(message: str) -> str:
    """Return the question of a message."""
    return split(message)[0]


def replace_references(question: str, words: Mapping[str, str]) -> str:
    """Replace references in a question, all at once: a new text may look like another reference."""
    references = "|".join(map(re.escape, words))
    return re.sub(references, lambda found: words[found[0]], question) if words else question


def _is_referred_to(attachment: Attachment, question: str) -> bool:
    in_quotes = attachment.is_file and quoted_reference(attachment.name) in question
    return in_quotes or attachment.reference in question


def _block(attachment: Attachment) -> str:
    longest = max(map(len, _BACKTICK_RUN.findall(attachment.text)), default=2)
    fence = "`" * (longest + 1)
    suffix = PurePath(attachment.name).suffix[1:] if attachment.is_file else ""
    language = suffix if _LANGUAGE_NAME.fullmatch(suffix) else ""
    return f"{attachment.name}:\n{fence}{language}\n{attachment.text}\n{fence}\n\n"
