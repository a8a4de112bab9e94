"""Runs of segments, and the text held back for stop strings."""

from __future__ import annotations

import pytest

from app.engine.sources import Source
from app.engine.text.segments import Segment, cut, held_back, text_of


@pytest.mark.parametrize(
    ("tail", "expected"), [("abc", 0), ("ab<", 1), ("ab</thin", 6), ("</think>", 0), ("", 0), ("<<", 1)]
)
def test_the_beginning_of_a_marker_is_held_back(tail: str, expected: int) -> None:
    assert held_back(tail, ["</think>"]) == expected


@pytest.mark.parametrize("length", range(8))
def test_a_run_of_segments_is_cut_anywhere(length: int) -> None:
    run = [Segment("abc", Source.MODEL), Segment("de")]
    head, rest = cut(run, length)

    assert (text_of(head), text_of(rest)) == ("abcde"[:length], "abcde"[length:])
    assert {s.source for s in head if s.text in ("a", "ab", "abc")} <= {Source.MODEL}
