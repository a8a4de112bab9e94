"""Check where long lines are wrapped."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.content import Content

from app.ui.reading.rows import wrapped


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
