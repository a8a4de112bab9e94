"""Sizes and counts as text: disks and downloads in decimal units, memory as vendors print it."""

GB = 1_000_000_000
GIB = 1 << 30
MAX_SIZE = (1 << 63) - 1
"""Bytes of the largest file that a file system can hold."""


def gigabytes(n: int) -> str:
    """Format the size of a file or a disk in decimal units, as hubs and vendors of disks do."""
    if n < GB / 10:
        return f"{n / 1e6:.0f} MB"
    return f"{n / GB:.1f} GB"


def memory_size(n: int) -> str:
    """Format an amount of RAM or VRAM in GiB, written GB as its vendors do."""
    if n < GIB / 10:
        return f"{n / (1 << 20):.0f} MB"
    return f"{n / GIB:.1f}".removesuffix(".0") + " GB"


def free_memory(free: int | None, total: int) -> str:
    """Format how much of a memory is free, or only its size where `free` is not known."""
    return f"{memory_size(free)} of {memory_size(total)} free" if free is not None else memory_size(total)


def counted(n: int, noun: str) -> str:
    """Format a count with a noun whose plural adds an s: "1 device", "2 devices"."""
    return f"{n} {noun}{'s' * (n != 1)}"
