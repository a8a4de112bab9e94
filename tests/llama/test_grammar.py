"""Grammars and JSON schemas hold, with and without drafts, and wrong ones are errors instead of crashes."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.conversations.message import Message, Role
from app.core.errors import UsageError
from app.engine.events import Step
from app.engine.types import AutoDraft, Drafting, Guidance, SamplingParams
from app.llama.grammar import Grammar
from app.llama.pair import NativePair
from app.worker.events import Event, Finished
from app.worker.request import AnswerRequest
from app.worker.responder import answer
from tests.llama.conftest import OpenPair
from tests.llama.generation import GREEDY
from tests.llama.gguf_files import I32, STRING, Array
from tests.llama.tiny_model import CONTROL, NORMAL, SPECIALS
from tests.sampled_distribution import EVERYTHING

pytestmark = pytest.mark.native

DRAWN = SamplingParams(temperature=1.5, seed=3)
SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}, "count": {"enum": [1, 20, 300]}},
    "required": ["city", "count"],
}
TOOL = {"type": "function", "function": {"name": "look_up", "description": "Look something up", "parameters": SCHEMA}}


def answered(pair: NativePair, request: AnswerRequest) -> tuple[Finished, list[Event]]:
    *events, last = answer(pair, 1, request)
    assert isinstance(last, Finished)
    return last, events


def asked(
    guidance: Guidance, sampling: SamplingParams = GREEDY, drafting: Drafting = None, **more: Any
) -> AnswerRequest:
    question = (Message(Role.USER, "Name a city and a number."),)
    return AnswerRequest(question, sampling, drafting, max_tokens=60, guidance=guidance, **more)


@pytest.mark.parametrize("sampling", [GREEDY, DRAWN, replace(DRAWN, mirostat=2), replace(GREEDY, dry_multiplier=0.8)])
@pytest.mark.parametrize("drafting", [None, EVERYTHING, AutoDraft(model=False)], ids=["none", "model", "ngram"])
def test_a_schema_holds(pair: NativePair, sampling: SamplingParams, drafting: Drafting) -> None:
    finished, _ = answered(pair, asked(Guidance(schema=SCHEMA), sampling, drafting))
    value = json.loads(finished.text)
    assert value["city"] in ("Paris", "Rome")
    assert value["count"] in (1, 20, 300)


@pytest.mark.parametrize("sampling", [GREEDY, DRAWN], ids=["greedy", "drawn"])
def test_drafts_change_nothing_under_a_grammar(pair: NativePair, sampling: SamplingParams) -> None:
    guidance = Guidance(grammar='root ::= ("red" | "green" | "blue") (", " root)?')
    texts = {}
    for name, drafting in (("none", None), ("drafts", EVERYTHING)):
        finished, _ = answered(pair, asked(guidance, sampling, drafting))
        texts[name] = finished.text
    assert texts["none"] == texts["drafts"]
    assert finished.stats.draft_n_accepted > 0


def test_forbidden_tokens_are_not_verified(pair: NativePair) -> None:
    sampler = pair.new_sampler(GREEDY, Guidance(grammar='root ::= "12" "3"*'))
    digits = [token for text in "1233" for token in pair.tokenize(text)]
    letters = list(pair.tokenize("a"))
    assert sampler.n_allowed(digits) == len(digits)
    assert sampler.n_allowed([*digits[:2], *letters, *digits]) == 2
    assert sampler.n_allowed(letters) == 0
    assert sampler.n_allowed(digits) == len(digits), "looking at a draft moves nothing"
    assert pair.new_sampler(GREEDY).n_allowed(letters) == 1
    sampler.close()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("not a grammar", "expecting ::= at"),
        ('a ::= "x"', ""),
        ("root ::= missing", "Undefined rule identifier 'missing'"),
        ("root ::= root", ""),
        ('root ::= "a"{1000000}', "number of repetitions"),
        ("root ::= (", "expecting ')' at"),
    ],
)
def test_a_wrong_grammar_is_an_error_with_a_reason(pair: NativePair, text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=f"The grammar is invalid: .*{re.escape(reason)}"):
        Grammar(pair.model, text)


def test_brackets_that_would_overflow_a_stack_are_an_error(pair: NativePair) -> None:
    with pytest.raises(UsageError, match="more than 300 nested brackets"):
        Grammar(pair.model, "root ::= " + "(" * 20_000 + '"a"' + ")" * 20_000)
    Grammar(pair.model, 'root ::= "' + "(" * 20_000 + '"').close()


def test_a_grammar_without_a_possible_token_is_an_error(tiny: Callable[..., Path], open_pair: OpenPair) -> None:
    tokens, types = [*SPECIALS, "a", "b"], [CONTROL] * len(SPECIALS) + [NORMAL] * 2
    model = tiny(tokenizer__ggml__tokens=Array(STRING, tokens), tokenizer__ggml__token_type=Array(I32, types))
    with pytest.raises(UsageError, match="allows no token"):
        answered(open_pair(model, n_ctx=64), asked(Guidance(grammar='root ::= "z"'), DRAWN))


def test_a_biased_token_is_never_or_always_written(pair: NativePair) -> None:
    plain, events = answered(pair, asked(Guidance()))
    first = next(event for event in events if isinstance(event, Step)).tokens[0]
    other, _ = answered(pair, asked(Guidance(logit_bias=((first, -1000.0),))))
    assert other.text[:4] != plain.text[:4]
    with pytest.raises(UsageError, match="not in the vocabulary"):
        pair.new_sampler(GREEDY, Guidance(logit_bias=((10_000_000, 1.0),)))


@pytest.mark.parametrize("guidance", [Guidance(), Guidance(schema={"type": "object"})])
def test_a_required_call_is_written_with_any_schema_of_an_answer(pair: NativePair, guidance: Guidance) -> None:
    finished, _ = answered(pair, asked(replace(guidance, must_call=True, one_call=True), tools=(TOOL,)))
    (call,) = finished.calls
    assert (finished.text, call.name) == ("", "look_up")
    assert json.loads(call.arguments)["city"] in ("Paris", "Rome")


def test_probabilities_are_reported(pair: NativePair) -> None:
    _, events = answered(pair, replace(asked(Guidance(), drafting=EVERYTHING), n_top=3, max_tokens=8))
    steps = [event for event in events if isinstance(event, Step) and event.tokens]
    for step in steps:
        assert len(step.probabilities) == len(step.tokens)
        for token, one in zip(step.tokens, step.probabilities, strict=True):
            assert one.piece == pair.model.piece(token)
            assert one.top[0].piece == one.piece, "a greedy token is the most probable one"
            assert one.top[0].probability == pytest.approx(one.probability)
            assert len(one.top) == 3
