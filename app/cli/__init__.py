"""The command line: parses, composes the parts, and turns every failure into a sentence and an exit code.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. Only what a command needs is imported, when it runs.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from app.cli import streams
from app.errors import AppError

INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Arguments without the program's name; None takes the process's own.

    Returns:
        The exit code.
    """
    streams.prepare()
    try:
        code = _run(argv)
        # Here, where it can still be told that there is no room for it.
        if sys.stdout is not None:
            sys.stdout.flush()
        return code
    except AppError as error:
        from app.engine.text import printable

        # It may tell what a file, a server or a model said.
        print(f"tandem: {printable(error.message)}", file=sys.stderr)  # noqa: T201
        if error.hint:
            print(f"        {printable(error.hint)}", file=sys.stderr)  # noqa: T201
        return error.exit_code
    except BrokenPipeError:
        # Whoever read the output has read enough.
        streams.let_go_of_output()
        return 0
    except OSError as error:
        if not streams.is_refusal(error):
            raise
        streams.let_go_of_output()
        print(f"tandem: The output cannot be written: {error.strerror or error}.", file=sys.stderr)  # noqa: T201
        return AppError.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(argv: Sequence[str] | None) -> int:
    # Here, so that ctrl+c while it is imported is an interruption like any other.
    from app.cli.parser import build_parser

    args = build_parser().parse_args(argv)
    if args.command == "run":
        from app.cli.run import run

        return run(args)
    if args.command == "tune":
        from app.cli.tune import tune

        return tune(args)
    if args.command == "compare":
        from app.cli.compare import compare

        return compare(args)
    if args.command == "bench":
        from app.cli.bench import bench

        return bench(args)
    if args.command == "doctor":
        from app.cli.doctor import doctor

        return doctor(args)
    if args.command == "setup":
        from app.cli.setup import setup

        return setup(args)
    if args.command == "pairs":
        from app.cli.pairs import pairs

        return pairs(args)
    if args.command == "export":
        from app.cli.export import export

        return export(args)
    if args.command == "import":
        from app.cli.import_ import import_

        return import_(args)
    if args.command == "settings":
        from app.cli.settings import settings

        return settings(args)
    from app.cli.chat import chat

    return chat(args)
