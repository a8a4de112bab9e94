"""A prompt with texts in front of it, files or pastes, as one message.

The message is the model's and the store's; whoever shows it takes it apart again. A text stands in a fence under its
name, and the question refers to it by that name, so no other Markdown is taken for one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

_BLOCK = re.compile(r"([^\n]+):\n(`{3,})([\w+#-]*)\n(.*?)\n\2\n\n", re.DOTALL)
_TICKS = re.compile("`{3,}")
_NEEDS_QUOTES = re.compile(r"""[\s"]|^@""")
_LANGUAGE = re.compile(r"[A-Za-z0-9+#-]{1,12}")


@dataclass(frozen=True, slots=True)
class Attachment:
    """A text in front of a question.

    Attributes:
        name: One line; of a file as it was typed.
        text: All of it.
        is_file: Whether the question says `@name`; a paste is referred to as `[name]`.
    """

    name: str
    text: str
    is_file: bool = True

    @property
    def reference(self) -> str:
        """How the question refers to it."""
        return file_reference(self.name) if self.is_file else f"[{self.name}]"

    @property
    def size(self) -> int:
        """Bytes."""
        return len(self.text.encode("utf-8", "replace"))


def file_reference(path: str) -> str:
    """A path as it stands in a prompt."""
    return quoted_reference(path) if _NEEDS_QUOTES.search(path) else f"@{path}"


def quoted_reference(path: str) -> str:
    """The same in quotes, whether it needs them or not; a quotation mark in it is written twice."""
    return '@"' + path.replace('"', '""') + '"'


def compose(question: str, attachments: Sequence[Attachment]) -> str:
    """The message; `split` takes it apart where the question refers to every attachment."""
    return "".join(map(_block, attachments)) + question


def split(message: str) -> tuple[str, tuple[Attachment, ...]]:
    """The question and what stands before it; `compose` makes the same message of them again."""
    found = []
    at = 0
    while block := _BLOCK.match(message, at):
        found.append(block)
        at = block.end()
    question = message[at:]
    attachments = tuple(_attachment(block, question) for block in found)
    # Anything else that looks like it is what somebody wrote, and stays as it is.
    if not all(_is_referred_to(each, question) for each in attachments) or compose(question, attachments) != message:
        return message, ()
    return question, attachments


def joined(first: str, then: str) -> str:
    """Two messages as one: their questions below each other, behind all that stands before them."""
    (question, before), (more, behind) = split(first), split(then)
    return compose(f"{question}\n{more}".strip("\n"), (*before, *behind))


def joined_as_it_stands(first: str, text: str) -> str:
    """A message with a text below its question, of which `split` takes nothing away, whatever it looks like."""
    question, before = split(first)
    return compose(f"{question}\n{text}" if question or split(text)[1] else text, before)


def question_of(message: str) -> str:
    """What was typed."""
    return split(message)[0]


def in_other_words(question: str, words: Mapping[str, str]) -> str:
    """A question with other words for what it refers to: at once, for the words of one may be another's reference.

    Args:
        question: What was typed.
        words: By reference.
    """
    references = "|".join(map(re.escape, words))
    return re.sub(references, lambda found: words[found[0]], question) if words else question


def _is_referred_to(attachment: Attachment, question: str) -> bool:
    in_quotes = attachment.is_file and quoted_reference(attachment.name) in question
    return in_quotes or attachment.reference in question


def _attachment(block: re.Match[str], question: str) -> Attachment:
    name, _, language, text = block.groups()
    return Attachment(name, text, is_file=bool(language) or f"[{name}]" not in question)


def _block(attachment: Attachment) -> str:
    longest = max(map(len, _TICKS.findall(attachment.text)), default=2)
    fence = "`" * (longest + 1)
    suffix = PurePath(attachment.name).suffix[1:] if attachment.is_file else ""
    language = suffix if _LANGUAGE.fullmatch(suffix) else ""
    return f"{attachment.name}:\n{fence}{language}\n{attachment.text}\n{fence}\n\n"
