"""The command line: run a command, and turn every failure into a message and an exit code.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. Heavy imports happen when a command runs.
A command raises AppError for any failure that a user, a file or the network can cause; `main` prints it.

    chat, run, serve, setup, pairs, compare (with bench), tune, doctor, settings, tools, export   the commands
    command_line, library_commands, command    options and help of every command, and its function
    setting_flags                              flags of settings, and the words for settings and actions in sentences
    options                                    from options and settings to a pair to load
    race_session, report                       measurements
    output, streams, crash_guard               the terminal, signals, files, and a crash of llama.cpp
"""

from __future__ import annotations

import gc
import sys

# An import up here runs before `main` can handle Ctrl+C.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from app.core.errors import AppError

_EXIT_STATUS_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code; by default, the command line of this process."""
    try:
        from app.cli import streams
        from app.core.errors import AppError, Interrupted

        streams.prepare()
        # Help loads nothing that could crash.
        if argv is None and sys.platform != "win32" and not {"-h", "--help"} & {*sys.argv}:
            from app.cli.crash_guard import guard

            if (ended := guard(_report)) is not None:
                return ended
        code = _run(argv)
        # A full disk is found out here.
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        _clear_status()
        return _EXIT_STATUS_INTERRUPTED
    except Interrupted:
        _clear_status()
        return _EXIT_STATUS_INTERRUPTED
    except AppError as error:
        _report(error)
        return error.exit_code
    except OSError as error:
        if error.filename is None:
            streams.discard_output()
        if streams.is_closed_pipe(error):
            # The reader of the output has read enough.
            return 0
        where = f" ({error.filename})" if error.filename is not None else ""
        _report(AppError(f"Input or output failed: {error.strerror or error}{where}."))
        return AppError.exit_code


def _run(argv: Sequence[str] | None) -> int:
    from pkgutil import resolve_name

    from app.cli.command_line import parse_args

    # Scanning modules for garbage would delay the first output.
    gc.disable()
    try:
        call = parse_args(argv)
        function: Callable[..., int] = resolve_name(f"app.cli.{call.function}")
    finally:
        gc.freeze()
        gc.enable()
    return function(**call.given)


def _report(error: AppError) -> None:
    from textwrap import indent

    from app.cli.output import HANG, for_reading, status
    from app.cli.setting_flags import hint_of
    from app.core.printable import printable

    status.clear()
    print(for_reading(f"tandem: {printable(error.message)}", sys.stderr, HANG), file=sys.stderr)
    if hint := hint_of(error):
        print(for_reading(indent(printable(hint), " " * HANG), sys.stderr), file=sys.stderr)


def _clear_status() -> None:
    # Not imported here: a second Ctrl+C in the middle would print a traceback.
    if output := sys.modules.get("app.cli.output"):
        output.status.clear()
