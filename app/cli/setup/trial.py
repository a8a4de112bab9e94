"""The last step of a set-up: load the pair as the chat would, measure it, and let it say something."""

from __future__ import annotations

from collections.abc import Callable

from app.cli.options import Options, open_settings, options_of
from app.cli.pair_layers import of_file
from app.cli.report import pace
from app.conversations.message import Message, Role
from app.core.errors import PairError, UsageError
from app.engine.interfaces import Controls
from app.engine.types import Drafting, SamplingParams
from app.models.registry import SetUp
from app.worker.events import Finished, Notice
from app.worker.request import AnswerRequest, LoadedPair
from app.worker.responder import answer

_PROMPT = "Say in one sentence what you can help with."
_TOKENS = 48


def trial(pair: SetUp, cancelled: Callable[[], bool]) -> str:
    """The trial that `app.models.setup.Setup` wants; what it measures is kept for later runs.

    Raises:
        AppError: The pair does not work; a `DoesNotFitError` if it does not fit.
    """
    from app.cli.loading import load
    from app.llama.cancel import CancelFlag

    options = _options(pair)
    loaded = load(options, CancelFlag(), lambda what, share: not cancelled())
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
    for event in answer(pair, 0, request, Controls(cancelled)):
        if isinstance(event, Notice):
            notices.append(event.text)
        if isinstance(event, Finished):
            if not (event.text.strip() or event.reasoning.strip()) and not cancelled():
                raise PairError("The pair loads but says nothing.", "Choose another quantisation or another model.")
            return ". ".join(part.rstrip(".") for part in (pace(event.stats), *notices))
    raise AssertionError
