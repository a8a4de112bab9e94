"""The last step of a set-up: load the pair, measure it, and let it say something."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from app.chat.message import Message, Role
from app.cli.report import pace
from app.engine.types import AutoDraft, SamplingParams
from app.errors import PairError
from app.events import Finished, Notice
from app.hardware.cpu import default_threads
from app.registry import SetUp
from app.request import AnswerRequest, LoadedPair
from app.responder import answer

_PROMPT = "Say in one sentence what you can help with."
_TOKENS = 48
_CONTEXT = 2048


def trial(memory_dir: Path) -> Callable[[SetUp, Callable[[], bool]], str]:
    """The trial that `app.pairing.setup.Setup` wants; what it measures is kept for later runs."""

    def run(pair: SetUp, cancelled: Callable[[], bool]) -> str:
        from app.llama.cancel import CancelFlag
        from app.llama.pair import NativePair
        from app.llama.pair_params import PairParams

        params = PairParams(
            target=pair.target.path,
            draft=pair.draft.path if pair.draft is not None else None,
            n_threads=default_threads(),
            n_ctx=_CONTEXT,
            memory_dir=memory_dir,
        )
        loaded = NativePair(params, CancelFlag(), lambda what, share: not cancelled())
        try:
            return _ask(loaded, cancelled)
        finally:
            loaded.close()

    return run


def _ask(pair: LoadedPair, cancelled: Callable[[], bool]) -> str:
    request = AnswerRequest(
        (Message(Role.USER, _PROMPT),), SamplingParams(temperature=0), AutoDraft(), max_tokens=_TOKENS
    )
    notices = list(pair.notices)
    for event in answer(pair, 0, request, cancelled):
        if isinstance(event, Notice):
            notices.append(event.text)
        if isinstance(event, Finished):
            if not (event.text.strip() or event.reasoning.strip()) and not cancelled():
                raise PairError("The pair loads but says nothing.", "Choose another quantisation or another model.")
            return ". ".join(part.rstrip(".") for part in (pace(event.stats), *notices))
    raise AssertionError
