"""Whatever a model writes, and however it comes: the same picture as all at once, and one that can be drawn."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.text.reasoning import Place
from app.engine.text.segments import Segment
from app.engine.text.stream import TextStream
from app.engine.types import Origin
from app.ui.reading import document
from app.ui.reading.code import code_rows
from tests.ui.reading.test_document import cut, rows, shown, styled

FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
BLOCKS = [
    "- ", "1. ", "2) ", "+ ", "10. ", "1986. ", "    - ", "\n  - ", "> ", "\n> ", "# ", "## ", "---\n",
    "===\n", "***\n",
    "```", "```py\n", "\n```\n", "\n   ```\n", "~~~", "\n~~~~\n", "|", "||\n", "|---|\n", "|:-:|--:|\n", "a | b\n",
    "| a | b |\n", "\\|", "`|`", "<div>\n", "<details>\n", "<!-- ", "-->", "[^1]: n\n", "[y]: http://z\n", "\\[", "\\]",
    "$$",
]  # fmt: skip
LINES = [
    "word ", "two\n", "\n", "\n\n", "    ", "  ", "\t", "\n\t", " ", "`", "``", "**", "*", "_", "~~", "$", "\\(", "\\)",
    "<b>", "</b>", "<think>", "</think>", "&amp;", "&#0;", "&#x202e;", "[x](y)", "[x][y]",
    "![i](", "](", ")", "\\", "!", "^", ":",
    "[^1]", "- [ ] ", "[x] ", "https://a.b/c ", "<http://x.org>", "x" * 70,
]  # fmt: skip
MARKS = [
    "\u4f60", "\u05e9\u05dc\u05d5\u05dd", "\u202e", "\u2066", FAMILY, "\u200d", "\ufe0f", "e\u0301", "\u0301", "\ud800",
    "\x1f", "\x00", "\x1b[2J", "\r", "\r\n", "\x0b", "\x0c", "\x85", "\u2028", "\u2029", "\ufeff", "\u00ad",
]  # fmt: skip
NONSENSE = st.lists(st.sampled_from([*BLOCKS, *LINES, *MARKS]), max_size=30)
PLACES = st.lists(st.integers(0, 1_000), max_size=4)


@pytest.mark.parametrize("limits", [None, (40, 60), (10, 30)])
@given(words=NONSENSE, places=PLACES)
@settings(max_examples=80, deadline=None)
def test_any_pieces_end_in_the_same_picture(
    limits: tuple[int, int] | None, words: list[str], places: list[int]
) -> None:
    text = "".join(words)
    with pytest.MonkeyPatch.context() as patch:
        if limits is not None:
            patch.setattr(document, "_LONGEST_LINE", limits[0])
            patch.setattr(document, "_LONGEST_BLOCK", limits[1])
        whole = rows(text)
        assert styled(rows("", *cut(text, places))) == styled(whole)
        assert styled(rows("", *text)) == styled(whole)
    for width in (1, 2, 3, 20):
        for row in whole:
            assert row.lines(width) is not None


@pytest.mark.parametrize("rest", ["  c\n", "c\nd\n", "  c\n\n- d\n"])
def test_a_loose_list_stays_loose_while_it_is_written(rest: str) -> None:
    text = f"- a\n\n- b\n{rest}"
    assert styled(rows("", *text)) == styled(rows(text))
    assert shown(text)[:2] == ["\u2022 a", ""]


@given(
    words=st.lists(
        st.sampled_from(
            ["<think>", "</think>", "<", "th", "ink>", " ", "\n", "STOP", "ST", "OP", FAMILY, "\ufffd", "x"]
        ),
        max_size=12,
    ),
    ends=st.booleans(),
    opened=st.booleans(),
    places=PLACES,
)
@settings(max_examples=200, deadline=None)
def test_any_tokens_end_in_the_same_text(words: list[str], ends: bool, opened: bool, places: list[int]) -> None:
    whole = "".join(words).encode()[: None if ends else -1]
    edges = sorted({0, len(whole), *(place % (len(whole) + 1) for place in places)})
    pieces = [whole[a:b] for a, b in pairwise(edges)]
    assert _said(pieces, opened) == _said([whole], opened) == _said([bytes([byte]) for byte in whole], opened)


def _said(pieces: list[bytes], opened: bool) -> tuple[str, str]:
    stream = TextStream(["STOP"], place=Place.THINKING if opened else Place.START)
    found: list[Segment] = []
    for piece in pieces:
        found += stream.push(piece, Origin.TARGET)
    found += stream.flush()
    thought = "".join(segment.text for segment in found if segment.reasoning)
    return thought, "".join(segment.text for segment in found if not segment.reasoning)


@pytest.mark.parametrize("width", [80, 24, 20])
def test_code_that_is_too_wide_goes_on_under_its_beginning(width: int) -> None:
    line = "        return quicksort(smaller) + [pivot] + quicksort(larger)"
    (row,) = code_rows([line], "python")
    lines = list(row.lines(width))
    texts = ["".join(part.plain for _, part in each) for each in lines]
    assert row.height(width) == len(lines)
    assert all(len(text.rstrip()) <= width for text in texts)
    assert all(text.startswith("┃         ↪ ") for text in texts[1:])
    placed = [(at, part.plain) for each in lines for at, part in each if at is not None]
    assert all(line[at : at + len(text)] == text for at, text in placed)
    assert "".join(text for _, text in placed).replace(" ", "") == line.replace(" ", "")
    assert row.text == line


def test_code_that_begins_too_far_to_the_right_goes_on_at_the_left() -> None:
    (row,) = code_rows(["        return quicksort(smaller)"], "python")
    lines = ["".join(part.plain for _, part in each) for each in row.lines(17)]
    assert row.height(17) == len(lines) > 1
    assert all(text.startswith("┃ ↪ ") for text in lines[1:])
