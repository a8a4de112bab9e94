"""Scripted pairs without a hub, a machine or a thread."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.core.errors import AppError, HubError, PairError
from app.core.units import gigabytes
from app.engine.vocab_compatibility import VocabInfo
from app.hardware.recommend import Fit, Proposal
from app.models.catalog import Pair
from app.models.compatibility import PairCheck
from app.models.model_facts import GraphWidths, ModelFacts
from app.models.progress import FileProgress
from app.models.resolve import ResolvedModel
from app.models.setup import Prepared
from app.models.setup_task import SetupProgress, SetupTask, Stage
from app.models.source import DemoModel, FoundRepository, HubModel
from app.ui.models.service import PairService
from app.ui.models.state import LoadRequest, PairCard, PairsState
from tests.fake_engine import no_loader

GB = 1_000_000_000
MACHINE = "NVIDIA RTX 4090, 22.8 GB of 24 GB free for models · 16 cores · 64 GB RAM"
ON_CARD = "to spare on RTX 4090"


def made(
    name: str, title: str, models: str, n_bytes: int, fit: Fit, reason: str, good_at: str, terms: str, tested: str = ""
) -> PairCard:
    """Return a card; the card named demo is the demo, which alone is on this machine."""
    is_demo, (target, _, draft) = name == "demo", models.partition(" + ")
    source = DemoModel("target") if is_demo else HubModel(f"owner/{name}")
    pair = Pair(name, title, source, None, good_at=good_at, license=terms, tested_with=tested)
    card = PairCard(Proposal(pair, fit, reason=reason), target=target, draft=draft, size=gigabytes(n_bytes))
    return replace(card, here=is_demo, download_bytes=0 if is_demo else n_bytes)


def renamed(card: PairCard, name: str) -> PairCard:
    return replace(card, proposal=replace(card.proposal, pair=replace(card.pair, name=name)))


CODER = made(
    "coder-32b",
    "Qwen2.5 Coder 32B with 0.5B, code in 24 GB",
    "Qwen2.5-Coder-32B Q4_K_M + 0.5B Q8_0",
    20_527_000_000,
    Fit.FITS,
    f"1.9 GB {ON_CARD}",
    "code",
    "apache-2.0",
    "1.9× on an RTX 3090 with 24 GB (r/LocalLLaMA 1gzm93o)",
)
GENERAL = made(
    "qwen3-32b",
    "Qwen3 32B with 0.6B, thinks before it answers",
    "Qwen3-32B Q4_K_M + 0.6B Q8_0",
    20_401_000_000,
    Fit.TIGHT,
    f"only 0.6 GB {ON_CARD}",
    "reasoning, mathematics, general questions, code",
    "apache-2.0",
)
SMALL = made(
    "llama-8b",
    "Llama 3.1 8B with Llama 3.2 1B, an all-rounder",
    "Meta-Llama-3.1-8B Q4_K_M + Llama-3.2-1B Q4_K_M",
    5_728_000_000,
    Fit.FITS,
    f"16.1 GB {ON_CARD}",
    "chat, general questions, code",
    "llama3.1; draft: llama3.2",
)
DEMO = made(
    "demo",
    "SmolLM2 135M, for trying Tandem without a download",
    "SmolLM2-135M + a smaller copy of it",
    98_000_000,
    Fit.FITS,
    f"22.2 GB {ON_CARD}",
    "trying the program",
    "apache-2.0",
)
ALONE = made(
    "nemo-12b",
    "Mistral Nemo 12B alone, with n-gram drafting",
    "Mistral-Nemo-2407 Q4_K_M",
    7_477_000_000,
    Fit.FITS,
    f"14.2 GB {ON_CARD}",
    "chat, prose, summaries and edits of given text",
    "apache-2.0",
)
HUGE = made(
    "llama-70b",
    "Llama 3.3 70B with Llama 3.2 1B, the large all-rounder",
    "Llama-3.3-70B Q4_K_M + 3.2-1B Q8_0",
    43_841_000_000,
    Fit.TOO_BIG,
    "needs 47.8 GB, 25.0 GB more than is free for models",
    "chat, general questions, long texts, code",
    "llama3.3; draft: llama3.2",
)
CARDS = (DEMO, CODER, GENERAL, SMALL, ALONE, HUGE)
BEGUN = SetupProgress(
    Stage.DOWNLOADING,
    (
        FileProgress("target", 12_400_000_000, 19_852_000_000, n_received=12_400_000_000),
        FileProgress("draft", 675_710_848, 675_710_848),
    ),
    94_300_000,
)
OFFLINE = HubError("huggingface.co cannot be found.", "This machine seems to be offline.")


def facts(name: str, quant: str) -> ModelFacts:
    """Return a model's facts."""
    vocab = VocabInfo("llama", ())
    return ModelFacts(name, "llama", quant, None, 0, 0, 0, 0, GraphWidths(0, 0, 0, 0, 0, 0), vocab, True, True)


def models(target_size: int, draft_size: int) -> dict[str, ResolvedModel]:
    """Return the files of two gated models; the draft is already on disk."""
    target = ResolvedModel(HubModel("owner/target"), (), None, target_size, gated=True)
    draft = ResolvedModel(HubModel("owner/draft"), (), Path("draft.gguf"), draft_size)
    return {"target": target, "draft": draft}


PREPARED = Prepared(
    pair=Pair("checked", "", HubModel("owner/target"), HubModel("owner/draft"), license="apache-2.0"),
    models=models(20 * GB, GB),
    check=PairCheck(facts("Big One", "Q4_K_M"), facts("Small One", "Q8_0"), warnings=("The draft is old.",)),
    download_bytes=20 * GB,
    free_bytes=100 * GB,
)
CHECKED = SetupProgress(Stage.CHECKED, prepared=PREPARED)


def with_check(**changes: Any) -> Prepared:
    """Return the checked pair with another result."""
    return replace(PREPARED, check=replace(PREPARED.check, **changes))


class FakeCheck(SetupTask):
    """A check of two models without a thread."""

    progress = SetupProgress(Stage.CHECKING)
    cancelled = False

    def __init__(self) -> None:
        pass

    def cancel(self) -> None:
        self.cancelled = True


class FakePairs(PairService):
    """A pair service without a thread."""

    def __init__(self, *cards: PairCard, machine: str | None = MACHINE) -> None:
        self.now = PairsState(machine=machine, cards=cards or CARDS, busy=True)
        self.calls: list[tuple[str, ...]] = []
        self.refuses: AppError | None = None
        self.found: Sequence[FoundRepository] = ()
        self.checks: list[FakeCheck] = []
        self.checked_fit = "tight: only 0.4 GB to spare"

    def change(self, name: str, **changes: object) -> None:
        """Change one card."""
        cards = tuple(replace(c, **changes) if c.name == name else c for c in self.now.cards)  # type: ignore[arg-type]
        self.now = replace(self.now, cards=cards)

    def report(self, name: str, setup: SetupProgress) -> None:
        """Set the progress of a pair's setup."""
        self.now = replace(self.now, setups={**self.now.setups, name: setup})
        if setup.stage is Stage.READY:
            self.change(name, here=True, set_up=True, download_bytes=0)

    def arguments(self, call: str) -> list[list[str]]:
        """Return the arguments of each call of a method."""
        return [args for name, *args in self.calls if name == call]

    def refresh(self) -> None:
        self.calls.append(("refresh",))

    def state(self) -> PairsState:
        return self.now

    def set_up(self, name: str, *, confirmed: bool = False, latest: bool = False) -> None:
        self.calls.append(("set_up", name, *(["confirmed"] if confirmed else []), *(["latest"] if latest else [])))
        self.report(name, SetupProgress(Stage.CHECKING))

    def cancel_setup(self, name: str) -> None:
        self.calls.append(("cancel_setup", name))
        self.report(name, self.now.setups[name].ended(Stage.STOPPED))

    def make_default(self, name: str) -> None:
        self._refuse()
        self.calls.append(("make_default", name))
        for card in self.now.cards:
            self.change(card.name, is_default=card.name == name)

    def check(self, target: str, draft: str) -> FakeCheck:
        self.calls.append(("check", target, draft))
        self.checks.append(FakeCheck())
        return self.checks[-1]

    def fit(self, prepared: Prepared) -> str:
        return self.checked_fit

    def search(self, words: str) -> Sequence[FoundRepository]:
        self._refuse()
        self.calls.append(("search", words))
        return self.found

    def add(self, prepared: Prepared) -> str:
        self.calls.append(("add", prepared.pair.name))
        pair = Pair("added", "owner/big + owner/small", HubModel("owner/big"), HubModel("owner/small"))
        added = PairCard(Proposal(pair, Fit.UNWEIGHED), target="Big Q4_K_M", draft="Small Q8_0", size="2.0 GB")
        self.now = replace(self.now, cards=(added, *self.now.cards))
        self.report("added", SetupProgress(Stage.DOWNLOADING))
        return "added"

    def load_request(self, name: str) -> LoadRequest:
        self._refuse()
        if not next(card for card in self.now.cards if card.name == name).set_up:
            raise PairError(f"{name} is not here.")
        self.calls.append(("load_request", name))
        return LoadRequest(no_loader, f"Title of {name}")

    def close(self, timeout: float) -> bool:
        self.calls.append(("close",))
        return True

    def _refuse(self) -> None:
        error, self.refuses = self.refuses, None
        if error is not None:
            raise error
