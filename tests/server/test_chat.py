"""Tool calls as seen by clients of every API: whole, in streams, and cut."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from app.engine.text.call_formats import FORMATS, HERMES
from tests.engine.text.reading import tool, written
from tests.fakes import FakeModel, script
from tests.pairs import FakePair, Letters
from tests.server.conftest import Serve

PROMPT = "hi"
N_PIECES = 60
ARGUMENTS = {"path": "a.html", "content": "<h1>One</h1>\n</tool_call>\n" + "two words\n" * 20}
TOOL = tool("write_file", {"path": {"type": "string"}, "content": {"type": "string"}})
BODY = {"messages": [{"role": "user", "content": PROMPT}]}
CHAT = {**BODY, "tools": [TOOL]}
ANTHROPIC = {
    **BODY,
    "max_tokens": 200,
    "tools": [{"name": "write_file", "input_schema": TOOL["function"]["parameters"]}],
}
RESPONSES = {"input": PROMPT, "tools": [{"type": "function", **TOOL["function"]}]}


class Pieces(Letters):
    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    def piece(self, token: int) -> bytes:
        return self._pieces[token] if token < len(self._pieces) else b""


class WritingPair(FakePair):
    """A pair that answers with a text, in pieces."""

    def __init__(self, text: str) -> None:
        super().__init__(FakeModel(script(range(1, N_PIECES + 1), len(PROMPT)), n_ctx=256))
        size = -(-len(text) // N_PIECES)
        self.model = Pieces([b"", *(text[at : at + size].encode() for at in range(0, len(text), size))])


def chat_call(events: Sequence[tuple[str, Any]]) -> tuple[str, str, list[str], str]:
    """Return the text, the name, the parts of the arguments and the reason of a stream of chunks."""
    text, name, parts, reason = "", "", [], ""
    for _, data in events[:-1]:
        (choice,) = data["choices"]
        text += choice["delta"].get("content") or ""
        reason = choice["finish_reason"] or reason
        for call in choice["delta"].get("tool_calls", ()):
            name += call["function"].get("name", "")
            parts.append(call["function"]["arguments"])
    return text, name, parts, reason


def test_a_call_is_whole_in_every_api(serve: Serve) -> None:
    server = serve(WritingPair(f"I write.\n{written(HERMES, [('write_file', ARGUMENTS)])}"))
    (choice,) = server.post("/v1/chat/completions", CHAT)[1]["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"].rstrip() == "I write."
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("write_file", ARGUMENTS)

    message = server.post("/v1/messages", ANTHROPIC)[1]
    assert message["stop_reason"] == "tool_use"
    assert (message["content"][1]["name"], message["content"][1]["input"]) == ("write_file", ARGUMENTS)

    response = server.post("/v1/responses", RESPONSES)[1]
    assert response["status"] == "completed"
    assert response["output"][1]["status"] == "completed"
    assert json.loads(response["output"][1]["arguments"]) == ARGUMENTS


@pytest.mark.parametrize("form", [one for one in FORMATS if one.name in ("hermes", "qwen-xml", "gemma4", "lfm2")])
def test_arguments_stream_as_they_are_written(serve: Serve, form: Any) -> None:
    server = serve(WritingPair(f"I write.\n{written(form, [('write_file', ARGUMENTS)])}"))
    text, name, parts, reason = chat_call(server.stream("/v1/chat/completions", CHAT))
    assert (text.rstrip(), name, reason) == ("I write.", "write_file", "tool_calls")
    assert json.loads("".join(parts)) == ARGUMENTS
    assert len(parts) > 20

    events = server.stream("/v1/messages", ANTHROPIC)
    deltas = [data["delta"] for name, data in events if name == "content_block_delta"]
    partial = [delta["partial_json"] for delta in deltas if delta["type"] == "input_json_delta"]
    assert json.loads("".join(partial)) == ARGUMENTS
    assert len(partial) > 20
    starts = [data["content_block"] for name, data in events if name == "content_block_start"]
    stops = [data["index"] for name, data in events if name == "content_block_stop"]
    assert ([start["type"] for start in starts], stops) == (["text", "tool_use"], [0, 1])
    assert starts[1]["input"] == {}

    events = server.stream("/v1/responses", RESPONSES)
    partial = [data["delta"] for name, data in events if name == "response.function_call_arguments.delta"]
    (done,) = (data for name, data in events if name == "response.function_call_arguments.done")
    assert "".join(partial) == done["arguments"]
    assert (json.loads(done["arguments"]), len(partial) > 20) == (ARGUMENTS, True)
    items = [data["item"] for name, data in events if name == "response.output_item.done"]
    assert [(item["type"], item["status"]) for item in items] == [
        ("message", "completed"),
        ("function_call", "completed"),
    ]
    assert events[-1][1]["response"]["output"] == items


def assert_is_partial(arguments: str) -> None:
    assert arguments.startswith("{")
    with pytest.raises(ValueError, match="Unterminated"):
        json.loads(arguments)


@pytest.mark.parametrize("how", [{"max": 30}, {"stop": "two"}])
def test_a_cut_call_has_partial_arguments_and_no_markup_is_text(serve: Serve, how: Mapping[str, Any]) -> None:
    server = serve(WritingPair(written(HERMES, [("write_file", ARGUMENTS)])))
    limits, stops = {"max_tokens": how.get("max", 200)}, [how["stop"]] if "stop" in how else None
    asked = {**CHAT, **limits, "stop": stops}
    (choice,) = server.post("/v1/chat/completions", asked)[1]["choices"]
    assert (choice["finish_reason"], choice["message"]["content"]) == ("length", None)
    assert_is_partial(choice["message"]["tool_calls"][0]["function"]["arguments"])
    text, name, parts, reason = chat_call(server.stream("/v1/chat/completions", asked))
    assert (text, name, reason) == ("", "write_file", "length")
    assert_is_partial("".join(parts))

    asked = {**ANTHROPIC, **limits, "stop_sequences": stops}
    message = server.post("/v1/messages", asked)[1]
    assert (message["stop_reason"], len(message["content"])) == ("max_tokens", 1)
    # An input is an object, and an object with some of the arguments could look complete.
    assert message["content"][0]["input"] == {}
    ends = [data["delta"] for name, data in server.stream("/v1/messages", asked) if name == "message_delta"]
    assert ends[0]["stop_reason"] == "max_tokens"

    if stops is None:
        asked = {**RESPONSES, "max_output_tokens": limits["max_tokens"]}
        response = server.post("/v1/responses", asked)[1]
        assert (response["status"], response["output"][0]["status"]) == ("incomplete", "incomplete")
        assert_is_partial(response["output"][0]["arguments"])
        last = server.stream("/v1/responses", asked)[-1][1]["response"]
        assert (last["status"], last["output"][0]["status"]) == ("incomplete", "incomplete")


def test_two_calls_have_numbers_and_ids_of_their_own(serve: Serve) -> None:
    calls = [("write_file", {"path": "a"}), ("write_file", {"path": "b"})]
    server = serve(WritingPair(written(HERMES, calls)))
    events = server.stream("/v1/chat/completions", CHAT)
    begun = [
        (call["index"], call["id"])
        for _, data in events[:-1]
        for call in data["choices"][0]["delta"].get("tool_calls", ())
        if "id" in call
    ]
    assert [index for index, _ in begun] == [0, 1]
    assert begun[0][1] != begun[1][1]


def test_probabilities_come_with_a_call(serve: Serve) -> None:
    server = serve(WritingPair(written(HERMES, [("write_file", ARGUMENTS)])))
    (choice,) = server.post("/v1/chat/completions", {**CHAT, "logprobs": True, "top_logprobs": 1})[1]["choices"]
    assert len(choice["logprobs"]["content"]) > 20


UNREADABLE = '{"path": "a", "content": "say "hi" to all"}}\n'


def test_arguments_that_are_no_json_are_returned_as_they_are(serve: Serve) -> None:
    text = f'<tool_call>\n{{"name": "write_file", "arguments": {UNREADABLE}</tool_call>\nDone.'
    server = serve(WritingPair(text))
    (choice,) = server.post("/v1/chat/completions", CHAT)[1]["choices"]
    (call,) = choice["message"]["tool_calls"]
    assert (call["function"]["arguments"], choice["message"]["content"]) == (UNREADABLE, "Done.")
    assert "".join(chat_call(server.stream("/v1/chat/completions", CHAT))[2]) == UNREADABLE
    assert server.post("/v1/responses", RESPONSES)[1]["output"][-1]["arguments"] == UNREADABLE
    assert server.post("/v1/messages", ANTHROPIC)[1]["content"][-1]["input"] == {"INVALID_JSON": UNREADABLE}


def test_the_input_of_a_custom_tool_that_is_no_json_is_returned_as_it_is(serve: Serve) -> None:
    call = '<tool_call>\n{"name": "apply_patch", "arguments": %s}\n</tool_call>'
    for arguments, text in (
        ('{"input": "say "hi" to all"}', 'say "hi" to all"}}\n'),
        ('{"input": "a\\ud83d b"}', "a? b"),
        ('{"input": [1]}', "[1]"),
        ('{"text": "a"}', '{"text": "a"}'),
    ):
        (item,) = serve(WritingPair(call % arguments)).post("/v1/responses", CUSTOM_RESPONSES)[1]["output"]
        assert item["input"] == text


def test_the_input_of_a_custom_tool_that_breaks_its_grammar_is_logged(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    form = {"type": "grammar", "syntax": "lark", "definition": 'start: "a"+'}
    asked = {"input": PROMPT, "tools": [{"type": "custom", "name": "p", "format": form}]}
    for text, n_warnings in (("aaa", 0), ("aab", 1)):
        server = serve(WritingPair(f'<tool_call>\n{{"name": "p", "arguments": {{"input": "{text}"}}}}\n</tool_call>'))
        assert server.post("/v1/responses", asked)[1]["output"][0]["input"] == text
        assert len(caplog.records) == n_warnings
    assert caplog.records[0].getMessage() == "the input of the custom tool 'p' does not match its grammar"


PATCH = '*** Begin Patch\n"a" \\ é😀\n*** End Patch\n' + "line\n" * 20
CUSTOM_CHAT = {**BODY, "tools": [{"type": "custom", "custom": {"name": "apply_patch"}}]}
CUSTOM_RESPONSES = {"input": PROMPT, "tools": [{"type": "custom", "name": "apply_patch"}]}


def test_a_custom_tool_is_called_with_plain_text(serve: Serve) -> None:
    server = serve(WritingPair(written(HERMES, [("apply_patch", {"input": PATCH})])))
    (call,) = server.post("/v1/chat/completions", CUSTOM_CHAT)[1]["choices"][0]["message"]["tool_calls"]
    assert (call["type"], call["custom"]) == ("custom", {"name": "apply_patch", "input": PATCH})
    chunks = [data["choices"][0]["delta"] for _, data in server.stream("/v1/chat/completions", CUSTOM_CHAT)[:-1]]
    inputs = [one["custom"]["input"] for delta in chunks for one in delta.get("tool_calls", ())]
    assert "".join(inputs) == PATCH
    assert len(inputs) > 10

    (item,) = server.post("/v1/responses", CUSTOM_RESPONSES)[1]["output"]
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "apply_patch", PATCH)
    events = server.stream("/v1/responses", CUSTOM_RESPONSES)
    deltas = [data["delta"] for name, data in events if name == "response.custom_tool_call_input.delta"]
    (done,) = (data["input"] for name, data in events if name == "response.custom_tool_call_input.done")
    assert "".join(deltas) == done == PATCH
    assert len(deltas) > 10
    assert events[-1][1]["response"]["output"][0]["input"] == PATCH


def test_a_cut_call_of_a_custom_tool_has_the_text_so_far(serve: Serve) -> None:
    server = serve(WritingPair(written(HERMES, [("apply_patch", {"input": PATCH})])))
    (choice,) = server.post("/v1/chat/completions", {**CUSTOM_CHAT, "max_tokens": 40})[1]["choices"]
    text = choice["message"]["tool_calls"][0]["custom"]["input"]
    assert choice["finish_reason"] == "length"
    assert PATCH.startswith(text)
    assert text


def in_namespace(*names: str) -> dict[str, Any]:
    """Return a namespace of tools, in Codex's format for its own agents and MCP servers."""
    tools = [{"type": "function", "name": name, "parameters": {"type": "object"}} for name in names]
    return {"type": "namespace", "name": "agents", "description": "d", "tools": tools}


@pytest.mark.parametrize(("shown", "own"), [("spawn", "spawn"), ("agents__write_file", "write_file")])
def test_a_tool_in_a_namespace_is_called_with_its_namespace(serve: Serve, shown: str, own: str) -> None:
    server = serve(WritingPair(written(HERMES, [(shown, {"a": 1})])))
    body = {**RESPONSES, "tools": [in_namespace("spawn", "write_file"), *RESPONSES["tools"]]}
    whole = server.post("/v1/responses", body)[1]["output"]
    (streamed,) = (data["item"] for name, data in server.stream("/v1/responses", body) if name.endswith("item.done"))
    for item in (*whole, streamed):
        assert (item["type"], item["namespace"], item["name"]) == ("function_call", "agents", own)
        assert item["arguments"] == '{"a": 1}'
