"""A conversation's title, made from its first prompt."""

from __future__ import annotations

import re
import unicodedata

from app.conversations.attached import question_of
from app.core.printable import printable

MAX_COLUMNS = 100
"""Columns of a title in a list."""
_LONGEST_PROMPT = 4000
"""Characters that a title is made from."""
_MAX_CHOSEN_CHARACTERS = 200
"""Characters of a title that the user chose."""
_ELLIPSIS = "…"
_CLAUSE_ENDS = (re.compile("[;:] "), re.compile(", "))
"""Ends of clauses, larger ones first."""
_CODE_FENCE = re.compile(r"^\s*(```|~~~)")
_BLOCK_PREFIX = re.compile(r"^\s*(?:#{1,6}\s+|>\s*|[-*+]\s+(?:\[[ xX]\]\s+)?|\d+[.)]\s+)+")
_MARKDOWN_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)")
_HTML_TAG = re.compile(r"<!--.*?-->|</?[A-Za-z][^<>\n]*>")
_MARKDOWN_EMPHASIS = re.compile(r"(\*\*\*|\*\*|\*|___|__|~~|`+)(?=\S)(.+?)(?<=\S)\1")


def title_of(prompt: str) -> str:
    """Return the title made from a prompt, without its files and pastes."""
    return make_title(question_of(prompt))


def make_title(text: str, columns: int = MAX_COLUMNS) -> str:
    """Return the first line of prose without Markdown, or of code, cut to the columns; "" without any text."""
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


def fit(text: str, columns: int) -> str:
    """Cut a text between words, with an ellipsis, if it is wider than `columns`."""
    if not text or width(text) <= columns:
        return text
    used, end = 0, 0
    for end, character in enumerate(text):  # noqa: B007 - where the loop stops is the result
        used += _columns(character)
        if used > columns - 1:
            break
    head = text[:end]
    at_word, _, _ = head.rpartition(" ")
    # A word longer than half the line is cut; so is a script without spaces.
    if not text[end].isspace() and width(at_word) * 2 > columns:
        head = at_word
    return head.rstrip(" ,.;:-") + _ELLIPSIS


def in_brief(text: str, columns: int) -> str:
    """Return as many clauses as fit into the columns; the whole text if none does."""
    ends = (each.start() for clause in _CLAUSE_ENDS for each in reversed(list(clause.finditer(text))))
    return next((text[:end] for end in (len(text), *ends) if width(text[:end]) <= columns), text)


def width(text: str) -> int:
    """Return the terminal columns of a line."""
    return sum(map(_columns, text))


def one_line(text: str) -> str:
    """Return a chosen title, printable, on one line and of bounded length."""
    return _one_line(printable(text[: 4 * _MAX_CHOSEN_CHARACTERS]))[:_MAX_CHOSEN_CHARACTERS].rstrip()


def _columns(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _plain(line: str) -> str:
    line = _HTML_TAG.sub(" ", _MARKDOWN_LINK.sub(r"\1", _BLOCK_PREFIX.sub("", line)))
    return _one_line(_MARKDOWN_EMPHASIS.sub(r"\2", line))
