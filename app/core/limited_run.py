"""Another program, run to its end or to its limit, which holds whatever it or what it starts does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

_MOST = 4 << 20
"""Bytes read of an answer; the longest, a list of PCI names, has one and a half million."""
_GRACE_S = 0.5


def limited_run(
    command: Sequence[str], seconds: float, environment: Mapping[str, str], question: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """What a program says, and how it ended; it is no part of the terminal's foreground.

    Args:
        command: Where it is, and its arguments.
        seconds: After which it is ended, with what it has started.
        environment: All of its variables.
        question: On its standard input.

    Raises:
        subprocess.TimeoutExpired: It has not ended, or what it started has kept its output open.
        OSError: It cannot be started.
    """
    deadline = time.monotonic() + seconds
    child = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        start_new_session=True,
        creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
    )
    try:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        # `communicate` waits without limit for a child that a broken driver keeps from dying, or for whoever inherited
        # a pipe; threads may be left behind.
        asking = threading.Thread(target=_write, args=(child.stdin, question), daemon=True)
        said, complained = _Reader(child.stdout), _Reader(child.stderr)
        for thread in (asking, said, complained):
            thread.start()
        said.join(max(0.0, deadline - time.monotonic()))
        code = child.wait(max(_GRACE_S, deadline - time.monotonic()) if said.data is not None else 0)
        # Services that a vendor's tool wakes may keep this one, and nobody waits for what they say.
        complained.join(_GRACE_S)
    except BaseException as error:
        _end(child)
        if isinstance(error, subprocess.TimeoutExpired):
            raise subprocess.TimeoutExpired(command, seconds) from None
        raise
    if said.data is None:
        raise subprocess.TimeoutExpired(command, seconds)
    return subprocess.CompletedProcess(command, code, said.data, complained.data or b"")


class _Reader(threading.Thread):
    """Reads a pipe to its end; what it was is in `data` then."""

    def __init__(self, pipe: IO[bytes]) -> None:
        super().__init__(daemon=True)
        self._pipe = pipe
        self.data: bytes | None = None

    def run(self) -> None:
        with suppress(OSError, ValueError), self._pipe:
            self.data = self._pipe.read(_MOST)


def _write(pipe: IO[bytes], question: bytes) -> None:
    with suppress(OSError, ValueError), pipe:
        pipe.write(question)


def _end(child: subprocess.Popen[bytes]) -> None:
    if child.poll() is not None:
        return
    with suppress(OSError):
        if sys.platform == "win32":
            child.kill()
        else:
            os.killpg(child.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        child.wait(_GRACE_S)
    if child.returncode is None:
        child.returncode = -9  # it hangs in its driver; without this Python complains when it forgets it
