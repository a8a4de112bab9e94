"""The application over a fake engine."""

from collections.abc import Callable

from app.hardware.offers import Offer
from app.session.library import StoreOpener
from app.session.tool_use import ToolUse
from app.settings.layers import Layer
from app.settings.live import LiveSettings
from app.ui.app import TandemApp
from app.ui.models.state import FitOption, LoadRequest, Tuning
from app.worker.events import Event
from tests.fake_engine import FIXED, FakeEngine, no_loader
from tests.settings.in_memory import in_memory
from tests.ui.models.fake_pairs import FakePairs


def tuning_of(live: LiveSettings | None = None) -> Tuning:
    """Return these settings, or those of a fresh machine; the same pair is loaded again."""
    return Tuning(live or in_memory(), lambda: LoadRequest(no_loader, "A pair"), option_of)


def option_of(offer: Offer) -> FitOption:
    """Return an offer as a choice; the files of another pair must be downloaded first."""
    if offer.pair is not None:
        return FitOption(offer, command=f"tandem setup --target {offer.pair}")
    return FitOption(offer, lambda: LoadRequest(no_loader, f"With {offer.what}"))


def fake_app(
    flags: Layer = FIXED,
    *,
    closes: bool = True,
    store: StoreOpener | None = None,
    live: LiveSettings | None = None,
    continues: bool = False,
    tuning: Tuning | None = None,
    pairs: FakePairs | None = None,
    title: str = "A pair",
    first_run: bool = False,
    tools: ToolUse | None = None,
) -> tuple[TandemApp, FakeEngine]:
    """Return the real application over a fake engine, with `live` settings or those of the flags."""
    engines: list[FakeEngine] = []

    def factory(emit: Callable[[Event], None]) -> FakeEngine:
        engines.append(FakeEngine(emit, closes=closes))
        return engines[0]

    tuning = tuning or tuning_of(live or in_memory({"answer.titles": False, **flags}))
    pairs = pairs or FakePairs()
    made = None if tools is None else lambda emit: tools
    app = TandemApp(factory, no_loader, title, tuning, pairs, first_run, store=store, continues=continues, tools=made)
    return app, engines[0]
