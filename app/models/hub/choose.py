"""Choose a file of a repository by its quantization.

Pure: it works on names and sizes.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from app.core.errors import HubError
from app.models.model_names import plain, quantization
from app.models.source import HubModel
from app.models.split_model import part_of

_NOT_A_MODEL = re.compile(
    r"(^|[/._-])(mmproj|imatrix|mtp|eagle3?|dflash|lora|adapter|draft-head)([/._-]|$)", re.IGNORECASE
)
PREFERENCE = ("Q4_K_M", "Q4_K_S", "Q5_K_M", "Q4_0", "IQ4_XS", "Q6_K", "Q8_0", "Q3_K_M")
"""Quantizations in the order they are taken when none is named: most quality for the memory first."""
DRAFT_PREFERENCE = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q4_0")
"""A draft is small anyway, and what its quantization saves in time it loses in acceptance."""
_SHOWN = 12
_COMPARED = 200
"""Names that are looked at for the nearest one, each of which takes a millisecond; real repositories have fewer."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file of a repository.

    Attributes:
        path: In the repository.
        size: Bytes.
        sha256: Of its content, where the hub says so.
        etag: Its name in the hub's cache.
    """

    path: str
    size: int
    sha256: str | None = None
    etag: str | None = None


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """One model of a repository: one file, or all parts of a split one, in order.

    Attributes:
        quant: Quantization by its name; "" where the name does not say.
        files: First part first.
    """

    quant: str
    files: tuple[RemoteFile, ...]

    @property
    def name(self) -> str:
        """The file to load."""
        return self.files[0].path

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)


def models_in(files: Sequence[RemoteFile]) -> list[ModelFiles]:
    """The complete models among a repository's files; projectors, adapters and incomplete splits are not."""
    whole: list[ModelFiles] = []
    parts: dict[tuple[str, int], dict[int, RemoteFile]] = {}
    for file in files:
        if not file.path.lower().endswith(".gguf") or _NOT_A_MODEL.search(file.path):
            continue
        if split := part_of(file.path):
            parts.setdefault((split.stem, split.n_parts), {})[split.number] = file
        else:
            whole.append(ModelFiles(quantization(file.path), (file,)))
    for (stem, n), found in parts.items():
        # Counted first: a name may claim 99,999 parts, and as many names may.
        if len(found) == n and sorted(found) == list(range(1, n + 1)):
            whole.append(ModelFiles(quantization(stem), tuple(found[i] for i in range(1, n + 1))))
    return sorted(whole, key=lambda model: (model.size, model.name))


def choose(source: HubModel, files: Sequence[RemoteFile], *, draft: bool = False) -> ModelFiles:
    """The model that a source means.

    Args:
        source: What was asked for.
        files: All files of its repository.
        draft: Whether it is to be a draft; decides the quantization if none is named.

    Raises:
        HubError: There is none, or more than one; it names the nearest. Or it is not what the source knows of it.
    """
    return _as_known(source, _meant(source, files, draft=draft))


def _as_known(source: HubModel, found: ModelFiles) -> ModelFiles:
    """Return what was found, if it is what the source knows of it; with the source's checksum where the hub tells none.

    A size is what people may round, and tells only what a download will take.
    """
    (file, *more), known = found.files, source.sha256
    if known is not None and not more:
        if file.sha256 not in (None, known):
            raise HubError(
                f"{file.path} of {source.repo} is not the file that this pair was made with: "
                f"its SHA-256 is {file.sha256}, not {known}.",
                "Its authors may have replaced it. If you trust what is there now, name both models instead of the "
                "pair: tandem setup --target MODEL --draft MODEL",
            )
        found = replace(found, files=(replace(file, sha256=known),))
    return found


def _meant(source: HubModel, files: Sequence[RemoteFile], *, draft: bool) -> ModelFiles:
    models = models_in(files)
    if not models:
        raise HubError(
            f"{source.repo} holds no GGUF model.",
            f"Look for a repository with GGUF files: tandem pairs find {source.repo}",
        )
    if source.file is not None:
        return _by_file(source, models, files)
    if source.quant is not None:
        return _by_quant(source, models, files)
    order = DRAFT_PREFERENCE if draft else PREFERENCE
    for quant in (*order, *PREFERENCE):
        if same := [model for model in models if model.quant == quant]:
            return _only(source, same)
    if len(models) == 1:
        return models[0]
    raise HubError(f"{source.repo} holds several models.", f"Name one: {_list(models)}.")


def _by_file(source: HubModel, models: Sequence[ModelFiles], files: Sequence[RemoteFile]) -> ModelFiles:
    wanted = source.file
    assert wanted is not None
    for model in models:
        if any(file.path == wanted for file in model.files):
            return model
    if named := [file for file in files if file.path == wanted]:
        if split := part_of(wanted):
            raise _incomplete(source, wanted, split.n_parts, models)
        return ModelFiles(quantization(wanted), (named[0],))
    names = [model.name for model in models[:_COMPARED]]
    close = difflib.get_close_matches(wanted, names, n=3, cutoff=0.4)
    raise HubError(
        f"{source.repo} has no file {wanted}.", f"Nearest: {', '.join(close)}." if close else f"It has {_list(models)}."
    )


def _incomplete(source: HubModel, name: str, n_parts: int, models: Sequence[ModelFiles]) -> HubError:
    return HubError(
        f"{source.repo} lacks parts of {name}: not all {n_parts} are there.", f"What is whole: {_list(models)}."
    )


def _by_quant(source: HubModel, models: Sequence[ModelFiles], files: Sequence[RemoteFile]) -> ModelFiles:
    wanted = plain(source.quant or "")
    same = [model for model in models if plain(model.quant) == wanted]
    # "Q4" means the usual one of that width, "Q4_K" the medium one.
    for quant in PREFERENCE if not same else ():
        if plain(quant).startswith(wanted) and (same := [model for model in models if model.quant == quant]):
            break
    if not same:
        same = [model for model in models if wanted in plain(model.name.rsplit("/", 1)[-1])]
    if not same:
        for file in files:
            if (split := part_of(file.path)) and plain(quantization(split.stem)) == wanted:
                raise _incomplete(source, file.path, split.n_parts, models)
        raise HubError(f"{source.repo} has no quantization {source.quant}.", f"It has {_list(models)}.")
    return _only(source, same)


def _only(source: HubModel, same: Sequence[ModelFiles]) -> ModelFiles:
    if len(same) == 1:
        return same[0]
    # Two copies of one quantization, say whole and split, are one choice; two models are not.
    if len({_stem(model.name) for model in same}) == 1:
        return min(same, key=lambda model: len(model.files))
    names = ", ".join(model.name for model in same[:_SHOWN])
    raise HubError(f"{source} could be several files.", f"Name one after the colon: {names}.")


def _stem(name: str) -> str:
    name = name.rsplit("/", 1)[-1]
    split = part_of(name)
    return split.stem if split else name[: -len(".gguf")]


def _list(models: Sequence[ModelFiles]) -> str:
    names = [model.quant or model.name for model in models]
    names = list(dict.fromkeys(names))
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
