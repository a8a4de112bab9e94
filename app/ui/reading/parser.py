"""The Markdown that models write, and what of it is taken for more than text."""

from __future__ import annotations

from functools import cache

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, fence, table

from app.ui.reading.mathematics import mathematics

_NESTING = 50
_MOST_CELLS = 5_000
"""Of one table. Rows are filled up to the columns of the first, so that a few kilobytes could make a million."""


def _table(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """A table or the beginning of a very large one; `app.ui.reading.table` goes on by itself.

    What opens a code block is no heading of a table, as on GitHub, so no line after it decides what it is.
    """
    if fence(state, start, end, True):
        return False
    columns = state.src[state.bMarks[start] : state.eMarks[start]].count("|") + 1
    return table(state, start, min(end, start + 2 + _MOST_CELLS // columns), silent)


@cache
def parser() -> MarkdownIt:
    """GitHub's dialect, with everything shown that would otherwise vanish.

    HTML is text. Bare names such as main.py are no addresses. A link's definition elsewhere in the text would change
    what was shown long before, so definitions are text too.
    """
    made = MarkdownIt("gfm-like", {"html": False, "linkify": False, "maxNesting": _NESTING})
    made.block.ruler.at("table", _table, {"alt": ["paragraph", "reference"]})
    return made.use(mathematics).disable("reference")
