"""Names for what was measured: files, placement, machine, build and threads decide whether it still holds.

A home may be on more than one machine, and a machine may get another card: what was measured on one says nothing of the
other, and comes back with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from app.hardware.processors import processor_kind
from app.llama.installed import build_kind, computes_on_processors_only
from app.llama.pair_params import PairParams
from app.llama.params import CPU_LABEL, ModelParams
from app.settings.placement import ALL_LAYERS

_SAMPLE_BYTES = 1 << 20
_THREADS = "threads"


Fingerprints = Mapping[Path, str]
"""Of the files of a pair, those that can be read. A pair that is loaded needs its files no more: they may be gone, or
be others, when something is to be kept of it."""


def fingerprints(params: PairParams) -> Fingerprints:
    """The files as they are now."""
    found = {}
    for path in filter(None, (params.target, params.draft)):
        with suppress(OSError):
            found[path] = fingerprint(path)
    return found


def memory_file(params: PairParams, files: Fingerprints | None = None) -> Path | None:
    """Where automatic drafting keeps what it learns about a pair; None for nowhere, or if a file cannot be read.

    Args:
        params: How the pair is loaded; without a draft where that is not loaded.
        files: As they were when it was loaded; None looks at them now.
    """
    if params.memory_dir is None:
        return None
    files = fingerprints(params) if files is None else files
    if not all(path in files for path in filter(None, (params.target, params.draft))):
        return None
    return params.memory_dir / f"{pair_identity(params, files)}.json"


def thread_file(params: PairParams, candidates: Sequence[int], files: Fingerprints | None = None) -> Path | None:
    """Where the number of threads is kept; None for nowhere, or where no layer is the processor's, or as `memory_file`.

    Args:
        params: How the pair is loaded.
        candidates: The numbers that can be chosen from; a container with another quota has others.
        files: As for `memory_file`.
    """
    path = processor_model(params)
    if params.memory_dir is None or path is None:
        return None
    files = fingerprints(params) if files is None else files
    if path not in files:
        return None
    model = params.model if path == params.target else params.draft_model
    return params.memory_dir / _THREADS / f"{model_identity(files[path], model, candidates)}.json"


def processor_model(params: PairParams) -> Path | None:
    """The file of the model whose layers the processor computes, the target's if it computes both; else None."""
    if _computed_here(params.model):
        return params.target
    return params.draft if params.draft is not None and _computed_here(params.draft_model) else None


def _computed_here(model: ModelParams) -> bool:
    # How many layers a model has is not known here; a number that was given means that some are left over.
    return _label(model) == CPU_LABEL or model.n_gpu_layers != ALL_LAYERS


def pair_identity(params: PairParams, files: Fingerprints) -> str:
    """A name for what costs and acceptance depend on: files, placement, machine, cache types, build and threads.

    Of a draft that is not loaded nothing counts.
    """
    parts = [
        files[params.target],
        *_placement(params.model, params.kv_type),
        build_kind(),
        processor_kind(),
        str(params.n_threads),
        params.flash_attention,
        *params.rpc,
    ]
    if params.draft is not None:
        parts += [files[params.draft], *_placement(params.draft_model, params.draft_kv_type)]
    return _name(parts)


def model_identity(file: str, model: ModelParams, n_cpus: Iterable[int]) -> str:
    """A name for what the best number of threads depends on.

    Args:
        file: Its fingerprint.
        model: Where its layers are.
        n_cpus: The numbers to choose from.
    """
    return _name([file, *_placement(model, ""), build_kind(), processor_kind(), *map(str, n_cpus)])


def fingerprint(path: Path) -> str:
    """A hash that tells model files apart without reading all of their gigabytes: size, beginning and end."""
    with path.open("rb") as file:
        size = path.stat().st_size
        digest = hashlib.sha256(f"{size}\n".encode() + file.read(_SAMPLE_BYTES))
        file.seek(max(0, size - _SAMPLE_BYTES))
        digest.update(file.read(_SAMPLE_BYTES))
    return digest.hexdigest()


def _label(model: ModelParams) -> str:
    """`app.llama.placement.label`; llama.cpp is loaded only where its list of devices could matter."""
    if model.on_cpu or (not model.devices and computes_on_processors_only()):
        return CPU_LABEL
    from app.llama.placement import label

    return label(model)


def _placement(model: ModelParams, kv_type: str) -> tuple[str, ...]:
    shares = ",".join(f"{share:g}" for share in model.tensor_split)
    return _label(model), *_kinds(model), str(model.n_gpu_layers), shares, kv_type


def _kinds(model: ModelParams) -> tuple[str, ...]:
    """What the devices are that `_label` names; of the processor it is asked elsewhere."""
    if _label(model) == CPU_LABEL:
        return ()
    from app.llama.placement import kinds_of

    return kinds_of(model)


def _name(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
