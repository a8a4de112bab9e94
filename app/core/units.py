"""Sizes and counts as text: disks and downloads in decimal units, memory as vendors print it."""

GB = 1_000_000_000
GIB = 1 << 30
MAX_SIZE = (1 << 63) - 1
"""Bytes of the largest file that a file system can hold."""


def gigabytes(n: int) -> str:
    """Format the size of a file or disk in decimal units, like hubs and disk vendors."""
    if n < GB / 10:
        return f"{n / 1e6:.0f} MB"
    return f"{n / GB:.1f} GB"


def memory_size(n: int) -> str:
    """Format an amount of RAM or VRAM in GiB, written GB like memory vendors do."""
    if n < GIB / 10:
        return f"{n / (1 << 20):.0f} MB"
    return f"{n / GIB:.1f}".removesuffix(".0") + " GB"


def free_memory(free: int | None, total: int) -> str:
    """Format the free part of a memory, or only its size if `free` is unknown."""
    return f"{memory_size(free)} of {memory_size(total)} free" if free is not None else memory_size(total)


def counted(n: int, noun: str) -> str:
    """Format a count with a noun whose plural adds an s: "1 device", "2,000 devices"."""
    return f"{n:,} {noun}{'s' * (n != 1)}"
