"""Inputs of a comparison with and without drafts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from app.core.errors import UsageError
from app.engine.types import AutoDraft, DraftParams
from app.models.pair_info import PairInfo
from app.session.session import Session
from app.worker.request import AnswerRequest, with_seed

MAX_TOKENS = 256
"""Enough for a steady speed, short enough to run several times."""


@dataclass(frozen=True, slots=True)
class Comparable:
    """A prompt that can be compared now.

    Attributes:
        request: The conversation with the prompt at its end; it has a seed if it needs one.
        fixed: The fixed draft parameters in force, if any.
    """

    request: AnswerRequest
    automatic: AutoDraft
    fixed: DraftParams | None
    pair: PairInfo


def comparable(session: Session, typed: str) -> Comparable:
    """Return the typed prompt, or else the last one, ready to be compared.

    Raises:
        UsageError: There is nothing to compare.
    """
    settings = session.settings
    if settings.drafting is None:
        raise UsageError("Drafting is off in the settings, so there is nothing to compare.")
    if not session.drafting.is_available:
        raise UsageError(f"There is nothing to compare. {session.drafting.reason}")
    request = session.comparison_request(typed.strip())
    if request is None or session.pair is None:
        raise UsageError("There is no prompt to compare yet; type one.")
    most = min(request.max_tokens or MAX_TOKENS, MAX_TOKENS)
    request = replace(request, sampling=with_seed(request.sampling), drafting=None, max_tokens=most)
    fixed = settings.drafting if isinstance(settings.drafting, DraftParams) else None
    return Comparable(request, settings.automatic, fixed, session.pair)
