"""Projector files: whether one belongs to a target, and which of those beside it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path

from app.core.errors import DamagedFileError, ModelFileError
from app.models.gguf import GgufHeader, read_header
from app.models.model_names import quantization

ARCHITECTURE = "clip"
_TYPE_KEYS = ("clip.projector_type", "clip.vision.projector_type")
_SECTIONS = "rope.dimension_sections"
"""Key of targets whose positions have several dimensions (M-RoPE)."""
_WITH_SECTIONS = ("qwen2vl", "qwen2.5vl", "qwen3vl")
_WITHOUT_SECTIONS = ("gemma", "idefics3", "internvl", "lfm2", "llama4", "mlp", "pixtral")
"""Beginnings of the types of projectors for targets with M-RoPE, and for others; any other type is tried."""
_PREFERRED = ("Q8_0", "F16", "BF16", "F32")
"""Smallest first; more bits hardly change an answer."""
_FIX = "Choose the projector of the target (⟨model.mmproj⟩), or none (⟨model.mmproj=none⟩)."
_WORD = re.compile(r"[a-z0-9]+")
_GENERIC_WORDS = {"mmproj", "model"}
"""Words in a projector's name that do not name its model."""
_BLOCKS: Mapping[int, tuple[int, int]] = {
    kind: (n_bytes, n_values)
    for n_values, sizes in (
        (1, ((0, 4), (1, 2), (30, 2))),
        (32, ((2, 18), (3, 20), (6, 22), (7, 24), (8, 34))),
        (256, ((10, 84), (11, 110), (12, 144), (13, 176), (14, 210))),
    )
    for kind, n_bytes in sizes
}
"""Bytes and values in a block of a GGML type."""


def check_projector(path: Path, target: GgufHeader) -> None:
    """Check by its header that a file is a projector for a target.

    Raises:
        ModelFileError: It is missing, no projector for pictures, or for another target.
        DamagedFileError: It is cut short: libmtmd would load it and compute with zeros.
    """
    header = read_header(path, tensors=True, vocabulary=False)
    if header.architecture != ARCHITECTURE or header.metadata.get("clip.has_vision_encoder") is not True:
        raise ModelFileError(f"{path} is not a projector for pictures.", _FIX)
    size, start = path.stat().st_size, header.data_start
    for name, tensor in header.tensors.items():
        n_bytes, n_values = _BLOCKS.get(tensor.kind, (0, 1))
        if start + tensor.offset + math.prod(tensor.shape) // n_values * n_bytes > size:
            raise DamagedFileError(f"{path} is cut short: it ends inside the tensor {name}.", "Download it again.")
    width, wanted = header.number("vision.projection_dim"), target.number("embedding_length")
    kind = next((kind for kind in map(header.metadata.get, _TYPE_KEYS) if isinstance(kind, str)), "")
    has_sections = target.of_architecture(_SECTIONS) is not None
    if width != wanted:
        reason = f"its rows have {width:,} values, and the target takes {wanted:,}"
    elif kind.startswith(_WITHOUT_SECTIONS if has_sections else _WITH_SECTIONS):
        reason = f"a projector of the type {kind} does not work with the architecture {target.architecture}"
    else:
        return
    raise ModelFileError(f"{path} is for another model: {reason}.", _FIX)


def projector_beside(target: Path, header: GgufHeader) -> Path | None:
    """Return the projector in the folder of a target, if any; of several, the smallest usual quantization.

    Its name has no words that the target's lacks: a folder may hold several models of one width.
    """
    found: list[tuple[int, Path]] = []
    for path in sorted(target.parent.glob("*mmproj*.gguf")):
        quant = quantization(path.name)
        words = set(_WORD.findall(path.stem.lower().replace(quant.lower(), ""))) - _GENERIC_WORDS
        if not words.issubset(_WORD.findall(target.stem.lower())):
            continue
        try:
            check_projector(path, header)
        except DamagedFileError:
            # Loading it reports the fault.
            pass
        except ModelFileError:
            continue
        found.append((_PREFERRED.index(quant) if quant in _PREFERRED else len(_PREFERRED), path))
    return min(found)[1] if found else None
