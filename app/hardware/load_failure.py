"""Explain why the installed llama.cpp cannot be loaded or started, from the messages of the system.

Data: libraries.toml.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from app.core.errors import ModelLoadError
from app.core.printable import one_line
from app.core.program import ExitStatus

_MISSING_LIBRARY = re.compile("cannot open shared object|Could not find module|WinError 126")
_TOO_OLD = re.compile(r"version [`'](GLIBC(?:XX)?)_([\d.]+)' not found")
_FOREIGN_BINARY = re.compile(
    "wrong ELF class|invalid ELF header|incompatible architecture|not a valid Win32|WinError 193"
)


@dataclass(frozen=True, slots=True)
class LoadFailure:
    """One failure.

    Attributes:
        reason: What is wrong, as a clause.
        fix: How to make the installed build run, as a sentence; None if only another one helps.
        avoid: Backends whose ready-made builds would fail in the same way.
        can_compile: A build of these backends that is compiled here would work.
        cuda: Major version of the CUDA toolkit whose libraries are missing.
    """

    reason: str
    fix: str | None = None
    avoid: tuple[str, ...] = ()
    can_compile: bool = False
    cuda: str | None = None

    @property
    def message(self) -> str:
        return f"llama.cpp cannot run here: {self.reason}."


class LibraryError(ModelLoadError):
    """llama.cpp cannot be loaded, or does not survive its start."""

    def __init__(self, failure: LoadFailure, hint: str = "") -> None:
        super().__init__(failure.message, hint)
        self.failure = failure


def loader_failure(text: str, installed: tuple[str, ...]) -> LoadFailure:
    """Explain the error of the import, such as a missing library; `installed` as for `crash_failure`."""
    if _MISSING_LIBRARY.search(text):
        known = tomllib.loads(Path(__file__).with_name("libraries.toml").read_text(encoding="utf-8"))
        for library in known["libraries"]:
            if found := re.search(library["name"], text):
                values, is_named = found.groupdict(), ".so" in found[0]
                needed_by = [library["backend"]] if "backend" in library else [] if is_named else installed
                avoid = tuple(backend for backend in needed_by if backend != "cpu")
                file = f"{found[0]} is missing, which belongs to" if is_named else "Windows does not find a library of"
                fix = library["fix"].format(**values)
                return LoadFailure(f"{file} {library['owner'].format(**values)}", fix, avoid, cuda=values.get("cuda"))
    if found := _TOO_OLD.search(text):
        name = "C library" if found[1] == "GLIBC" else "C++ library"
        return LoadFailure(f"it needs {name} {found[2]}, which is newer than this system's", None, installed, True)
    if _FOREIGN_BINARY.search(text):
        return LoadFailure("it is built for another kind of machine", None, (), True)
    is_absent = text == "No module named 'llama_cpp'"
    return LoadFailure("it is not installed" if is_absent else one_line(text).rstrip("."), None, (), True)


def crash_failure(status: ExitStatus, installed: tuple[str, ...]) -> LoadFailure:
    """Explain the end of a process that started llama.cpp; `installed` are the GPU backends of this build, or "cpu"."""
    if status.is_illegal_instruction:
        return LoadFailure("it uses instructions that this CPU does not have", None, installed, True)
    return LoadFailure(f"a trial start {status.how}", None, installed, True)


def hang_failure(seconds: float, installed: tuple[str, ...]) -> LoadFailure:
    """Explain a start that did not come to an end."""
    driver = None if installed == ("cpu",) else "The GPU's driver may hang: update it."
    return LoadFailure(f"a trial start took longer than {seconds:g} seconds", driver, installed, installed == ("cpu",))
