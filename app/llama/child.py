"""Ask llama.cpp in a child process, which a model file or a driver may crash or hang."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from app.core.errors import AppError, ModelLoadError
from app.core.printable import one_line
from app.core.program import ExitStatus, limited_run, python_command, python_environment


class ChildError(Exception):
    """A child gave no answer; the text continues "The child ...".

    Attributes:
        crashed: Whether it crashed or hung, which what it was asked about may have caused; a system that runs out of
            memory kills as well, and that says nothing.
    """

    def __init__(self, reason: str, *, crashed: bool = False) -> None:
        super().__init__(reason)
        self.crashed = crashed


def ask(function: str, *arguments: Any, seconds: float = 60.0, cancelled: Callable[[], bool] = lambda: False) -> Any:
    """Call a function of this package in a child process; arguments and result are JSON values.

    Args:
        function: Module and name, such as "devices.report".
        *arguments: Its arguments.
        seconds: Time limit.
        cancelled: Polled while it runs.

    Raises:
        ModelLoadError: The function raised an AppError with this message.
        ChildError: There is no answer.
        Interrupted: `cancelled` returned True.
    """
    question = json.dumps([function, *arguments]).encode()
    try:
        command = python_command("-c", "from app.llama.child import answer; answer()")
        done = limited_run(command, seconds, python_environment(), question, cancelled)
    except subprocess.TimeoutExpired:
        raise ChildError(f"took longer than {seconds:g} seconds", crashed=True) from None
    except OSError as error:
        raise ChildError(f"could not be started: {error.strerror or error}") from error
    if done.returncode != 0:
        status = ExitStatus(done.returncode, _last_line(done.stderr))
        raise ChildError(f"ended {status.how}", crashed=status.is_crash and not status.was_killed)
    try:
        reply = json.loads(_last_line(done.stdout))
        result, message, hint = reply["result"], reply["message"], reply["hint"]
    except (ValueError, TypeError, KeyError) as error:
        raise ChildError("gave an answer that cannot be read") from error
    if message:
        raise ModelLoadError(message, hint)
    return result


def _last_line(output: bytes) -> str:
    lines = [line for line in output.decode("utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""


def answer() -> None:
    """Answer `ask`, in the child."""
    function, *arguments = json.load(sys.stdin)
    module, _, name = function.rpartition(".")
    reply = {"result": None, "message": "", "hint": ""}
    try:
        reply["result"] = getattr(importlib.import_module(f"app.llama.{module}"), name)(*arguments)
    except AppError as error:
        reply["message"], reply["hint"] = one_line(error.message), error.hint
    sys.stdout.write(f"\n{json.dumps(reply)}\n")
    sys.stdout.flush()
    # A driver that crashes on exit has answered already.
    os._exit(0)
