"""A Python program in a pseudo terminal, which Windows does not have."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]


@contextmanager
def in_terminal(*arguments: str, **options: Any) -> Iterator[tuple[subprocess.Popen[str], FileIO]]:
    """Run Python with arguments and options of Popen; yield the process and the user's end of its terminal."""
    ours, theirs = os.openpty()
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs, **options}
    with FileIO(ours, "r+") as terminal:
        process = subprocess.Popen(
            [sys.executable, *arguments], cwd=_ROOT, text=True, start_new_session=True, **streams
        )
        os.close(theirs)
        try:
            yield process, terminal
        finally:
            process.kill()
            process.wait()
