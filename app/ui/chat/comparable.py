"""What the chat can hand over for a comparison. Kept light: the chat's first frame waits for every import."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.core.errors import UsageError
from app.engine.types import AutoDraft, DraftParams
from app.models.pair_info import PairInfo
from app.ui.chat.session import ChatSession, Phase
from app.worker.request import AnswerRequest, with_seed

MOST_TOKENS = 256
"""Longest answer of a side: enough for a steady speed, short enough to be run several times."""


@dataclass(frozen=True, slots=True)
class Comparable:
    """What can be compared now.

    Attributes:
        request: The conversation with the prompt at its end; it has a seed if it needs one.
        automatic: How automatic drafting takes part.
        fixed: The parameters that are in force, if they are fixed.
        pair: Who answers.
        ctx_to_come: The context that it gets when it is loaded anew; 0 where it stays.
    """

    request: AnswerRequest
    automatic: AutoDraft
    fixed: DraftParams | None
    pair: PairInfo
    ctx_to_come: int = 0


def comparable(session: ChatSession, typed: str) -> Comparable:
    """The prompt being typed, or else the last one, ready to be compared.

    Raises:
        UsageError: There is nothing to compare, or not now.
    """
    if session.phase is Phase.LOADING:
        raise UsageError("The models are still being loaded.")
    if session.refusal is not None:
        raise UsageError(session.refusal)
    settings = session.settings
    if settings.drafting is None:
        raise UsageError("Drafting was turned off when Tandem was started, so there is nothing to compare.")
    if not session.can_draft:
        raise UsageError(f"There is nothing to compare. {session.why_plain}")
    request = session.would_ask(typed.strip())
    if request is None or session.pair is None:
        raise UsageError("There is no prompt to compare yet; type one.")
    most = min(request.max_tokens or MOST_TOKENS, MOST_TOKENS)
    request = replace(request, sampling=with_seed(request.sampling), drafting=None, max_tokens=most)
    fixed = settings.drafting if isinstance(settings.drafting, DraftParams) else None
    return Comparable(request, settings.automatic, fixed, session.pair, session.ctx_to_come)
