"""Names, sizes and memory of pairs, without network access, and commands that name pairs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath

from app.core.errors import AppError
from app.core.fixes import fix
from app.core.regular_file import is_file
from app.core.units import GB, gigabytes
from app.models.catalog import Pair
from app.models.layer_memory import SHARED_SHARE
from app.models.memory_estimate import DEFAULT_CONTEXT, ModelMemory
from app.models.model_names import apart, known_as, parts_here, quantization
from app.models.registry import SetUp
from app.models.source import DemoModel, HubModel, LocalModel, ModelSource, parse_source

_GGUF_SUFFIX = re.compile(r"[-_.]gguf$", re.IGNORECASE)
_DEMO_MODEL = "SmolLM2-135M-Instruct"
_DEMO_DRAFT = "a smaller copy of it"
SAME_FILE = "the same file"
NO_DRAFT = "none"
"""In place of a draft: use no draft, not even draft layers beside the target."""
UNKNOWN, OVER, NO_FILE = "?", ">", "no file"
"""Placeholders for a size, and the sign before a lower bound."""
_DEMO_BYTES = {"target": 98_000_000, "draft": 88_000_000}
_CLASS_WEIGHTS, _CLASS_NEED = 0.85, 0.95
"""Shares of a memory class that the weights and the pair take, if sizes are unknown."""
_USUAL_DRAFT = 600_000_000
_MAX_CACHES, _BUFFER_SHARE = 2_000_000_000, 0.08
"""Guess for caches and buffers before a header is read: as large as the weights up to a maximum, and a share of the
weights. For the catalog's pairs the guess is 0.6 to 1.5 times the true size."""
_USUAL_LAYERS = 48
_KEEP_FREE = 200_000_000
"""Disk space that downloads leave free."""


def pair_texts(pair: Pair, files: SetUp | None = None) -> tuple[str, str]:
    """Return the target's name with its quantization, and how the draft's name differs."""
    if pair.is_demo:
        return _DEMO_MODEL, _DEMO_DRAFT if pair.draft is not None else ""
    name, quant, file = _named(pair.target, files.target.path.name if files is not None else "")
    text = f"{name} {quant}".strip()
    if pair.draft is None:
        return text, ""
    draft_file = files.draft.path.name if files is not None and files.draft is not None else ""
    draft_name, draft_quant, draft_file = _named(pair.draft, draft_file)
    if (name, quant) == (draft_name, draft_quant):
        return text, draft_file if draft_file != file else SAME_FILE
    return text, f"{apart(name, draft_name)} {draft_quant}".strip()


def title_of(target: ModelSource, draft: ModelSource | None) -> str:
    """Name both models in one line, before their files are known."""
    return " + ".join(text for text in pair_texts(Pair("", "", target, draft)) if text)


def pair_of(target: str, draft: str | None = None) -> Pair:
    """Return the pair of two models as the user names them; the draft may be "none". Raises UsageError."""
    main, small = parse_source(target), parse_source(draft) if draft not in (None, NO_DRAFT) else None
    return Pair(pair_name(main), title_of(main, small), main, small)


def _named(source: ModelSource, file: str) -> tuple[str, str, str]:
    quant = ""
    if not file:
        file = PurePath(str(source)).name
        if isinstance(source, HubModel):
            quant = source.quant or ""
            file = PurePath(source.file).name if source.file else _GGUF_SUFFIX.sub("", source.repo.rpartition("/")[2])
    return known_as(file, ""), quant or quantization(file), file


def pair_name(target: ModelSource) -> str:
    """Return a name for a pair that the user combined."""
    match target:
        case HubModel(repo=repo, quant=quant):
            text = f"{repo.rpartition('/')[2]}-{quant}" if quant else repo.rpartition("/")[2]
        case LocalModel(path):
            text = path.stem
        case _:
            text = str(target)
    text = re.sub(r"[-_.]?gguf", "", text.lower())
    return re.sub(r"[^a-z0-9.]+", "-", text).strip("-.") or "pair"


def free_name(pair: Pair, taken: Mapping[str, Pair]) -> str:
    """Return pair.name, or pair.name-2, -3, ... if other models use it."""
    number, name = 2, pair.name
    while name in taken and taken[name].sources != pair.sources:
        name, number = f"{pair.name}-{number}", number + 1
    return name


def setup_models(target: str, draft: str | None = None) -> str:
    """Return the action that sets up a pair of these models."""
    return fix("setup.models", target, *filter(None, [draft]))


def without_draft(error: AppError) -> str:
    """Return the notice for a draft that cannot be created or loaded."""
    return f"Running without this draft. {error.sentences}"


def has_room(download_bytes: int, free_bytes: int) -> bool:
    """Return whether a disk with `free_bytes` has enough space for a download."""
    return not download_bytes or download_bytes + _KEEP_FREE <= free_bytes


def model_bytes(source: ModelSource) -> int | None:
    """Return the bytes of all parts; None if the file is gone or only Hugging Face knows."""
    match source:
        case HubModel(size=size):
            return size
        case DemoModel(part):
            return _DEMO_BYTES.get(part)
        case LocalModel(path):
            try:
                return sum(part.stat().st_size for part in parts_here(path)) or None
            except (OSError, ValueError):
                return None


def weights(pair: Pair) -> int:
    """Return the bytes of both models, guessed if the catalog does not know; 0 if there is nothing to guess from."""
    target, draft = model_bytes(pair.target), model_bytes(pair.draft) if pair.draft is not None else 0
    if target is None:
        return int(_CLASS_WEIGHTS * pair.memory_gb * GB)
    return target + (draft if draft is not None else _USUAL_DRAFT)


def pair_memory(pair: Pair, n_ctx: int) -> ModelMemory:
    """Return the memory of both models as one, from the catalog; a guess unless `is_known`.

    Its layers are alike; layers of a mixture have experts that can be in RAM.
    """
    n_ctx, working = min(n_ctx, pair.context or n_ctx), pair.working
    both, kv, compute, host = weights(pair), 0, 0, 0
    if model_bytes(pair.target) is None:
        longer = working.per_token * (n_ctx - DEFAULT_CONTEXT) if working is not None else 0
        compute = int(_CLASS_NEED * pair.memory_gb * GB) - both + longer
    elif working is not None:
        kv, compute, host = working.per_token * n_ctx, working.fixed, working.main
    else:
        compute = int((min(both, _MAX_CACHES) + _BUFFER_SHARE * both) * n_ctx / DEFAULT_CONTEXT)
    n_layers = pair.expert_layers or _USUAL_LAYERS
    experts = _expert_bytes(pair) // n_layers if pair.expert_layers else 0
    block = max(0, both - n_layers * experts) // n_layers
    return ModelMemory(
        name=pair.title,
        weights=both,
        kv=kv,
        compute=compute,
        host=host,
        n_layers=n_layers,
        n_ctx=n_ctx,
        output=max(0, both - n_layers * (block + experts)),
        blocks=(block,) * n_layers,
        experts=(experts,) * pair.expert_layers,
        # A layer has its experts in three tensors.
        expert_copy=experts // 3,
    )


def _expert_bytes(pair: Pair) -> int:
    return pair.expert_bytes or max(1, int((1 - SHARED_SHARE) * (model_bytes(pair.target) or weights(pair))))


def is_known(pair: Pair) -> bool:
    """Return whether the memory of a pair is estimated instead of guessed."""
    return model_bytes(pair.target) is not None and pair.working is not None


def pair_bytes(pair: Pair) -> int | None:
    """Return the bytes of both models, if both are known."""
    sizes = [model_bytes(source) for source in pair.sources]
    return sum(size for size in sizes if size is not None) if None not in sizes else None


def download_bytes(pair: Pair) -> int:
    """Return the bytes of a pair on Hugging Face; 0 if a size is unknown."""
    sizes = [source.size for source in pair.sources if isinstance(source, HubModel)]
    return sum(size for size in sizes if size is not None) if None not in sizes else 0


def size_text(pair: Pair) -> str:
    """Format the size of both models: ">14.3 GB" if only the target's is known, "?" if none is."""
    if (size := pair_bytes(pair)) is not None:
        return gigabytes(size)
    if any(isinstance(source, LocalModel) and not is_file(source.path) for source in pair.sources):
        return NO_FILE
    target = model_bytes(pair.target)
    return f"{OVER}{gigabytes(target)}" if target is not None else UNKNOWN


def with_files(pair: Pair, files: SetUp | None) -> Pair:
    """Return the pair with the sizes of its files, if they are here."""
    if files is None:
        return pair
    sized = with_sizes(pair, *(model.size for model in files.models))
    return replace(sized, working=files.pair.working or pair.working)


def with_sizes(pair: Pair, *sizes: int) -> Pair:
    """Return the pair with the sizes of its downloads; local files have their own."""
    target, *draft = (
        replace(source, size=size) if isinstance(source, HubModel) else source
        for source, size in zip(pair.sources, sizes, strict=False)
    )
    return replace(pair, target=target, draft=next(iter(draft), None))
