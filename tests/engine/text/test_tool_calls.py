"""Check that calls of tools are found in the format of each model family, and that other text stays text."""

from __future__ import annotations

import json

import pytest

from app.engine.text.tool_calls import ToolCall, ToolCallScanner, instructions, written

CALL = (ToolCall("f", '{"a": "x", "n": 3}'),)


def scanned(text: str, size: int = 3) -> tuple[str, tuple[ToolCall, ...]]:
    """Return the shown text and the calls of a text that arrives in small pieces."""
    scanner = ToolCallScanner(("f",))
    shown = "".join(scanner.push(text[at : at + size]) for at in range(0, len(text), size))
    rest, calls = scanner.end()
    return shown + rest, calls


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('<tool_call>\n{"name": "f", "arguments": {"a": "x", "n": 3}}\n</tool_call>', id="Hermes"),
        pytest.param('<tool_call>{"name": "f", "arguments": "{\\"a\\": \\"x\\", \\"n\\": 3}"}', id="text arguments"),
        pytest.param(
            "<tool_call>\n<function=f>\n<parameter=a>\nx\n</parameter>\n<parameter=n>\n3\n</parameter>\n"
            "</function>\n</tool_call>",
            id="Qwen3-Coder",
        ),
        pytest.param("<function=f><parameter=a>x</parameter><parameter=n>3</parameter></function>", id="bare function"),
        pytest.param(
            "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>x</arg_value>\n<arg_key>n</arg_key>\n"
            "<arg_value>3</arg_value>\n</tool_call>",
            id="GLM",
        ),
        pytest.param('{"name": "f", "parameters": {"a": "x", "n": 3}}', id="Llama 3"),
        pytest.param('```json\n{"name": "f", "arguments": {"a": "x", "n": 3}}\n```', id="code block"),
        pytest.param('<|python_tag|>{"name": "f", "parameters": {"a": "x", "n": 3}}', id="Llama 3.1"),
        pytest.param('[TOOL_CALLS][{"name": "f", "arguments": {"a": "x", "n": 3}}]', id="Mistral"),
        pytest.param('[TOOL_CALLS]f[ARGS]{"a": "x", "n": 3}', id="Mistral 2025"),
        pytest.param('[TOOL_CALLS]f[CALL_ID]123456789[ARGS]{"a": "x", "n": 3}', id="Mistral with ids"),
        pytest.param(
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n"
            '{"a": "x", "n": 3}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
            id="DeepSeek R1",
        ),
        pytest.param(
            '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": "x", "n": 3}<｜tool▁call▁end｜>',
            id="DeepSeek V3.1",
        ),
        pytest.param(
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
            '{"a": "x", "n": 3}<|tool_call_end|>',
            id="Kimi",
        ),
        pytest.param('to=functions.f \n\n{"a": "x", "n": 3}', id="gpt-oss"),
        pytest.param('<|tool_call>call:f{a:<|"|>x<|"|>,n:3}<tool_call|>', id="Gemma 4"),
        pytest.param("<start_function_call>call:f{a:<escape>x<escape>,n:3}<end_function_call>", id="FunctionGemma"),
        pytest.param('<|tool_call|>[{"name": "f", "arguments": {"a": "x", "n": 3}}]', id="Granite"),
    ],
)
def test_a_call_is_found_in_every_format(text: str) -> None:
    assert scanned(text) == ("", CALL)
    assert scanned(f"I look.\n{text}")[1] == (CALL if not text.startswith(("{", "`")) else ())


def test_several_calls_in_one_answer() -> None:
    one = '<tool_call>\n{"name": "f", "arguments": {"n": 1}}\n</tool_call>'
    assert [json.loads(call.arguments) for call in scanned(one + one.replace("1", "2"))[1]] == [{"n": 1}, {"n": 2}]


@pytest.mark.parametrize(
    "text", ["a < b and <tool", '<tool_call>{"name": broken', '{"name": "g"}', '{"a": 1}', "[1, 2]"]
)
def test_text_that_is_no_call_stays_text(text: str) -> None:
    assert scanned(text) == (text, ())


def test_text_is_shown_before_a_call_begins() -> None:
    scanner = ToolCallScanner(("f",))
    assert scanner.push("I look. <tool") == "I look. "
    assert scanner.push("box>") == "<toolbox>"


def test_written_calls_are_read_again() -> None:
    assert scanned(written(CALL))[1] == CALL
    assert '"f"' in instructions([{"type": "function", "function": {"name": "f"}}])
