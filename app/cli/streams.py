"""Standard streams, open and in UTF-8; Ctrl+C and termination signals as cancel requests."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import contextmanager

# Imported before `main` handles Ctrl+C.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def prepare() -> None:
    """Reopen closed standard streams, and encode output as UTF-8.

    Otherwise the next opened file, perhaps the database, would get the number of a closed stream, and messages would be
    written into it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            # Open the lowest free descriptor, which is this stream.
            os.open(os.devnull, os.O_RDWR)
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)
    for stream in (sys.stdout, sys.stderr):
        # A console with another encoding shows "?" instead of failing.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8" if not stream.isatty() else None, errors="replace")


def read_input() -> bytes:
    """Return stdin, up to one byte more than a document may have. Raises AppError."""
    from app.core.included import MAX_DOCUMENT_BYTES
    from app.core.regular_file import file_errors

    with file_errors("Standard input"):
        return sys.stdin.buffer.read(MAX_DOCUMENT_BYTES + 1)


def is_piped() -> bool:
    """Return whether stdin is a pipe or file instead of a terminal or the null device."""
    import stat

    try:
        return not stat.S_ISCHR(os.fstat(sys.stdin.fileno()).st_mode)
    except (OSError, ValueError):
        return False


def is_silent(seconds: float) -> bool:
    """Return whether a pipe on stdin stays open without data for this long; always False on Windows."""
    if sys.platform == "win32":
        return False
    import select

    return not any(select.select([sys.stdin], [], [], seconds))


def is_closed_pipe(error: OSError) -> bool:
    """Return whether the reader of stdout closed the pipe; Windows reports EINVAL."""
    if isinstance(error, BrokenPipeError):
        return True
    return sys.platform == "win32" and error.errno == errno.EINVAL and error.filename is None


def discard_output() -> None:
    """Redirect stdout to the null device, so that Python's final flush does not fail."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return


@contextmanager
def cancel_on_interrupt(cancel: Callable[[], None]) -> Iterator[None]:
    """Cancel at the first signal; end the program at the second Ctrl+C. Ignored signals stay ignored.

    An external signal may arrive twice: from its sender and from the parent process (`app.cli.crash_guard`).
    """
    # `tandem --help` does not need this import.
    import signal

    # Ctrl+C, SIGTERM and a closed terminal
    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    handlers = {number: signal.getsignal(number) for number in numbers}
    before = {number: handler for number, handler in handlers.items() if handler not in (signal.SIG_IGN, None)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def on_interrupt(*_: object) -> None:
        # Cancel only once: a second call might wait for a lock of the first.
        for number, handler in before.items():
            signal.signal(number, handler if number == signal.SIGINT else signal.SIG_IGN)
        cancel()

    for number in before:
        signal.signal(number, on_interrupt)
    try:
        yield
    finally:
        restore()
