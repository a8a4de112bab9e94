"""Pictures in a sequence of tokens: runs of negative ids, one id per cell of the KV cache.

An id has 27 bits of the picture's identity and three flags, so that caches, saved states and the n-gram index compare
pictures like text. With M-RoPE a picture has fewer positions than cells.
"""

from __future__ import annotations

from collections.abc import Sequence

_SKIPS_FLAG, _BEGINS_FLAG, _IS_FIRST_FLAG = 1, 2, 4
"""Flags of an id: the cell has no position of its own; a slice begins here; a whole picture begins here."""
_WORD_BYTES = 4
IDENTITY_BYTES = 32
IDENTITY_IDS = IDENTITY_BYTES // _WORD_BYTES
"""Leading ids of a run that identify the picture."""


def picture_ids(identity: bytes, n_cells: int, n_positions: int, *, is_first: bool = True) -> list[int]:
    """Return the ids of a picture or of a slice.

    Args:
        identity: A hash of everything that its rows depend on, `IDENTITY_BYTES` long.
        is_first: False for a later slice.
    """
    starts = range(0, IDENTITY_BYTES, _WORD_BYTES)
    words = [int.from_bytes(identity[at : at + _WORD_BYTES], "little") & ~31 for at in starts]
    ids = [~((words[i % IDENTITY_IDS] >> 2) | (_SKIPS_FLAG if i >= n_positions else 0)) for i in range(n_cells)]
    ids[0] = ~(~ids[0] | _BEGINS_FLAG | (_IS_FIRST_FLAG if is_first else 0))
    return ids


def begins_picture(token: int) -> bool:
    """Return whether a picture or a slice begins with this id."""
    return token < 0 and bool(~token & _BEGINS_FLAG)


def whole_pictures(tokens: Sequence[int], n: int) -> int:
    """Return how many of the first `n` tokens remain without a picture that they would cut."""
    while 0 < n < len(tokens) and tokens[n] < 0 and not begins_picture(tokens[n]):
        n -= 1
    return n


def part_end(tokens: Sequence[int], start: int, most_text: int) -> int:
    """Return the end of the picture or slice at an index, or of at most `most_text` tokens of text."""
    if tokens[start] < 0:
        ends = range(start + 1, len(tokens))
        return next((at for at in ends if tokens[at] >= 0 or begins_picture(tokens[at])), ends.stop)
    ends = range(start + 1, min(start + most_text, len(tokens)))
    return next((at for at in ends if tokens[at] < 0), ends.stop)


def picture_at(tokens: Sequence[int], n: int) -> tuple[int, int] | None:
    """Return the number of the picture after the first `n` tokens, from 1, and how many there are; None before text."""
    if n >= len(tokens) or tokens[n] >= 0:
        return None
    firsts = [at for at, token in enumerate(tokens) if token < 0 and ~token & _IS_FIRST_FLAG]
    return sum(at <= n for at in firsts), len(firsts)


def skipped_positions(tokens: Sequence[int]) -> tuple[tuple[int, int], ...]:
    """Return, for each picture with fewer positions than cells, its end in cells and how many have no position."""
    found: list[tuple[int, int]] = []
    n = 0
    for at, token in enumerate(tokens if min(tokens, default=0) < 0 else (), start=1):
        n += token < 0 and ~token & _SKIPS_FLAG
        is_end = at == len(tokens) or tokens[at] >= 0 or begins_picture(tokens[at])
        if n and is_end:
            found.append((at, n))
            n = 0
    return tuple(found)
