"""Check two models for speculative decoding, from their headers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from app.core.fixes import fix
from app.core.units import MAX_SIZE
from app.engine.auto.cost_profile import MAX_BATCH
from app.engine.sources import IN_TARGET, Source
from app.engine.vocab_compatibility import incompatibility
from app.models.catalog import Pair, WorkingMemory
from app.models.memory_estimate import (
    DEFAULT_CONTEXT,
    N_SNAPSHOTS,
    ModelMemory,
    draft_memory,
    estimate_memory,
    longest_trained,
    round_up,
)
from app.models.model_facts import ModelFacts
from app.models.pair_summary import setup_models
from app.models.source import ModelSource
from app.settings.model_params import ContextParams

NO_VOCABULARY = "its file has no vocabulary"
NO_ROLLBACK = "its recurrent state cannot be rolled back after a rejected draft"
WORTHWHILE_SHARE = 0.5
"""A draft with a larger share of its target's size is too slow."""


_MTP_ARCHITECTURES = frozenset(
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
_CHAIN_ARCHITECTURES = frozenset({"hy_v3", "mimo2", "step35"})
"""Architectures with several MTP layers, each for one drafted token; llama.cpp aborts on two layers of others."""
_LAYER_INPUT_ARCHITECTURES = frozenset(
    {
        "bailingmoe3",
        "deepseek4",
        "gemma4",
        "gpt-oss",
        "hunyuan-dense",
        "hunyuan_vl",
        "lfm2",
        "lfm2moe",
        "llama",
        "mimo2",
        "minimax-m2",
        "muse-glimmer",
        "nanbeige",
        "nemotron_h",
        "nemotron_h_moe",
        "qwen3",
        "qwen35",
        "qwen35moe",
        "qwen3moe",
        "qwen4exp",
    }
)
"""Architectures whose graphs in llama.cpp fill `t_layer_inp`, or reuse such a graph; llama.cpp aborts on others."""


_SHARED_TARGET = "gemma4"
"""Architecture whose MTP layer in a separate file shares the target's KV cache."""


class Remedy(Enum):
    """A change that makes two models compatible, as a hint of the form that adds a pair."""

    OTHER_TARGET = "This model cannot chat; choose another target."
    NO_DRAFT = "Incompatible; leave the draft empty."
    OTHER_DRAFT = "Incompatible; choose another draft, or none."


@dataclass(frozen=True, slots=True)
class PairCheck:
    """Result of checking two models.

    Attributes:
        problems: Reasons why they are incompatible; empty if they are compatible.
    """

    target: ModelFacts
    draft: ModelFacts | None
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    remedy: Remedy | None = None

    @property
    def draft_kind(self) -> Source | None:
        """Kind of the draft, MTP for the target's own layer, if the pair can draft."""
        if self.problems:
            return None
        if self.draft is not None:
            return kind_of(self.draft)
        return Source.MTP if self.target.n_mtp_layers and not mtp_problem(self.target) else None

    @property
    def draft_name(self) -> str | None:
        """Name of the draft layers, if the pair has any: "MTP layer in the same file", "EAGLE-3 head"."""
        kind = self.draft_kind
        if kind in (None, Source.MODEL):
            return None
        if self.draft is not None:
            return kind.label
        n = self.target.n_mtp_layers
        return IN_TARGET if n == 1 else f"{n} MTP layers in the same file"

    def context(self, n_ctx: int) -> int:
        """Return the context of both models if `n_ctx` tokens are requested."""
        return min(round_up(n_ctx), longest_trained(self.target.n_ctx_train))

    def memory_bytes(self, n_ctx: int) -> int:
        """Return the memory of both models with a context of `n_ctx` tokens each."""
        return sum(model.total for model in self._memory(n_ctx))

    def _memory(self, n_ctx: int) -> tuple[ModelMemory, ...]:
        if self.draft is None and self.draft_kind is None:
            return (estimate_memory(self.target, ContextParams(n_ctx, n_outputs=MAX_BATCH)),)
        context = ContextParams(n_ctx, n_outputs=MAX_BATCH, n_snapshots=N_SNAPSHOTS)
        return estimate_memory(self.target, context), draft_memory(self.target, self.draft, ContextParams(n_ctx))

    @property
    def overhead(self) -> WorkingMemory:
        """Return the memory besides the weights; exact for the default context, approximate for longer contexts."""
        memory = self._memory(DEFAULT_CONTEXT), self._memory(2 * DEFAULT_CONTEXT)
        near, far = (sum(model.layers - model.weights + model.compute for model in models) for models in memory)
        per_token = (far - near) // DEFAULT_CONTEXT
        always_ram = sum(model.always_ram for model in memory[0])
        return WorkingMemory(per_token, near - per_token * DEFAULT_CONTEXT, always_ram)


def check_pair(target: ModelFacts, draft: ModelFacts | None = None) -> PairCheck:
    """Check a target and its draft."""
    problem, remedy = check_target(target, drafted=draft is not None)
    if draft is not None and remedy is None:
        is_head = draft.head is not None
        problem = head_problem(target, draft) if is_head else incompatibility(target.vocab, draft.vocab)
        if not draft.vocab.tokens:
            problem = f"{draft.name} cannot be used as a draft: {NO_VOCABULARY}."
        if not draft.can_rollback:
            problem = f"{draft.name} cannot be used as a draft: {NO_ROLLBACK}."
        remedy = Remedy.OTHER_DRAFT if problem else None
    return PairCheck(target, draft, (problem,) if problem else (), tuple(_warnings(target, draft)), remedy)


def with_facts(pair: Pair, check: PairCheck) -> Pair:
    """Return the pair completed by the headers."""
    facts, overhead = check.target, check.overhead
    mixture = facts.bytes_per_token if facts.expert_share < 1 else 0
    return replace(
        pair,
        bytes_per_token=mixture or pair.bytes_per_token,
        expert_bytes=facts.expert_bytes,
        expert_layers=facts.expert_layers,
        context=pair.context or (longest_trained(facts.n_ctx_train) if facts.n_ctx_train else 0),
        # A hostile header may have sizes that the registry could not hold.
        working=overhead if max(overhead) <= MAX_SIZE else pair.working,
    )


def kind_of(facts: ModelFacts) -> Source:
    """Return the kind of a draft file."""
    return facts.head.kind if facts.head is not None else Source.MODEL


def mtp_problem(target: ModelFacts) -> str | None:
    """Return as a sentence why the MTP layers in a target's file cannot draft, if it has some."""
    n = target.n_mtp_layers
    if not n:
        return None
    name, what = target.name, "MTP layer" if n == 1 else f"{n:,} MTP layers"
    fault = target.mtp_fault
    if target.architecture not in _MTP_ARCHITECTURES:
        fault = f"Tandem supports no MTP for the architecture {target.architecture}"
    elif n > 1 and target.architecture not in _CHAIN_ARCHITECTURES:
        fault = f"llama.cpp computes only one for the architecture {target.architecture}"
    return f"The {what} of {name} cannot draft: {fault}." if fault else None


def head_problem(target: ModelFacts, draft: ModelFacts) -> str | None:
    """Return as a sentence why a file with draft layers cannot draft for a target, if so."""
    head = draft.head
    if head is None:
        return None
    refused = f"{draft.name} cannot be used as a draft"
    if head.fault:
        return f"{refused}: {head.fault}."
    if head.kind is Source.MTP:
        made_for = _SHARED_TARGET if head.shares_memory else draft.architecture
        if target.architecture != made_for:
            return f"{refused}: it is an MTP layer for {made_for}; the architecture of {target.name} is another."
        if not head.shares_memory and (problem := mtp_problem(draft)):
            return problem
    elif target.architecture not in _LAYER_INPUT_ARCHITECTURES:
        known = f"llama.cpp does not output the hidden rows of the architecture {target.architecture}"
        return f"{refused}: {known}, which {head.kind.with_article} needs."
    n_layers = target.n_layers - target.n_mtp_layers
    if head.target_width != target.graph.embedding:
        return (
            f"{refused}: it was made for another target, whose hidden rows have {head.target_width:,} values; those of "
            f"{target.name} have {target.graph.embedding:,}."
        )
    if wrong := next((n for n in head.target_layers if not 0 <= n < n_layers), None):
        found = f"{target.name} has only {n_layers}{' without MTP layers' if target.n_mtp_layers else ''}"
        return f"{refused}: it was made for another target; it reads layer {wrong + 1}, and {found}."
    if len(draft.vocab.tokens) != len(target.vocab.tokens):
        return (
            f"{refused}: it was made for another target, with {len(draft.vocab.tokens):,} tokens instead of "
            f"{len(target.vocab.tokens):,}."
        )
    return incompatibility(target.vocab, draft.vocab)


def select_draft(wanted: str, target: ModelFacts, draft: ModelFacts | None) -> tuple[bool, bool, str]:
    """Choose the draft of a pair by the setting `draft.type`.

    Returns:
        Whether to load the draft file, whether to load MTP layers, and a notice if the requested kind is missing, else
        "".
    """
    if wanted in (Source.NGRAM, "none"):
        return False, False, ""
    if draft is not None and wanted in ("auto", kind_of(draft)):
        return True, False, ""
    if wanted in ("auto", Source.MTP):
        problem = mtp_problem(target)
        if not target.n_mtp_layers and wanted == Source.MTP:
            problem = f"{target.name} has no MTP layer."
        notice = f"Running without this draft. {problem}" if problem else ""
        return False, not problem and target.n_mtp_layers > 0, notice
    found = f"{draft.name} is {kind_of(draft).with_article}" if draft is not None else "the pair has no draft"
    return False, False, f"Running without this kind of draft: no {Source(wanted).label} was found; {found}."


def check_target(target: ModelFacts, *, drafted: bool) -> tuple[str | None, Remedy | None]:
    """Return why a model cannot be a target, with a draft model or without, and the remedy."""
    if not target.vocab.tokens:
        return f"{target.name} has no vocabulary: it is not a chat model.", Remedy.OTHER_TARGET
    if target.head is not None:
        return target.head.as_target(target.name), Remedy.OTHER_TARGET
    if drafted and not (target.can_rollback or target.keeps_snapshots):
        return f"{target.name} cannot use a draft model: {NO_ROLLBACK}.", Remedy.NO_DRAFT
    return None, None


def _warnings(target: ModelFacts, draft: ModelFacts | None) -> Iterator[str]:
    if draft is None and (problem := mtp_problem(target)):
        yield problem
    if not target.has_chat_template:
        yield f"{target.name} has no chat template: it may be a base model, which does not chat."
    if draft is None:
        return
    if draft.weight_bytes > WORTHWHILE_SHARE * target.weight_bytes:
        share = draft.weight_bytes / max(1, target.weight_bytes)
        yield f"The draft is {share:.0%} of its target's size; expect no speedup."
    if 0 < draft.n_ctx_train < target.n_ctx_train:
        yield (
            f"The draft was trained for {draft.n_ctx_train:,} tokens of context, the target for "
            f"{target.n_ctx_train:,}; beyond that its drafts get worse."
        )


def remedy_text(remedy: Remedy, target: ModelSource) -> str:
    """Return the sentence and command for a remedy of a pair with this target."""
    match remedy:
        case Remedy.OTHER_TARGET:
            return "Choose another target, or a recommended pair: ⟨pairs⟩"
        case Remedy.NO_DRAFT:
            return f"Use it without a draft: {setup_models(str(target))}"
        case Remedy.OTHER_DRAFT:
            return f"Choose another draft, or none: {fix('pairs.find', target)}"
