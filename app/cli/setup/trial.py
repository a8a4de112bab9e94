"""The last step of a set-up: load the pair as the chat would, measure it, and let it say something."""

from __future__ import annotations

from collections.abc import Callable

from app.chat.message import Message, Role
from app.cli.options import Options, open_settings, options_of
from app.cli.pair_layers import of_file
from app.cli.report import pace
from app.engine.types import Drafting, SamplingParams
from app.errors import AppError, PairError, UsageError
from app.events import Finished, Notice
from app.fitting.does_not_fit import DoesNotFitError
from app.hardware.offers import Offer
from app.registry import SetUp
from app.request import AnswerRequest, LoadedPair
from app.responder import answer
from app.shell import command

_PROMPT = "Say in one sentence what you can help with."
_TOKENS = 48


def trial(pair: SetUp, cancelled: Callable[[], bool]) -> str:
    """The trial that `app.pairing.setup.Setup` wants; what it measures is kept for later runs.

    Raises:
        AppError: The pair does not work, or does not fit; that comes with the commands that open it all the same.
    """
    from app.cli.loading import load
    from app.llama.cancel import CancelFlag

    options = _options(pair)
    try:
        loaded = load(options, CancelFlag(), lambda what, share: not cancelled())
    except DoesNotFitError as error:
        raise _set_up_all_the_same(pair.pair.name, error) from error
    try:
        return _ask(loaded, options.drafting, cancelled)
    finally:
        loaded.close()


def _options(pair: SetUp) -> Options:
    """What the chat would load, as the settings are."""
    model = of_file(pair.pair, pair)
    live = open_settings({}, pair.pair, model)
    try:
        return options_of(live.resolved(), pair.pair, pair, model)
    except UsageError as error:
        live.leave_placement_out(error.message)
        return options_of(live.resolved(), pair.pair, pair, model)


def _ask(pair: LoadedPair, drafting: Drafting, cancelled: Callable[[], bool]) -> str:
    request = AnswerRequest((Message(Role.USER, _PROMPT),), SamplingParams(temperature=0), drafting, max_tokens=_TOKENS)
    notices = list(pair.notices)
    for event in answer(pair, 0, request, cancelled):
        if isinstance(event, Notice):
            notices.append(event.text)
        if isinstance(event, Finished):
            if not (event.text.strip() or event.reasoning.strip()) and not cancelled():
                raise PairError("The pair loads but says nothing.", "Choose another quantisation or another model.")
            return ". ".join(part.rstrip(".") for part in (pace(event.stats), *notices))
    raise AssertionError


def _set_up_all_the_same(name: str, error: DoesNotFitError) -> AppError:
    """That its files are here, and how it can be opened."""
    enough = [offer for offer in error.offers if offer.suffices and offer.flags]
    ways = [f"{_command(name, offer)}: {offer.what} ({offer.cost})" for offer in enough]
    all_the_same = command(["tandem", "--pair", name, "--fit", "off"])
    hint = "\n".join(["Its files stay. Take one of these:", *ways, f"{all_the_same}: as it is"])
    return PairError(f"{name} is set up. {error.message}", hint)


def _command(name: str, offer: Offer) -> str:
    """The command that takes an offer: of other models it brings them."""
    match offer.flags:
        case ("--pair", other):
            return command(["tandem", "setup", other])
        case ("--target", *_):
            return command(["tandem", "setup", *offer.flags])
    return command(["tandem", "--pair", name, *offer.flags])
