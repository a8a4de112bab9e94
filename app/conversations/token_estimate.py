"""Estimate the number of tokens of a text without a vocabulary.

Within a fifth of SmolLM2, Qwen2.5 and Gemma 3 for English, code and logs. These differ by up to three times for other
scripts.
"""

from __future__ import annotations

import re
from collections import Counter

_KINDS = (
    # A word with the space before it; a long one, or one of many capitals, is several tokens.
    (rb"[A-Z]?[a-z]{1,7}|[A-Z]{1,3}", 1.0),
    (rb"[0-9]", 1.0),
    # Punctuation marks join, also with the end of their line.
    (rb"[!-/:-@\[-`{-~]{1,2}\n?", 0.9),
    (rb"\n[ \t]*|[ \t]{2,}", 0.7),
    # By first byte: Latin with accents, Greek, Cyrillic, Arabic, Hebrew; most other scripts; emoji.
    (rb"[\xc2-\xdf]", 0.5),
    (rb"[\xe0-\xef]", 0.9),
    (rb"[\xf0-\xf4]", 1.8),
)
"""Patterns, and the tokens of a match."""
_PIECE = re.compile(b"|".join(b"(%s)" % pattern for pattern, _ in _KINDS))
_SAMPLE = 1 << 16
"""Bytes of each of three samples of a long text."""


def estimated_tokens(text: str) -> int:
    """Return the estimated number of tokens."""
    data = text.encode("utf-8", "replace")
    parts = [data]
    if len(data) > 4 * _SAMPLE:
        middle = (len(data) - _SAMPLE) // 2
        parts = [data[:_SAMPLE], data[middle : middle + _SAMPLE], data[-_SAMPLE:]]
    kinds = Counter(piece.lastindex for part in parts for piece in _PIECE.finditer(part))
    found = sum(weight * kinds[place] for place, (_, weight) in enumerate(_KINDS, 1))
    return int(-(-found * len(data) // max(1, sum(map(len, parts)))))


def in_tokens(count: int, *, exact: bool = False) -> str:
    """Return a number of tokens for the screen; an estimate is rounded to two digits."""
    count = count if exact else int(round(count, 2 - len(str(count))))
    return f"{'' if exact else 'about '}{count:,} token{'s' * (count != 1)}"
