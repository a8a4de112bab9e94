"""Sampled answers of a real sampler chain have one distribution, with and without drafts, and a fault would show.

A model of eight letters says the same few things over and over, so that hundreds of answers fall into a few classes
and what was said before matters for what comes next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from app.conversations.message import Message, Role
from app.engine import generator
from app.engine.generator import Observe, Verification, verify
from app.engine.types import Draft, Guidance, SamplingParams
from app.llama.cancel import CancelFlag
from app.llama.pair import NativePair
from app.llama.params import PairParams
from app.worker.request import AnswerRequest
from tests.compare.runs import finish
from tests.llama.gguf_files import I32, STRING, Array
from tests.llama.tiny_model import CONTROL, NORMAL, SPECIALS
from tests.sampled_distribution import EVERYTHING, SampledCheck, check_sampled

pytestmark = pytest.mark.native

ANSWERS = 300
LETTERS = "abcdefgh"
DRAWS = SamplingParams(temperature=20, top_k=3, top_p=1, min_p=0)
PENALIZED = SamplingParams(temperature=5, top_k=3, frequency_penalty=8)
"""The past decides: where it is forgotten, or holds what was never said, other letters come."""
MIROSTAT = SamplingParams(temperature=20, mirostat=2, mirostat_tau=1.5)
XTC = replace(DRAWS, top_k=5, xtc_probability=0.5, xtc_threshold=0.01)
DRY = replace(DRAWS, dry_multiplier=1, dry_allowed_length=1)
GRAMMAR = Guidance(grammar="root ::= [b-h]+")


@pytest.fixture
def pair(tiny: Callable[..., Path]) -> Iterator[NativePair]:
    tokens = Array(STRING, [*SPECIALS, *LETTERS])
    types = Array(I32, [CONTROL] * len(SPECIALS) + [NORMAL] * len(LETTERS))
    model = tiny(tokenizer__ggml__tokens=tokens, tokenizer__ggml__token_type=types)
    # The target drafts for itself, greedily: often right and often wrong.
    loaded = NativePair(PairParams(model, model, n_threads=1, n_ctx=64), CancelFlag(), lambda *_: True)
    yield loaded
    loaded.close()


def _checked(pair: NativePair, sampling: SamplingParams, guidance: Guidance | None = None) -> SampledCheck:
    request = AnswerRequest((Message(Role.USER, "abcab"),), sampling, guidance=guidance or Guidance())
    return finish(check_sampled(pair, request, "everything", EVERYTHING, ANSWERS, lambda: False))


@pytest.mark.parametrize(
    ("sampling", "guidance"),
    [
        pytest.param(DRAWS, None, id="drawn"),
        pytest.param(PENALIZED, None, id="penalized"),
        pytest.param(MIROSTAT, None, id="mirostat"),
        pytest.param(XTC, None, id="xtc"),
        pytest.param(DRY, None, id="dry"),
        pytest.param(DRAWS, GRAMMAR, id="grammar"),
    ],
)
def test_sampled_answers_have_one_distribution(
    pair: NativePair, sampling: SamplingParams, guidance: Guidance | None
) -> None:
    check = _checked(pair, sampling, guidance)

    assert check.degrees_of_freedom >= 3, "answers that are all alike, or all different, tell nothing"
    assert check.drafted >= ANSWERS / 2
    assert check.holds, check


def _believed(draft: Draft, sample: Callable[[int], int], observe: Observe) -> Verification:
    """Accept every drafted token."""

    def choose(row: int) -> int:
        token = sample(row)
        return draft.tokens[row] if row < len(draft) else token

    return verify(draft, choose, observe)


def _favored(draft: Draft, sample: Callable[[int], int], observe: Observe) -> Verification:
    """Draw again for a rejected token."""

    def choose(row: int) -> int:
        token = sample(row)
        return sample(row) if row < len(draft) and token != draft.tokens[row] else token

    return verify(draft, choose, observe)


@pytest.mark.parametrize(("fault", "sampling"), [(_believed, DRAWS), (_favored, PENALIZED)], ids=["drawn", "penalized"])
def test_a_verification_that_favors_drafts_is_found(
    pair: NativePair, monkeypatch: pytest.MonkeyPatch, fault: Callable[..., Verification], sampling: SamplingParams
) -> None:
    monkeypatch.setattr(generator, "verify", fault)
    assert not _checked(pair, sampling).holds
