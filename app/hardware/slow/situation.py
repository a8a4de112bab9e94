"""What the causes are found in, and what a cause is."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.hardware.conditions import Conditions
from app.hardware.pair_view import PairView
from app.hardware.slow.measured import Measured


@dataclass(frozen=True, slots=True)
class Situation:
    """All that the causes are found in.

    Attributes:
        pair: Where its layers go.
        threads: Given to llama.cpp.
        cores: Physical ones of the machine.
        conditions: Of the processor at the moment.
        card: A graphics processor that this build can use; "" if there is none.
        software: Names of devices that the processor plays.
        unused_card: One that it cannot use, where it uses none; "" if there is none.
        command: Installs a build that could; "" where there is none.
        draft_n_ctx_train: Tokens that the draft was trained for; 0 where not known.
        resident: Share of the target's file that is in memory; None where not known.
        measured: Of earlier answers; None before the first.
    """

    pair: PairView
    threads: int
    cores: int
    conditions: Conditions = field(default_factory=Conditions)
    card: str = ""
    software: tuple[str, ...] = ()
    unused_card: str = ""
    command: str = ""
    draft_n_ctx_train: int = 0
    resident: float | None = None
    measured: Measured | None = None

    @property
    def uses_processor(self) -> bool:
        """Whether any layer is computed by the processor."""
        return any(model.layers_offloaded < model.layers for model in self.pair.models)

    @property
    def source(self) -> str:
        """What `tandem pairs find` takes for the target."""
        return self.pair.target_source or "TARGET"


@dataclass(frozen=True, slots=True)
class Cause:
    """One reason why a pair is slow.

    Attributes:
        label: In a word or two.
        text: What is so, as a sentence.
        factor: What it multiplies the time of an answer by; for the order only, unless it was measured.
        measured: Whether the factor was measured on this machine.
        hint: What mends it; commands begin with two spaces.
    """

    label: str
    text: str
    factor: float
    measured: bool
    hint: tuple[str, ...]
