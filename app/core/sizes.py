"""Sizes for people: one unit for files, memory and disks, so that they can be held against each other."""

from __future__ import annotations

GB = 1_000_000_000
MAX_SIZE = (1 << 63) - 1
"""Bytes of the largest file that a file system can hold."""


def gigabytes(n: int) -> str:
    """A size in the decimal units in which hubs list files and disks are sold."""
    if n < GB / 10:
        return f"{n / 1e6:.0f} MB"
    return f"{n / GB:.1f} GB"


def share_of(part: int | None, whole: int) -> str:
    """What is free of a whole, or the whole alone where that is not known."""
    return f"{gigabytes(part)} of {gigabytes(whole)} free" if part is not None else gigabytes(whole)
