"""Make a smaller file of a model with llama.cpp's own quantizer."""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from app.core.errors import ModelLoadError, UsageError
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
