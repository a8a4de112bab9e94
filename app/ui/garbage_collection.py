"""Garbage collection between answers.

A full collection of a long conversation takes a tenth of a second, in which nothing is drawn. Python would start one in
the middle of an answer, so the oldest generation is collected after an answer only.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

COLLECT_DELAY_S = 1.0
"""From the end of an answer to the full collection."""
_NEVER = 1_000_000


@contextmanager
def paused_during_imports() -> Iterator[None]:
    """Disable the collector while modules are imported, and exclude their objects."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def exclude_existing_objects() -> None:
    """Exclude all objects that exist now, and leave the oldest generation to `collect`."""
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _NEVER)


def collect() -> None:
    """Collect every generation."""
    gc.collect()
