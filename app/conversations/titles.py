"""Titles of conversations, made from their first prompts."""

from __future__ import annotations

import re
from collections.abc import Container
from itertools import count

from app.conversations.attached import question_of
from app.core.columns import fit
from app.core.printable import printable

MAX_COLUMNS = 100
"""Width of a title in a list."""
_LONGEST_PROMPT = 4000
"""Characters of a prompt used for a title."""
_MAX_CHOSEN_CHARACTERS = 200
"""Limit for a title typed by the user, in characters."""
_FORK_SUFFIX = re.compile(r" \(fork(?: \d+)?\)\Z")
_CODE_FENCE = re.compile(r"^\s*(```|~~~)")
_BLOCK_PREFIX = re.compile(r"^\s*(?:#{1,6}\s+|>\s*|[-*+]\s+(?:\[[ xX]\]\s+)?|\d+[.)]\s+)+")
_MARKDOWN_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)")
_HTML_TAG = re.compile(r"<!--.*?-->|</?[A-Za-z][^<>\n]*>")
_MARKDOWN_EMPHASIS = re.compile(r"(\*\*\*|\*\*|\*|___|__|~~|`+)(?=\S)(.+?)(?<=\S)\1")


def title_of(prompt: str) -> str:
    """Make a title from a prompt, without its files and pastes."""
    return make_title(question_of(prompt))


def make_title(text: str, columns: int = MAX_COLUMNS) -> str:
    """Return the first line of prose without Markdown, or of code, cut to the columns."""
    lines = printable(text[:_LONGEST_PROMPT]).splitlines()
    prose: list[str] = []
    code: list[str] = []
    in_code = False
    for line in lines:
        if _CODE_FENCE.match(line):
            in_code = not in_code
        else:
            (code if in_code else prose).append(line)
    for line in (*map(_plain, prose), *map(_one_line, code)):
        if any(character.isalnum() for character in line):
            return fit(line, columns)
    # An emoji or "???" is better than no title.
    return fit(_one_line(" ".join(lines)), columns)


def fork_title(title: str, taken: Container[str]) -> str:
    """Return the first numbered fork title that no other conversation has."""
    original = _FORK_SUFFIX.sub("", title)
    titles = (f"{original} (fork{f' {n}' if n > 1 else ''})" for n in count(1))
    return next(each for each in titles if each not in taken)


def one_line(text: str) -> str:
    """Return a title typed by the user: printable, on one line, with a limited length."""
    return _one_line(printable(text[: 4 * _MAX_CHOSEN_CHARACTERS]))[:_MAX_CHOSEN_CHARACTERS].rstrip()


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _plain(line: str) -> str:
    line = _HTML_TAG.sub(" ", _MARKDOWN_LINK.sub(r"\1", _BLOCK_PREFIX.sub("", line)))
    return _one_line(_MARKDOWN_EMPHASIS.sub(r"\2", line))
