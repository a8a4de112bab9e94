"""How much memory there is for models, and the machine in one line."""

from __future__ import annotations

import psutil

from app.hardware.cpu import default_threads
from app.pairing.propose import Room, gigabytes

_SYSTEM_SHARE = 0.9
"""Of free main memory; the rest is for everything else that runs."""


def room() -> Room:
    """Memory of the graphics cards that this build of llama.cpp can use, or else main memory."""
    return Room(int(_SYSTEM_SHARE * psutil.virtual_memory().available))


def machine_line() -> str:
    """The machine in one line."""
    memory = psutil.virtual_memory()
    return f"{default_threads()} cores, {gigabytes(memory.available)} of {gigabytes(memory.total)} memory free"
