"""Pairs without a hub, a machine or a thread: they are as a test says."""

from __future__ import annotations

from dataclasses import replace

from app.core.errors import AppError, HubError, PairError
from app.engine.types import DraftParams
from app.models.recommend import Fit
from app.session.chat_settings import ChatSettings
from app.ui.models.state import (
    Download,
    LoadRequest,
    ModelReport,
    PairCard,
    PairReport,
    PairsState,
    SetupProgress,
    SourceCheck,
    Stage,
)
from tests.ui.fakes import no_loader

GB = 1_000_000_000
MACHINE = "NVIDIA RTX 4090, 22.8 GB of 24.0 GB free for models · 16 cores · 64.0 GB memory"
ON_CARD = "to spare on RTX 4090"

CODER = PairCard(
    name="coder-32b",
    title="Qwen2.5 Coder 32B with 0.5B, code in 24 GB",
    target="Qwen2.5-Coder-32B Q4_K_M",
    draft="0.5B Q8_0",
    size="20.5 GB",
    to_come=20_527_000_000,
    fit=Fit.FITS,
    reason=f"1.9 GB {ON_CARD}",
    good_at="code",
    licence="apache-2.0",
    tested_with="1.9x on an RTX 3090 with 24 GB (r/LocalLLaMA 1gzm93o)",
)
GENERAL = PairCard(
    name="qwen3-32b",
    title="Qwen3 32B with 0.6B, thinks before it answers",
    target="Qwen3-32B Q4_K_M",
    draft="0.6B Q8_0",
    size="20.4 GB",
    to_come=20_401_000_000,
    fit=Fit.TIGHT,
    reason=f"only 0.6 GB {ON_CARD}",
    good_at="reasoning, mathematics, general questions, code",
    licence="apache-2.0",
)
SMALL = PairCard(
    name="llama-8b",
    title="Llama 3.1 8B with Llama 3.2 1B, an all-rounder",
    target="Meta-Llama-3.1-8B Q4_K_M",
    draft="Llama-3.2-1B Q4_K_M",
    size="5.7 GB",
    to_come=5_728_000_000,
    fit=Fit.FITS,
    reason=f"16.1 GB {ON_CARD}",
    good_at="chat, general questions, code",
    licence="llama3.1; draft: llama3.2",
)
DEMO = PairCard(
    name="demo",
    title="SmolLM2 135M, for trying Tandem without a download",
    target="SmolLM2-135M",
    draft="a smaller copy of it",
    size="98 MB",
    fit=Fit.FITS,
    reason=f"22.2 GB {ON_CARD}",
    good_at="trying the program",
    licence="apache-2.0",
    here=True,
    is_demo=True,
)
ALONE = PairCard(
    name="nemo-12b",
    title="Mistral Nemo 12B alone, drafts by looking up",
    target="Mistral-Nemo-2407 Q4_K_M",
    size="7.5 GB",
    to_come=7_477_000_000,
    fit=Fit.FITS,
    reason=f"14.2 GB {ON_CARD}",
    good_at="chat, prose, summaries and edits of given text",
    licence="apache-2.0",
)
HUGE = PairCard(
    name="llama-70b",
    title="Llama 3.3 70B with Llama 3.2 1B, the large all-rounder",
    target="Llama-3.3-70B Q4_K_M",
    draft="3.2-1B Q8_0",
    size="43.8 GB",
    to_come=43_841_000_000,
    fit=Fit.TOO_BIG,
    reason="needs 47.8 GB, 22.8 GB are free for models",
    good_at="chat, general questions, long texts, code",
    licence="llama3.3; draft: llama3.2",
)
CARDS = (DEMO, CODER, GENERAL, SMALL, ALONE, HUGE)
BEGUN = SetupProgress(
    Stage.DOWNLOADING,
    (
        Download("target", 12_400_000_000, 19_852_000_000, came=12_400_000_000),
        Download("draft", 675_710_848, 675_710_848),
    ),
    94_300_000,
    82.0,
)
OFFLINE = HubError("huggingface.co cannot be found.", "This machine seems to be offline.")
REPORT = PairReport(
    models=(
        ModelReport("target", "Big One", "Q4_K_M", 20 * GB),
        ModelReport("draft", "Small One", "Q8_0", GB, here=True),
    ),
    warnings=("The draft is old.",),
    fit=Fit.TIGHT,
    reason="only 0.4 GB to spare",
    licence="apache-2.0",
    gated=True,
    download_bytes=20 * GB,
    free_bytes=100 * GB,
)


class FakePairs:
    """Satisfies `app.ui.models.state.PairService`.

    Attributes:
        state: What `look` gives; a test replaces it.
        calls: What was asked for, in order.
        refuses: Raised by the next call that may fail.
    """

    def __init__(self, *cards: PairCard, machine: str = MACHINE) -> None:
        self.state = PairsState(machine=machine, cards=cards or CARDS, busy=True)
        self.calls: list[tuple[str, ...]] = []
        self.refuses: AppError | None = None
        self.looks = 0

    def change(self, name: str, **changes: object) -> None:
        """Change one card."""
        cards = tuple(replace(c, **changes) if c.name == name else c for c in self.state.cards)  # type: ignore[arg-type]
        self.state = replace(self.state, cards=cards)

    def goes(self, name: str, job: SetupProgress) -> None:
        """Say how the set-up of a pair goes."""
        self.state = replace(self.state, jobs={**self.state.jobs, name: job})
        if job.stage is Stage.READY:
            self.change(name, here=True, set_up=True, to_come=0)

    def answers(self, inquiry: SourceCheck) -> None:
        """Say what came of the question."""
        self.state = replace(self.state, inquiry=inquiry)

    def names(self, call: str) -> list[list[str]]:
        """What one call was made with, each time."""
        return [args for name, *args in self.calls if name == call]

    def begin(self) -> None:
        self.calls.append(("begin",))

    def look(self) -> PairsState:
        self.looks += 1
        return self.state

    def start(self, name: str, *, agreed: bool = False) -> None:
        self.calls.append(("start", name, *(["agreed"] if agreed else [])))
        self.goes(name, SetupProgress(Stage.CHECKING))

    def cancel(self, name: str) -> None:
        self.calls.append(("cancel", name))
        self.goes(name, replace(self.state.jobs[name], stage=Stage.STOPPED))

    def make_default(self, name: str) -> None:
        self._refuse()
        self.calls.append(("make_default", name))
        for card in self.state.cards:
            self.change(card.name, is_default=card.name == name)

    def ask(self, target: str, draft: str) -> None:
        self.calls.append(("ask", target, draft))
        self.answers(SourceCheck())

    def drop(self) -> None:
        self.calls.append(("drop",))
        self.state = replace(self.state, inquiry=None)

    def add(self) -> str:
        self._refuse()
        self.calls.append(("add",))
        added = PairCard("added", "owner/big + owner/small", "Big Q4_K_M", "Small Q8_0", size="2.0 GB")
        self.state = replace(self.state, cards=(added, *self.state.cards))
        self.goes("added", SetupProgress(Stage.DOWNLOADING))
        return "added"

    def choose(self, name: str) -> LoadRequest:
        self._refuse()
        if not next(card for card in self.state.cards if card.name == name).set_up:
            raise PairError(f"{name} is not here.")
        self.calls.append(("choose", name))
        return LoadRequest(no_loader, ChatSettings(f"Title of {name}", drafting=DraftParams()))

    def close(self, timeout: float | None = None) -> bool:
        self.calls.append(("close",))
        return True

    def _refuse(self) -> None:
        error, self.refuses = self.refuses, None
        if error is not None:
            raise error
