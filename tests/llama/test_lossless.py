"""Pairs with and without drafts: the same text or explained differences, and the same distribution when sampling."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from app.compare.difference import ROUNDING, explain
from app.compare.race import WARM_UP, Round, Run, Side, race
from app.compare.report import Comparison, comparison_lines
from app.conversations.message import Message, Role
from app.engine import generator
from app.engine.generator import Observe, Verification, verify
from app.engine.types import Draft, Guidance, SamplingParams
from app.llama.pair import NativePair
from app.worker.request import AnswerRequest
from tests.compare.runs import rounds_of
from tests.llama.conftest import OpenPair
from tests.llama.generation import GREEDY
from tests.llama.gguf_files import I32, STRING, Array
from tests.llama.tiny_model import CONTROL, NORMAL, SPECIALS
from tests.sampled_distribution import EVERYTHING, SampledCheck, check_sampled

pytestmark = pytest.mark.native
REQUEST = AnswerRequest((Message(Role.USER, "Count from one to twenty."),), GREEDY, max_tokens=16)


def never() -> bool:
    return False


@pytest.fixture(scope="module")
def rounds(pair: NativePair) -> tuple[Round, ...]:
    sides = [Side("plain", None), Side("everything", EVERYTHING)]
    return tuple(rounds_of(race(pair, sides, REQUEST, [WARM_UP, 1], never)))


def test_every_side_gives_the_targets_text(pair: NativePair, rounds: tuple[Round, ...]) -> None:
    plain, drafted = rounds[0]["plain"], rounds[0]["everything"]

    assert len(plain.tokens) == plain.stats.predicted_n == 16
    assert plain.stats.cache_n == drafted.stats.cache_n == 0
    assert drafted.stats.draft_n > 0
    assert "".join(pair.model.piece(t).decode() for t in plain.tokens).strip() == plain.text
    found = explain(pair, REQUEST, plain, drafted, never)
    assert found is None or found.near_tie
    assert "everything: " in "\n".join(comparison_lines(Comparison(rounds, {})))


def test_a_forged_token_is_a_real_difference(pair: NativePair, rounds: tuple[Round, ...]) -> None:
    plain, drafted = rounds[0]["plain"], rounds[0]["everything"]
    place = next(s.first for s in drafted.steps if s.drafted and s.first > 2)
    forged = Run(
        "forged",
        (*drafted.tokens[:place], plain.tokens[place] + 1),
        "",
        drafted.reason,
        drafted.stats,
        drafted.steps,
    )
    found = explain(pair, REQUEST, plain, forged, never)

    assert found is not None
    assert found.index == place
    assert found.width > 1
    assert found.near_tie is False
    assert found.moved is not None
    # A batch changes real logits only by rounding, on some processors not at all.
    assert found.moved < ROUNDING


ANSWERS = 300
LETTERS = "abcdefgh"
DRAWS = SamplingParams(temperature=20, top_k=3, top_p=1, min_p=0)
PENALIZED = SamplingParams(temperature=5, top_k=3, frequency_penalty=8)
"""The past decides: if it is forgotten or wrong, other letters appear."""
MIROSTAT = SamplingParams(temperature=20, mirostat=2, mirostat_tau=1.5)
XTC = replace(DRAWS, top_k=5, xtc_probability=0.5, xtc_threshold=0.01)
DRY = replace(DRAWS, dry_multiplier=1, dry_allowed_length=1)
GRAMMAR = Guidance(grammar="root ::= [b-h]+")
LARK = Guidance(schema={})


@pytest.fixture
def letters_pair(tiny: Callable[..., Path], open_pair: OpenPair) -> NativePair:
    tokens = Array(STRING, [*SPECIALS, *LETTERS])
    types = Array(I32, [CONTROL] * len(SPECIALS) + [NORMAL] * len(LETTERS))
    model = tiny(tokenizer__ggml__tokens=tokens, tokenizer__ggml__token_type=types)
    # The target drafts for itself, greedily: often right and often wrong.
    return open_pair(model, model, n_ctx=64)


def _checked(letters_pair: NativePair, sampling: SamplingParams, guidance: Guidance | None = None) -> SampledCheck:
    request = AnswerRequest((Message(Role.USER, "abcab"),), sampling, guidance=guidance or Guidance())
    return check_sampled(letters_pair, request, ANSWERS)


@pytest.mark.parametrize(
    ("sampling", "guidance"),
    [
        pytest.param(DRAWS, None, id="drawn"),
        pytest.param(PENALIZED, None, id="penalized"),
        pytest.param(MIROSTAT, None, id="mirostat"),
        pytest.param(XTC, None, id="xtc"),
        pytest.param(DRY, None, id="dry"),
        pytest.param(DRAWS, GRAMMAR, id="grammar"),
        pytest.param(DRAWS, LARK, id="lark"),
    ],
)
def test_sampled_answers_have_one_distribution(
    letters_pair: NativePair, sampling: SamplingParams, guidance: Guidance | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No JSON consists of letters.
    monkeypatch.setattr("app.llama.sampler.schema_rule", lambda schema, *, strict: "/[b-h]+/")
    check = _checked(letters_pair, sampling, guidance)

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
    letters_pair: NativePair,
    monkeypatch: pytest.MonkeyPatch,
    fault: Callable[..., Verification],
    sampling: SamplingParams,
) -> None:
    monkeypatch.setattr(generator, "verify", fault)
    assert not _checked(letters_pair, sampling).holds
