"""Calls are found in every format while they are written, and all other text stays text."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.engine.text.call_format import CallFormat
from app.engine.text.call_formats import FORMATS, HERMES
from app.engine.text.call_reader import CallReader
from app.engine.text.segments import Segment
from tests.engine.text.reading import Reading, read, tool, written

F = tool("f", {"a": {"type": "string"}, "n": {"type": "integer"}})
WRITE = tool("write_file", {"path": {"type": "string"}, "content": {"type": "string"}})
ANY = tool("any", {})
TOOLS = [F, WRITE, ANY]
Calls = list[tuple[str, Mapping[str, Any]]]
CALL: Calls = [("f", {"a": "x", "n": 3})]
BY_NAME = {form.name: form for form in FORMATS}
EVERY = pytest.mark.parametrize("form", FORMATS, ids=lambda form: form.name)
TAGGED = [form for form in FORMATS if form.argument is not None and form.argument.end]


def both(text: str, **how: Any) -> Reading:
    """Return the result of a text, which is the same letter by letter and at once."""
    found = read(text, TOOLS, 1, **how)
    assert found == read(text, TOOLS, 1 << 20, **how)
    return found


@EVERY
@pytest.mark.parametrize("calls", [CALL, [*CALL, ("write_file", {"path": "p", "content": ""})]], ids=["one", "two"])
@pytest.mark.parametrize("before", ["", "I look.\n"])
def test_calls_are_found_in_every_format(form: CallFormat, calls: Calls, before: str) -> None:
    if before and form.name == "llama3":
        pytest.skip("an object without marks is a call only where the answer begins")
    found = both(before + written(form, calls))
    assert (found.text.rstrip(), found.values) == (before.rstrip(), calls)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('<tool_call>{"name": "f", "arguments": "{\\"a\\": \\"x\\", \\"n\\": 3}"}', id="text arguments"),
        pytest.param('<tool_call>{"arguments": {"a": "x", "n": 3}, "name": "f"}</tool_call>', id="arguments first"),
        pytest.param(
            '{"type": "function", "function": {"name": "f", "parameters": {"a": "x", "n": 3}}}', id="OpenAI's object"
        ),
        pytest.param('<tools>{"name": "f", "args": {"a": "x", "n": 3}}</tools>', id="other mark and key"),
        pytest.param('```json\n{"name": "f", "arguments": {"a": "x", "n": 3}}\n```', id="code block"),
        pytest.param('```\n{"name": "f", "arguments": {"a": "x", "n": 3}}\n```', id="code block without a language"),
        pytest.param('[{"name": "f", "arguments": {"a": "x", "n": 3}}]', id="list without marks"),
        pytest.param('{{"name": "f", "arguments": {"a": "x", "n": 3}}}}', id="Qwen2.5-Coder, two braces"),
        pytest.param('<|python_tag|>{"name": "f", "parameters": {"a": "x", "n": 3}}', id="Llama 3.1"),
        pytest.param('[TOOL_CALLS]f{"a": "x", "n": 3}', id="Mistral without marks of arguments"),
        pytest.param('to=functions.f {"a": "x", "n": 3}', id="gpt-oss without a channel"),
        pytest.param(
            '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": "x", "n": 3}<|call|>', id="gpt-oss"
        ),
        pytest.param('<|channel|>analysis to=functions.f code<|message|>{"a": "x", "n": 3}', id="gpt-oss, analysis"),
        pytest.param('to=functions.f<|channel|>analysis<|message|>{"a": "x", "n": 3}', id="gpt-oss, channel after"),
        pytest.param('[f(a="x", n=3)]', id="Python without marks"),
        pytest.param('f\n{"a": "x", "n": 3}', id="Functionary, whose prompt has the mark"),
        pytest.param("<tool_call>f<arg_key>a</arg_key><arg_value>x</arg_value><arg_key>n</arg_key><arg_value>3"
                     "</arg_value></tool_call>", id="GLM in one line"),
    ],
)  # fmt: skip
def test_other_ways_to_write_a_call_are_read(text: str) -> None:
    found = both(text)
    assert (found.text, found.values) == ("", CALL)


@pytest.mark.parametrize(
    ("before", "call", "after"),
    [
        ("I use f:\n\n", '```json\n{\n  "name": "f",\n  "arguments": {"a": "x", "n": 3}\n}\n```\n', "Then I answer."),
        ("", f"{written(HERMES, CALL)}\n\n", "Done.\n\nReally."),
    ],
)
def test_text_around_calls_is_text(before: str, call: str, after: str) -> None:
    found = both(before + call + after)
    assert (found.text, found.values) == (before + after, CALL)


@pytest.mark.parametrize(
    ("name", "cut"),
    [
        ("hermes", "<tool_call>\n"),
        ("qwen-xml", "<tool_call>\n"),
        ("glm", "<tool_call>"),
        ("minimax-m2", "<minimax:tool_call>\n"),
        ("deepseek-v4", "<｜DSML｜tool_calls>\n"),
        ("deepseek-v3.1", "<｜tool▁calls▁begin｜>"),
        ("kimi-k2", "<|tool_calls_section_begin|>"),
        ("lfm2", "<|tool_call_start|>"),
    ],
)
def test_a_missing_first_mark_loses_no_call(name: str, cut: str) -> None:
    calls = [*CALL, ("f", {"a": "y", "n": 4})]
    found = both(written(BY_NAME[name], calls).removeprefix(cut))
    assert (found.text, found.values) == ("", calls)


@pytest.mark.parametrize("form", TAGGED, ids=lambda form: form.name)
@pytest.mark.parametrize("text", ['{"name": "demo"}', "5123", "true", "null", "[1, 2]", '"x"', "0x1f", "", " x \n"])
def test_a_text_parameter_that_looks_like_json_stays_text(form: CallFormat, text: str) -> None:
    assert both(written(form, [("f", {"a": text, "n": 7})])).values == [("f", {"a": text, "n": 7})]


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ({"type": "integer"}, "7", 7),
        ({"type": "number"}, "1e3", 1000.0),
        ({"type": "boolean"}, "True", True),
        ({"type": "array"}, "['a', \"b\", None]", ["a", "b", None]),
        ({"type": "object"}, "{'a': {'b': [1.5, True]}}", {"a": {"b": [1.5, True]}}),
        ({"type": ["string", "null"]}, "null", None),
        ({"type": ["string", "null"]}, "nullable", "nullable"),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "12", 12),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, "true", "true"),
        ({"$ref": "#/$defs/name"}, "12", "12"),
        ({"$ref": "https://example.com/name.json"}, "12", 12),
        ({"enum": ["1", "2"]}, "1", "1"),
        ({"enum": [1, 2]}, "1", 1),
        ({"const": "true"}, "true", "true"),
        ({"pattern": "^[0-9]+$"}, "12", "12"),
        ({"type": "string", "nullable": True}, "null", None),
        ({"allOf": [{"type": ["string", "integer"]}, {"type": "string"}]}, "12", "12"),
        ({}, "12", 12),
        ({}, "twelve", "twelve"),
        ({"type": "integer"}, "many", "many"),
        ({"type": "number"}, "NaN", "NaN"),
        ({"$ref": "#/$defs/loop"}, "x", "x"),
    ],
)
def test_other_parameters_are_json_by_their_schema(schema: dict[str, Any], text: str, value: Any) -> None:
    defs = {"name": {"type": "string"}, "loop": {"$ref": "#/$defs/loop"}}
    tools = [tool("g", {"v": schema}, **{"$defs": defs})]
    answer = f"<tool_call>\n<function=g>\n<parameter=v>\n{text}\n</parameter>\n</function>\n</tool_call>"
    assert read(answer, tools).values == [("g", {"v": value})]


MARKS = [
    *("<tool_call>", "</tool_call>", "<function=f>", "</function>", "<parameter=path>", "</parameter>", "<arg_key>"),
    *("</invoke>", "</", "<b>", "</div>", "[TOOL_CALLS]", "<think>", "</think>", "```", "<|call|>"),
    *("<|tool_call_end|>", "\n", " ", "a", "é", "😀", "&", "$NAME", *"'\"{}[](),:="),
]


@EVERY
@settings(max_examples=12)
@given(parts=st.lists(st.sampled_from(MARKS), max_size=6))
def test_marks_in_an_argument_are_text(form: CallFormat, parts: list[str]) -> None:
    calls = [("write_file", {"path": "p", "content": "".join(parts)})]
    assert read(written(form, calls), TOOLS, 1).values == calls


@EVERY
@pytest.mark.parametrize(
    "text",
    [
        "So:\n{call}",
        "So:\n{call}\nThat was it.",
        "A {call}\nB\n{own}\nC",
        "It ends with {end} as you see.",
        "It ends with\n{end}\nas you see.",
    ],
)
def test_calls_and_their_ends_in_an_argument_are_text(form: CallFormat, text: str) -> None:
    end = f"{form.argument.end if form.argument is not None else ''}{form.end}{form.last}".replace("$KEY", "content")
    own = written(form, [("write_file", {"path": "q", "content": "b"})])
    text = text.format(call=written(form, CALL), own=own, end=end)
    for path in ("p", text):
        for values in ({"path": path, "content": text}, {"content": text, "path": path}):
            calls = [("write_file", values)]
            assert both(written(form, calls)).values == calls


@pytest.mark.parametrize("form", TAGGED, ids=lambda form: form.name)
def test_a_call_in_an_argument_that_never_ends_is_text(form: CallFormat) -> None:
    opening = written(form, [("f", {"a": "ABC"})]).partition("ABC")[0]
    calls: Calls = [("write_file", {"content": f"So: {opening}", "path": "p"}), *CALL]
    assert both(f"{written(form, calls)}\n\nDone.").values == calls


@pytest.mark.parametrize("form", TAGGED, ids=lambda form: form.name)
def test_a_call_in_an_argument_does_not_end_an_answer_that_is_cut(form: CallFormat) -> None:
    answer = written(form, [("write_file", {"path": "p", "content": f"{written(form, CALL)}\nThat was it."})])
    found = both(answer[: answer.index("was")], cut=True)
    assert (found.text, found.is_cut, found.calls[0][1].endswith("\\nThat ")) == ("", True, True)


@pytest.mark.parametrize("form", TAGGED, ids=lambda form: form.name)
def test_text_and_more_calls_may_follow_the_end_of_a_call(form: CallFormat) -> None:
    call = written(form, CALL)
    found = both(f"{call}\n\nNow again.\n{call}\n\nDone.")
    assert (found.text.split(), found.values, found.is_cut) == (["Now", "again.", "Done."], CALL * 2, False)


@pytest.mark.parametrize(
    "text",
    [
        "a < b and <tool",
        "I look. <toolbox>",
        '<tool_call>{"name": broken',
        '<tools>\n{"type": "function", "function": {"name": "f", "description": "d", "parameters": {}}}',
        '<tools>{"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}\n</tools>',
        '<tools>{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}',
        '<tools>{"name": "f", "input_schema": {"type": "object", "properties": {}}}</tools>',
        '{"name": "f", "year": 1999}',
        '{"name": "f"}',
        '{"name": "f", "arguments": "none"}',
        '{"name": "g", "arguments": {}}',
        '{"a": 1}',
        '[{"name": "f", "year": 1999}]',
        'A package:\n```json\n{"name": "f", "version": "1.0"}\n```',
        'An example:\n```json\n{"name": "unknown", "arguments": {"a": 1}}\n```',
        "[1, 2]",
        "Write <function=name> to call; nothing else is needed.",
        "Write <function=f> to call; nothing else is needed.",
        "The mark <tool_call> begins a call, and </tool_call> ends it.",
        '<tool_call>\n{"name": "unknown", "arguments": {"a": 1}}\n</tool_call>',
        "<tool_call>\n<function=unknown>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
        "[TOOL_CALLS]unknown[ARGS]{}",
        "to=functions.unknown<|message|>{}",
        "[unknown(a=1)]",
        ">>> f(1)\n2",
        "f is a function.",
        "from functools import cache",
        "  \n",
        "Action: run it.",
    ],
)
def test_text_that_is_no_call_stays_text(text: str) -> None:
    found = both(text)
    assert (found.text, found.calls) == (text, [])


def test_a_call_without_arguments_has_an_empty_object() -> None:
    for text in (
        '<tool_call>\n{"name": "any"}\n</tool_call>',
        "<tool_call>\n<function=any>\n</function>\n</tool_call>",
        "<tool_call>any\n</tool_call>",
        "<|tool_call>call:any{}<tool_call|>",
        "<|tool_call_start|>[any()]<|tool_call_end|>",
        "[TOOL_CALLS]any[ARGS]{}",
    ):
        found = both(text)
        assert (found.text, found.values) == ("", [("any", {})])


@EVERY
def test_a_call_that_is_cut_is_partial_and_never_text(form: CallFormat) -> None:
    answer = written(form, [("write_file", {"path": "p", "content": "one two three"})])
    whole = answer.index("three")
    for at in range(answer.index("write_file") + len("write_file"), whole, 7):
        found = read(answer[:at], TOOLS, cut=True)
        assert found.text.strip() == ""
        for _, arguments in found.calls:
            assert found.is_cut
            with pytest.raises(ValueError, match=r"."):
                json.loads(arguments)
    assert read(answer[:whole], TOOLS, cut=True).calls[0][1].endswith('"one two ')


@EVERY
def test_an_end_mark_that_is_cut_is_never_text(form: CallFormat) -> None:
    answer = written(form, [("write_file", {"path": "p", "content": "one two three"})])
    for at in range(answer.index("three") + len("three"), len(answer)):
        found = read(answer[:at], TOOLS, cut=True)
        assert (found.text.strip(), [name for name, _ in found.calls]) == ("", ["write_file"]), answer[:at]


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("a <", "a <"),
        ('{"na', '{"na'),
        ("I look. <tool_ca", "I look. "),
        ("A", "A"),
        # A mark before any text is never text.
        ("<", ""),
        ("\n<to", ""),
    ],
)
def test_a_cut_answer_keeps_text_that_only_looks_like_a_mark(answer: str, text: str) -> None:
    assert read(answer, TOOLS, cut=True).text == text


def test_an_answer_that_must_be_calls_has_no_text_where_it_is_cut() -> None:
    for text in ('{"name": "wri', "Act", "<"):
        reader, found = CallReader(TOOLS, must_call=True), Reading()
        found.add(reader.push([Segment(text)]))
        found.add(reader.end(is_cut=True))
        assert found.text == ""


def test_an_argument_that_the_model_left_open_is_cut() -> None:
    found = both("<tool_call>\n<function=write_file>\n<parameter=content>\nabc")
    assert found.is_cut
    assert found.calls == [("write_file", '{"content": "abc')]


def test_arguments_are_returned_as_they_are_written() -> None:
    for form in FORMATS:
        answer = written(form, [("write_file", {"content": "word " * 40, "path": "p"})])
        found = read(answer[: answer.index("word word") + 60], TOOLS, cut=True)
        assert found.calls[0][1].count("word") >= 8, form.name


def test_a_call_in_reasoning_that_is_not_closed_ends_it() -> None:
    for form in FORMATS:
        if form.name == "llama3":
            continue
        found = both(f"Hm.\n{written(form, CALL)}", reasoning=True)
        assert (found.reasoning.strip(), found.text, found.values) == ("Hm.", "", CALL)


def test_a_call_in_reasoning_that_is_closed_is_a_thought() -> None:
    thought, found, reader = f"I could write {written(HERMES, CALL)} now.", Reading(), CallReader(TOOLS)
    found.add(reader.push([Segment(letter, reasoning=True) for letter in thought]))
    found.add(reader.push([Segment("No.")]))
    found.add(reader.end())
    assert (found.reasoning, found.text, found.calls) == (thought, "No.", [])


HERMES_CALL = '<tool_call>\n{{"name": "f", "arguments": {}}}\n</tool_call>'
CORRECTED = {
    '{"a": "x", "n": 3}}}': {"a": "x", "n": 3},
    '{"a": "x", "n": 3}]': {"a": "x", "n": 3},
    '{"a": "x", "n": [3': {"a": "x", "n": [3]},
    '{"a": "x", "n": [3}': {"a": "x", "n": [3]},
    "{'a': 'it\\'s \"x\"', n: 3}": {"a": 'it\'s "x"', "n": 3},
    '{"a": None, "b": [True, false]}': {"a": None, "b": [True, False]},
    '{"a": "C:\\Users\\d+\\u12", "n": 5}': {"a": "C:\\Users\\d+\\u12", "n": 5},
    '{"a": "x", // first\n "n": 3 /* last */}': {"a": "x", "n": 3},
    '{"a": "\\u00e9\\n\\\\"}': {"a": "é\n\\"},
    '{"a": "one\ntwo\t"}': {"a": "one\ntwo\t"},
    '{"a": "x"': {"a": "x"},
}
"""Arguments that are almost JSON, and their meaning."""


@pytest.mark.parametrize("arguments", CORRECTED)
def test_arguments_that_are_almost_json_are_corrected(arguments: str) -> None:
    found = both(HERMES_CALL.format(arguments) + "Done.")
    assert (found.values, found.text, found.is_cut) == ([("f", CORRECTED[arguments])], "Done.", False)


@pytest.mark.parametrize(
    "arguments",
    [
        '{"a": "say "hi" to all"}',
        '{"a": x}',
        '{"a": "x" "n": 1}',
        '{"a": ',
        '{"a"',
        "{'a': 'it's'}",
    ],
)
def test_arguments_that_are_no_json_keep_their_text_and_are_no_json(arguments: str) -> None:
    found = both(HERMES_CALL.format(arguments) + HERMES_CALL.format("{}") + "Done.")
    assert (found.text, found.is_cut, found.calls[1:]) == ("Done.", False, [("f", "{}")])
    with pytest.raises(ValueError, match="line 1"):
        json.loads(found.calls[0][1])
    assert arguments.replace("'a': '", '"a": "') in found.calls[0][1].replace('it"', "it'")


def test_strings_of_lfm2_have_no_escapes() -> None:
    found = both("<|tool_call_start|>[f(a='it's a \"b\"\nc', n=3)]<|tool_call_end|>")
    assert found.values == [("f", {"a": 'it\'s a "b"\nc', "n": 3})]


def test_strings_in_a_list_of_lfm2_have_escapes() -> None:
    found = both(r"<|tool_call_start|>[f(b=['it\'s ) x', 'y'])]<|tool_call_end|>")
    assert found.values == [("f", {"b": ["it's ) x", "y"]})]


def test_arguments_in_a_text_that_is_no_object_keep_that_text() -> None:
    assert both('<tool_call>{"name": "f", "arguments": "Paris"}</tool_call>').calls == [("f", "Paris")]


@pytest.mark.parametrize("call", ["{'name': 'f', 'arguments': {'a': 1}}", '{name: "f", arguments: {a: 1}}'])
def test_the_object_around_arguments_may_have_other_quotes(call: str) -> None:
    assert both(f"<tool_call>{call}</tool_call>").values == [("f", {"a": 1})]


def test_a_call_without_an_end_mark_ends_with_the_answer() -> None:
    assert both('[TOOL_CALLS]f[ARGS]{"a": "x"').values == [("f", {"a": "x"})]
    assert both('[TOOL_CALLS]f[ARGS]{"a": "x"', cut=True).is_cut
    assert both('[TOOL_CALLS]f[ARGS]{"a": "x" y').calls == [("f", '{"a": "x" y')]
