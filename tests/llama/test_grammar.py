"""Grammars and JSON schemas hold, with and without drafts, and wrong ones are errors instead of crashes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.conversations.message import Message, Role
from app.core.errors import DecodeError, UsageError
from app.engine.types import AutoDraft, Drafting, Guidance, SamplingParams
from app.llama.cancel import CancelFlag
from app.llama.grammar import Grammar, guidance_for_calls
from app.llama.pair import NativePair
from app.llama.params import PairParams
from app.llama.schema_grammar import grammar_of_schema
from app.worker.events import Event, Finished, Step
from app.worker.request import AnswerRequest
from app.worker.responder import answer
from tests.engine.text.reading import read
from tests.llama.gguf_files import I32, STRING, Array
from tests.llama.tiny_model import CONTROL, NORMAL, SPECIALS
from tests.sampled_distribution import EVERYTHING

pytestmark = pytest.mark.native

GREEDY = SamplingParams(temperature=0)
DRAWN = SamplingParams(temperature=1.5, seed=3)
SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}, "count": {"enum": [1, 20, 300]}},
    "required": ["city", "count"],
}
TOOL = {
    "type": "function",
    "function": {"name": "look_up", "description": "Look something up", "parameters": SCHEMA},
}


@pytest.fixture(scope="module")
def pair(demo_target: Path, demo_draft: Path) -> Iterator[NativePair]:
    loaded = NativePair(PairParams(demo_target, demo_draft, n_threads=1, n_ctx=512), CancelFlag(), lambda *_: True)
    yield loaded
    loaded.close()


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
    "text",
    ["not a grammar", 'a ::= "x"', "root ::= missing", "root ::= root", 'root ::= "a"{1000000}', "root ::= ("],
)
def test_a_wrong_grammar_is_an_error(pair: NativePair, text: str) -> None:
    with pytest.raises(UsageError, match="grammar"):
        Grammar(pair._model, text)


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"$ref": "https://example.org/x.json"}, {"type": {"a": 1}}])
def test_a_wrong_schema_is_an_error(schema: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="JSON schema"):
        grammar_of_schema(schema)


def test_a_grammar_without_a_possible_token_is_an_error(tiny: Callable[..., Path]) -> None:
    tokens, types = [*SPECIALS, "a", "b"], [CONTROL] * len(SPECIALS) + [NORMAL] * 2
    model = tiny(tokenizer__ggml__tokens=Array(STRING, tokens), tokenizer__ggml__token_type=Array(I32, types))
    loaded = NativePair(PairParams(model, None, n_threads=1, n_ctx=64), CancelFlag(), lambda *_: True)
    with pytest.raises(DecodeError, match="allows no token"):
        answered(loaded, asked(Guidance(grammar='root ::= "z"'), DRAWN))
    loaded.close()


def test_a_biased_token_is_never_or_always_written(pair: NativePair) -> None:
    plain, events = answered(pair, asked(Guidance()))
    first = next(event for event in events if isinstance(event, Step)).tokens[0]
    other, _ = answered(pair, asked(Guidance(logit_bias=((first, -1000.0),))))
    assert other.text[:4] != plain.text[:4]
    with pytest.raises(UsageError, match="not in the vocabulary"):
        pair.new_sampler(GREEDY, Guidance(logit_bias=((10_000_000, 1.0),)))


def test_a_required_call_is_written(pair: NativePair) -> None:
    finished, _ = answered(pair, asked(Guidance(), tools=(TOOL,), must_call=True))
    found = read(finished.text, (TOOL,))
    ((name, arguments),) = found.values
    assert (found.text, name) == ("", "look_up")
    assert arguments["city"] in ("Paris", "Rome")


OBJECT = '{"name": "look_up", "arguments": {"city": "Rome", "count": 1}}'
CALLS = {
    "{{ messages }}": f"<tool_call>\n{OBJECT}\n</tool_call>",
    "tools <tool_call>": f"<tool_call>\n{OBJECT}\n</tool_call>",
    "tools <tool_call> <function=": "<tool_call>\n<function=look_up>\n<parameter=city>\nRome\n</parameter>\n"
    "<parameter=count>\n1\n</parameter>\n</function>\n</tool_call>",
    "tools <tool_call> <arg_key>": "<tool_call>look_up\n<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>\n"
    "<arg_key>count</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
    "tools <|channel|>": '<|channel|>commentary to=functions.look_up <|constrain|>json<|message|>{"city": "Rome", '
    '"count": 1}',
    "tools [TOOL_CALLS] [ARGS]": '[TOOL_CALLS]look_up[ARGS]{"city": "Rome", "count": 1}',
    "tools <｜tool▁sep｜> ```json": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>look_up"
    '\n```json\n{"city": "Rome", "count": 1}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "tools <｜tool▁sep｜>": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>look_up<｜tool▁sep｜>"
    '{"city": "Rome", "count": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "tools <|tool_call_begin|>": "<|tool_calls_section_begin|><|tool_call_begin|>functions.look_up:0"
    '<|tool_call_argument_begin|>{"city": "Rome", "count": 1}<|tool_call_end|><|tool_calls_section_end|>',
    "tools <|tool_call>": '<|tool_call>call:look_up{city:<|"|>Rome<|"|>,count:1}<tool_call|>',
    "tools <start_function_call>": "<start_function_call>call:look_up{city:<escape>Rome<escape>,count:1}"
    "<end_function_call>",
    "tools [TOOL_CALLS]": f"[TOOL_CALLS][{OBJECT}]",
    "tools <|tool_call|>": f"<|tool_call|>[{OBJECT}]",
    "tools": OBJECT.replace("arguments", "parameters"),
}
"""A call of every format, by the marks of its template."""


@pytest.mark.parametrize("must_call", [True, False], ids=["required", "lazy"])
@pytest.mark.parametrize("template", CALLS)
def test_a_grammar_of_calls_has_the_format_of_the_template(pair: NativePair, template: str, must_call: bool) -> None:
    other = {"type": "function", "function": {"name": "other", "parameters": {}}}
    guidance = guidance_for_calls(template, [other, TOOL], must_call=must_call)
    text = CALLS[template]
    if not guidance.trigger and not must_call:
        assert template == "tools", "nothing marks the beginning of a call"
        return
    before = "" if must_call else "Let me look. "
    for call, is_right in (
        (text, True),
        (text.replace("look_up", "look_at"), False),
        (text.replace("city", "town"), False),
    ):
        tokens = [*pair.tokenize(before), *pair.tokenize(call)]
        sampler = pair.new_sampler(GREEDY, guidance)
        assert (sampler.n_allowed(tokens) == len(tokens)) is is_right, call
        sampler.close()
    assert read(text, (TOOL,)).values == [("look_up", {"city": "Rome", "count": 1})]


GEMMA_VALUES = {
    'a:<|"|>1 < 2 && "x" <b>|<|"|>': True,
    'a:<|"|>Rome<|"|>,n:-3,list:[{k:0.5},{k:2}],more:{x:[true,null],y:<|"|>z<|"|>}': True,
    "n:20": True,
    'mood:<|"|>🙂<|"|>,n:1': True,
    "n:0.5": False,
    "a:Rome": False,
    "list:[1]": False,
    "": False,
}
"""Arguments of a call, and whether the grammar of Gemma's calls allows them."""


@pytest.mark.parametrize("arguments", GEMMA_VALUES)
def test_arguments_of_gemma_have_bare_keys_and_marked_strings(pair: NativePair, arguments: str) -> None:
    item = {"type": "object", "properties": {"k": {"type": "number"}}, "required": ["k"]}
    kinds = {"a": "string", "n": "integer", "more": "object"}
    properties: dict[str, Any] = {key: {"type": kind} for key, kind in kinds.items()}
    properties |= {"list": {"type": "array", "items": item}, "mood": {"enum": ["🙂", 2]}}
    schema = {"properties": properties, "required": ["a"]}
    tool = {"type": "function", "function": {"name": "f", "parameters": schema}}
    text = f"<|tool_call>call:f{{{arguments}}}<tool_call|>"
    sampler = pair.new_sampler(GREEDY, guidance_for_calls("tools <|tool_call>", [tool], must_call=True))
    tokens = pair.tokenize(text)
    assert (sampler.n_allowed(tokens) == len(tokens)) is GEMMA_VALUES[arguments]
    sampler.close()
    assert not GEMMA_VALUES[arguments] or read(text, (tool,)).values[0][1]


def test_references_stay_within_their_tool(pair: NativePair) -> None:
    def tool(name: str, *values: str) -> dict[str, Any]:
        schema = {"properties": {"x": {"$ref": "#/$defs/X"}}, "required": ["x"], "$defs": {"X": {"enum": values}}}
        return {"type": "function", "function": {"name": name, "parameters": schema}}

    guidance = guidance_for_calls("tools", [tool("f", "a"), tool("g", "b")], must_call=True)
    for name, value, is_right in (("f", "a", True), ("g", "b", True), ("g", "a", False)):
        tokens = pair.tokenize(f'{{"name": "{name}", "parameters": {{"x": "{value}"}}}}')
        sampler = pair.new_sampler(GREEDY, guidance)
        assert (sampler.n_allowed(tokens) == len(tokens)) is is_right
        sampler.close()


def test_a_grammar_of_calls_waits_for_the_beginning_of_one(pair: NativePair) -> None:
    guidance = guidance_for_calls(None, [TOOL], must_call=False)
    sampler = pair.new_sampler(GREEDY, guidance)
    text = [*pair.tokenize("Let me look. "), *pair.tokenize('<tool_call>\n{"name": ')]
    assert sampler.n_allowed([*text, *pair.tokenize('"look_up", "arguments": {"city": "Rome"')]) > len(text)
    assert sampler.n_allowed([*text, *pair.tokenize('"other"')]) < len(text) + 2
    sampler.close()


def test_a_schema_that_cannot_be_translated_matters_only_for_a_required_call() -> None:
    wrong = {"type": "function", "function": {"name": "f", "parameters": {"type": "nonsense"}}}
    assert not guidance_for_calls(None, [wrong], must_call=False).has_grammar
    with pytest.raises(UsageError, match="JSON schema"):
        guidance_for_calls(None, [wrong], must_call=True)


def test_probabilities_are_reported(pair: NativePair) -> None:
    _, events = answered(pair, replace(asked(Guidance(), drafting=EVERYTHING), n_top=3, max_tokens=8))
    steps = [event for event in events if isinstance(event, Step) and event.tokens]
    for step in steps:
        assert len(step.probabilities) == len(step.tokens)
        for token, one in zip(step.tokens, step.probabilities, strict=True):
            assert one.piece == pair.piece(token)
            assert one.top[0].piece == one.piece, "a greedy token is the most probable one"
            assert one.top[0].probability == pytest.approx(one.probability)
            assert len(one.top) == 3
