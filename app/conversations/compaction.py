"""Earlier messages that no longer fit into the context: a summary, or nothing, takes their place for the model.

A compaction is stored with the prompt that did not fit. It counts the messages before that prompt that the model still
reads, so it stays valid in an exported file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_KEY, _N_KEPT, _SUMMARY = "compaction", "n_kept", "summary"
_LONGEST = 100_000
"""Characters of a summary; an imported file may hold more."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """Part of a conversation that the model reads before a prompt.

    Attributes:
        n_kept: Messages right before the prompt that it still reads.
        summary: Summary of those before them; "" if they are left out.
    """

    n_kept: int
    summary: str = ""


def compaction_in(numbers: Mapping[str, Any]) -> Compaction | None:
    """Return the compaction in the numbers of a prompt; None without a valid one."""
    found = numbers.get(_KEY)
    if not isinstance(found, dict):
        return None
    n_kept, summary = found.get(_N_KEPT), found.get(_SUMMARY)
    if type(n_kept) is not int or n_kept < 0 or not isinstance(summary, str):
        return None
    return Compaction(n_kept, summary[:_LONGEST])


def numbers_of(compaction: Compaction | None) -> dict[str, Any]:
    """Return the numbers of a prompt, for `compaction_in`."""
    return {_KEY: {_N_KEPT: compaction.n_kept, _SUMMARY: compaction.summary}} if compaction is not None else {}
