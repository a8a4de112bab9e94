"""Small shared libraries, compiled in the test, which replace missing builds and drivers."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hanging import HANGS_S

needs_compiler = pytest.mark.skipif(
    sys.platform != "linux" or shutil.which("cc") is None, reason="compiles shared libraries of Linux"
)
CRASHES = "void __attribute__((constructor)) start(void) { __builtin_trap(); }"
HANGS = "#include <unistd.h>\nvoid __attribute__((constructor)) start(void) { for (;;) pause(); }"
HARMLESS = "int answer(void) { return 42; }"


def compile_library(file: Path, code: str, *needed: Path) -> Path:
    """Compile a library whose soname is the name of its file and which needs others."""
    file.parent.mkdir(parents=True, exist_ok=True)
    source = file.with_suffix(".c")
    source.write_text(code)
    name = f"-Wl,--no-as-needed,-soname,{file.name}"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", file, source, name, *needed], check=True, timeout=HANGS_S)
    source.unlink()
    return file
