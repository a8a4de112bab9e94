"""Choose a file of a repository by its quantization, from names and sizes."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.core.atomic import is_valid_name
from app.core.errors import FileChangedError, HubError
from app.core.fixes import fix
from app.engine.sources import Source
from app.models.model_names import part_of, plain, projector_rank, quantization
from app.models.source import DEFAULT_REVISION, HubModel

_NOT_A_MODEL = re.compile(r"(^|[/._-])(mmproj|imatrix|lora|adapter|draft-head)([/._-]|$)", re.IGNORECASE)
_DRAFT_HEAD_NAME = re.compile("|".join(source.file_name for source in Source if source.file_name), re.IGNORECASE)
"""Names of draft layers, which need a target."""
_PROJECTOR_NAME = re.compile(r"mmproj[^/]*\.gguf$", re.IGNORECASE)
PREFERENCE = ("Q4_K_M", "Q4_K_S", "Q5_K_M", "Q4_0", "IQ4_XS", "Q6_K", "Q8_0", "Q3_K_M")
"""Quantizations in order of preference if none is named: most quality for the memory first."""
DRAFT_PREFERENCE = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0")
"""Preference for drafts. A draft is small: a smaller quantization saves little time and loses acceptance."""
SHA256_DIGEST = re.compile(r"[0-9a-f]{64}")
_LONGEST_NAME, _LONGEST_PATH = 200, 1_000
"""Limits in bytes; file systems allow 255 and a few thousand."""
_REPLACED_FIX = "Its authors may have replaced it. To use the current file: ⟨setup.latest⟩"
_MAX_SHOWN_FILES = 12
_MAX_COMPARED_NAMES = 200
"""Number of names compared to find the nearest; each takes a millisecond."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of a repository at a commit: path, size in bytes, and SHA-256 if Hugging Face provides it."""

    path: str
    size: int
    sha256: str | None = None
    repo: str = ""
    commit: str = ""

    @property
    def name(self) -> str:
        """File name without folders."""
        return self.path.rpartition("/")[2]


def safe_name(path: str) -> bool:
    """Return whether a file of that name stays inside its folder and can exist."""
    parts = path.split("/")
    return (
        path.isprintable()
        and "\\" not in path
        and ":" not in path
        and len(path.encode()) <= _LONGEST_PATH
        and not any(part in ("..", ".", "") or len(part.encode()) > _LONGEST_NAME for part in parts)
        and all(map(is_valid_name, parts))
    )


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model of a repository: one file, or all parts of a split model, in order."""

    quant: str
    files: tuple[RemoteFile, ...]

    @property
    def name(self) -> str:
        """The file to load."""
        return self.files[0].path

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def models_in(files: Sequence[RemoteFile], *, heads: bool = False) -> list[ModelFiles]:
    """Return the complete models among a repository's files, without projectors, adapters and incomplete splits.

    Draft layers are also left out, unless `heads`.
    """
    parts: dict[tuple[str, int], dict[int, RemoteFile]] = {}
    for file in files:
        if not file.path.lower().endswith(".gguf") or _NOT_A_MODEL.search(file.path):
            continue
        if not heads and _DRAFT_HEAD_NAME.search(file.path):
            continue
        stem, number, n = part_of(file.path) or (file.path, 1, 1)
        parts.setdefault((stem, n), {})[number] = file
    models = (
        ModelFiles(quantization(stem), tuple(found[i] for i in sorted(found)))
        for (stem, n), found in parts.items()
        # Count first: a name may claim 99,999 parts, and there may be as many names.
        if len(found) == n and sorted(found) == list(range(1, n + 1))
    )
    return sorted(models, key=lambda model: (model.size, model.name))


def draft_layers(files: Sequence[RemoteFile]) -> list[ModelFiles]:
    """Return the files of a repository with only draft layers.

    Files that llama.cpp finds itself come first ("mtp-..." beside the target), then the preferred quantization.
    """
    layers = [model for model in models_in(files, heads=True) if _DRAFT_HEAD_NAME.search(model.name)]
    return sorted(
        layers,
        key=lambda model: (
            not model.name.lower().startswith("mtp-"),
            (*DRAFT_PREFERENCE, model.quant).index(model.quant),
        ),
    )


def projector_for(model: str, files: Sequence[RemoteFile]) -> RemoteFile | None:
    """Return the projector for a model's file, from its folder or a folder above it.

    If there are several, prefer a name without words that the model's name lacks.
    """
    found = [file for file in files if _PROJECTOR_NAME.search(file.path)]
    return min(
        (file for file in found if model.startswith(file.path[: -len(file.name)])),
        key=lambda file: (-file.path.count("/"), projector_rank(file.name, model)),
        default=None,
    )


def choose(source: HubModel, files: Sequence[RemoteFile], *, draft: bool = False) -> ModelFiles:
    """Pick the model in a repository that a source refers to.

    If the source names none, `draft` decides which quantization is preferred.

    Raises:
        HubError: There is none, or more than one; `FileChangedError` if it is not the catalog's file.
    """
    # A repository of draft layers has no other files.
    models = models_in(files) or (models_in(files, heads=True) if draft else [])
    if source.file is not None:
        found = _by_file(source, source.file, models, files)
    elif not models:
        raise HubError(
            f"{source.repo} holds no GGUF model.",
            f"Look for a repository with GGUF files: {fix('pairs.find', source.repo)}",
        )
    elif source.quant is not None:
        found = _by_quant(source, source.quant, models)
    else:
        found = _preferred(source, models, (*DRAFT_PREFERENCE, *PREFERENCE) if draft else PREFERENCE)
    (file, *more), known = found.files, source.sha256
    difference = ""
    if known is not None and not more:
        if file.sha256 not in (None, known):
            difference = f"its SHA-256 is {file.sha256}, not {known}"
        found = replace(found, files=(replace(file, sha256=known),))
    elif source.size not in (None, found.size) and source.revision != DEFAULT_REVISION:
        # The size at a branch is an estimate, which people may round.
        difference = f"it has {found.size:,} bytes, not {source.size:,}"
    if difference:
        made = f"{file.path} of {source.repo} is not the file that this pair was made with: {difference}."
        raise FileChangedError(made, _REPLACED_FIX)
    return found


def successor(source: HubModel, files: Sequence[RemoteFile]) -> ModelFiles:
    """Return a repository's replacement for a file: the same name, or else the same quantization.

    Raises:
        HubError: There is neither, or more than one file.
    """
    if source.file is None:
        return choose(source, files)
    same = HubModel(source.repo, file=source.file)
    try:
        return choose(same, files)
    except HubError:
        quant = quantization(source.file)
        alike = draft_layers(files) if _DRAFT_HEAD_NAME.search(source.file) else models_in(files)
        if not quant or not alike:
            raise
        return _by_quant(replace(same, file=None, quant=quant), quant, alike)


def _by_file(source: HubModel, path: str, models: Sequence[ModelFiles], files: Sequence[RemoteFile]) -> ModelFiles:
    found = [model for model in models if any(file.path == path for file in model.files)]
    found += [ModelFiles(quantization(path), (file,)) for file in files if file.path == path and part_of(path) is None]
    if found:
        return found[0]
    close = difflib.get_close_matches(path, [model.name for model in models[:_MAX_COMPARED_NAMES]], n=3, cutoff=0.4)
    hint = f"Nearest: {', '.join(close)}." if close else f"It has {_list(models)}."
    failure = FileChangedError if source.is_pinned else HubError
    raise failure(f"{source.repo} has no complete file {path}.", hint)


def _by_quant(source: HubModel, quant: str, models: Sequence[ModelFiles]) -> ModelFiles:
    asked = plain(quant)
    alike = [model for model in models if plain(model.quant) == asked]
    alike = alike or [model for model in models if asked in plain(model.name.rsplit("/", 1)[-1])]
    if not alike:
        raise HubError(f"{source.repo} has no complete quantization {quant}.", f"It has {_list(models)}.")
    # "Q4" means the usual quantization of that width, "Q4_K" the medium one.
    return _preferred(source, alike, PREFERENCE)


def _preferred(source: HubModel, models: Sequence[ModelFiles], preference: Sequence[str]) -> ModelFiles:
    by_quant = ([model for model in models if model.quant == quant] for quant in preference)
    alike = next(filter(None, by_quant), models)
    if len(alike) == 1:
        return alike[0]
    names = ", ".join(model.name for model in alike[:_MAX_SHOWN_FILES])
    raise HubError(f"{source} matches several files.", f"Name one after the colon: {names}.")


def _list(models: Sequence[ModelFiles]) -> str:
    names = list(dict.fromkeys(model.quant or model.name for model in models))
    more = f" and {len(names) - _MAX_SHOWN_FILES} more" if len(names) > _MAX_SHOWN_FILES else ""
    return ", ".join(names[:_MAX_SHOWN_FILES]) + more
