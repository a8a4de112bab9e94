"""Prompts that begin alike, told apart where one line must do for each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from app.ui.text import n_in_common

_SEEN = 60
"""Characters of a line that most windows show: what parts prompts behind that is not seen."""
_BEGINNING = 24
"""Characters that stand for the beginning of such a prompt."""
_LONGEST, _SHOWN = 4000, 80
"""Characters of a prompt that are held against another one's, and that are shown from where they part."""


def told_apart(lines: Sequence[str], texts: Sequence[str]) -> list[str]:
    """What to call each of some prompts: its line or, where another one's looks alike, what it alone says.

    Args:
        lines: What each would be called.
        texts: All that each says, on one line.
    """
    told = list(lines)
    alike: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        alike.setdefault(line[:_SEEN], []).append(number)
    for numbers in alike.values():
        # Those that have most in common stand next to each other in the order of the alphabet.
        ordered = sorted((texts[number][:_LONGEST], number) for number in numbers)
        shared = [n_in_common(one, other) for (one, _), (other, _) in pairwise(ordered)]
        for (text, number), before, behind in zip(ordered, [0, *shared], [*shared, 0], strict=True):
            parts = max(before, behind)
            begins = text.rfind(" ", 0, min(parts, len(text) - 1) + 1) + 1
            if parts >= _SEEN:
                told[number] = f"{lines[number][:_BEGINNING].rstrip()}… {text[begins : begins + _SHOWN]}"
    return told
