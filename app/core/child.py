"""Call a function in a child process, because a damaged file or a driver may crash or hang it."""

import importlib
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from app.core.errors import AppError
from app.core.program import ExitStatus, limited_run, python_command, python_environment

_MAX_ANSWER_BYTES = 256 << 20
_TOO_MUCH_MEMORY = 77
"""Exit code of a child that exceeded its memory limit."""
_MEMORY_POLL_S = 0.02


class ChildError(Exception):
    """A child gave no answer; the text continues "The child ...".

    Attributes:
        crashed: Whether it crashed or hung, perhaps because of its input; False if the system killed it to free memory.
    """

    def __init__(self, reason: str, *, crashed: bool = False, status: ExitStatus | None = None) -> None:
        super().__init__(reason)
        self.crashed = crashed
        self.status = status


def ask(
    function: str,
    *arguments: Any,
    seconds: float = 60.0,
    memory: int | None = None,
    cancelled: Callable[[], bool] = lambda: False,
) -> Any:
    """Call a function of this program, such as "llama.devices.report", in a child process; poll `cancelled` meanwhile.

    `memory` limits the child's memory in bytes.

    Raises:
        AppError: The function raised it.
        ChildError: The child gave no answer.
        Interrupted: `cancelled` returned True.
    """
    try:
        command = python_command("-c", "from app.core.child import answer; answer()")
        question = pickle.dumps((function, arguments, memory))
        done = limited_run(command, seconds, python_environment(), question, cancelled, _MAX_ANSWER_BYTES)
    except subprocess.TimeoutExpired:
        raise ChildError(f"took longer than {seconds:g} seconds", crashed=True) from None
    except OSError as error:
        raise ChildError(f"could not be started: {error.strerror or error}") from error
    if memory is not None and done.returncode == _TOO_MUCH_MEMORY:
        raise ChildError(f"took more than {memory >> 30} GB of memory", crashed=True)
    if done.returncode != 0:
        status = ExitStatus(done.returncode, done.stderr.decode("utf-8", errors="replace"))
        raise ChildError(status.how, crashed=status.is_crash and not status.was_killed, status=status)
    try:
        reply = pickle.loads(done.stdout)
    except Exception as error:
        raise ChildError("gave an answer that cannot be read") from error
    if isinstance(reply, AppError):
        raise reply
    return reply


def answer() -> None:
    """Answer `ask` in the child."""
    function, arguments, memory = pickle.load(sys.stdin.buffer)
    module, _, name = function.rpartition(".")
    if memory is not None:
        threading.Thread(target=_exit_above, args=(memory,), daemon=True).start()
    # Native libraries print to any stream.
    output = os.dup(1)
    os.dup2(2, 1)
    try:
        reply = getattr(importlib.import_module(f"app.{module}"), name)(*arguments)
    except AppError as error:
        reply = error
    with os.fdopen(output, "wb") as file:
        pickle.dump(reply, file)
    # A driver that crashes on exit has already answered.
    os._exit(0)


def _exit_above(memory: int) -> None:
    import psutil

    process, parent = psutil.Process(), os.getppid()
    while process.memory_info().rss <= memory and os.getppid() == parent:
        time.sleep(_MEMORY_POLL_S)
    os._exit(_TOO_MUCH_MEMORY)
