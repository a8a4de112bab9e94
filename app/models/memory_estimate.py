"""Estimate the memory of a model from its header: weights, KV cache, compute buffers, recurrent states.

llama.cpp lays out the graph of a whole batch, and tensors that are not needed at the same time share memory. So the
peak of three places counts: the feed-forward block, attention, and the logits. The formulas were fitted to llama.cpp's
own figures for Qwen2.5, Llama and Gemma at contexts of 2,048 to 32,768 tokens, f16 and q8_0; they are within 1%.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.engine.sources import Source
from app.models.draft_kinds import EMBEDDING, MTP_IN_TARGET, OUTPUT
from app.models.gguf import read_header
from app.models.model_names import parts_here
from app.settings.model_params import ContextParams
from app.settings.placement import CPU, KV_TYPES, MAX_LAYERS, split_override
from app.settings.table import MAX_CONTEXT

if TYPE_CHECKING:
    from app.models.model_facts import GraphWidths, ModelFacts

DEFAULT_CONTEXT = 8192
"""Default context in tokens, unless the model was trained for fewer."""
CELLS = 256
"""llama.cpp rounds the cells of a KV cache up to a multiple of this."""
N_SNAPSHOTS = 7
"""Number of earlier recurrent states, and thus the longest draft.

Backends multiply quantized weights row by row for batches of up to eight. Each state takes memory and nodes of
llama.cpp's graph: ten filled it with the layers of Nemotron-H, which ends the process. With Qwen3.5-0.8B in Q4_0 on one
thread, seven slow a token by 5%."""
_SAVED_STATES_BYTES = 512 << 20
_MIN_SAVED_STATES, _MAX_SAVED_STATES = 2, 8
_F16, _F32 = 2, 4
_BATCH_COPIES = 4
"""Overlapping batches on several devices (llama.cpp's GGML_SCHED_MAX_COPIES); each has its own inputs."""
_INPUT_TENSORS = ("token_embd.weight", "position_embd.", "token_types.", "per_layer_token_embd.")
"""Prefixes of tensor names in llama.cpp's input layer (LLM_TENSOR_LAYER_INPUT)."""
_TOKEN_BYTES = 400
"""Tokenizer memory per token, in Tandem and llama.cpp; a process grows by 410 bytes at 49,152 and 151,936 tokens."""


def round_up(n_ctx: int) -> int:
    """Return the cells of a KV cache for a context length."""
    return -(-n_ctx // CELLS) * CELLS


def longest_trained(n_ctx_train: int) -> int:
    """Return the longest context of a model by its training context; 0 means unknown."""
    return round_up(min(n_ctx_train or DEFAULT_CONTEXT, MAX_CONTEXT))


def n_saved_states(state: int) -> int:
    """Return how many recurrent states to save in RAM for edits and branches; 0 if the model has no state."""
    return max(_MIN_SAVED_STATES, min(_MAX_SAVED_STATES, _SAVED_STATES_BYTES // state)) if state else 0


@dataclass(frozen=True, slots=True)
class ModelMemory:
    """Memory of a model, in bytes.

    Attributes:
        kv: KV cache of `n_ctx` tokens at `kv_type`; `kv_fixed` of it hold sliding windows, whatever the context.
        compute: Compute buffers of the device that needs the most; `compute_growing` of it grow with the context.
        compute_on: Compute buffers by device, if llama.cpp measured them.
        overlap: Growth of `compute` on each of several devices that hold all layers, because batches overlap there;
            `overlap_growing` of it grow with the context.
        host: Rows of logits, always in RAM.
        kv_type: A key of `KV_TYPES`.
        n_ctx_train: 0 if unknown.
        embedding: Weights that llama.cpp always keeps in RAM, such as token embeddings.
        output: Weights that llama.cpp offloads first; they have no KV cache.
        repeated: Bytes of the embedding that are also output weights, if the file has no others.
        blocks: Bytes of the weights of each layer without experts; () if unknown.
        n_cached: Number of leading layers that store a part of the context; 0 for all.
        vocabulary: Tokenizer tables, always in RAM.
        states: The recurrent state, beside the KV cache.
        snapshots: Earlier states, stored beside it to roll back drafts.
        saved: Copies of states in RAM, for earlier prompts.
        experts: Bytes of the experts of each layer that can move to RAM; () if none can.
        window_gain: Bytes of the KV cache that a small window cache saves; 0 if it is used or useless.
        projector: Encoder of pictures, on the target's first device: its weights and its compute buffers.
        expert_copy: Bytes of the largest expert tensor; a device copies experts from RAM for long batches.
        follows_target: Whether it is draft layers that must be on their target's devices; see
            `HeadFacts.follows_target`.
    """

    name: str
    weights: int
    kv: int
    compute: int
    host: int
    n_layers: int
    n_ctx: int
    kv_type: str = "f16"
    n_parameters: int | None = None
    n_ctx_train: int = 0
    embedding: int = 0
    output: int = 0
    repeated: int = 0
    blocks: tuple[int, ...] = ()
    n_cached: int = 0
    vocabulary: int = 0
    states: int = 0
    snapshots: int = 0
    saved: int = 0
    can_quantize_cache: bool = True
    experts: tuple[int, ...] = ()
    expert_copy: int = 0
    window_gain: int = 0
    follows_target: bool = False
    compute_on: tuple[tuple[str, int], ...] = ()
    overlap: int = 0
    projector: int = 0
    kv_fixed: int = 0
    compute_growing: int = 0
    overlap_growing: int = 0

    @property
    def total(self) -> int:
        return self.layers + self.compute + self.projector + self.always_ram

    @property
    def layers(self) -> int:
        """Return weights, KV cache and states, wherever they are."""
        return self.weights + self.context

    @property
    def context(self) -> int:
        """Return KV cache and states, which are where the layers are."""
        return self.kv + self.states + self.snapshots

    @property
    def always_ram(self) -> int:
        """Return the RAM that it takes wherever its layers are."""
        return self.host + self.vocabulary + self.saved

    def with_context(self, n_ctx: int) -> ModelMemory:
        """Return the memory with another context; buffers grow on every device alike."""
        linear = (self.kv - self.kv_fixed, self.compute_growing, self.overlap_growing)
        kv, growing, overlapping = (n * n_ctx // max(1, self.n_ctx) for n in linear)
        more, overlap = growing - self.compute_growing, overlapping - self.overlap_growing
        on_each = more + (overlap if len(self.compute_on) > 1 else 0)
        return replace(
            self,
            n_ctx=n_ctx,
            kv=self.kv_fixed + kv,
            compute=self.compute + more,
            compute_growing=growing,
            overlap=self.overlap + overlap,
            overlap_growing=overlapping,
            compute_on=tuple((device, n + on_each) for device, n in self.compute_on),
        )

    def with_kv_type(self, kv_type: str) -> ModelMemory:
        share = KV_TYPES[kv_type].n_bytes / KV_TYPES[self.kv_type].n_bytes
        return replace(self, kv_type=kv_type, kv=int(share * self.kv), kv_fixed=int(share * self.kv_fixed))


def with_tensors(need: ModelMemory, path: Path, overrides: Sequence[str] = (), *, n_unused: int = 0) -> ModelMemory:
    """Return the memory with the bytes of each layer, and the tensors that llama.cpp or `overrides` keep in RAM.

    The last `n_unused` layers are not loaded.

    Raises:
        ModelFileError: A file is missing or not a model.
    """
    # The first frame does not need this import.
    from app.models.model_facts import EXPERT, LAYER_TENSOR

    places = [(re.compile(pattern), device) for pattern, device in map(split_override, overrides)]
    if need.n_layers > MAX_LAYERS:
        return need
    in_ram, embedding, output, copy = 0, 0, 0, 0
    blocks, experts = [0] * need.n_layers, [0] * need.n_layers
    sizes: dict[str, int] = {}
    for file in parts_here(path):
        sizes.update(read_header(file, tensors=True, vocabulary=False).tensor_bytes(file.stat().st_size))
    for name, n_bytes in sizes.items():
        # The first matching pattern decides.
        device = next((device for pattern, device in places if pattern.search(name)), None)
        layer = LAYER_TENSOR.match(name)
        if layer is not None and int(layer[1]) >= need.n_layers - n_unused:
            continue
        if device == CPU:
            in_ram += n_bytes
        elif layer is None:
            is_input = name.startswith(_INPUT_TENSORS) and device is None
            embedding += n_bytes if is_input else 0
            output += 0 if is_input else n_bytes
        else:
            movable = device is None and EXPERT.match(name) is not None
            (experts if movable else blocks)[int(layer[1])] += n_bytes
            copy = max(copy, n_bytes if movable else 0)
    repeated = sizes.get(EMBEDDING, 0) if OUTPUT not in sizes else 0
    return replace(
        need,
        weights=embedding + output + sum(blocks) + sum(experts),
        host=need.host + in_ram,
        embedding=embedding,
        output=output + repeated,
        repeated=repeated,
        blocks=tuple(blocks),
        experts=tuple(experts) if copy else (),
        expert_copy=copy,
    )


def estimate_memory(facts: ModelFacts, params: ContextParams) -> ModelMemory:
    """Estimate the memory of a model with a context."""
    n_ctx, kv_type, swa_full = params.n_ctx, params.kv_type, params.swa_full
    per_token = facts.kv_bytes_per_token * KV_TYPES[kv_type].n_bytes / KV_TYPES["f16"].n_bytes
    cells, window = round_up(n_ctx), facts.window
    outside = max(0, cells - round_up(window + params.n_batch)) if window else 0
    gain, state = int(per_token * facts.window_share * outside), facts.state_bytes
    if not swa_full and gain:
        state = int(per_token * facts.window_share * window)
    graph, weights = facts.graph, max(0, facts.weight_bytes - facts.header_bytes)
    longer = replace(params, n_ctx=2 * n_ctx)
    compute, overlap = compute_bytes(graph, params), overlap_bytes(graph, params)
    output = weights * graph.embedding * graph.vocabulary
    return ModelMemory(
        name=facts.name,
        weights=weights,
        kv=int(per_token * cells) - (0 if swa_full else gain),
        kv_fixed=int(per_token * facts.window_share * (cells - outside)) if outside and not swa_full else 0,
        window_gain=gain if swa_full else 0,
        compute=compute,
        compute_growing=compute_bytes(graph, longer) - compute,
        overlap=overlap,
        overlap_growing=overlap_bytes(graph, longer) - overlap,
        host=_logits_bytes(graph, params.n_outputs),
        n_layers=facts.n_layers,
        n_cached=facts.n_cached,
        n_ctx=n_ctx,
        kv_type=kv_type,
        n_parameters=facts.n_parameters,
        n_ctx_train=facts.n_ctx_train,
        output=output // facts.n_parameters if facts.n_parameters else 0,
        vocabulary=_TOKEN_BYTES * graph.vocabulary,
        states=facts.state_bytes,
        snapshots=facts.state_bytes * params.n_snapshots * facts.keeps_snapshots,
        saved=n_saved_states(state) * state,
        can_quantize_cache=facts.can_quantize_cache,
    )


def draft_memory(
    target: ModelFacts, draft: ModelFacts | None, params: ContextParams, overrides: Sequence[str] = ()
) -> ModelMemory:
    """Estimate the memory of a draft file, or of the target's MTP layers if `draft` is None.

    The weights of MTP layers count with the target. Draft layers also store the hidden rows of a batch in RAM.
    `overrides` belong to the target.
    """
    layers, head = (draft, draft.head) if draft is not None else (target, MTP_IN_TARGET)
    # Several MTP layers always cache the whole context.
    params = replace(params, swa_full=params.swa_full or layers.n_mtp_layers > 1)
    made = estimate_memory(layers, params)
    if head is None:
        return made
    n_rows = len(head.target_layers) or 1
    host = made.host + 2 * _F32 * params.n_batch * n_rows * target.graph.embedding
    kv = made.kv
    if head.kind is Source.MTP:
        # MTP layers have attention, and their own KV cache.
        kv = kv * layers.n_mtp_layers * _F16 * layers.graph.key_value // max(1, layers.kv_bytes_per_token)
    if draft is not None:
        # The graph computes logits even if the file shares the target's output weights.
        logits = _logits_bytes(target.graph, head.block_size or 1)
        kv = 0 if head.shares_memory else kv
        follows = head.follows_target(overrides)
        compute = made.compute + logits
        host += logits
        return replace(made, host=host, compute=compute, kv=kv, kv_fixed=0, window_gain=0, follows_target=follows)
    return replace(
        made,
        name="its MTP layer" if target.n_mtp_layers == 1 else "its MTP layers",
        weights=0,
        output=0,
        kv=kv,
        kv_fixed=0,
        host=host,
        n_layers=1,
        n_cached=1,
        vocabulary=0,
        states=0,
        saved=0,
        window_gain=0,
        follows_target=True,
    )


def compute_bytes(graph: GraphWidths, params: ContextParams) -> int:
    """Estimate llama.cpp's compute buffer for a batch."""
    masks, values = _mask_bytes(graph, params), min(params.n_batch, params.n_ctx) * _F32
    feed_forward = values * (3 * graph.feed_forward + 4 * graph.embedding) + masks
    logits = _logits_bytes(graph, params.n_outputs) + values * 2 * graph.embedding
    attention = 0
    if params.flash_attention == "off":
        scores = values * graph.heads * round_up(params.n_ctx)
        attention = scores + values * (3 * graph.query + 2 * graph.embedding + graph.key_value) + masks
    return max(feed_forward, attention, logits)


def overlap_bytes(graph: GraphWidths, params: ContextParams) -> int:
    """Estimate the growth of the compute buffer if batches overlap: copies of the hidden rows and of the masks."""
    rows = min(params.n_batch, params.n_ctx) * _F32 * graph.embedding
    return _BATCH_COPIES * rows + (_BATCH_COPIES - 1) * _mask_bytes(graph, params)


def _mask_bytes(graph: GraphWidths, params: ContextParams) -> int:
    cells = min(params.n_batch, params.n_ctx) * round_up(params.n_ctx)
    return graph.masks * cells * (_F32 if params.flash_attention == "off" else _F16)


def _logits_bytes(graph: GraphWidths, n_outputs: int) -> int:
    return n_outputs * graph.vocabulary * _F32
