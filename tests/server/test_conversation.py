"""Requests of each API become the same messages, tools and settings."""

from __future__ import annotations

from typing import Any

import pytest

from app.conversations.message import Message, Prefill, Role
from app.engine.text.tool_calls import ToolCall
from app.engine.types import SamplingParams
from app.server.chat import read_chat
from app.server.errors import RequestError
from app.server.fields import Fields
from app.server.messages import read_anthropic
from app.server.responses import read_response
from app.session.chat_settings import ChatSettings
from app.settings.layers import Thinking

SETTINGS = ChatSettings("Fake", sampling=SamplingParams(temperature=0.5, seed=1))
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "weather", "description": "Look up", "parameters": SCHEMA}}
TALK = (
    Message(Role.SYSTEM, "Be brief."),
    Message(Role.USER, "Weather?"),
    Message(Role.ASSISTANT, "", tool_calls=(ToolCall("weather", '{"city": "Paris"}', "call00001"),)),
    Message(Role.USER, "Sunny", tool_call_id="call00001"),
)

CHAT: dict[str, Any] = {
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Weather?"}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {
                    "id": "call00001",
                    "type": "function",
                    "function": {"name": "weather", "arguments": '{"city": "Paris"}'},
                }
            ],
        },
        {"role": "tool", "tool_call_id": "call00001", "content": "Sunny"},
    ],
    "tools": [TOOL],
}
RESPONSE: dict[str, Any] = {
    "instructions": "Be brief.",
    "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather?"}]},
        {"type": "function_call", "call_id": "call00001", "name": "weather", "arguments": '{"city": "Paris"}'},
        {"type": "function_call_output", "call_id": "call00001", "output": "Sunny"},
    ],
    "tools": [{"type": "function", **TOOL["function"]}, {"type": "web_search"}],  # type: ignore[dict-item]
}
ANTHROPIC: dict[str, Any] = {
    "max_tokens": 100,
    "system": [{"type": "text", "text": "Be brief."}],
    "messages": [
        {"role": "user", "content": "Weather?"},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "call00001", "name": "weather", "input": {"city": "Paris"}}],
        },
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call00001", "content": "Sunny"}]},
    ],
    "tools": [{"name": "weather", "description": "Look up", "input_schema": SCHEMA}],
}


@pytest.mark.parametrize(
    ("read", "body"),
    [(read_chat, CHAT), (read_response, RESPONSE), (read_anthropic, ANTHROPIC)],
    ids=["chat", "responses", "messages"],
)
def test_every_api_reads_the_same_conversation(read: Any, body: dict[str, Any]) -> None:
    request, tools = read(Fields(body), SETTINGS)
    assert request.messages == TALK
    assert request.tools == (TOOL,)
    assert tools == ("weather",)
    assert request.sampling == SETTINGS.sampling


def chat(*messages: dict[str, Any], **more: Any) -> Any:
    return read_chat(Fields({"messages": list(messages), **more}), SETTINGS)[0]


USER = {"role": "user", "content": "hello"}


def test_a_last_message_of_the_assistant_is_continued() -> None:
    request = chat(USER, {"role": "assistant", "content": "Well,", "reasoning_content": "hm"})
    assert request.prefill == Prefill("Well,", "hm")
    assert request.messages == (Message(Role.USER, "hello"),)


def test_system_messages_become_one_in_front() -> None:
    request = chat(USER, {"role": "system", "content": "a"}, {"role": "developer", "content": "b"}, USER)
    assert request.messages[0] == Message(Role.SYSTEM, "a\n\nb")


def test_the_system_prompt_of_the_settings_yields() -> None:
    settings = ChatSettings("Fake", system="Mine.")
    with_own, _ = read_chat(Fields({"messages": [{"role": "system", "content": "Yours."}, USER]}), settings)
    without, _ = read_chat(Fields({"messages": [USER]}), settings)
    assert [m.content for m in with_own.messages] == ["Yours.", "hello"]
    assert [m.content for m in without.messages] == ["Mine.", "hello"]


@pytest.mark.parametrize(
    ("read", "choice", "n_tools", "must"),
    [
        (read_chat, "auto", 2, False),
        (read_chat, "none", 0, False),
        (read_chat, "required", 2, True),
        (read_chat, {"function": {"name": "weather"}}, 1, True),
        (read_response, {"type": "function", "name": "weather"}, 1, True),
        (read_response, {"type": "web_search"}, 2, False),
        (read_anthropic, {"type": "auto"}, 2, False),
        (read_anthropic, {"type": "any"}, 2, True),
        (read_anthropic, {"type": "tool", "name": "weather"}, 1, True),
        (read_anthropic, {"type": "none"}, 0, False),
    ],
)
def test_the_choice_of_tools(read: Any, choice: object, n_tools: int, must: bool) -> None:
    body = {read_chat: CHAT, read_response: RESPONSE, read_anthropic: ANTHROPIC}[read]
    first = body["tools"][0]
    function = {**first.get("function", first), "name": "other"}
    other = {**first, "function": function} if "function" in first else function
    request, names = read(Fields({**body, "tools": [first, other], "tool_choice": choice}), SETTINGS)
    assert (len(request.tools), len(names), request.must_call) == (n_tools, n_tools, must)


@pytest.mark.parametrize("choice", ["always", 0, ["auto"]])
def test_a_wrong_choice_is_an_error(choice: object) -> None:
    with pytest.raises(RequestError, match="auto, none, required or a function"):
        chat(USER, tools=[TOOL], tool_choice=choice)


def test_an_unknown_tool_cannot_be_chosen() -> None:
    with pytest.raises(RequestError, match="not one of the tools"):
        chat(USER, tools=[TOOL], tool_choice={"type": "function", "function": {"name": "other"}})


def test_a_grammar_rules_the_whole_answer() -> None:
    assert chat(USER, json_schema={}, reasoning_effort="high").thinking.enabled is False
    assert chat(USER, tools=[TOOL], tool_choice="required").thinking.enabled is False
    assert chat(USER, reasoning_effort="high").thinking == Thinking(effort="high")
    assert chat(USER, reasoning_effort="none").thinking == Thinking(enabled=False)


@pytest.mark.parametrize("strict", [True, False, None])
def test_a_schema_may_be_strict(strict: bool | None) -> None:
    output = {"type": "json_schema", "json_schema": {"name": "x", "strict": strict, "schema": SCHEMA}}
    guidance = chat(USER, response_format=output).guidance
    assert (guidance.schema, guidance.strict) == (SCHEMA, strict is True)


def test_a_message_has_an_effort_and_a_schema() -> None:
    output = {"effort": "xhigh", "format": {"type": "json_schema", "schema": SCHEMA}}
    fields = {"messages": [USER], "max_tokens": 9, "thinking": {"type": "adaptive"}, "output_config": output}
    request, _ = read_anthropic(Fields(fields), SETTINGS)
    assert request.guidance.schema == SCHEMA
    del output["format"]
    request, _ = read_anthropic(Fields(fields), SETTINGS)
    assert request.thinking == Thinking(effort="max")


def test_values_of_llama_server_are_understood() -> None:
    request = chat(USER, seed=-1, repeat_last_n=-1, top_n_sigma=-1, n_predict=-1, xtc_probability=0.5)
    sampling = request.sampling
    assert (sampling.seed, sampling.repeat_last_n, sampling.top_n_sigma) == (None, 65_536, 0)
    assert sampling.xtc_probability == 0.5
    assert request.max_tokens is None
    assert chat(USER, seed=(1 << 40) + 5).sampling.seed == ((1 << 40) + 5) % 0xFFFFFFFF
