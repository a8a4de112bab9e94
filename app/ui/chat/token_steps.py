"""Find the part of an answer's text that each verify step wrote, so that a click finds its step."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence

from app.worker.events import StepDetails

_N_ANCHOR = 4
"""Steps whose joined text is searched for, where text without steps follows the last one."""
_MAX_GAP_CHARS = 64
"""Longest text between two steps, in characters: marks of reasoning, which belong to no step."""


def step_spans(text: str, steps: Iterable[StepDetails]) -> Sequence[tuple[int, int]]:
    """Return the start and end of each step's text in an answer; an empty span where it is not found."""
    decode = codecs.getincrementaldecoder("utf-8")("replace").decode
    pieces = [decode(b"".join(step.written)) for step in steps]
    whole = "".join(pieces)
    at = len(text) - len(whole) if text.endswith(whole) else text.find("".join(pieces[:_N_ANCHOR]))
    spans: list[tuple[int, int]] = []
    at = max(0, at)
    for piece in pieces:
        start = text.find(piece, at, at + len(piece) + _MAX_GAP_CHARS)
        spans.append((start, start + len(piece)) if start >= 0 else (at, at))
        at = spans[-1][1]
    return spans
