"""Paths that begin as typed. Reads folders, so it is for another thread than the screen's."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from app.conversations.textfile import looks_binary
from app.core.printable import printable
from app.models.source import home_expanded

MOST = 50
_SPACES = re.compile("[\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}\N{IDEOGRAPHIC SPACE}]")
"""Spaces that people have in names, though Python calls them unprintable."""
_HEAD = 1024
_BINARY = re.compile(
    r"\.(?:7z|a|avif|bin|bmp|bz2|class|db|dll|docx|dylib|exe|gguf|gif|gz|ico|jar|jpe?g|lib|mkv|mov|mp3|mp4|npy|o|obj|odt"
    r"|ogg|onnx|otf|pdf|png|pptx|pt|pyc|pyd|safetensors|so|sqlite|tar|tgz|tiff?|ttf|wasm|wav|webp|whl|woff2?|xlsx|xz|zip"
    r"|zst)$"
)


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    folded: str
    is_dir: bool


class PathCompletion:
    """Keeps the folder that was looked at last; reading a big one takes time, choosing from it does not.

    Args:
        base: What relative paths start from.
        ending: Lower-case ending of the files to offer; "" offers text files.
    """

    def __init__(self, base: Path, ending: str = "") -> None:
        self._base = base
        self._ending = ending
        self._known: tuple[object, Sequence[_Entry]] = (None, ())

    def matching(self, typed: str) -> tuple[str, ...]:
        """Return paths of files and folders in the form that was typed; folders end with a slash.

        Hidden names show only once their dot is typed. Names that begin as typed come before those that hold it.
        """
        if typed == "~":
            return ("~/",)
        typed = _slashed(typed)
        head, _, tail = typed.rpartition("/")
        head += "/" if "/" in typed else ""
        try:
            folder = self._base / home_expanded(head or ".")
        except ValueError:
            # Of a user whom no system can have.
            return ()
        wanted = tail.casefold()
        entries = [each for each in self._entries(folder) if wanted in each.folded and self._is_offered(each, tail)]
        entries.sort(key=lambda each: (not each.folded.startswith(wanted), not each.is_dir, each.folded, each.name))
        shown = (
            head + each.name + "/" * each.is_dir
            for each in entries
            if each.is_dir or self._ending or _is_text(folder / each.name)
        )
        return tuple(islice(shown, MOST))

    def continued(self, typed: str) -> str | None:
        """Return the first path that begins as typed; None without one."""
        first = next(iter(self.matching(typed)), "")
        return first if len(first) > len(typed) and first.casefold().startswith(_slashed(typed).casefold()) else None

    def _is_offered(self, entry: _Entry, tail: str) -> bool:
        if entry.name.startswith(".") and not tail.startswith("."):
            return False
        if entry.is_dir:
            return True
        return entry.folded.endswith(self._ending) if self._ending else not _BINARY.search(entry.folded)

    def _entries(self, folder: Path) -> Sequence[_Entry]:
        # A folder that cannot be read, or a name that no path can have, offers nothing.
        with suppress(OSError, ValueError, RuntimeError):
            key = (folder, folder.stat().st_mtime_ns)
            if self._known[0] != key:
                self._known = key, tuple(_read(folder))
            return self._known[1]
        return ()


def _slashed(path: str) -> str:
    """Return a path with slashes, also on Windows."""
    return path.replace("\\", "/") if os.sep == "\\" else path


def _read(folder: Path) -> Iterator[_Entry]:
    with os.scandir(folder) as entries:
        for entry in entries:
            name = entry.name
            # Half a character cannot be typed, and a control or a line end could not be read back.
            if not _SPACES.sub(" ", name).isprintable() or printable(name) != name:
                continue
            with suppress(OSError):
                yield _Entry(name, name.casefold(), entry.is_dir())


def _is_text(file: Path) -> bool:
    with suppress(OSError):
        if file.is_file():
            with file.open("rb") as stream:
                return not looks_binary(stream.read(_HEAD))
    return False
