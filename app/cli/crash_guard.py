"""Watch the program from a small parent process, which explains a crash and restores the terminal after it.

llama.cpp and drivers end their process by an abort or a memory fault, which Python cannot catch. The parent is forked
before anything heavy is imported. Windows cannot fork, so the program runs there without a parent.
"""

from __future__ import annotations

import os
import sys
import time

# The parent keeps in memory what is imported up here.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from signal import Signals
    from typing import Any

    from app.core.errors import AppError

_RESET_SCREEN = (
    b"\x1b[?2026l\x1b[<u\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1016l\x1b[?2004l\x1b[?2048l\x1b[?1004l"
    b"\x1b[?7h\x1b[?1049l\x1b[?25h\x1b[0m"
)
"""Reset what Textual's driver enables: keyboard, mouse, paste and focus reports, alternate screen, hidden cursor."""
_ENTER_BYTES = (b"\r", b"\n")
_QUIT_BYTES = (b"q", b"\x04", b"")


if sys.platform != "win32":

    def guard(report: Callable[[AppError], None]) -> int | None:
        """Fork; return None in the child, which runs the program, and in the parent the exit code after a crash.

        The parent exits with the child if the child did not crash. `report` prints an error.
        """
        import signal

        watched = (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        modes, began = _terminal_modes(), time.time()
        read_end, write_end = os.pipe()
        # Without a handler, macOS drops the signal although it is blocked.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
        child = os.fork()
        if child == 0:
            import _thread

            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(write_end)
            _thread.start_new_thread(_end_with_parent, (read_end,))
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            return None
        code = _wait(child, watched)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if code >= 0:
            # This process has written nothing; shutting down its interpreter would take as long as starting it.
            os._exit(code)
        from app.core.program import ExitStatus

        if not ExitStatus(code).is_crash:
            # The caller sees the signal that ended the program.
            signal.signal(-code, signal.SIG_DFL)
            os.kill(os.getpid(), -code)
        return _explain(child, code, modes, report, began)

    def _end_with_parent(read_end: int) -> None:
        """End the program when its parent is killed; otherwise a shell would take over the terminal."""
        import signal

        # The parent writes nothing, so this returns when the parent is gone.
        os.read(read_end, 1)
        os.kill(os.getpid(), signal.SIGTERM)

    def _wait(child: int, watched: tuple[Signals, ...]) -> int:
        """Pass signals on to the child until it ends; return its exit code, negative for a signal."""
        import signal

        while True:
            number, is_from_terminal = _next_signal(watched)
            if number == signal.SIGCHLD:
                pid, status = os.waitpid(child, os.WNOHANG | os.WUNTRACED)
                if pid and os.WIFSTOPPED(status):
                    # After Ctrl+Z the shell waits for this process to stop.
                    os.kill(os.getpid(), signal.SIGSTOP)
                    os.kill(child, signal.SIGCONT)
                elif pid:
                    return os.waitstatus_to_exitcode(status)
            elif not (number == signal.SIGINT and is_from_terminal):
                os.kill(child, number)

    def _next_signal(watched: tuple[Signals, ...]) -> tuple[int, bool]:
        """Wait for a signal; return whether a terminal sent it, and thus sent it to the child too."""
        import signal

        if sys.platform == "linux":
            info = signal.sigwaitinfo(watched)
            return info.si_signo, info.si_code > 0
        return signal.sigwait(watched), _in_foreground()

    def _in_foreground() -> bool:
        try:
            return os.tcgetpgrp(0) == os.getpgrp()
        except OSError:
            return False

    def _terminal_modes() -> list[Any] | None:
        import termios

        try:
            return termios.tcgetattr(0)
        except termios.error:
            return None

    def _restore_terminal(modes: list[Any]) -> None:
        import termios

        if not os.isatty(2):
            # The chat was drawn on stdout, and the question is for its user.
            os.dup2(1, 2)
        os.write(2, _RESET_SCREEN)
        termios.tcsetattr(0, termios.TCSAFLUSH, modes)

    def _end_line() -> None:
        """End what a command was writing on the terminal: an answer, dim reasoning or the status line."""
        from app.cli.output import obeys_codes

        if streams := [stream for stream in (sys.stdout, sys.stderr) if stream.isatty()]:
            print("\x1b[0m" if obeys_codes() else "", file=streams[0], flush=True)

    def _is_entered() -> bool:
        import termios
        import tty

        modes = termios.tcgetattr(0)
        tty.setcbreak(0)
        try:
            # Late mouse reports are no key presses.
            while (key := os.read(0, 1)) not in (*_ENTER_BYTES, *_QUIT_BYTES):
                pass
        except OSError:
            return False
        finally:
            termios.tcsetattr(0, termios.TCSAFLUSH, modes)
        return key in _ENTER_BYTES

    def _explain(
        child: int, code: int, modes: list[Any] | None, report: Callable[[AppError], None], began: float
    ) -> int:
        """Explain the crash; offer to open the chat again, or restart the server."""
        from app.cli.command_line import parse_args
        from app.core.errors import AppError
        from app.core.log import written_by
        from app.core.paths import log_file
        from app.core.program import ExitStatus

        status = ExitStatus(code, written_by(child, log_file(), began))
        call = parse_args(sys.argv[1:])
        message = f"The program {status.how}."
        if call.name != "chat":
            _end_line()
        if call.name == "chat" and modes is not None and _in_foreground():
            _restore_terminal(modes)
            report(AppError(message, f"The conversation is saved. {status.fix}".rstrip()))
            print("        Press enter to open it again with --isolate, or q to leave.", file=sys.stderr, flush=True)
            if _is_entered():
                _run_again("--isolate", "--continue")
        elif call.name == "serve" and not call.given.get("isolate"):
            report(AppError(message, "The server starts again with --isolate."))
            from app.cli.running_server import port_announced_by

            # Clients know the port, also one that the system chose.
            port = port_announced_by(child) if call.given.get("port") == 0 else None
            _run_again("--isolate", *([f"--port={port}"] if port else []))
        else:
            report(AppError(message, status.fix))
        return AppError.exit_code

    def _run_again(*flags: str) -> None:
        """Replace this process by a new start of the program with additional flags."""
        new = [flag for flag in flags if flag not in sys.argv]
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:], *new])
