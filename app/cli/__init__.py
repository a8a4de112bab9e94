"""The command line: run a command, and turn every failure into a message and an exit code.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. Heavy imports happen when a command runs.

    chat, run, setup, pairs, compare, bench, tune, doctor, settings, conversations   one module or package per command
    command_line, command, setting_flags, json_keys   options and help of every command
    options, known_pairs, placement                   from options and settings to a pair
    placing, loading, engine, opener                  from a pair to loaded models
    race_session, measured_pairs, report, result_file measurements and where they go
    output, streams, interrupt                        the terminal
"""

from __future__ import annotations

import sys

# An import up here runs before `main` can handle Ctrl+C.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Mapping, Sequence

COMMANDS: Mapping[str, str] = {
    "chat": "app.cli.chat:chat",
    "run": "app.cli.run:run",
    "tune": "app.cli.tune:tune",
    "compare": "app.cli.compare:compare",
    "bench": "app.cli.bench:bench",
    "doctor": "app.cli.doctor.command:doctor",
    "setup": "app.cli.setup:setup",
    "pairs": "app.cli.pairs:pairs",
    "export": "app.cli.conversations.export:export",
    "import": "app.cli.conversations.import_:import_",
    "settings": "app.cli.settings.command:settings",
}
"""Function of each command, by name, so that other commands are not imported."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Arguments without the program's name; None takes the process's own.

    Returns:
        The exit code.
    """
    try:
        from app.cli.interrupt import imported_whole

        with imported_whole():
            from app.cli import streams
            from app.core.errors import AppError
        streams.prepare()
        code = _run(argv)
        # Here, where it can still be told that there is no room for it.
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        # Not imported here: a second Ctrl+C in the middle would print a traceback.
        if output := sys.modules.get("app.cli.output"):
            output.clear_status()
        from app.core.errors import INTERRUPTED

        return INTERRUPTED
    except AppError as error:
        from textwrap import indent

        from app.cli.output import HANG, clear_status, for_reading
        from app.core.printable import printable

        clear_status()
        # It may tell what a file, a server or a model said.
        said = [f"tandem: {printable(error.message)}"]
        if error.hint:
            said.append(indent(printable(error.hint), " " * HANG))
        for text, hang in zip(said, (HANG, 0), strict=False):
            print(for_reading(text, sys.stderr, hang), file=sys.stderr)
        return error.exit_code
    except OSError as error:
        if streams.is_unread(error):
            # Anyone who read the output has read enough.
            streams.let_go_of_output()
            return 0
        if streams.is_nowhere(error):
            print("tandem: The current folder was deleted.\n        Change to another one.", file=sys.stderr)
            return AppError.exit_code
        if not streams.is_refusal(error):
            raise
        streams.let_go_of_output()
        print(f"tandem: The output cannot be written: {error.strerror or error}.", file=sys.stderr)
        return AppError.exit_code


def _run(argv: Sequence[str] | None) -> int:
    from app.cli.interrupt import imported_whole

    with imported_whole():
        from pkgutil import resolve_name

        from app.cli.command_line import parse_args

        args = parse_args(argv)
        command: Callable[[Namespace], int] = resolve_name(COMMANDS[args.command])
    return command(args)
