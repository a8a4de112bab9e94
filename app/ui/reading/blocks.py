"""Parsed blocks as rows; code is highlighted."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from markdown_it.tree import SyntaxTreeNode
from pygments.lexer import Lexer
from pygments.lexers import get_all_lexers, get_lexer_by_name
from pygments.token import Token
from textual.content import Content, Span

from app.ui.reading.markdown import content_of
from app.ui.reading.rows import Row, Rule, spaced, table

_STYLES: dict[Any, str] = {
    Token.Comment: "italic $quiet",
    Token.Keyword: "bold",
    Token.Literal.String: "$muted",
    Token.Literal.String.Doc: "italic $quiet",
    Token.Name.Function: "bold",
    Token.Name.Class: "bold",
    Token.Operator.Word: "bold",
}
"""Weight and gray; colors belong to the two models."""
_BAR = Content.styled("┃ ", "$rule")
_WRAPPED = Content.styled("┃ ↪ ", "$rule")
_LONGEST = 16_000
"""Characters that are highlighted together; more are shown plain."""


@cache
def _languages() -> frozenset[str]:
    """Names of all languages; Pygments would look for another name in every installed package."""
    return frozenset(name for _, names, _, _ in get_all_lexers(plugins=False) for name in names)


@lru_cache(32)
def lexer_of(language: str) -> Lexer | None:
    known = language.lower() in _languages()
    return get_lexer_by_name(language, stripnl=False, ensurenl=True) if known else None


def _style(kind: Any) -> str:
    while kind is not None:
        if style := _STYLES.get(kind):
            return style
        kind = kind.parent
    return ""


def code_rows(lines: Sequence[str], info: str) -> list[Row]:
    """Return lines of code as rows, in the language that a fence names."""
    text = "\n".join(map(spaced, lines))
    language = info.split(maxsplit=1)[0] if info.strip() else ""
    lexer = lexer_of(language) if len(text) <= _LONGEST else None
    spans, at = [], 0
    for kind, token in lexer.get_tokens(text) if lexer is not None else ():
        end = at + len(token)
        if style := _style(kind):
            spans.append(Span(at, min(end, len(text)), style))
        at = end
    colored = Content(text, spans).split("\n", allow_blank=True) if text else [Content("")] * len(lines)
    return [Row(content, _BAR, _WRAPPED, source=line) for line, content in zip(lines, colored, strict=True)]


_BULLETS = ("• ", "◦ ", "· ")
_QUOTED = Content.styled("┃ ", "$rule")


def _content(node: SyntaxTreeNode) -> Content:
    """Return the text of a paragraph, a heading or a cell."""
    inline = [child.token for child in node.children if child.token is not None]
    return content_of([token for one in inline for token in one.children or ()])


def _text_rows(node: SyntaxTreeNode, style: str = "") -> list[Row]:
    return [Row(line.stylize(style) if style else line) for line in _content(node).split("\n", allow_blank=True)]


def first_number(node: SyntaxTreeNode) -> int | None:
    """Return the number that an item of an ordered list has in the source; None for a bullet."""
    return int(node.info) if node.info.isdigit() else None


def item_rows(node: SyntaxTreeNode, number: int | None, lines: Sequence[str], depth: int = 0) -> list[Row]:
    """Return a list item as rows.

    Args:
        node: The item.
        number: Its number; None for a bullet.
        lines: The source that the node's line numbers refer to.
        depth: Number of lists around its own.
    """
    mark = _BULLETS[depth % len(_BULLETS)] if number is None else f"{number}{node.markup} "
    indent, bullet = Content(" " * len(mark)), Content.styled(mark, "$quiet")
    rows = _container_rows(node.children, lines, depth + 1) or [Row()]
    return [row.indented(indent if at else bullet, indent) for at, row in enumerate(rows)]


def _container_rows(nodes: Sequence[SyntaxTreeNode], lines: Sequence[str], depth: int) -> list[Row]:
    """Return the blocks within another one, with a blank row where the source has one."""
    rows: list[Row] = []
    for node in nodes:
        if rows and _follows_blank(node, lines):
            rows.append(Row())
        rows += block_rows(node, lines, depth)
    return rows


def _follows_blank(node: SyntaxTreeNode, lines: Sequence[str]) -> bool:
    start = node.map[0] if node.map else 0
    return start > 0 and not lines[start - 1].strip(" >")


def block_rows(node: SyntaxTreeNode, lines: Sequence[str], depth: int = 0) -> list[Row]:
    """Return a block as rows; an unknown or empty one is shown as written."""
    rows: list[Row] = []
    match node.type:
        case "heading":
            rows = _text_rows(node, "bold")
        case "paragraph":
            rows = _text_rows(node)
        case "hr":
            rows = [Rule()]
        case "fence" | "code_block":
            rows = code_rows(node.content.removesuffix("\n").split("\n"), node.info)
        case "math_block":
            rows = [Row(Content(spaced(line))) for line in node.content.split("\n")]
        case "blockquote":
            rows = [_quoted(row) for row in _container_rows(node.children, lines, depth)]
        case "bullet_list" | "ordered_list":
            rows = _list_rows(node, lines, depth)
        case "table":
            rows = _table_rows(node)
    return rows or [Row(Content(line.strip())) for line in lines[slice(*(node.map or (0, 0)))]]


def _quoted(row: Row) -> Row:
    if type(row) is Row and row.source is None:
        row = Row(row.content.stylize_before("$quiet"), row.first, row.rest)
    return row.indented(_QUOTED, _QUOTED)


def _list_rows(node: SyntaxTreeNode, lines: Sequence[str], depth: int) -> list[Row]:
    rows: list[Row] = []
    number = first_number(node.children[0])
    for item in node.children:
        if rows and _follows_blank(item, lines):
            rows.append(Row())
        rows += item_rows(item, number, lines, depth)
        number = None if number is None else number + 1
    return rows


def _table_rows(node: SyntaxTreeNode) -> list[Row]:
    head, *body = [line for part in node.children for line in part.children]
    cells = [[_content(cell).stylize("$quiet") for cell in head.children]]
    cells += [[_content(cell) for cell in line.children] for line in body]
    right = {at for at, cell in enumerate(head.children) if str(cell.attrs.get("style", "")).endswith("right")}
    return list(table(cells, frozenset(right)))
