"""The application over a fake engine."""

from collections.abc import Callable, Mapping

from app.hardware.offers import Offer
from app.session.library import StoreOpener
from app.session.session import Session
from app.session.tool_use import ToolUse
from app.settings.layers import Layer
from app.settings.live import LiveSettings
from app.ui.app import TandemApp
from app.ui.event_queue import EventQueue
from app.ui.models.opener import Opener
from app.ui.models.state import FitOption, LoadRequest
from app.worker.events import Event
from tests.fake_engine import FIXED, FakeEngine, no_loader
from tests.fake_tools import no_tools
from tests.settings.in_memory import in_memory
from tests.ui.models.fake_pairs import FakePairs


class FakeOpener(Opener):
    """Requests that load nothing, with these settings, or those of a fresh machine."""

    def __init__(self, live: LiveSettings | None = None, title: str = "A pair") -> None:
        self.live = live or in_memory()
        self._title = title

    def again(self) -> LoadRequest:
        self.live.loading()
        return LoadRequest(no_loader, self._title)

    def written_by(self, models: Mapping[str, object]) -> LoadRequest | None:
        return None

    def option(self, offer: Offer) -> FitOption:
        # The files of another pair must be downloaded first.
        if offer.pair is not None:
            return FitOption(offer, command=f"tandem setup --target {offer.pair}")
        return FitOption(offer, lambda: LoadRequest(no_loader, f"With {offer.what}"))


def fake_app(
    flags: Layer = FIXED,
    *,
    engine: Callable[[Callable[[Event], None]], FakeEngine] = FakeEngine,
    store: StoreOpener | None = None,
    live: LiveSettings | None = None,
    continues: bool = False,
    opener: Opener | None = None,
    pairs: FakePairs | None = None,
    title: str = "A pair",
    first_run: bool = False,
    tools: ToolUse | None = None,
) -> tuple[TandemApp, FakeEngine]:
    """Return the real application over a fake engine, with `live` settings or those of the flags."""
    queue = EventQueue()
    fake = engine(queue)
    opener = opener or FakeOpener(live or in_memory({"answer.titles": False, **flags}))
    session = Session(fake, title, opener.live, tools or no_tools(), store, None if first_run else no_loader)
    return TandemApp(session, queue, opener, pairs or FakePairs(), continues=continues), fake
