"""Names of models and their quantization."""

from __future__ import annotations

import re
from pathlib import PurePath

_QUANTISATION = re.compile(
    r"[-._](?:ud-)?(?:i?q\d+(?:_\w+)?|tq\d_\d|b?f16|f32|fp16|mxfp4)(?![a-z0-9]).*$", re.IGNORECASE
)
_QUANTIZATION = re.compile(
    r"(?<![A-Za-z0-9])((?:UD-)?(?:I?Q[1-8]_(?:K_(?:XXL|XL|[SML])|K|[01]|XXS|XS|NL|S|M|L)|Q[1-8]_K|TQ[12]_0|MXFP4(?:_MOE)?"
    r"|NVFP4|BF16|F16|FP16|F32|FP32))(?![A-Za-z0-9]|_\d+_\d+)",
    re.IGNORECASE,
)
"""Q4_0_4_4 and similar types, which llama.cpp has dropped, are not Q4_0."""
_SHARD = re.compile(r"-\d{5}-of-\d{5}$")
_NAMELESS = re.compile(r"^(?:sha256-)?[0-9a-f]{16,}$|^(?:ggml-)?model$", re.IGNORECASE)
_SIZES = {"Small": "_S", "Medium": "_M", "Large": "_L"}


def known_as(file: str, own: str) -> str:
    """Return the name of a model without its quantization, by its file name.

    The name inside a file is often that of a training run; it is used if the file name says nothing.

    Args:
        file: File name; of a split model any part's.
        own: Name inside the file, or "".
    """
    stem = _QUANTISATION.sub("", _SHARD.sub("", PurePath(file).name.removesuffix(".gguf")))
    return stem if stem and not _NAMELESS.match(stem) else own or stem


def apart(target: str, draft: str) -> str:
    """Return the part of a draft's name that differs from its target's; "" if they are equal."""
    theirs, ours = target.split("-"), draft.split("-")
    while theirs and ours and theirs[0].lower() == ours[0].lower():
        del theirs[0], ours[0]
    while theirs and ours and theirs[-1].lower() == ours[-1].lower():
        del theirs[-1], ours[-1]
    return "-".join(ours)


def file_type(name: str) -> str:
    """Return llama.cpp's name of a file type as in file names: "Q4_K - Medium" is Q4_K_M."""
    head, _, size = name.partition(" - ")
    # The only type without a size in its file name.
    return head if head == "Q2_K" and size == "Medium" else head + _SIZES.get(size, "")


def quantization(name: str) -> str:
    """Return the quantization in a file name, in upper case; "" without one."""
    found = _QUANTIZATION.findall(name.rsplit("/", 1)[-1]) or _QUANTIZATION.findall(name)
    return found[-1].upper() if found else ""


def plain(quant: str) -> str:
    """Return a quantization in a normalized spelling."""
    return re.sub(r"[^a-z0-9]", "", quant.lower()).replace("fp", "f")
