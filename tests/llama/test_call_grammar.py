"""Grammars of tool calls allow what a family's template writes, and nothing that its tools do not accept."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import llguidance
import pytest

from app.core.errors import UsageError
from app.engine.text.call_format import CallFormat, Values
from app.engine.text.call_formats import FORMATS, HERMES
from app.engine.types import Guidance
from app.llama import matcher
from app.llama.call_grammar import call_grammar
from app.llama.json_schema import schema_rule
from app.llama.pair import NativePair
from app.llama.sampler import SamplerChain
from tests.engine.text import reading
from tests.engine.text.reading import read
from tests.llama.conftest import OpenPair
from tests.llama.generation import GREEDY
from tests.llama.gguf_files import I32, STRING, Array
from tests.llama.tiny_model import CONTROL, NORMAL, SPECIALS, byte_letters

pytestmark = pytest.mark.native


def tool(name: str, required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": [*required]}
    return {"type": "function", "function": {"name": name, "description": "Look up.", "parameters": schema}}


TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
DEEP = {"type": "object", "properties": {"list": {"type": "array", "items": TEXT}}, "required": ["list"]}
MORE_PROPERTIES = {"kind": {"enum": ["x", "y"]}, "deep": DEEP, "on": {"type": "boolean"}}
LOOK_UP = tool("look_up", ("text", "count"), text=TEXT, count=NUMBER, **MORE_PROPERTIES)
OTHER = {"type": "function", "function": {"name": "other", "parameters": {}}}
TOOLS = [OTHER, LOOK_UP]
HTML = "<h1 class=\"a\">{b} 'c'</h1>\n</div>"
ARGUMENTS = {"text": "Rome", "count": 3}


def by_name(name: str) -> CallFormat:
    return next(form for form in FORMATS if form.name == name)


def written(form: CallFormat, *calls: tuple[str, dict[str, Any]]) -> str:
    return reading.written(form, calls)


def takes(form: CallFormat, text: str, tools: list[Any] | None = None, **more: Any) -> bool:
    """Return whether an answer that ends with a text is allowed."""
    lark = call_grammar(form, json.dumps(tools or TOOLS), **more) or ""
    native = matcher._new_matcher(matcher._byte_tokenizer(), lark)
    assert not native.is_error(), native.get_error()
    data = list(text.encode())
    return native.try_consume_tokens(data) == len(data) and native.is_accepting()


def begins(form: CallFormat) -> bool:
    """Return whether a mark begins the calls of a format."""
    return bool(call_grammar(form, json.dumps(TOOLS)))


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
@pytest.mark.parametrize("must_call", [True, False], ids=["required", "optional"])
def test_a_grammar_follows_the_format_and_the_schema(form: CallFormat, must_call: bool) -> None:
    if not must_call and not (begins(form) and form.trigger):
        assert form.name in ("functionary-v3.2", "command-r-plus", "llama3")
        return
    text = ("" if must_call else "Let me look. ") + written(form, ("look_up", ARGUMENTS))
    assert takes(form, text, must_call=must_call)
    assert not takes(form, text.replace("look_up", "look_at"), must_call=must_call)
    assert not takes(form, text.replace("count", "town"), must_call=must_call)
    assert not takes(form, text.replace("3", "three"), must_call=must_call)
    assert takes(form, "No call.", must_call=must_call) is not must_call


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_a_grammar_takes_every_argument_and_a_reader_reads_it(form: CallFormat) -> None:
    more = {**ARGUMENTS, "text": HTML, "kind": "y", "deep": {"list": ["a", "b"]}, "on": True}
    text = written(form, ("look_up", more))
    assert takes(form, text, must_call=True)
    assert read(text, TOOLS).values == [("look_up", more)]
    assert not takes(form, written(form, ("look_up", {**more, "kind": "z"})), must_call=True)


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_an_answer_has_one_call_if_asked(form: CallFormat) -> None:
    call = ("look_up", ARGUMENTS)
    assert takes(form, written(form, call), must_call=True, one_call=True)
    assert not takes(form, written(form, call, call), must_call=True, one_call=True)
    assert takes(form, written(form, call, call), must_call=True)


BARE_CALL = json.dumps({"name": "look_up", "arguments": ARGUMENTS})


@pytest.mark.parametrize(
    ("text", "is_right"),
    [
        (BARE_CALL, True),
        (json.dumps(json.loads(BARE_CALL), indent=2), True),
        (BARE_CALL.replace("3", '"three"'), False),
        (BARE_CALL.replace("look_up", "look_at"), False),
        ('{"name": "Rome", "size": 2}', True),
        ('{"name": 2}', False),
    ],
)
def test_a_call_without_marks_is_possible_beside_an_answer_in_json(text: str, is_right: bool) -> None:
    schema = {"type": "object", "properties": {"name": TEXT, "size": NUMBER}, "required": ["name"]}
    assert takes(HERMES, text, answer=schema_rule(schema)) is is_right


LINES = 'start: "BEGIN" LF line+ "END"\nline: "+" /(.*)/ LF -> text\n%import common.LF\n'
PATCH = 'BEGIN\n+a "b" \\ </parameter>\n+<b>{}\nEND'


def custom(syntax: str, definition: str) -> dict[str, Any]:
    value = {"type": "string", **({"pattern": f"^(?:{definition})$"} if syntax == "regex" else {})}
    return {**tool("patch", ("input",), input=value), "custom": {syntax: definition}}


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
@pytest.mark.parametrize("must_call", [True, False], ids=["required", "optional"])
def test_a_custom_tool_follows_its_grammar(form: CallFormat, must_call: bool) -> None:
    if not (must_call or begins(form)):
        return
    argument = form.argument
    # The others write the text as a string with escapes, which a grammar of the text cannot describe.
    is_raw = argument is not None and (bool(argument.end) or argument.values is Values.BARE)
    for text, is_right in ((PATCH, True), (PATCH.replace("+<b>", "<b>"), False), ("", False)):
        call = written(form, ("patch", {"input": text}))
        assert takes(form, call, [custom("lark", LINES)], must_call=must_call) is (is_right or not is_raw), text
    for text, is_right in (("2026-11", True), ("2026-1", False), ("2026-11x", False)):
        call = written(form, ("patch", {"input": text}))
        assert takes(form, call, [custom("regex", r"\d{4}-\d\d")], must_call=must_call) is is_right, text


@pytest.mark.parametrize("form", [by_name("qwen-xml"), by_name("seed"), by_name("glm")])
def test_a_limited_text_has_no_white_space_around_it(form: CallFormat) -> None:
    for tools in ([custom("lark", LINES)], [custom("regex", r"BEGIN\n\+x\nEND")]):
        for text, is_right in (("BEGIN\n+x\nEND", True), ("\n\nBEGIN\n+x\nEND", False), ("BEGIN\n+x\nEND ", False)):
            assert takes(form, written(form, ("patch", {"input": text})), tools, must_call=True) is is_right, text


def test_a_wrong_grammar_of_a_custom_tool_is_an_error_only_where_it_must_be_called(
    caplog: pytest.LogCaptureFixture,
) -> None:
    wrong = [custom("lark", "start: missing")]
    call = written(by_name("qwen-xml"), ("patch", {"input": "x"}))
    assert takes(by_name("qwen-xml"), call, wrong)
    assert caplog.records[-1].getMessage().endswith("Calls of this tool are free.")
    with pytest.raises(UsageError, match=r'the tool "patch".* cannot be enforced'):
        takes(by_name("qwen-xml"), call, wrong, must_call=True)


CHAIN = "\n".join(f"r{n}: (r{n + 1} /x/)?" for n in range(10_000))


@pytest.mark.parametrize(
    ("lark", "reason"),
    [
        (f'start: r0\n{CHAIN}\nr10000: "a"', "rules and groups; 256 are possible"),
        ('start: %json {"const": -9223372036854775808}', "%json is no part of Lark"),
        ('start: "a" %lark { start: "b" }', "%lark is no part of Lark"),
    ],
)
def test_a_grammar_that_would_overflow_a_stack_is_an_error(lark: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        takes(by_name("qwen-xml"), "", [custom("lark", lark)], must_call=True)
    assert matcher.takes(lark, "x")
    assert not matcher.lark_fault('start: "%json :((((" /[%lark]+(/ // ((((')


LIMITED = {"pattern": "^a/[^b]+$|^$", "maxLength": 6}


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
@pytest.mark.parametrize("is_referred", [False, True], ids=["its own", "referred"])
def test_a_text_follows_its_keywords_in_every_format(form: CallFormat, is_referred: bool) -> None:
    schemas = {"x": {"type": "string", **LIMITED}, "kind": {"const": "k"}}
    tools = [tool("f", ("x",), **schemas)]
    if is_referred:
        tools = [tool("f", ("x",), x={"$ref": "#/$defs/x"}, kind={"$ref": "#/$defs/kind"})]
        tools[0]["function"]["parameters"]["$defs"] = schemas
    for arguments, is_right in (
        ({"x": "a/c"}, True),
        ({"x": ""}, True),
        ({"x": "a/b"}, False),
        ({"x": "a/ccccccc"}, False),
        ({"x": "a/c", "kind": "k"}, True),
        ({"x": "a/c", "kind": "j"}, False),
    ):
        assert takes(form, written(form, ("f", arguments)), tools, must_call=True) is is_right, arguments


def test_a_keyword_that_cannot_be_enforced_is_an_error_of_a_strict_tool() -> None:
    lax = tool("f", x={"type": "array", "uniqueItems": True})
    assert takes(HERMES, written(HERMES, ("f", {"x": [1, 1]})), [lax])
    with pytest.raises(UsageError, match=r'the tool "f" cannot be enforced: "uniqueItems" at properties\.x'):
        takes(HERMES, "Hi", [{**lax, "strict": True}])


@pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
def test_an_answer_beside_tools_is_calls_or_follows_its_schema(form: CallFormat) -> None:
    answer = schema_rule({"type": "object", "properties": {"town": TEXT}, "required": ["town"]})
    call = ("look_up", ARGUMENTS)
    for text, is_right in (
        (written(form, call), True),
        (written(form, call, call), True),
        ('{"town": "Rome"}', True),
        (written(form, ("look_up", {**ARGUMENTS, "count": "x"})), False),
        ('{"count": 3}', False),
        ("Rome.", False),
    ):
        assert takes(form, text, answer=answer) is is_right, text


@pytest.mark.parametrize("form", [HERMES, by_name("qwen-xml"), by_name("lfm2"), by_name("gemma4")])
def test_arguments_that_are_not_required_may_be_left_out(form: CallFormat) -> None:
    tools = [tool("f", ("b",), a=NUMBER, b=NUMBER, c=NUMBER)]
    for keys in ("abc", "ab", "bc", "b"):
        assert takes(form, written(form, ("f", dict.fromkeys(keys, 1))), tools, must_call=True), keys
    for keys in ("ac", "a", ""):
        assert not takes(form, written(form, ("f", dict.fromkeys(keys, 1))), tools, must_call=True), keys
    assert takes(form, written(form, ("f", {})), [tool("f", a=NUMBER)], must_call=True)


@pytest.mark.parametrize("before", ["", "\n", "```json\n", "```\n", "["])
@pytest.mark.parametrize("indent", [None, 2])
def test_a_call_that_is_the_answer_without_marks_follows_its_schema(before: str, indent: int | None) -> None:
    text = before + json.dumps({"name": "look_up", "arguments": ARGUMENTS}, indent=indent)
    llama = text.removeprefix("```json\n").removeprefix("```\n").replace("arguments", "parameters")
    assert takes(by_name("llama3"), llama)
    assert not takes(by_name("llama3"), llama.replace("3", '"three"'))
    assert takes(HERMES, text)
    assert takes(HERMES, text + "\n```\nDone.")
    assert not takes(HERMES, text.replace("count", "town"))
    assert not takes(HERMES, text.replace("3", '"three"'))
    # An object of no tool, or after other text, is text.
    assert takes(HERMES, text.replace("look_up", "look_at").replace("count", "town"))
    assert takes(HERMES, f"For example: {text}".replace("count", "town"))


def test_a_call_without_its_first_mark_is_constrained_too() -> None:
    text = "Hi " + written(by_name("qwen-xml"), ("look_up", ARGUMENTS)).removeprefix("<tool_call>\n")
    assert takes(by_name("qwen-xml"), text)
    assert not takes(by_name("qwen-xml"), text.replace("count", "town"))
    assert not takes(by_name("qwen-xml"), "Hi <tool_call>\nThis is no call.")


def test_white_space_between_the_parts_of_a_call_is_free() -> None:
    assert takes(HERMES, '<tool_call>{"name":"other","arguments":{}}</tool_call>', must_call=True)
    assert takes(by_name("qwen-xml"), "<tool_call><function=other></function></tool_call>\n", must_call=True)


GEMMA_VALUES = {
    'a:<|"|>1 < 2 && "x" <b>|<|"|>': True,
    'a:<|"|>Rome<|"|>,n:-3,list:[{k:0.5},{k:2}],more:{x:[true,null],y:<|"|>z<|"|>}': True,
    'a:<|"|>x<|"|>,mood:<|"|>🙂<|"|>': True,
    "n:20": False,
    'a:<|"|>x<|"|>,n:0.5': False,
    'a:<|"|>x<|"|>,list:[1]': False,
    'a:<|"|>x<|"|>,list:[{}]': False,
    'a:<|"|>x<|"|>,moods:[2,<|"|>🙂<|"|>]': True,
    'a:<|"|>x<|"|>,moods:[3]': False,
    "a:Rome": False,
    "": False,
}
"""Arguments of a call, and whether the grammar of Gemma's calls allows them."""


@pytest.mark.parametrize("arguments", GEMMA_VALUES)
def test_arguments_of_gemma_have_bare_keys_and_marked_strings(arguments: str) -> None:
    item, mood = {"type": "object", "properties": {"k": {"type": "number"}}, "required": ["k"]}, {"enum": ["🙂", 2]}
    properties = {"a": TEXT, "n": NUMBER, "list": {"type": "array", "items": item}, "more": {"type": "object"}}
    tools = [tool("f", ("a",), **properties, mood=mood, moods={"type": "array", "items": mood})]
    text = f"<|tool_call>call:f{{{arguments}}}<tool_call|>"
    assert takes(by_name("gemma4"), text, tools, must_call=True) is GEMMA_VALUES[arguments]


def test_arguments_are_an_object_where_the_schema_names_no_type() -> None:
    untyped = tool("f")
    untyped["function"]["parameters"] = {"properties": {"s": TEXT}}
    assert takes(by_name("hermes"), '<tool_call>\n{"name": "f", "arguments": {"s": "x"}}\n</tool_call>', [untyped])
    assert not takes(by_name("hermes"), '<tool_call>\n{"name": "f", "arguments": []}\n</tool_call>', [untyped])


@pytest.mark.parametrize("form", [by_name("qwen-xml"), by_name("olmo3"), by_name("gemma4")])
def test_properties_beside_a_reference_join_those_behind_it(form: CallFormat) -> None:
    one = tool("f", ("n",), n=NUMBER)
    behind = {"type": "object", "properties": {"x": TEXT}, "required": ["x"]}
    one["function"]["parameters"] |= {"$ref": "#/$defs/base", "$defs": {"base": behind}}
    for arguments in ({"x": "1"}, {"n": 2}):
        assert not takes(form, written(form, ("f", arguments)), [one], must_call=True)
    text = written(form, ("f", {"x": "1", "n": 2}))
    assert takes(form, text, [one], must_call=True)
    assert read(text, [one]).values == [("f", {"x": "1", "n": 2})]


@pytest.mark.parametrize("form", [HERMES, by_name("qwen-xml"), by_name("olmo3"), by_name("gemma4")])
def test_references_stay_within_their_tool(form: CallFormat) -> None:
    tools = [tool(name, ("x",), x={"$ref": "#/$defs/X"}) for name in "fg"]
    for one, value in zip(tools, "ab", strict=True):
        one["function"]["parameters"]["$defs"] = {"X": {"type": "object", "properties": {"k": {"const": value}}}}
    for name, value, is_right in (("f", "a", True), ("g", "b", True), ("g", "a", False)):
        assert takes(form, written(form, (name, {"x": {"k": value}})), tools, must_call=True) is is_right


WRONG = tool("wrong", x={"type": "array", "items": {"pattern": "^(?!a)"}})


@pytest.mark.parametrize("form", [HERMES, by_name("qwen-xml"), by_name("olmo3")])
def test_a_schema_that_cannot_be_enforced_frees_only_its_tool(form: CallFormat) -> None:
    call = written(form, ("wrong", {"any": {"thing": [1]}})) + written(form, ("look_up", ARGUMENTS))
    both = [LOOK_UP, WRONG]
    assert takes(form, call.replace("</function_calls><function_calls>", "\n"), both)
    assert not takes(form, call.replace("count", "town"), both)
    with pytest.raises(
        UsageError, match=r'the tool "wrong"(, properties.x,)? cannot be enforced: "pattern" at .*items'
    ):
        takes(form, call, both, must_call=True)


def nested(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = TEXT
    for _ in range(levels):
        schema = {"type": "array", "items": schema}
    return schema


# Tokens of a model


def test_an_optional_call_is_constrained_from_its_mark_on(pair: NativePair) -> None:
    sampler = pair.new_sampler(GREEDY, Guidance(), [LOOK_UP])
    text = [*pair.tokenize("Let me look. "), *pair.model.tokenize("<|im_start|> <tool_call>\n{", parse_special=True)]
    name = list(pair.tokenize('"name": "look_up", "arguments": {"text": "a'))
    assert sampler.n_allowed([*text, *name]) == len(text) + len(name)
    assert sampler.n_allowed([*text, *pair.tokenize('"title": 1')]) < len(text) + 3
    assert sampler.n_allowed(text[:3]) == 3, "looking at a draft moves nothing"
    sampler.close()


def test_a_schema_applies_to_an_answer_without_calls(pair: NativePair) -> None:
    asked = Guidance(schema={"type": "object", "properties": {"town": TEXT}}, ignores_end=True)
    for tools, must_call, is_answer in (([LOOK_UP], False, True), ([LOOK_UP], True, False), ([], False, True)):
        sampler = pair.new_sampler(GREEDY, replace(asked, must_call=must_call), tools)
        answer = pair.tokenize('{"town": "R')
        assert (sampler.n_allowed(answer) == len(answer)) is is_answer
        call = pair.tokenize('<tool_call>\n{"name": "look_up"')
        assert (sampler.n_allowed(call) == len(call)) is bool(tools)
        sampler.close()


def test_a_grammar_that_becomes_too_complex_frees_only_optional_calls(
    pair: NativePair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matcher, "_PARSER_LIMITS", llguidance.LLParserLimits(step_max_items=3, verbose_errors=False))
    token = pair.tokenize("Hi")[0]
    optional = matcher.Matcher(pair.model, "start: /a/ /b/ /c/ | /a/ /b/ /d/ | /a/ /e/ | /a/", lax=True)
    assert (len(optional.allowed()), optional.n_allowed([token])) == (pair.model.n_vocab, 1)
    optional.accept(token)
    with pytest.raises(UsageError, match="too complex"):
        matcher.Matcher(pair.model, "start: /a/ /b/ /c/ | /a/ /b/ /d/ | /a/ /e/ | /a/").allowed()


def test_a_schema_that_is_nested_too_deeply_is_an_error_or_frees_its_tool(pair: NativePair) -> None:
    for must_call, levels, error in ((True, 400, "levels of objects"), (False, 3000, "nested too deeply")):
        with pytest.raises(UsageError, match=error):
            pair.new_sampler(GREEDY, Guidance(must_call=must_call), [tool("f", x=nested(levels))])
    sampler = pair.new_sampler(GREEDY, Guidance(), [tool("f", x=nested(400))])
    assert sampler._grammar is not None
    sampler.close()


@pytest.mark.parametrize("name", ["kimi-k2", "glm", "deepseek-r1", "gemma4", "mistral-id", "gpt-oss", "kimi-k3"])
@pytest.mark.parametrize("must_call", [True, False], ids=["required", "optional"])
def test_marks_may_be_control_tokens(
    tiny: Callable[..., Path], open_pair: OpenPair, name: str, must_call: bool
) -> None:
    form = by_name(name)
    text = written(form, ("look_up", {**ARGUMENTS, "text": HTML}))
    source = " ".join((form.call, form.calls, *(form.argument.texts if form.argument is not None else ())))
    marks = sorted(set(control_texts(source)))
    tokens, types = [*SPECIALS, *marks, *byte_letters()], [CONTROL] * (len(SPECIALS) + len(marks)) + [NORMAL] * 256
    file = tiny(
        tokenizer__ggml__tokens=Array(STRING, tokens),
        tokenizer__ggml__token_type=Array(I32, types),
        tokenizer__chat_template="{{ messages }} tools " + " ".join(form.signs),
    )
    loaded = open_pair(file, n_ctx=64)
    model = loaded.model
    for one, is_right in ((text, True), (text.replace("look_up", "look_at"), False), (HTML, not must_call)):
        answered = model.tokenize(("" if must_call else "Hi ") + one, parse_special=True)
        sampler = SamplerChain(loaded._context, GREEDY, Guidance(must_call=must_call), form, TOOLS)
        expected = [*answered, 0] if not model.is_end(answered[-1]) else answered
        assert (sampler.n_allowed(expected) == len(expected)) is is_right, one
        sampler.close()


def control_texts(source: str) -> list[str]:
    """Return the texts in a format that could be control tokens."""
    return re.findall(r"<[|｜]?[\w▁/]+[|｜]?>|\[[A-Z_]+\]|<\|\"\|>", source)
