"""A loaded pair as values: names, sizes, memory per device, and the limit of its context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from app.engine.sources import FREE_SOURCES, Source
from app.engine.types import AutoDraft, Drafting, DraftParams
from app.models.memory_estimate import CELLS, longest_trained, round_up
from app.settings.layers import ThinkingSupport

_CTX_MULTIPLE = 1024
_MIN_ANSWER_TOKENS = 1024
"""Smallest room for an answer in tokens."""
_PROMPT_PER_ROOM = 4
"""Prompt tokens per token of room for the answer and the next prompts."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A loaded model.

    Attributes:
        name: Display name; see `app.models.model_names.known_as`.
        quantization: The file type as files spell it, such as "Q4_K_M".
        n_ctx_train: Training context in tokens; 0 if unknown.
        chat_template: Jinja source, or "".
        bos: Text of the token that begins a sequence, or ""; `eos` ends a sequence.
    """

    name: str
    file: str
    quantization: str
    size_bytes: int
    n_vocab: int
    n_ctx_train: int = 0
    chat_template: str = field(default="", repr=False)
    bos: str = ""
    eos: str = ""


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Estimated bytes of a pair on a device, or in RAM ("cpu"); an unknown description is "", an unknown size 0."""

    device: str
    n_bytes: int
    description: str = ""
    total_bytes: int = 0


@dataclass(frozen=True, slots=True)
class PairInfo:
    """The loaded pair.

    Attributes:
        device: Devices of the layers, as a short phrase.
        memory: Estimate for each used device; () if not estimated.
        n_ctx_room: Longest context that fitted at loading, in tokens; 0 if not estimated.
        most_drafted: Drafted tokens that the target can roll back; None for any number.
        wants_draft_model: Whether a recurrent target could roll back if it was loaded with a draft model.
        draft_failed: Whether the draft model failed and is not used until the pair is loaded again.
        projector: Name of the file that encodes pictures, if the pair reads pictures.
    """

    target: ModelInfo
    draft: ModelInfo | None
    n_ctx: int
    device: str
    memory: tuple[DeviceMemory, ...] = ()
    n_ctx_room: int = 0
    most_drafted: int | None = None
    wants_draft_model: bool = False
    thinking_support: ThinkingSupport = field(default_factory=ThinkingSupport)
    draft_failed: bool = False
    draft_kind: Source | None = None
    projector: str | None = None

    @property
    def can_draft(self) -> bool:
        """Return whether rejected drafts can be rolled back."""
        return self.most_drafted != 0

    def sources(self, drafting: Drafting) -> tuple[Source, ...]:
        """Return the available draft sources of these settings."""
        if drafting is None or not self.can_draft or self._wants_more(drafting):
            return ()
        model, lookup = (drafting.model, drafting.lookup) if isinstance(drafting, AutoDraft) else (True, False)
        drafter = (self.draft_kind or Source.MODEL,) * (model and self.draft is not None)
        return (*drafter, *FREE_SOURCES) if lookup else drafter

    def why_no_draft(self, drafting: Drafting) -> str | None:
        """Return as a clause why no source can draft; None if one can, or drafting is off."""
        if drafting is None or self.sources(drafting):
            return None
        if self.wants_draft_model:
            return "this model needs a draft model, and none is loaded"
        if not self.can_draft:
            return "the state of this model cannot be rolled back"
        if isinstance(drafting, DraftParams) and self._wants_more(drafting):
            return (
                f"no draft can reach n_min {drafting.n_min}, for at most {self.most_drafted} tokens can be rolled back"
            )
        without_lookup = ", and n-gram drafting is off" if isinstance(drafting, AutoDraft) else ""
        return f"there is no draft model{without_lookup}"

    def _wants_more(self, drafting: Drafting) -> bool:
        most = self.most_drafted
        return isinstance(drafting, DraftParams) and most is not None and drafting.n_min > most


@dataclass(frozen=True, slots=True)
class ContextLimit:
    """The longest context in tokens, and as a clause why it cannot be longer."""

    n_ctx: int
    reason: str


def context_limit(pair: PairInfo) -> ContextLimit:
    """Return the longest context of a pair by its training context and by memory."""
    target = pair.target
    trained = max(pair.n_ctx, longest_trained(target.n_ctx_train))
    if 0 < pair.n_ctx_room < trained:
        # The loaded context fits, whatever the estimate says.
        room = max(pair.n_ctx, pair.n_ctx_room)
        return ContextLimit(room, f"memory had room for {room:,} tokens at the last loading")
    if not target.n_ctx_train:
        return ContextLimit(trained, f"the file of {target.name} does not state its training context")
    return ContextLimit(trained, f"{target.name} was trained for {target.n_ctx_train:,} tokens")


def enough_for(pair: PairInfo, n_tokens: int) -> int:
    """Return a context for these tokens and an answer; 0 if the limit is too short."""
    limit, with_answer = context_limit(pair).n_ctx, n_tokens + max(_MIN_ANSWER_TOKENS, n_tokens // _PROMPT_PER_ROOM)
    return min(limit, -(-with_answer // _CTX_MULTIPLE) * _CTX_MULTIPLE) if n_tokens < limit else 0


def context_remark(pair: PairInfo, n_ctx: int) -> str | None:
    """Return a note about a context of `n_ctx` tokens if it is too long."""
    limit = context_limit(pair)
    return f"At most {limit.n_ctx:,} tokens: {limit.reason}." if round_up(n_ctx) > limit.n_ctx else None


def rounding(n_ctx: int) -> str | None:
    """Return a note about a context if it is rounded up."""
    if n_ctx == round_up(n_ctx):
        return None
    return f"Context rounded up from {n_ctx:,} to {round_up(n_ctx):,} tokens (a multiple of {CELLS})."


def context_line(pair: PairInfo) -> str:
    """Return the current and the longest context in a sentence."""
    limit = context_limit(pair)
    most = f"at most {limit.n_ctx:,}" if limit.n_ctx > pair.n_ctx else "the maximum"
    return f"Now {pair.n_ctx:,}, {most} here: {limit.reason}."


def or_longer(pair: PairInfo, n_tokens: int, way: Callable[[int], str]) -> str:
    """Return how to get a longer context, or why that is impossible, as the rest of a sentence.

    `way` returns how to get a context of a given length.
    """
    enough = enough_for(pair, n_tokens)
    return f", or {way(enough)}" if enough else f"; {why_no_longer(pair)}"


def why_no_longer(pair: PairInfo) -> str:
    """Return as a clause why a longer context would not help."""
    limit = context_limit(pair)
    if limit.n_ctx > pair.n_ctx:
        return f"even the longest context here, {limit.n_ctx:,}, is too short: {limit.reason}"
    return f"a longer context is not possible: {limit.reason}"
