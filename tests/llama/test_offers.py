"""Check that every offer for a pair that does not fit leads to a load, by flags or in the chat."""

from collections.abc import Callable
from pathlib import Path

import pytest

from app.cli.options import read_pair
from app.core.errors import DoesNotFitError
from app.hardware.devices import Device
from app.hardware.offers import Offer
from app.llama.cancel import CancelFlag
from app.settings.layers import Layer, drafting
from app.ui.models.opener import Opener
from app.worker.loading import measured_params
from app.worker.pair_loader import PairLoader
from tests.settings.in_memory import in_memory

pytestmark = pytest.mark.native
GB = 1_000_000_000
Give = Callable[..., None]


@pytest.fixture
def give(rooms: Callable[..., None]) -> Give:
    """Return a function that gives this machine a GPU and RAM of these sizes in GB."""

    def give(main: float, card: float = 0.0) -> None:
        devices = (Device("CUDA0", "gpu", "CUDA", int(card * GB)),) if card else ()
        rooms(*devices, Device("cpu", "cpu", "CPU", int(main * GB)))

    return give


@pytest.fixture
def args(demo_target: Path, demo_draft: Path) -> dict[str, str]:
    return {"target": str(demo_target), "draft": str(demo_draft)}


def opener(options: PairLoader, flags: Layer | None = None) -> Opener:
    return Opener(in_memory(flags), options, options.process)


def refusal(options: PairLoader) -> DoesNotFitError:
    with pytest.raises(DoesNotFitError) as caught:
        measured_params(options)
    return caught.value


@pytest.mark.parametrize(("main", "card"), [(0.5, 0.0), (8, 1.05)])
def test_every_offer_leads_to_a_pair_that_fits(give: Give, args: dict[str, str], main: float, card: float) -> None:
    give(main, card)
    options = read_pair(args)
    offers = [offer for offer in refusal(options).offers if offer.settings or offer.pair]

    assert any(offer.suffices for offer in offers)
    for offer in offers:
        taken = opener(options).with_offer(offer)
        if offer.suffices:
            measured_params(taken)
        else:
            refusal(taken)


def test_an_offer_taken_in_the_chat_is_loaded(give: Give, args: dict[str, str]) -> None:
    give(0.5)
    chat = opener(read_pair(args))
    first = chat.again()
    with pytest.raises(DoesNotFitError) as caught:
        first.loader(CancelFlag(), lambda *_: True)

    way = chat.option(next(offer for offer in caught.value.offers if offer.what.startswith("a context")))
    assert way.apply is not None
    choice = way.apply()
    assert choice.title == first.title
    # The accepted offer applies to every later load.
    assert chat.live.resolved()["model.ctx"] is not None
    pair = choice.loader(CancelFlag(), lambda *_: True)
    assert pair.info.n_ctx < 8192
    pair.close()


def test_no_draft_replaces_the_draft_settings(args: dict[str, str]) -> None:
    taken = opener(read_pair(args), {"draft.n_max": 4}).with_offer(
        Offer("no draft", 0, "", {"draft.mode": "off"}, suffices=True)
    )

    assert (drafting(taken.settings), taken.pair.draft) == (None, None)
