"""Projector files: check whether one belongs to a target, and find one beside it."""

from __future__ import annotations

import math
from pathlib import Path

from app.core.errors import DamagedFileError, ModelFileError
from app.models.gguf import GgufHeader, read_header
from app.models.model_names import projector_rank

ARCHITECTURE = "clip"
_TYPE_KEYS = ("clip.projector_type", "clip.vision.projector_type")
_SECTIONS_KEY = "rope.dimension_sections"
"""Key of targets whose positions have several dimensions (M-RoPE)."""
_WITH_SECTIONS = ("qwen2vl", "qwen2.5vl", "qwen3vl")
_WITHOUT_SECTIONS = ("gemma", "idefics3", "internvl", "lfm2", "llama4", "mlp", "pixtral")
"""Prefixes of projector types for targets with M-RoPE, and for others; any other type is tried."""
_PROJECTOR_FIX = "Choose the projector of the target (⟨model.mmproj⟩), or none (⟨model.mmproj=none⟩)."
_BITS = {0: 32, 1: 16, 30: 16, 2: 4.5, 3: 5, 6: 5.5, 7: 6, 8: 8.5, 10: 2.625, 11: 3.4375, 12: 4.5, 13: 5.5, 14: 6.5625}
"""Bits per value by GGML type."""


def check_projector(path: Path, target: GgufHeader) -> None:
    """Check from its header that a file is a projector for a target.

    Raises:
        ModelFileError: It is missing, no projector for pictures, or for another target.
        DamagedFileError: It is truncated: libmtmd would load it and compute with zeros.
    """
    header = read_header(path, tensors=True, vocabulary=False)
    if header.architecture != ARCHITECTURE or header.metadata.get("clip.has_vision_encoder") is not True:
        raise ModelFileError(f"{path} is not a projector for pictures.", _PROJECTOR_FIX)
    size, start = path.stat().st_size, header.data_start
    for name, tensor in header.tensors.items():
        if start + tensor.offset + math.prod(tensor.shape) * _BITS.get(tensor.kind, 0) / 8 > size:
            raise DamagedFileError(f"{path} is cut short: it ends inside the tensor {name}.", "Download it again.")
    width, wanted = header.number("vision.projection_dim"), target.number("embedding_length")
    kind = next((kind for kind in map(header.metadata.get, _TYPE_KEYS) if isinstance(kind, str)), "")
    has_sections = target.of_architecture(_SECTIONS_KEY) is not None
    if width != wanted:
        reason = f"its rows have {width:,} values, and the target takes {wanted:,}"
    elif kind.startswith(_WITHOUT_SECTIONS if has_sections else _WITH_SECTIONS):
        reason = f"a projector of the type {kind} does not work with the architecture {target.architecture}"
    else:
        return
    raise ModelFileError(f"{path} is for another model: {reason}.", _PROJECTOR_FIX)


def projector_beside(target: Path, header: GgufHeader) -> Path | None:
    """Return the projector in a target's folder, if any; prefer the smallest usual quantization.

    Its name has no words that the target's lacks: a folder may hold several models of the same width.
    """
    found: list[tuple[int, Path]] = []
    for path in sorted(target.parent.glob("*mmproj*.gguf")):
        n_foreign, preference = projector_rank(path.name, target.name)
        if n_foreign:
            continue
        try:
            check_projector(path, header)
        except DamagedFileError:
            # Loading it reports the fault.
            pass
        except ModelFileError:
            continue
        found.append((preference, path))
    return min(found)[1] if found else None
