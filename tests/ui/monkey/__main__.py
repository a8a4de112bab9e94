"""`python -m tests.ui.monkey FIRST LAST`: plays sessions, and makes those that fail short."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys
import tempfile
import time
import traceback

from tests.ui.monkey.moves import Session, random_session
from tests.ui.monkey.play import complaint, play

_LONGEST_S = 120


def _tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def failure(session: Session) -> BaseException | None:
    """What goes wrong in a session."""
    faulthandler.dump_traceback_later(_LONGEST_S, exit=True)
    try:
        asyncio.run(play(session))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return error
    finally:
        faulthandler.cancel_dump_traceback_later()
    return None


def shortened(session: Session, what: str, until: float) -> Session:
    """A shorter session that fails alike, as short as it gets in time."""
    moves, size = list(session), len(session) // 2
    while size and time.monotonic() < until:
        at, found = 0, False
        while at < len(moves) and time.monotonic() < until:
            fewer = [*moves[:at], *moves[at + size :]]
            error = failure(fewer)
            if error is not None and complaint(error) == what:
                moves, found = fewer, True
            else:
                at += size
        size = size if found and size == 1 else size // 2
    return tuple(moves)


def main(first: int, last: int, seconds: float = 520, shrink: float = 120) -> None:
    end, known = time.monotonic() + seconds, set[str]()
    for seed in range(first, last):
        if time.monotonic() > end:
            _tell(f"time is over before seed {seed}")
            return
        session = random_session(seed)
        error = failure(session)
        if error is None:
            continue
        what = complaint(error)
        _tell(f"\n=== seed {seed}: {what}")
        if what in known:
            continue
        known.add(what)
        short = shortened(session, what, min(end, time.monotonic() + shrink))
        error = failure(short) or error
        traceback.print_exception(error, limit=-12)
        _tell("\n".join(["(", *(f"    {move}," for move in short), ")"]))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
            os.environ[name] = home
        main(*map(int, sys.argv[1:]))
