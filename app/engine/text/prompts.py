"""Prompts without a chat template."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TextPrompt:
    """Texts and token ids in order; texts of control tokens become those tokens."""

    parts: tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Infill:
    """Code around a gap that the answer fills.

    Attributes:
        prefix: Code before the gap.
        suffix: Code after it.
        begun: Beginning of the text in the gap.
        files: Names and texts of other files, for context.
    """

    prefix: str
    suffix: str
    begun: str = ""
    files: tuple[tuple[str, str], ...] = ()


PlainPrompt = TextPrompt | Infill
"""A prompt that is not a conversation."""
