"""The presets that come with Tandem. One of the same name in the settings file goes before."""

from __future__ import annotations

from collections.abc import Mapping

from app.core.errors import UsageError
from app.core.printable import printable
from app.settings.layers import Layer
from app.settings.tree import nearest

BUILT_IN: Mapping[str, Layer] = {
    "precise": {"sampling.temp": 0.0},
    "creative": {
        "sampling.temp": 1.1,
        "sampling.top_k": 0,
        "sampling.top_p": 1.0,
        "sampling.min_p": 0.08,
        "sampling.presence_penalty": 0.2,
    },
    "coder": {
        "sampling.temp": 0.2,
        "sampling.top_p": 0.9,
        "answer.system": (
            "You are a careful programmer. Answer with complete, working code and a few words on why it is so. "
            "Change only what was asked for. If something is unclear, say what you assume."
        ),
    },
}
"""Greedy, for what has one right answer; a wide draw held together by min-p; code with a system prompt that fits."""


def unknown_preset(name: str, known: Mapping[str, object]) -> UsageError:
    """There is no preset of that name; the sentence names the nearest."""
    return UsageError(
        f'There is no preset "{printable(name)}".{nearest(name, known)}', f"Known: {', '.join(map(printable, known))}."
    )
