"""Tabs as the spaces up to the next stop, for terminals move elsewhere."""

from __future__ import annotations

from textual.content import Content
from textual.expand_tabs import expand_tabs_inline

_TAB = 8
"""Cells between two stops; a character may take two of them, or none."""


def spaced(line: str) -> str:
    """A line without tabs."""
    return expand_tabs_inline(line, _TAB) if "\t" in line else line


def spaced_content(line: Content) -> Content:
    """The same of a line with styles."""
    # Where there are none Textual's own counts characters.
    return line.expand_tabs(_TAB) if line.spans else Content(spaced(line.plain))
