"""The Markdown dialect: GitHub's, with LaTeX left as written."""

from __future__ import annotations

import re
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock, fence, table
from markdown_it.rules_inline import StateInline

# Pandoc's rule: a dollar before a space opens nothing, one after a space or before a digit closes nothing.
_INLINE = re.compile(
    r"\$\$[^$]+\$\$|\$(?![\s$])(?:\\.|[^$\\\n])*?(?<!\s)\$(?!\d)|\\\(.*?\\\)|\\\[.*?\\\]|\\[()\[\]]", re.DOTALL
)
_BLOCKS = {"\\[": "\\]", "$$": "$$"}


def _inline(state: StateInline, silent: bool) -> bool:
    if state.src[state.pos] not in "$\\":
        return False
    found = _INLINE.match(state.src, state.pos)
    if found is None:
        return False
    if not silent:
        state.push("math_inline", "", 0).content = found[0]
    state.pos = found.end()
    return True


def _block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    if state.is_code_block(start):
        return False
    first = state.src[state.bMarks[start] + state.tShift[start] : state.eMarks[start]]
    closer = _BLOCKS.get(first[:2])
    if closer is None:
        return False
    if silent:
        return True
    line = start
    closed = closer in first[2:]
    while not closed and line + 1 < end and not state.isEmpty(line + 1) and state.sCount[line + 1] >= state.blkIndent:
        line += 1
        closed = closer in state.src[state.bMarks[line] : state.eMarks[line]]
    token = state.push("math_block", "", 0)
    token.map = [start, line + 1]
    token.content = state.getLines(start, line + 1, state.blkIndent, False)
    state.line = line + 1
    return True


def mathematics(parser: MarkdownIt) -> None:
    """A markdown-it plugin: `math_inline` and `math_block` tokens hold the source with its delimiters."""
    parser.inline.ruler.before("escape", "math_inline", _inline)
    parser.block.ruler.before("fence", "math_block", _block, {"alt": ["paragraph", "reference", "blockquote", "list"]})


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
