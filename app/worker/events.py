"""Events of the worker and of tool servers: frozen values that leave their threads.

`request` is the number of an answer or a job.
"""

from __future__ import annotations

import json
import math
from dataclasses import astuple, dataclass, field
from functools import cached_property
from typing import Any

from app.core.errors import AppError
from app.engine.drafting_report import nothing_fixed
from app.engine.events import PromptProgress, Step
from app.engine.stats import GenerationStats
from app.engine.text.tool_calls import ToolCall
from app.engine.types import DraftingStatus, DraftParams, FinishReason
from app.models.pair_info import PairInfo


@dataclass(frozen=True)
class Tool:
    """A tool as its server describes it, unchecked."""

    server: str
    name: str
    description: str = ""
    schema: dict[str, Any] = field(default_factory=dict, hash=False)
    reads_only: bool = False

    @property
    def key(self) -> str:
        """Return its name among the tools of all servers."""
        return tool_key(self.server, self.name)

    @cached_property
    def digest(self) -> str:
        """Return a digest of everything that the user saw of the tool when allowing it."""
        seen = [self.server, self.name, self.description, self.schema, self.reads_only]
        # The first frame does not need this import.
        from hashlib import blake2b

        return blake2b(json.dumps(seen, sort_keys=True).encode("utf-8", "replace"), digest_size=16).hexdigest()


def tool_key(server: str, tool: str) -> str:
    """Return a tool's name among the tools of all servers; slashes in the server's name are escaped."""
    return f"{server.replace('/', '%2F')}/{tool}"


@dataclass(frozen=True, slots=True)
class ToolsListed:
    """Reports the tools of a server, or why it has none."""

    server: str
    tools: tuple[Tool, ...] = ()
    error: AppError | None = None


@dataclass(frozen=True, slots=True)
class ToolReturned:
    """Reports the result of a call, or the failure that the model reads instead."""

    call: int
    text: str
    is_error: bool = False
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """Reports the loaded share of the pair's bytes."""

    share: float


@dataclass(frozen=True, slots=True)
class Loaded:
    """Reports that the requested pair is loaded."""

    pair: PairInfo


@dataclass(frozen=True, slots=True)
class PairChanged:
    """Reports an unrequested change of the loaded pair, such as a lost draft."""

    pair: PairInfo


@dataclass(frozen=True, slots=True)
class Notice:
    """Reports a fact for the user that stops nothing."""

    text: str


@dataclass(frozen=True, slots=True)
class Measuring:
    """Reports the completed share of a pair's measurement.

    Attributes:
        why: Why an earlier measurement is not used, if there is one.
        left_s: Estimated seconds for the rest, once the speed is known.
    """

    request: int
    share: float
    why: str | None = None
    left_s: float | None = None

    def line(self) -> str:
        """Return the progress as text, such as "measuring once what drafts cost here: 12%, 3 s left"."""
        left = f", {math.ceil(self.left_s)} s left" if self.left_s else ""
        what = "measuring again" if self.why else "measuring once what drafts cost here"
        return f"{what}: {self.share:.0%}{left}{f' ({self.why})' if self.why else ''}"


@dataclass(frozen=True, slots=True)
class Finished:
    """Reports the end of an answer, even after a stop.

    Attributes:
        text: The whole answer without reasoning, including a continued beginning.
        draft_params: The parameters of fixed drafting, if the answer could have drafts.
        seed: Random seed; None for a greedy answer.
        repeats: Consecutive occurrences of the last block, if they ended the answer; else 0.
        at_limit: Whether the context was full at its largest size.
        lost: Why the drafter failed, as a sentence, if it did.
        stop: The stop string that ended it, if any.
        calls: The tool calls at its end, without ids.
    """

    request: int
    reason: FinishReason
    text: str
    reasoning: str
    stats: GenerationStats
    drafting: DraftingStatus | None = None
    draft_params: DraftParams | None = None
    seed: int | None = None
    repeats: int = 0
    at_limit: bool = False
    lost: str | None = None
    stop: str | None = None
    calls: tuple[ToolCall, ...] = ()

    @property
    def why_undrafted(self) -> str | None:
        """Return as a clause why nothing was drafted; None if something was drafted or the reason is unknown."""
        if self.stats.draft_n:
            return None
        drafter, fixed = self.stats.source, self.draft_params
        if self.lost:
            return drafter.failed
        if fixed is not None:
            # The first token comes from the prompt; an answer that ended there requested no draft.
            asked = self.stats.predicted_n > 1 or fixed.n_max == 0
            return nothing_fixed(drafter, *astuple(fixed)) if asked else None
        return self.drafting.reason if self.drafting is not None else None


@dataclass(frozen=True, slots=True)
class Failed:
    """Reports a failed command. `request` is None if it was loading."""

    request: int | None
    error: AppError


@dataclass(frozen=True, slots=True)
class JobProgressed:
    """Reports progress of a job as a frozen value of its own kind."""

    request: int
    what: object


@dataclass(frozen=True, slots=True)
class JobEnded:
    """Reports the end of a job, even after a stop, with a frozen value of its own kind."""

    request: int
    result: object


FrequentEvent = LoadProgress | Measuring | PromptProgress | Step
"""Events that come many times a second."""
Event = (
    FrequentEvent
    | Loaded
    | PairChanged
    | Notice
    | Finished
    | Failed
    | JobProgressed
    | JobEnded
    | ToolsListed
    | ToolReturned
)
