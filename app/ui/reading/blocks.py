"""Parsed blocks as rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from markdown_it.tree import SyntaxTreeNode
from textual.content import Content

from app.ui.reading.code import code_rows
from app.ui.reading.inline import BREAK, content_of
from app.ui.reading.rows import BOXES, Columns, Row, Rule, TableRow
from app.ui.reading.wrapping import spaced

_BULLETS = ("• ", "◦ ", "· ")
_TASK = re.compile(r"\[([ xX])\](?=[ \t\n]|$)")
_MARKER = re.compile(r"[ \t>]*(?:[-+*]|\d+[.)])?[ \t]*")
_QUOTED = Content.styled("┃ ", "$rule")


def _content(node: SyntaxTreeNode) -> Content:
    """The text of a paragraph, a heading or a cell."""
    inline = [child.token for child in node.children if child.token is not None]
    return content_of([token for one in inline for token in one.children or ()])


def _text_rows(node: SyntaxTreeNode, style: str = "") -> list[Row]:
    content = _content(node)
    return [Row(line.stylize(style) if style else line) for line in content.split("\n", allow_blank=True)]


def item_rows(node: SyntaxTreeNode, number: int | None, lines: Sequence[str], depth: int = 0) -> list[Row]:
    """An item of a list.

    Args:
        node: The item.
        number: What stands before it; None for a bullet.
        lines: The source that the node's places refer to.
        depth: Lists around its own.
    """
    mark = _BULLETS[depth % len(_BULLETS)] if number is None else f"{number}{node.markup} "
    rows = container_rows(node.children, lines, depth + 1) or _as_written(node, lines)
    if number is None and (task := _task(node)):
        mark = BOXES[task.group(1) == " "]
        rows[0] = replace(rows[0], content=rows[0].content[task.end() + 1 :])
    indent = Content(" " * len(mark))
    bullet = Content.styled(mark, "$quiet")
    return [row.indented(indent if at else bullet, indent) for at, row in enumerate(rows)]


def _task(item: SyntaxTreeNode) -> re.Match[str] | None:
    """The brackets that an item of a task list begins with. By the source: there they may be meant as they are."""
    first = item.children[0] if item.children else None
    inline = first.children[0] if first is not None and first.type == "paragraph" and first.children else None
    return _TASK.match(inline.content) if inline is not None else None


def _as_written(item: SyntaxTreeNode, lines: Sequence[str]) -> list[Row]:
    """An item without blocks: it is empty, or nested too deeply to have been read."""
    texts = (_MARKER.sub("", line, count=1) for line in _source(item, lines))
    return [Row(Content(text)) for text in texts if text] or [Row()]


def container_rows(nodes: Sequence[SyntaxTreeNode], lines: Sequence[str], depth: int = 0) -> list[Row]:
    """Blocks that follow each other inside another one, with a blank row where their writer left one."""
    rows: list[Row] = []
    for node in nodes:
        start = node.map[0] if node.map else 0
        if rows and start and not lines[start - 1].strip(" >"):
            rows.append(Row())
        rows += block_rows(node, lines, depth)
    return rows


def block_rows(node: SyntaxTreeNode, lines: Sequence[str], depth: int = 0) -> list[Row]:
    """Any block. One without rows of its own, such as what is nested too deeply, is shown as it was written."""
    kind = node.type
    rows: list[Row] = []
    if kind == "heading":
        rows = _text_rows(node, "bold")
    elif kind == "paragraph":
        rows = _text_rows(node)
    elif kind == "hr":
        rows = [Rule()]
    elif kind in ("fence", "code_block"):
        rows = code_rows(node.content.removesuffix("\n").split("\n"), node.info)
    elif kind == "math_block":
        rows = [Row(Content(spaced(line.replace(BREAK, "")))) for line in node.content.split("\n")]
    elif kind == "blockquote":
        rows = [
            Row(row.content.stylize_before("$quiet"), row.first, row.rest, row.joined).indented(_QUOTED, _QUOTED)
            if type(row) is Row
            else row.indented(_QUOTED, _QUOTED)
            for row in container_rows(node.children, lines, depth)
        ]
    elif kind in ("bullet_list", "ordered_list"):
        rows = _list_rows(node, lines, depth)
    elif kind == "table":
        rows = _table_rows(node)
    return rows or [Row(Content(line.strip())) for line in _source(node, lines)]


def _source(node: SyntaxTreeNode, lines: Sequence[str]) -> Iterator[str]:
    """The lines of a block as they were written."""
    return (line.replace(BREAK, "") for line in lines[slice(*(node.map or (0, 0)))])


def first_number(node: SyntaxTreeNode) -> int | None:
    """Return what an item of an ordered list was numbered by its writer; None for a bullet."""
    return int(node.info) if node.info.isdigit() else None


def _list_rows(node: SyntaxTreeNode, lines: Sequence[str], depth: int) -> list[Row]:
    rows: list[Row] = []
    number = first_number(node.children[0])
    for item in node.children:
        start = item.map[0] if item.map else 0
        if rows and not lines[start - 1].strip(" >"):
            rows.append(Row())
        rows += item_rows(item, number, lines, depth)
        number = None if number is None else number + 1
    return rows


def _table_rows(node: SyntaxTreeNode) -> list[Row]:
    """A table inside another block."""
    columns = Columns()
    found: list[Row] = []
    for part in node.children:
        for line in part.children:
            cells = [_content(cell) for cell in line.children]
            if part.type == "thead":
                cells = [cell.stylize("$quiet") for cell in cells]
            columns.include(cells)
            found.append(TableRow.of(cells, columns, frozenset()))
    return found
