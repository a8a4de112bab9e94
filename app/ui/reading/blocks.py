"""The Markdown dialect, and parsed blocks as rows; code is highlighted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode
from textual.content import Content, Span

from app.core.printable import printable
from app.ui.reading.highlight import colored_lines
from app.ui.reading.rows import CodeStart, HorizontalRule, Row, spaced, table

# The dialect

# Pandoc's rule: a dollar before a space opens nothing, and one after a space or before a digit closes nothing.
_LATEX_MATH = re.compile(
    r"\$\$[^$]+\$\$|\$(?![\s$])(?:\\.|[^$\\\n])*?(?<!\s)\$(?!\d)|\\\(.*?\\\)|\\\[.*?\\\]|\\[()\[\]]", re.DOTALL
)
_DISPLAY_MATH_ENDS = {"\\[": "\\]", "$$": "$$"}
_MAX_NESTING = 50


def _latex_block(state: StateBlock, start: int, end: int, silent: bool) -> bool:
    """Keep a displayed formula unchanged: its lines may begin like list items; a rule of markdown-it."""
    opening = state.src[state.bMarks[start] + state.tShift[start] : state.eMarks[start]]
    closer = _DISPLAY_MATH_ENDS.get(opening[:2])
    if closer is None or state.is_code_block(start):
        return False
    if silent:
        return True
    line, is_closed = start + 1, closer in opening[2:]
    while not is_closed and line < end and not state.isEmpty(line) and state.sCount[line] >= state.blkIndent:
        is_closed = closer in state.getLines(line, line + 1, 0, False)
        line += 1
    token = state.push("math_block", "", 0)
    token.map = [start, line]
    token.content = state.getLines(start, line, state.blkIndent, False)
    state.line = line
    return True


def _latex(state: StateInline, silent: bool) -> bool:
    """Keep formulas and their delimiters unchanged; a rule of markdown-it."""
    if state.src[state.pos] not in "$\\":
        return False
    found = _LATEX_MATH.match(state.src, state.pos)
    if found is None:
        return False
    if not silent:
        state.push("math_inline", "", 0).content = found[0]
    state.pos = found.end()
    return True


@cache
def parser() -> MarkdownIt:
    """Return a parser that drops no text: HTML and link definitions are text, and bare names are no links."""
    made = MarkdownIt("gfm-like", {"html": False, "linkify": False, "maxNesting": _MAX_NESTING})
    made.block.ruler.before(
        "fence", "math_block", _latex_block, {"alt": ["paragraph", "reference", "blockquote", "list"]}
    )
    made.inline.ruler.before("escape", "math_inline", _latex)
    return made.disable("reference")


# Inline text

_WHITESPACE_RUN = re.compile(r"\s+")
_EMPHASIS_STYLES = {"em": "italic", "strong": "bold", "s": "strike"}
_INLINE_CODE_STYLE = "$ink on $foreground 10%"
"""Legible in quiet text too."""
_QUIET_STYLE = "$quiet"


def _address(token: Token, name: str, shown: str) -> str:
    """Return the address of a link in brackets, not clickable, because a model may have invented it."""
    address = printable(str(token.attrs.get(name, "")))
    return "" if address in ("", shown, f"mailto:{shown}") else f" ({address})"


def _inline(tokens: Sequence[Token]) -> Content:
    """Return inline tokens as text; single line breaks stay."""
    text = ""
    spans: list[Span] = []
    opened: list[tuple[int, Token]] = []

    def add(more: str, style: str = "") -> None:
        nonlocal text
        # Entities such as &#x202e; are characters now.
        start = len(text)
        text += printable(more)
        if style and len(text) > start:
            spans.append(Span(start, len(text), style))

    for token in tokens:
        kind = token.type
        if kind == "text":
            add(_WHITESPACE_RUN.sub(" ", token.content))
        elif kind in ("softbreak", "hardbreak"):
            add("\n")
        elif kind == "code_inline":
            add(token.content, _INLINE_CODE_STYLE)
        elif kind == "image":
            shown = _inline(token.children or ()).plain
            add(shown or "image")
            add(_address(token, "src", shown), _QUIET_STYLE)
        elif kind.endswith("_open"):
            opened.append((len(text), token))
        elif kind.endswith("_close") and opened:
            start, opening = opened.pop()
            if style := _EMPHASIS_STYLES.get(kind.removesuffix("_close")):
                spans.append(Span(start, len(text), style))
            elif kind == "link_close":
                add(_address(opening, "href", text[start:]), _QUIET_STYLE)
        else:
            add(token.content)
    return Content(text, spans)


# Blocks

_BLOCK_BAR = Content.styled("┃ ", "$rule")
_WRAPPED_BAR = Content.styled("┃ ↪ ", "$rule")


def is_closed(fence: SyntaxTreeNode, lines: Sequence[str]) -> bool:
    """Return whether a fence has its end in the source."""
    start, end = fence.map or (0, 0)
    last = lines[end - 1].strip(" >")
    return end - start > 1 and last.startswith(fence.markup) and not last.strip(fence.markup[0])


def code_rows(lines: Sequence[str], info: str, *, may_grow: bool = False) -> list[Row]:
    """Return lines of code as rows, in the language of a fence."""
    language = info.split(maxsplit=1)[0] if info.strip() else ""
    colored = colored_lines([spaced(line) for line in lines], language, may_grow=may_grow)
    rows = [Row(content, _BLOCK_BAR, _WRAPPED_BAR, source=line) for line, content in zip(lines, colored, strict=True)]
    return [CodeStart(colored[0], _BLOCK_BAR, _WRAPPED_BAR, source=lines[0]), *rows[1:]]


_LIST_BULLETS = ("• ", "◦ ", "· ")


def _content(node: SyntaxTreeNode) -> Content:
    return _inline([token for child in node.children if child.token for token in child.token.children or ()])


def _text_rows(node: SyntaxTreeNode, style: str = "") -> list[Row]:
    return [Row(line.stylize(style) if style else line) for line in _content(node).split("\n", allow_blank=True)]


def first_number(node: SyntaxTreeNode) -> int | None:
    """Return the number of an ordered list item in the source; None for a bullet."""
    return int(node.info) if node.info.isdigit() else None


def item_rows(node: SyntaxTreeNode, number: int | None, lines: Sequence[str], depth: int = 0) -> list[Row]:
    """Return a list item as rows; its number is None for a bullet.

    Args:
        lines: The source that the node's line numbers refer to.
        depth: Number of lists around its own.
    """
    mark = _LIST_BULLETS[depth % len(_LIST_BULLETS)] if number is None else f"{number}{node.markup} "
    indent, bullet = Content(" " * len(mark)), Content.styled(mark, "$quiet")
    rows = _container_rows(node.children, lines, depth + 1) or [Row()]
    return [row.indented(indent if at else bullet, indent) for at, row in enumerate(rows)]


def _container_rows(nodes: Sequence[SyntaxTreeNode], lines: Sequence[str], depth: int) -> list[Row]:
    """Return the blocks inside another block, or the items of a list, with a blank row where the source has one."""
    rows: list[Row] = []
    number: int | None = None
    for node in nodes:
        if rows and _follows_blank(node, lines):
            rows.append(Row())
        if node.type == "list_item":
            number = number + 1 if number is not None else first_number(node)
            rows += item_rows(node, number, lines, depth)
        else:
            rows += block_rows(node, lines, depth)
    return rows


def _follows_blank(node: SyntaxTreeNode, lines: Sequence[str]) -> bool:
    start = node.map[0] if node.map else 0
    return start > 0 and not lines[start - 1].strip(" >")


def block_rows(node: SyntaxTreeNode, lines: Sequence[str], depth: int = 0) -> list[Row]:
    """Return a block as rows; an unknown or empty block is shown as source."""
    rows: list[Row] = []
    match node.type:
        case "heading":
            rows = _text_rows(node, "bold")
        case "paragraph":
            rows = _text_rows(node)
        case "hr":
            rows = [HorizontalRule()]
        case "fence" | "code_block":
            may_grow = node.type == "fence" and not is_closed(node, lines)
            rows = code_rows(node.content.removesuffix("\n").split("\n"), node.info, may_grow=may_grow)
        case "math_block":
            rows = [Row(Content(spaced(line))) for line in node.content.split("\n")]
        case "blockquote":
            rows = [_quoted(row) for row in _container_rows(node.children, lines, depth)]
        case "bullet_list" | "ordered_list":
            rows = _container_rows(node.children, lines, depth)
        case "table":
            rows = _table_rows(node)
    return rows or [Row(Content(line.strip())) for line in lines[slice(*(node.map or (0, 0)))]]


def _quoted(row: Row) -> Row:
    if type(row) is Row and row.source is None:
        row = Row(row.content.stylize_before("$quiet"), row.first, row.rest)
    return row.indented(_BLOCK_BAR, _BLOCK_BAR)


def _table_rows(node: SyntaxTreeNode) -> list[Row]:
    head, *body = [line for part in node.children for line in part.children]
    cells = [[_content(cell).stylize("$quiet") for cell in head.children]]
    cells += [[_content(cell) for cell in line.children] for line in body]
    right = {at for at, cell in enumerate(head.children) if str(cell.attrs.get("style", "")).endswith("right")}
    return list(table(cells, frozenset(right)))
