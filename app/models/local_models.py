"""GGUF models from other programs on this machine, and a draft for each.

Layouts: LM Studio has `publisher/repository/file.gguf`, Ollama stores content by its hash and names it in manifests,
Hugging Face's cache and llama.cpp's cache have files by name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from app.core.errors import AppError
from app.core.printable import printable
from app.core.regular_file import home_expanded, resolved
from app.models.catalog import Pair
from app.models.compatibility import WORTHWHILE_SHARE, check_pair, check_target, with_facts
from app.models.hub import cache
from app.models.hub.choose import RemoteFile, models_in
from app.models.model_facts import ModelFacts, read_facts
from app.models.pair_summary import free_name, pair_name
from app.models.source import LocalModel

MAX_MODELS = 100
"""Number of models whose headers are read; each takes up to 0.3 s."""
_MAX_DEPTH = 8
"""Levels of folders searched below a folder."""
_OLLAMA_MODEL = "application/vnd.ollama.image.model"
"""Media type of the layer with the GGUF file."""


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A GGUF file, or the first part of a split model.

    Attributes:
        name: Name in the program, for example "llama3.2-3b"; None if the file has its own name.
    """

    path: Path
    program: str
    name: str | None = None


def model_folders(own: Sequence[str] = ()) -> dict[Path, str]:
    """Return the folders with models on this machine, each with its program; the user's own come first."""
    home = Path.home()
    cached = os.environ.get("XDG_CACHE_HOME") or home / ".cache"
    mine = {home_expanded(folder): "your folder" for folder in own}
    programs = {
        **mine,
        home / "models": "~/models",
        _lm_studio(home) / "models": "LM Studio",
        home / ".cache" / "lm-studio" / "models": "LM Studio",
        cache.folder(): "Hugging Face's cache",
        Path(os.environ.get("LLAMA_CACHE") or Path(cached) / "llama.cpp"): "llama.cpp's cache",
        Path(os.environ.get("OLLAMA_MODELS") or home / ".ollama" / "models"): "Ollama",
        Path("/usr/share/ollama/.ollama/models"): "Ollama",
        **mine,
    }
    return {folder: program for folder, program in programs.items() if folder.is_dir()}


def _lm_studio(home: Path) -> Path:
    """Return LM Studio's folder; a file in the home folder may name another folder."""
    with suppress(OSError, ValueError):
        if named := (home / ".lmstudio-home-pointer").read_text(encoding="utf-8").strip():
            return Path(named)
    return home / ".lmstudio"


def find_models(folders: Mapping[Path, str]) -> tuple[FoundModel, ...]:
    """Return the models in folders of programs, each file once; without projectors, adapters and incomplete splits."""
    once: dict[Path, FoundModel] = {}
    for folder, program in folders.items():
        for model in (*_named_files(folder, program), *_ollama(folder, program)):
            with suppress(OSError):
                once.setdefault(model.path.resolve(), model)
    return tuple(once.values())


def _named_files(folder: Path, program: str) -> Iterator[FoundModel]:
    files = []
    for place, folders, names in os.walk(folder, followlinks=False):
        if len(Path(place).relative_to(folder).parts) >= _MAX_DEPTH:
            folders.clear()
        folders.sort()
        for name in names:
            with suppress(OSError):
                if name.lower().endswith(".gguf"):
                    path = Path(place) / name
                    files.append(RemoteFile(path.relative_to(folder).as_posix(), path.stat().st_size))
    return (FoundModel(folder / model.name, program) for model in models_in(files, heads=True))


def _ollama(folder: Path, program: str) -> Iterator[FoundModel]:
    """Yield Ollama's models; a manifest is `manifests/HOST/NAMESPACE/MODEL/TAG`."""
    for manifest in sorted((folder / "manifests").glob("*/*/*/*")):
        with suppress(OSError, ValueError, TypeError, KeyError):
            layers = json.loads(manifest.read_text(encoding="utf-8"))["layers"]
            digest = next(layer["digest"] for layer in layers if layer["mediaType"] == _OLLAMA_MODEL)
            content = folder / "blobs" / digest.replace(":", "-")
            tag = "" if manifest.name == "latest" else f"-{manifest.name}"
            if content.parent == folder / "blobs" and content.is_file():
                yield FoundModel(content, program, f"{manifest.parent.name}{tag}")


def pairs_of(models: Iterable[FoundModel], known: Set[Path] = frozenset()) -> dict[str, Pair]:
    """Return a pair for each model that can chat, by name, with the smallest compatible draft.

    A model with an MTP layer needs no draft. Unreadable files are left out.

    Args:
        known: Resolved paths of targets that already have a pair.
    """
    read: dict[FoundModel, ModelFacts] = {}
    for model in models:
        if len(read) >= MAX_MODELS:
            break
        with suppress(AppError, OSError):
            read[model] = read_facts(model.path)
    pairs: dict[str, Pair] = {}
    for model, facts in read.items():
        can_chat = facts.has_chat_template and not check_target(facts, drafted=False)[0]
        if can_chat and resolved(model.path) not in known:
            pair = _pair(model, facts, _draft(facts, read))
            name = free_name(pair, pairs)
            pairs[name] = replace(pair, name=name)
    return pairs


def _draft(target: ModelFacts, read: Mapping[FoundModel, ModelFacts]) -> tuple[FoundModel, ModelFacts] | None:
    """Return the smallest model that can draft; a target with its own draft layers needs none."""
    if check_pair(target).draft_kind is not None:
        return None
    small = [one for one in read.items() if one[1].weight_bytes <= WORTHWHILE_SHARE * target.weight_bytes]
    small.sort(key=lambda one: (one[1].head is None, one[1].weight_bytes))
    return next((one for one in small if not check_pair(target, one[1]).problems), None)


def _pair(model: FoundModel, facts: ModelFacts, draft: tuple[FoundModel, ModelFacts] | None) -> Pair:
    target = LocalModel(model.path)
    name = pair_name(LocalModel(Path(f"{model.name}.gguf")) if model.name else target)
    title = printable(f"{model.name or facts.name} {facts.quant}".strip())
    pair = Pair(name, f"{title}, found in {model.program}", target, LocalModel(draft[0].path) if draft else None)
    return with_facts(pair, check_pair(facts, draft[1] if draft else None))
