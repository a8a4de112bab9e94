"""`tandem` without a command: the full-screen chat."""

from __future__ import annotations

import argparse
import os
import sys

from app.cli.options import loader, read_options
from app.errors import UsageError
from app.llama.cancel import CancelFlag
from app.paths import log_file
from app.worker import EngineWorker

_CLOSE_S = 1.0
"""Freeing the models takes a moment; a native call that does not return would take for ever."""


def chat(args: argparse.Namespace) -> int:
    """Open the chat; see the module."""
    options = read_options(args)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "The chat needs a terminal, and this is not one.",
            'For one answer in a pipe: tandem run "Why is the sky blue?"',
        )
    from app.ui.app import make_app
    from app.ui.settings import ChatSettings
    from app.ui.stderr_guard import guarded_stderr

    settings = ChatSettings(
        title=options.pair.title,
        sampling=options.pair.sampling,
        drafting=options.drafting,
        system=options.system,
        max_tokens=options.max_tokens,
        stops=options.stops,
    )
    app = make_app(lambda emit: EngineWorker(emit, CancelFlag()), loader(options), settings)
    try:
        with guarded_stderr(log_file()):
            app.run()
    finally:
        code = app.return_code or 0
        if not app.engine.close(_CLOSE_S):
            # Interpreter shutdown would free the models under the call that is still using them.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return code
