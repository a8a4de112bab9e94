"""Requests of each API become the same messages, tools and settings."""

import base64
import math
from typing import Any

import pytest

from app.conversations.message import Message, Prefill, Role
from app.engine.text.tool_calls import ToolCall
from app.engine.types import Infill
from app.server.chat import read_chat, read_choices
from app.server.completions import read_completions
from app.server.errors import RequestError
from app.server.fields import Fields
from app.server.messages import read_anthropic
from app.server.responses import read_response
from app.settings.layers import DEFAULTS, Thinking, sampling
from app.worker.request import AnswerRequest
from tests.core.test_included import pdf

SETTINGS = DEFAULTS.over({"sampling.temp": 0.5, "sampling.seed": 1, "draft.mode": "off", "model.mmproj": "none"})
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"type": "function", "function": {"name": "weather", "description": "Look up", "parameters": SCHEMA}}
CONVERSATION = (
    Message(Role.SYSTEM, "Be brief."),
    Message(Role.USER, "Weather?"),
    Message(Role.ASSISTANT, "", tool_calls=(ToolCall("weather", '{"city": "Paris"}', "call00001"),)),
    Message(Role.TOOL, "Sunny", tool_call_id="call00001"),
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
    request = read(Fields(body), SETTINGS)
    assert request.messages == CONVERSATION
    assert request.tools == (TOOL,)
    assert names_of(request) == ("weather",)
    assert request.sampling == sampling(SETTINGS)


def names_of(request: AnswerRequest) -> tuple[str, ...]:
    return tuple(tool["function"]["name"] for tool in request.tools)


def chat(*messages: dict[str, Any], **more: Any) -> Any:
    return read_chat(Fields({"messages": list(messages), **more}), SETTINGS)


USER = {"role": "user", "content": "hello"}


def test_a_last_message_of_the_assistant_is_continued() -> None:
    request = chat(USER, {"role": "assistant", "content": "Well,", "reasoning_content": "hm"})
    assert request.prefill == Prefill("Well,", "hm")
    assert request.messages == (Message(Role.USER, "hello"),)


def test_system_messages_become_one_in_front() -> None:
    request = chat(USER, {"role": "system", "content": "a"}, {"role": "developer", "content": "b"}, USER)
    assert request.messages[0] == Message(Role.SYSTEM, "a\n\nb")


def test_messages_of_the_assistant_in_a_row_become_one_with_a_blank_line_between() -> None:
    call = {"id": "call00001", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
    turns: list[dict[str, Any]] = [
        {"role": "assistant", "content": "One."},
        {"role": "assistant", "content": "Two.", "tool_calls": [call]},
    ]
    merged = chat(USER, *turns, USER, tools=[TOOL]).messages[1]
    assert (merged.content, len(merged.tool_calls)) == ("One.\n\nTwo.", 1)


@pytest.mark.parametrize("text", ['{"city": "Par', '{"city": "one\ntwo"}', "Paris"])
def test_what_a_model_wrote_as_arguments_comes_back_unchanged(text: str) -> None:
    call = {"id": "call00001", "type": "function", "function": {"name": "weather", "arguments": text}}
    assert chat(USER, {"role": "assistant", "tool_calls": [call]}, USER).messages[1].tool_calls[0].arguments == text


def test_thoughts_in_a_row_are_parted_by_a_blank_line() -> None:
    thoughts = [{"type": "thinking", "thinking": text} for text in ("One.", "Two.")]
    answer = {"role": "assistant", "content": [*thoughts, {"type": "text", "text": "x"}]}
    request = read_anthropic(Fields({"max_tokens": 1, "messages": [USER, answer, USER]}), SETTINGS)
    assert request.messages[1].reasoning == "One.\n\nTwo."
    item = {"type": "reasoning", "summary": [{"type": "summary_text", "text": text} for text in ("One.", "Two.")]}
    items = [USER, item, {"role": "assistant", "content": "x"}, USER]
    assert read_response(Fields({"input": items}), SETTINGS).messages[1].reasoning == "One.\n\nTwo."


def test_the_system_prompt_of_the_settings_yields() -> None:
    settings = DEFAULTS.over({"answer.system": "Mine."})
    with_own = read_chat(Fields({"messages": [{"role": "system", "content": "Yours."}, USER]}), settings)
    without = read_chat(Fields({"messages": [USER]}), settings)
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
    request = read(Fields({**body, "tools": [first, other], "tool_choice": choice}), SETTINGS)
    # A tool chosen by name is called once.
    assert (len(request.tools), request.guidance.must_call, request.guidance.one_call) == (n_tools, must, n_tools == 1)


def test_tools_that_anthropic_runs_are_left_out_beside_others() -> None:
    asked = read_anthropic(Fields({**ANTHROPIC, "tools": [SEARCH, *ANTHROPIC["tools"]]}), SETTINGS)
    assert names_of(asked) == ("weather",)


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


FORM = {"type": "json_schema", "schema": SCHEMA}


@pytest.mark.parametrize(
    ("read", "body", "effort", "form"),
    [
        (read_chat, CHAT, {"reasoning_effort": "xhigh"}, {"response_format": FORM}),
        (read_response, RESPONSE, {"reasoning": {"effort": "xhigh"}}, {"text": {"format": FORM}}),
        (read_anthropic, ANTHROPIC, {"output_config": {"effort": "xhigh"}}, {"output_config": {"format": FORM}}),
    ],
)
def test_every_api_has_an_effort_and_a_schema(read: Any, body: Any, effort: Any, form: Any) -> None:
    assert read(Fields({**body, **effort}), SETTINGS).thinking == Thinking(effort="max")
    assert read(Fields({**body, **form}), SETTINGS).guidance.schema == SCHEMA


@pytest.mark.parametrize(("kind", "enabled"), [("adaptive", None), ("enabled", True), ("disabled", False)])
def test_a_message_says_whether_the_model_thinks(kind: str, enabled: bool | None) -> None:
    asked = read_anthropic(Fields({**ANTHROPIC, "thinking": {"type": kind}}), SETTINGS)
    assert asked.thinking.enabled is enabled


def test_values_of_llama_server_are_understood() -> None:
    request = chat(USER, seed=-1, repeat_last_n=-1, top_n_sigma=-1, n_predict=-1, xtc_probability=0.5)
    sampling = request.sampling
    assert (sampling.seed, sampling.repeat_last_n, sampling.top_n_sigma) == (None, 65_536, 0)
    assert sampling.xtc_probability == 0.5
    assert request.max_tokens is None
    assert chat(USER, n_predict=-2).max_tokens is None
    assert chat(USER, seed=(1 << 40) + 5).sampling.seed == ((1 << 40) + 5) % 0xFFFFFFFF


def test_values_out_of_range_mean_the_limit_where_llama_server_says_so() -> None:
    sampling = chat(USER, top_k=-1, min_p=2, xtc_threshold=-1, dry_base=0, mirostat=7).sampling
    assert (sampling.top_k, sampling.min_p, sampling.xtc_threshold) == (0, 1.0, 0.0)
    assert (sampling.dry_base, sampling.mirostat) == (1.0, 2)
    assert chat(USER, top_k=2.5).sampling.top_k == 2
    for wrong in ({"temperature": -1}, {"top_p": 2}, {"presence_penalty": 1000}):
        with pytest.raises(RequestError, match="must lie between"):
            chat(USER, **wrong)


def test_a_bias_names_tokens_by_id_or_by_text() -> None:
    assert chat(USER, logit_bias=[["hello", -5], [7, False]]).guidance.logit_bias == (("hello", -5), (7, -math.inf))
    assert chat(USER, logit_bias={"7": 1, "hello": 2}).guidance.logit_bias == ((7, 1), ("hello", 2))
    with pytest.raises(RequestError, match="logit_bias"):
        chat(USER, logit_bias={"-7": 1})


def test_parts_are_joined_with_a_line_break() -> None:
    parts = [{"type": "text", "text": "What is"}, {"type": "text", "text": "the best book"}]
    expected = "What is\nthe best book"
    assert chat({"role": "user", "content": parts}).messages[0].content == expected
    asked = {"max_tokens": 1, "messages": [{"role": "user", "content": parts}], "system": parts}
    assert [m.content for m in read_anthropic(Fields(asked), SETTINGS).messages] == [expected, expected]
    inputs = [{"type": "input_text", "text": part["text"]} for part in parts]
    response = {"input": [{"role": "user", "content": inputs}]}
    assert read_response(Fields(response), SETTINGS).messages[0].content == expected


@pytest.mark.parametrize("role", ["system", "developer"])
def test_a_conversation_may_consist_of_instructions(role: str) -> None:
    assert chat({"role": role, "content": "Say hi."}).messages == (Message(Role.SYSTEM, "Say hi."),)


@pytest.mark.parametrize(
    ("read", "body", "more"),
    [
        (read_chat, CHAT, {"parallel_tool_calls": False}),
        (read_response, RESPONSE, {"parallel_tool_calls": False}),
        (read_anthropic, ANTHROPIC, {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}),
    ],
)
def test_one_call_can_be_asked_for(read: Any, body: dict[str, Any], more: dict[str, Any]) -> None:
    assert read(Fields(body), SETTINGS).guidance.one_call is False
    assert read(Fields({**body, **more}), SETTINGS).guidance.one_call is True


@pytest.mark.parametrize("read", [read_chat, read_response])
@pytest.mark.parametrize("mode", ["auto", "required"])
def test_only_allowed_tools_are_offered(read: Any, mode: str) -> None:
    is_chat = read is read_chat
    tools = [{**TOOL["function"], "name": name} for name in ("a", "b", "c")]  # type: ignore[dict-item]
    shown = [{"type": "function", "function": one} if is_chat else {"type": "function", **one} for one in tools]
    allowed = {"mode": mode, "tools": [shown[2], shown[0]]}
    choice = {"type": "allowed_tools", **({"allowed_tools": allowed} if is_chat else allowed)}
    body = {**(CHAT if is_chat else RESPONSE), "tools": shown, "tool_choice": choice}
    request = read(Fields(body), SETTINGS)
    assert (names_of(request), request.guidance.must_call) == (("c", "a"), mode == "required")


FIELDS = (
    *("messages", "prompt", "input", "system", "tools", "tool_choice", "stream", "stream_options", "stop", "seed", "n"),
    *("max_tokens", "max_output_tokens", "temperature", "top_p", "top_k", "logprobs", "top_logprobs", "logit_bias"),
    *("response_format", "json_schema", "grammar", "reasoning", "reasoning_effort", "chat_template_kwargs", "thinking"),
    *("output_config", "suffix", "echo", "best_of", "n_probs", "response_fields", "return_progress", "ignore_eos"),
    *("speculative", "speculative.n_max", "cache_prompt", "t_max_predict_ms", "parallel_tool_calls", "custom"),
    *("text", "instructions", "content", "role", "type", "function", "name", "parameters", "tool_calls", "tandem"),
    *("tool_call_id", "arguments", "input_schema", "format", "schema", "stop_sequences", "metadata", "mirostat"),
    *("strict", "syntax", "definition", "tool_use_id", "call_id", "namespace", "id", "include", "description", "title"),
    *("reasoning_content", "cache_control"),
)
"""Fields in any object of a request."""


@pytest.mark.parametrize(("read", "body"), [(read_chat, CHAT), (read_response, RESPONSE), (read_anthropic, ANTHROPIC)])
def test_null_stands_for_a_field_that_is_absent(read: Any, body: dict[str, Any]) -> None:
    schemas = {"parameters", "input_schema", "input", "arguments"}

    def filled(value: Any) -> Any:
        if isinstance(value, list):
            return [filled(one) for one in value]
        if not isinstance(value, dict):
            return value
        inner = {key: one if key in schemas and isinstance(one, dict) else filled(one) for key, one in value.items()}
        return {**dict.fromkeys(FIELDS), **inner}

    assert read(Fields(filled(body)), SETTINGS) == read(Fields(body), SETTINGS)


PATCH = {"type": "custom", "name": "patch", "format": {"type": "grammar", "syntax": "lark", "definition": "start: X"}}


def test_a_custom_tool_is_a_function_of_one_text() -> None:
    asked = {
        "input": [
            {"role": "user", "content": "Go."},
            {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": '*** "Begin"'},
            {"type": "custom_tool_call_output", "call_id": "c1", "output": "Done"},
        ],
        "tools": [PATCH],
        "tool_choice": {"type": "custom", "name": "patch"},
    }
    request = read_response(Fields(asked), SETTINGS)
    assert (names_of(request), request.guidance.must_call) == (("patch",), True)
    parameters = request.tools[0]["function"]["parameters"]
    assert parameters["required"] == ["input"]
    assert "lark grammar: start: X" in parameters["properties"]["input"]["description"]
    assert request.tools[0]["custom"] == {"lark": "start: X"}
    call = ToolCall("patch", '{"input": "*** \\"Begin\\""}', "c1")
    assert request.messages[1:] == (
        Message(Role.ASSISTANT, "", tool_calls=(call,)),
        Message(Role.TOOL, "Done", tool_call_id="c1"),
    )


def test_a_regular_expression_of_a_custom_tool_is_a_pattern_of_the_whole_text() -> None:
    form = {"type": "grammar", "syntax": "regex", "definition": r"^\d+|a\$$"}
    for tool in ({**PATCH, "format": form}, {"type": "custom", "custom": {"name": "p", "format": {"grammar": form}}}):
        (read,) = read_response(Fields({"input": "Go.", "tools": [tool]}), SETTINGS).tools
        assert read["function"]["parameters"]["properties"]["input"]["pattern"] == r"^(?:\d+|a\$)$"


def test_tools_in_namespaces_keep_their_names_apart() -> None:
    function = {"type": "function", "name": "close", "parameters": {"type": "object"}}
    calls = [
        {"type": "function_call", "call_id": "c1", "name": "close", "arguments": "{}"},
        {"type": "function_call", "call_id": "c2", "name": "close", "namespace": "agents", "arguments": "{}"},
        {"type": "function_call", "call_id": "c3", "name": "patch", "namespace": "agents", "arguments": "{}"},
    ]
    spaces = [{"type": "namespace", "name": "agents", "tools": [function, PATCH]}]
    request = read_response(Fields({"input": calls, "tools": [*spaces, function]}), SETTINGS)
    assert names_of(request) == ("close", "agents__close", "patch")
    assert [call.name for call in request.messages[0].tool_calls] == ["close", "agents__close", "patch"]


def test_items_of_codex_that_say_nothing_to_a_model_are_left_out() -> None:
    kinds = ("tool_search_output", "web_search_call", "compaction", "context_compaction", "configuration_update")
    items = [{"type": kind, "id": "i1"} for kind in (*kinds, "compaction_trigger", "item_reference", "ghost_snapshot")]
    mail = {"type": "agent_message", "author": "a", "content": [{"type": "input_text", "text": "Ready."}]}
    asked = {"input": [{"role": "user", "content": "Go."}, *items, mail]}
    request = read_response(Fields(asked), SETTINGS)
    assert [message.content for message in request.messages] == ["Go.", "Ready."]


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
LEFT_OUT = "[image left out: the loaded models read text only]"
ENCODED = base64.b64encode("Grüße".encode()).decode()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([IMAGE], LEFT_OUT),
        ([{"type": "text", "text": "Read:"}, IMAGE, {"type": "text", "text": "end"}], f"Read:\n{LEFT_OUT}\nend"),
        ([{"type": "tool_reference", "tool_name": "look_up"}], "look_up"),
        ([{"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "Hi"}}], "Hi"),
        ([{"type": "document", "title": "a.txt", "source": {"type": "content", "content": "Hi"}}], "a.txt\nHi"),
        ([{"type": "document", "source": {"type": "base64", "media_type": "text/plain", "data": ENCODED}}], "Grüße"),
        (
            [{"type": "document", "source": {"type": "base64", "media_type": "application/zip", "data": "AA=="}}],
            "[document left out: The document is not text]",
        ),
        (
            [{"type": "search_result", "source": "url", "title": "T", "content": [{"type": "text", "text": "x"}]}],
            "T\nx",
        ),
    ],
)
def test_results_of_tools_are_read_as_text(content: object, text: str) -> None:
    results = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call00001", "content": content}]}
    body = {**ANTHROPIC, "messages": [*ANTHROPIC["messages"][:2], results]}
    assert read_anthropic(Fields(body), SETTINGS).messages[-1].content == text


def test_an_image_that_a_tool_returns_leaves_every_api_going() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    result = {"role": "tool", "tool_call_id": "call00001", "content": [image]}
    assert "image_url left out" in chat(*CHAT["messages"][:3], result, tools=[TOOL]).messages[-1].content
    output = {"type": "function_call_output", "call_id": "call00001", "output": [{"type": "input_image"}]}
    request = read_response(Fields({**RESPONSE, "input": [*RESPONSE["input"][:2], output]}), SETTINGS)
    assert "input_image left out" in request.messages[-1].content


def test_the_text_of_a_pdf_file_is_read() -> None:
    pytest.importorskip("kreuzberg")
    data = base64.b64encode(pdf("Hello")).decode()
    source = {"type": "base64", "media_type": "application/pdf", "data": data}
    asked = chat({"role": "user", "content": [{"type": "document", "title": "a.pdf", "source": source}]})
    assert asked.messages[0].content == "a.pdf\nPage 1 of 1\n\nHello"
    with pytest.raises(RequestError, match="The document is not text"):
        chat({"role": "user", "content": [{"type": "document", "source": {**source, "data": "AA=="}}]})


def test_a_text_file_of_the_user_is_read() -> None:
    for data in (f"data:text/plain;base64,{ENCODED}", "data:text/plain,Gr%C3%BC%C3%9Fe", ENCODED):
        file = {"filename": "a.txt", "file_data": data}
        assert chat({"role": "user", "content": [{"type": "file", "file": file}]}).messages[0].content == "a.txt\nGrüße"
    for file, why in (
        ({"file_data": "data:application/zip;base64,AA=="}, "is not text"),
        ({"file_data": "A"}, "is not base64"),
        ({"file_id": "file-1"}, r"file\.file_id is the id of a stored file, and the server stores none"),
    ):
        with pytest.raises(RequestError, match=why):
            chat({"role": "user", "content": [{"type": "file", "file": file}]})


def test_the_limits_of_an_answer() -> None:
    assert chat(USER, max_tokens=0).max_tokens == 0
    assert chat(USER, ignore_eos=True).guidance.ignores_end is True
    assert chat(USER, t_max_predict_ms=300).max_predict_ms == 300
    assert len(chat(USER, stop=[f"stop {n}" for n in range(40)]).stops) == 40


def test_several_answers_have_seeds_of_their_own() -> None:
    requests = read_choices(Fields({"messages": [USER], "n": 3, "seed": 0xFFFFFFFE}), SETTINGS)
    assert [request.sampling.seed for request in requests] == [0xFFFFFFFE, 0, 1]


def test_a_text_with_a_suffix_is_filled_in() -> None:
    (request,) = read_completions(Fields({"prompt": "a", "suffix": "b", "best_of": 1}), SETTINGS)
    assert request.text == Infill("a", "b")


SEARCH = {"type": "web_search_20250305", "name": "web_search"}
OTHER = {"type": "function", "function": {"name": "other"}}
EBNF = {**PATCH, "format": {"type": "grammar", "syntax": "ebnf", "definition": "x"}}
CHOICES = "it must be auto, none, required or a function"
NO_SCHEMA = "tools[0].input_schema is null; it must be a JSON schema."
ALLOWED = {"mode": "some", "tools": []}
ONE_CALL = {"messages": [{"role": "assistant", "tool_calls": [{"id": "c"}]}]}
JSON_SCHEMA = {"type": "json_schema"}
REFUSED: list[tuple[Any, dict[str, Any], dict[str, Any], str]] = [
    *((read_chat, CHAT, {"tool_choice": choice}, CHOICES) for choice in ("always", 0, ["auto"])),
    (read_chat, CHAT, {"tool_choice": OTHER}, 'names "other", which is not one of the tools'),
    (read_chat, CHAT, {"tools": [], "tool_choice": "required"}, "tool_choice is required, but there are no tools"),
    *((read_chat, CHAT, {"tools": [tool]}, "tools[0].function.name is null") for tool in ({}, {"type": "function"})),
    (read_chat, CHAT, {"tools": [{"type": "custom"}]}, "tools[0].custom.name is null"),
    (read_chat, CHAT, {"tools": [{"type": "custom", "custom": {"x": 1}}]}, "tools[0].custom.name is null"),
    *(
        (read_response, RESPONSE, {"tools": [{"type": kind}]}, "tools[0].name is null")
        for kind in ("function", "custom")
    ),
    (read_chat, CHAT, ONE_CALL, "messages[0].tool_calls[0].function.name is null"),
    (read_response, RESPONSE, {"input": [{"type": "function_call"}]}, "input[0].name is null"),
    (
        read_chat,
        CHAT,
        {"tool_choice": {"type": "allowed_tools", "allowed_tools": ALLOWED}},
        'tool_choice.allowed_tools.mode is "some"',
    ),
    (read_response, RESPONSE, {"tool_choice": {"type": "allowed_tools", **ALLOWED}}, 'tool_choice.mode is "some"'),
    (read_chat, CHAT, {"response_format": JSON_SCHEMA}, "response_format.json_schema.schema is null"),
    (read_response, RESPONSE, {"text": {"format": JSON_SCHEMA}}, "text.format.schema is null"),
    (read_anthropic, ANTHROPIC, {"output_config": {"format": JSON_SCHEMA}}, "output_config.format.schema is null"),
    (read_chat, CHAT, {"messages": None}, "messages is missing or empty."),
    (read_response, {}, {}, "input is missing or empty."),
    (read_response, {}, {"input": []}, "input is missing or empty."),
    (read_response, {}, {"input": 5}, "input is 5; it must be a string or an array of items."),
    (read_chat, CHAT, {"logit_bias": 5}, "logit_bias is 5; it must be an object or an array"),
    (read_chat, CHAT, {"logprobs": "yes"}, 'logprobs is "yes"; it must be true, false or a whole number'),
    (read_completions, {}, {"prompt": {"prompt_string": 5}}, "prompt.prompt_string is 5"),
    (read_chat, CHAT, {"add_generation_prompt": True, "continue_final_message": True}, "not both"),
    (read_response, RESPONSE, {"tools": [EBNF]}, 'tools[0].format.syntax is "ebnf"; it must be lark or regex.'),
    (read_completions, {"prompt": "a"}, {"best_of": 2}, "best_of is 2; it must be 1."),
    (read_completions, {"prompt": "a"}, {"echo": True, "logprobs": 1}, "Leave out echo or logprobs"),
    (read_anthropic, ANTHROPIC, {"tools": [], "tool_choice": {"type": "any"}}, "tool_choice is any, but there"),
    (read_anthropic, ANTHROPIC, {"tool_choice": {"type": "sometimes"}}, "it must be auto, any, tool or none."),
    *(
        (read, body, {"tool_choice": {"type": kind}}, f"tool_choice.{name} is null; it must be the name of a tool.")
        for read, body, kind, name in (
            (read_chat, CHAT, "function", "function.name"),
            (read_chat, CHAT, "custom", "custom.name"),
            (read_response, RESPONSE, "function", "name"),
            (read_anthropic, ANTHROPIC, "tool", "name"),
        )
    ),
    (read_anthropic, ANTHROPIC, {"tool_choice": "auto"}, 'tool_choice is "auto"; it must be an object.'),
    *(
        (read_anthropic, ANTHROPIC, {"tools": [{"name": "f", **more}]}, NO_SCHEMA)
        for more in ({}, {"input_schema": None})
    ),
    (read_anthropic, ANTHROPIC, {"tools": [SEARCH]}, "this server runs no tools"),
    *(
        (read_anthropic, ANTHROPIC, {"tools": [*ANTHROPIC["tools"], {"type": kind}]}, f'tools[1].type is "{kind}"')
        for kind in ("bash_20250124", "text_editor_20250728", "computer_20250124", "memory_20250818")
    ),
    (
        read_anthropic,
        ANTHROPIC,
        {"messages": [ANTHROPIC["messages"][0], ANTHROPIC["messages"][2]]},
        'messages[1].content[0].tool_use_id is "call00001"; it must be the id of a tool_use block before it.',
    ),
]


@pytest.mark.parametrize(("read", "body", "more", "message"), REFUSED)
def test_a_request_that_cannot_be_answered_is_refused(
    read: Any, body: dict[str, Any], more: dict[str, Any], message: str
) -> None:
    with pytest.raises(RequestError) as error:
        read(Fields({**body, **more}), SETTINGS)
    assert message in error.value.sentences
