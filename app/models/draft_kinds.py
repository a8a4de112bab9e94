"""Kinds of draft layers that read the target's hidden rows, and whether a target can use them, from headers.

llama.cpp trusts what these files say, and ends the process on much of what does not fit. So every condition is checked
here before a file is given to it.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

from app.engine.types import MAX_DRAFT
from app.engine.vocab import incompatibility
from app.models.gguf import GgufHeader, read_header

if TYPE_CHECKING:
    from app.models.model_facts import ModelFacts

DraftKind: TypeAlias = Literal["model", "mtp", "eagle3", "dflash"]
KIND_NAMES: Mapping[DraftKind, str] = {
    "model": "draft model",
    "mtp": "MTP layer in the same file",
    "eagle3": "EAGLE-3 head",
    "dflash": "DFlash block",
}
WITH_ARTICLE: Mapping[DraftKind, str] = {
    "model": "a draft model",
    "mtp": "an MTP layer",
    "eagle3": "an EAGLE-3 head",
    "dflash": "a DFlash block",
}

_MTP = frozenset(
    {
        "bailingmoe3",
        "cohere2moe",
        "deepseek2",
        "deepseek32",
        "glm-dsa",
        "glm4moe",
        "hy_v3",
        "mimo2",
        "nemotron_h_moe",
        "qwen35",
        "qwen35moe",
        "step35",
    }
)
"""Architectures whose MTP layer llama.cpp computes, and whose rejected drafts can be rolled back."""
_LAYER_INPUTS = frozenset(
    {
        "bailingmoe3",
        "deepseek4",
        "gemma3n",
        "gemma4",
        "gpt-oss",
        "hunyuan_vl",
        "lfm2",
        "llama",
        "mimo2",
        "minimax-m2",
        "muse-glimmer",
        "nanbeige",
        "nemotron_h",
        "qwen3",
        "qwen35",
        "qwen35moe",
        "qwen3moe",
        "qwen4exp",
    }
)
"""Architectures whose layer inputs llama.cpp can output; for any other one it ends the process."""
_EAGLE_LAYERS = 3
_DEFAULT_BLOCK, _LEAST_BLOCK = 16, 2
_VARIANTS = {
    "selector_hidden.weight": "it is a DFlash2 block, which Tandem cannot use yet",
    "markov_w1.weight": "it is a DSpark block, which Tandem cannot use yet",
}
"""Tensors of variants of DFlash."""
D2T = "d2t"
_D2T_TYPE = 27
"""GGML_TYPE_I64."""


@dataclass(frozen=True, slots=True)
class HeadFacts:
    """What the header of an EAGLE-3 head or DFlash block says.

    Attributes:
        kind: Its kind.
        target_layers: Layers of the target whose inputs it reads.
        target_width: Width of the target's hidden rows.
        block_size: Tokens of a DFlash block, with the last token before it.
        mask_token: Token in place of those that a DFlash block computes.
        fault: Why Tandem cannot use it, as a clause; "" if it can.
    """

    kind: Literal["eagle3", "dflash"]
    target_layers: tuple[int, ...]
    target_width: int
    block_size: int = 0
    mask_token: int = 0
    fault: str = ""


def kind_of(facts: ModelFacts) -> DraftKind:
    """Return the kind of a draft file."""
    return facts.head.kind if facts.head is not None else "model"


def chosen(wanted: str, target: ModelFacts, draft: ModelFacts | None) -> tuple[bool, bool, str]:
    """Return which draft of a pair a setting of `draft.type` means.

    Returns:
        Whether to load the draft's file, whether to load MTP layers, and a notice if the wanted kind is missing.
    """
    if wanted in ("ngram", "none"):
        return False, False, ""
    if draft is not None and wanted in ("auto", kind_of(draft)):
        return True, False, ""
    if wanted in ("auto", "mtp"):
        problem = mtp_problem(target)
        if not target.n_mtp_layers and wanted == "mtp":
            problem = f"{target.name} has no MTP layer."
        return False, not problem and target.n_mtp_layers > 0, problem and f"Running without a draft. {problem}"
    kind = next(name for kind, name in KIND_NAMES.items() if kind == wanted)
    found = f"{draft.name} is {WITH_ARTICLE[kind_of(draft)]}" if draft is not None else "the pair has no draft"
    return False, False, f"Running without a draft: no {kind} was found; {found}."


def head_facts(header: GgufHeader) -> HeadFacts | None:
    """Return the facts of a file with draft layers; None for any other model."""
    found = header.of_architecture("target_layers")
    numbers = tuple(n for n in found if isinstance(n, int)) if isinstance(found, list) else ()
    width = header.number("embedding_length")
    match header.architecture:
        case "eagle3":
            target_width = header.number("target_hidden_size")
            fault = "" if len(numbers) == _EAGLE_LAYERS else f"it names {len(numbers)} layers of its target, not 3"
            if header.number("block_count") != 1:
                fault = f"it has {header.number('block_count')} layers, not 1"
            if width != target_width and not header.tensors.keys() >= {"token_embd.weight", "output.weight"}:
                fault = fault or "it shares embeddings with its target, and they have another width"
            return HeadFacts("eagle3", numbers, target_width, fault=fault)
        case "dflash":
            block, mask = header.number("block_size") or _DEFAULT_BLOCK, header.metadata.get(_MASK_KEY)
            fault = next((why for name, why in _VARIANTS.items() if name in header.tensors), "")
            if header.number("hyper_connection.count"):
                fault = _VARIANTS["markov_w1.weight"]
            if not numbers:
                fault = fault or "it names no layers of its target"
            if not isinstance(mask, int) or not 0 <= mask < len(header.tokens):
                fault = fault or "it names no mask token"
            if not _LEAST_BLOCK <= block <= MAX_DRAFT:
                fault = fault or f"its blocks have {block} tokens; {_LEAST_BLOCK} to {MAX_DRAFT} are possible"
            return HeadFacts("dflash", numbers, width, block, mask if isinstance(mask, int) else 0, fault)
    return None


_MASK_KEY = "tokenizer.ggml.mask_token_id"


def mtp_problem(target: ModelFacts) -> str:
    """Return why the MTP layers in a target's file cannot draft, as a sentence; "" if they can or there are none."""
    n = target.n_mtp_layers
    if not n:
        return ""
    name, what = target.name, "MTP layer" if n == 1 else f"{n} MTP layers"
    if target.architecture not in _MTP:
        return f"The {what} of {name} cannot draft: Tandem knows no way for the architecture {target.architecture}."
    if n > 1:
        return f"The {what} of {name} cannot draft: Tandem can use one, and chained layers not yet."
    return ""


def head_problem(target: ModelFacts, draft: ModelFacts) -> str:
    """Return why an EAGLE-3 head or DFlash block cannot draft for a target, as a sentence; "" if it can."""
    head = draft.head
    if head is None:
        return ""
    refused = f"{draft.name} cannot be used as a draft"
    if head.fault:
        return f"{refused}: {head.fault}."
    if target.architecture not in _LAYER_INPUTS:
        known = f"llama.cpp does not output the hidden rows of the architecture {target.architecture}"
        return f"{refused}: {known}, which {WITH_ARTICLE[head.kind]} needs."
    n_layers = target.n_layers - target.n_mtp_layers
    if head.target_width != target.graph.embedding:
        return (
            f"{refused}: it was made for another target, whose hidden rows have {head.target_width:,} values; those of "
            f"{target.name} have {target.graph.embedding:,}."
        )
    if wrong := next((n for n in head.target_layers if not 0 <= n < n_layers), None):
        return f"{refused}: it was made for another target; it reads layer {wrong}, and {target.name} has {n_layers}."
    if len(draft.vocab.tokens) != len(target.vocab.tokens):
        return (
            f"{refused}: it was made for another target, with {len(draft.vocab.tokens):,} tokens instead of "
            f"{len(target.vocab.tokens):,}."
        )
    return incompatibility(target.vocab, draft.vocab) or ""


def d2t_fault(path: Path, n_vocab: int) -> str:
    """Return what is wrong with a draft's table of target tokens, as a clause; "" for nothing or no table."""
    header = read_header(path, tensors=True, vocabulary=False)
    tensor = header.tensors.get(D2T)
    if tensor is None:
        return ""
    start = header.data_start + tensor.offset
    n = tensor.shape[0] if len(tensor.shape) == 1 else 0
    if tensor.kind != _D2T_TYPE or not n:
        return "its table of tokens has another type than llama.cpp expects"
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if start + 8 * n > len(data):
            return "its table of tokens lies behind the end of the file"
        ids = struct.unpack_from(f"<{n}q", data, start)
    wrong = next((token for token in ids if not 0 <= token < n_vocab), None)
    return f"its table of tokens has the token {wrong}, of {n_vocab:,}" if wrong is not None else ""
