"""Where layers go, in the terms that settings, plans and llama.cpp share."""

CPU = "cpu"
"""The processor and main memory, among the names of devices; no layer is on any other."""
ALL_LAYERS = -1
"""In the place of a number of layers."""


def counted(n: int, what: str) -> str:
    """So many of something that takes an s: "1 device"."""
    return f"{n} {what}{'s' * (n != 1)}"
