"""Rows of text: how they look, and where they are broken into lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content

from app.ui.reading.document import MarkdownDocument
from app.ui.reading.rows import Row, wrapped


def test_another_style_is_another_look() -> None:
    bold = Row(Content.styled("a", "bold"))
    assert not bold.looks_like(Row(Content("a")))
    assert not Row(Content("a"), first=Content("- ")).looks_like(Row(Content("a")))
    assert not Row(Content("a"), source="b").looks_like(Row(Content("a")))
    assert bold.looks_like(Row(Content.styled("a", "bold")))


def test_a_table_whose_column_became_wider_looks_different_from_its_first_row_on() -> None:
    document = MarkdownDocument()
    document.append("| a | b |\n|---|---|\n| 1 | 2 |\n")
    before = document.open
    document.append("| wide enough | 2 |\n")
    assert not any(old.looks_like(new) for old, new in zip(before, document.open, strict=False))


def lines(text: str, width: int) -> list[str]:
    return [line.plain for line in wrapped(Content(text), width)]


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("no word is too long", 10, ["no word is", "too long"]),
        ("a " + "x" * 12, 8, ["a", "xxxxxxxx", "xxxx"]),
        ("全角文字は二つ分の幅。", 10, ["全角文字は", "二つ分の", "幅。"]),
        ("使用 Python「三」编写。", 12, ["使用 Python", "「三」编写。"]),
        ("使用 API。", 8, ["使用", "API。"]),
        ("请看「LLM」一文", 8, ["请看", "「LLM」", "一文"]),
        ("日期2024-11-22起", 11, ["日期", "2024-11-22", "起"]),
        ("", 5, [""]),
    ],
)
def test_lines_are_broken_where_a_reader_would_break_them(text: str, width: int, shown: list[str]) -> None:
    assert lines(text, width) == shown


@given(st.text("ab /_-.日〰。「\u0301\U0001f600", max_size=60), st.integers(min_value=2, max_value=20))
def test_nothing_is_lost_and_nothing_is_wider_than_its_line(text: str, width: int) -> None:
    found = wrapped(Content(text), width)
    assert "".join("".join(line.plain.split()) for line in found) == "".join(text.split())
    assert all(line.cell_length <= width for line in found)
