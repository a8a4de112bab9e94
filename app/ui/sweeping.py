"""The collector of reference cycles, kept out of the way of keys and models.

Looking at every object of a long conversation takes a tenth of a second, in which nothing is drawn and no token comes;
left alone, Python does so whenever there are a quarter more of them, in the middle of an answer. Young objects are
still looked at as always: there are few at a time.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

REST_S = 1.0
"""After an answer has ended, until everything is looked at."""
_NEVER = 1_000_000


@contextmanager
def left_alone() -> Iterator[None]:
    """While modules are imported: all that makes stays, and to look at it again and again takes a fifth of the time.

    Nor is it looked at later.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def leave_old_objects() -> None:
    """From now on, look at old objects in `sweep` alone, and never at those of the program itself."""
    gc.freeze()
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _NEVER)


def sweep() -> None:
    """Look at everything; to be called when nobody waits."""
    gc.collect()
