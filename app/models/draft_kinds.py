"""Kinds of drafts, and checks of the headers of EAGLE-3 heads and DFlash blocks.

llama.cpp trusts these files and aborts the process on many inconsistencies. So every condition is checked first;
`app.models.compatibility` has the checks against the target.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app.engine.sources import Source
from app.engine.types import MAX_DRAFT
from app.models.gguf import GgufHeader, read_header
from app.settings.placement import split_override

_EAGLE_LAYERS = 3
_DEFAULT_BLOCK, _LEAST_BLOCK, LONGEST_BLOCK = 16, 2, 64
_SELECTOR_TENSOR, _MARKOV_TENSOR, _CONFIDENCE_TENSOR = "selector_hidden.weight", "markov_w1.weight", "conf_proj.weight"
"""Tensors of DFlash2 blocks, of DSpark blocks, and of DSpark blocks that predict the acceptance."""
_SELECTOR_NUMBERS = ("block_size", "conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k")
"""Required numbers of a DFlash2 block."""
_FIRST_BLOCK = "blk.0.attn_norm.weight"
"""A tensor that a file with only MTP layers lacks."""
EMBEDDING, OUTPUT = "token_embd.weight", "output.weight"
D2T = "d2t"
_D2T_TYPE = 27
"""GGML_TYPE_I64."""


@dataclass(frozen=True, slots=True)
class HeadFacts:
    """Facts from the header of an EAGLE-3 head, a DFlash block, or an MTP layer in a separate file.

    Attributes:
        block_size: Tokens of a DFlash block, including the last token of the text before it.
        mask_token: Placeholder token at the drafted positions of a DFlash block.
        fault: Why Tandem cannot use it, as a clause.
        shares_memory: Whether it uses its target's KV cache instead of its own.
        shares_output: Whether it computes logits with its target's output weights.
        shares_embedding: Whether it uses its target's embeddings.
        is_causal: Whether the tokens of a block do not attend to later tokens.
        n_candidates: Candidates for each token of a DFlash2 block; 0 for other blocks.
        first_drafted: Index of the first drafted token in a block; 0 in most DSpark blocks, 1 in other blocks.
        has_confidence: Whether a DSpark block predicts for each token whether it will be accepted.
    """

    kind: Source
    target_layers: tuple[int, ...]
    target_width: int
    block_size: int = 0
    mask_token: int = 0
    fault: str | None = None
    shares_memory: bool = False
    shares_output: bool = False
    shares_embedding: bool = False
    is_causal: bool = False
    n_candidates: int = 0
    first_drafted: int = 0
    has_confidence: bool = False

    def as_target(self, name: str) -> str:
        """Return as a sentence why the file of this name cannot be a target."""
        return f"{name} is {self.kind.with_article}, which drafts for a target."

    def follows_target(self, overrides: Sequence[str] = ()) -> bool:
        """Return whether it must be on its target's devices, because llama.cpp aborts on shared tensors elsewhere.

        Args:
            overrides: Devices of the target's tensors as PATTERN=DEVICE; by default, its embeddings are in RAM, which
                every device can use.
        """
        patterns = (split_override(override)[0] for override in overrides)
        moves_embedding = any(re.search(pattern, EMBEDDING) for pattern in patterns)
        return self.shares_memory or self.shares_output or (self.shares_embedding and moves_embedding)

    @property
    def longest(self) -> int:
        """Longest draft in tokens."""
        return min(MAX_DRAFT, self.block_size - self.first_drafted) if self.block_size else MAX_DRAFT


MTP_IN_TARGET = HeadFacts(Source.MTP, (), 0)
"""MTP layers in the target's file, which always have the target's width."""


def head_facts(header: GgufHeader) -> HeadFacts | None:
    """Return the facts of a file with only draft layers; None for other models."""
    facts = _head_facts(header)
    if facts is None or (facts.kind is Source.MTP and not facts.shares_memory):
        return facts
    tensors = header.tensors
    return replace(facts, shares_output=OUTPUT not in tensors, shares_embedding=EMBEDDING not in tensors)


def _head_facts(header: GgufHeader) -> HeadFacts | None:
    found = header.of_architecture("target_layers")
    numbers = tuple(n for n in found if isinstance(n, int)) if isinstance(found, list) else ()
    width = header.number("embedding_length")
    match header.architecture:
        case "eagle3":
            target_width = header.number("target_hidden_size")
            fault = None if len(numbers) == _EAGLE_LAYERS else f"it names {len(numbers)} layers of its target, not 3"
            if header.number("block_count") != 1:
                fault = f"it has {header.number('block_count')} layers, not 1"
            if width != target_width and not header.tensors.keys() >= {EMBEDDING, OUTPUT}:
                fault = fault or "it shares embeddings with its target, and they have another width"
            return HeadFacts(Source.EAGLE3, numbers, target_width, fault=fault)
        case "dflash":
            block, mask = header.number("block_size") or _DEFAULT_BLOCK, header.metadata.get(_MASK_KEY)
            fault = None if numbers else "it names no layers of its target"
            if header.number("hyper_connection.count"):
                fault = "it is a DSpark block for DeepSeek-V4, which Tandem cannot use yet"
            if not isinstance(mask, int) or not 0 <= mask < len(header.tokens):
                fault = fault or "it names no mask token"
            if header.number("embedding_length_out") not in (0, width):
                fault = fault or "its output has another width than its layers"
            if not _LEAST_BLOCK <= block <= LONGEST_BLOCK:
                fault = fault or f"its blocks have {block} tokens; {_LEAST_BLOCK} to {LONGEST_BLOCK} are possible"
            mask, is_causal = mask if isinstance(mask, int) else 0, header.of_architecture("attention.causal") is True
            facts = HeadFacts(Source.DFLASH, numbers, width, block, mask, fault, is_causal=is_causal, first_drafted=1)
            if _SELECTOR_TENSOR in header.tensors:
                fault, n_candidates = fault or _selector_fault(header, width), header.number("selector_top_k")
                return replace(facts, fault=fault, n_candidates=n_candidates)
            if _MARKOV_TENSOR in header.tensors:
                fault = fault or (None if header.number("block_size") else "its header has no block_size")
                first = int(header.of_architecture("sample_from_anchor") is False)
                return replace(
                    facts, fault=fault, first_drafted=first, has_confidence=_CONFIDENCE_TENSOR in header.tensors
                )
            return facts
        case "gemma4-assistant":
            return HeadFacts(Source.MTP, (), header.number("embedding_length_out"), shares_memory=True)
    has_layer = any(name.endswith(".nextn.eh_proj.weight") for name in header.tensors)
    if has_layer and _FIRST_BLOCK not in header.tensors and "split.count" not in header.metadata:
        return HeadFacts(Source.MTP, (), width)
    return None


def _selector_fault(header: GgufHeader, width: int) -> str | None:
    """Return as a clause what llama.cpp refuses in the header of a DFlash2 block, if anything."""
    if missing := next((key for key in _SELECTOR_NUMBERS if not header.number(key)), None):
        return f"its header has no {missing}"
    group, n_candidates = header.number("conv_group_size"), header.number("selector_top_k")
    if width % group:
        return f"its width of {width:,} is not a multiple of conv_group_size, which is {group:,}"
    least = n_candidates * (n_candidates + 1)
    return f"its width is {width:,}; {n_candidates:,} candidates a token need {least:,}" if width < least else None


def kind_of_file(path: Path) -> Source:
    """Return the kind of a draft on disk. Raises ModelFileError."""
    facts = head_facts(read_header(path, tensors=True, vocabulary=False))
    return facts.kind if facts is not None else Source.MODEL


_MASK_KEY = "tokenizer.ggml.mask_token_id"


def d2t_fault(path: Path, n_vocab: int) -> str | None:
    """Return the fault of a draft's table of target tokens (`d2t`) as a clause, if any."""
    header = read_header(path, tensors=True, vocabulary=False)
    tensor = header.tensors.get(D2T)
    if tensor is None:
        return None
    start = header.data_start + tensor.offset
    n = tensor.shape[0] if len(tensor.shape) == 1 else 0
    if tensor.kind != _D2T_TYPE or not n:
        return "its table of tokens has another type than llama.cpp expects"
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if start + 8 * n > len(data):
            return "its table of tokens extends beyond the end of the file"
        ids = struct.unpack_from(f"<{n}q", data, start)
    wrong = next((token for token in ids if not 0 <= token < n_vocab), None)
    return f"its table of tokens has the token {wrong}, of {n_vocab:,}" if wrong is not None else None
