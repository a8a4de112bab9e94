"""Names of models, their quantization, and the parts of split models."""

from __future__ import annotations

import re
from pathlib import Path, PurePath
from typing import NamedTuple

from app.core.regular_file import is_file

_WITH_QUANTIZATION = re.compile(
    r"[-._](?:ud-)?(?:i?q\d+(?:_\w+)?|tq\d_\d|b?f16|f32|fp16|mxfp4)(?![a-z0-9]).*$", re.IGNORECASE
)
_QUANTIZATION_NAME = re.compile(
    r"(?<![A-Za-z0-9])((?:UD-)?(?:I?Q[1-8]_(?:K_(?:XXL|XL|[SML])|K|[01]|XXS|XS|NL|S|M|L)|Q[1-8]_K|TQ[12]_0|MXFP4(?:_MOE)?"
    r"|NVFP4|BF16|F16|FP16|F32|FP32))(?![A-Za-z0-9]|_\d+_\d+)",
    re.IGNORECASE,
)
"""Q4_0_4_4 and similar types, which llama.cpp has dropped, are not Q4_0."""
_SPLIT_FILE_NAME = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
_MEANINGLESS_STEM = re.compile(r"^(?:sha256-)?[0-9a-f]{16,}$|^(?:ggml-)?model$", re.IGNORECASE)
_WORD = re.compile("[a-z0-9]+")
_GENERIC_WORDS = ("mmproj", "model", "gguf")
"""Words in a projector's name that do not name its model."""
_PROJECTOR_PREFERENCE = ("Q8_0", "F16", "BF16", "F32")
"""Preference for projectors, smallest first; more bits hardly change an answer."""
_MIX_SUFFIXES = {"Small": "_S", "Medium": "_M", "Large": "_L"}


def known_as(file: str, own: str) -> str:
    """Return the name of a model without its quantization, from its file name.

    The name inside a file is often the name of a training run; it is used only if the file name says nothing.

    Args:
        file: File name, or any part's name of a split model.
        own: Name inside the file, or "".
    """
    name = PurePath(file).name
    part = part_of(name)
    stem = _WITH_QUANTIZATION.sub("", part.stem if part is not None else name.removesuffix(".gguf"))
    return stem if stem and not _MEANINGLESS_STEM.match(stem) else own or stem


def apart(target: str, draft: str) -> str:
    """Return the part of a draft's name that differs from its target's."""
    theirs, ours = target.split("-"), draft.split("-")
    while theirs and ours and theirs[0].lower() == ours[0].lower():
        del theirs[0], ours[0]
    while theirs and ours and theirs[-1].lower() == ours[-1].lower():
        del theirs[-1], ours[-1]
    return "-".join(ours)


def file_type(name: str) -> str:
    """Convert llama.cpp's name of a file type to the form in file names: "Q4_K - Medium" is Q4_K_M."""
    head, _, size = name.partition(" - ")
    # The only type without a size in its file name.
    return head if head == "Q2_K" and size == "Medium" else head + _MIX_SUFFIXES.get(size, "")


def quantization(name: str) -> str:
    """Return the quantization in a file name, in upper case."""
    found = _QUANTIZATION_NAME.findall(name.rsplit("/", 1)[-1]) or _QUANTIZATION_NAME.findall(name)
    return found[-1].upper() if found else ""


def projector_rank(name: str, model: str) -> tuple[int, int]:
    """Rate how well a projector's name matches a model's; smaller is better.

    The number of extra words counts first, then the quantization, smallest usual one first.
    """
    quant = quantization(name)
    words = set(_WORD.findall(name.lower().replace(quant.lower(), "")))
    foreign = words.difference(_WORD.findall(model.lower()), _GENERIC_WORDS)
    return len(foreign), (*_PROJECTOR_PREFERENCE, quant).index(quant)


def plain(quant: str) -> str:
    """Return a quantization in a normalized spelling."""
    return re.sub(r"[^a-z0-9]", "", quant.lower()).replace("fp", "f")


class Part(NamedTuple):
    """Position of a file in a split model: common prefix of the names, number from 1, and number of parts."""

    stem: str
    number: int
    n_parts: int


def part_of(name: str) -> Part | None:
    """Return the position of a file from its name; None for a whole model."""
    found = _SPLIT_FILE_NAME.fullmatch(name)
    return Part(found["stem"], int(found["number"]), int(found["count"])) if found else None


def part_names(name: str) -> list[str]:
    """Return the names of all parts from the name of one; a whole model is its only part."""
    found = part_of(name)
    if found is None:
        return [name]
    ending = name[-len(".gguf") :]
    return [f"{found.stem}-{number:05}-of-{found.n_parts:05}{ending}" for number in range(1, found.n_parts + 1)]


def parts_here(path: Path) -> list[Path]:
    """Return the present parts of a model, given any part."""
    if part_of(path.name) is None:
        return [path]
    return [file for file in map(path.with_name, part_names(path.name)) if is_file(file)]
