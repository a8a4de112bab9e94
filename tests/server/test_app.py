"""The routes as seen by a client: answers, streams, errors, access, order and cancellations."""

import asyncio
import gzip
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from app.core.errors import ModelFileError
from app.core.log import logged_to
from app.core.pictures import read_picture
from app.engine.events import PromptProgress
from app.engine.text.reasoning import RenderedPrompt
from app.server import engine_queue
from app.server.answer import Names, PrefillProgress, answered_parts
from app.server.engine_queue import Ticket
from app.server.fields import Fields
from app.server.messages import AnthropicFormat
from app.server.responses import ResponseFormat
from app.worker.jobs import AnswerJob
from app.worker.request import AnswerRequest
from tests.core.test_pictures import png
from tests.fakes import FakeModel, mixing, script
from tests.hanging import HANGS_S
from tests.pairs import FakePair
from tests.server.conftest import UNDRAFTED, Serve, Server, n_tickets

ASKED: list[dict[str, str]] = [{"role": "user", "content": "hello"}]


def chat(**more: Any) -> dict[str, Any]:
    return {"messages": ASKED, "max_tokens": 12, **more}


def endless() -> FakePair:
    """Return a pair whose answers end only with the context."""
    return FakePair(FakeModel(script([1, 2] * 100_000, 0), n_ctx=100_000))


def occupied(server: Server, *, stream: bool = True) -> HTTPConnection:
    """Send a request; return its connection while it is being answered."""
    connection = server.connect()
    connection.request("POST", "/v1/chat/completions", json.dumps({"messages": ASKED, "stream": stream}))
    until(lambda: server.queue.metrics.n_running == 1)
    return connection


def leave(connection: HTTPConnection) -> None:
    assert connection.sock is not None
    connection.sock.close()
    connection.close()


def until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 240
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_chat_completion(server: Server) -> None:
    status, answer = server.post("/v1/chat/completions", chat())
    assert status == 200
    assert (answer["object"], answer["model"]) == ("chat.completion", "fake")
    assert answer["system_fingerprint"].startswith("tandem-")
    assert answer["choices"][0]["message"]["role"] == "assistant"
    usage, timings = answer["usage"], answer["timings"]
    assert usage["prompt_tokens"] == 5
    assert usage["total_tokens"] == 5 + usage["completion_tokens"]
    assert timings["predicted_n"] == usage["completion_tokens"]
    assert {"draft_n", "draft_n_accepted"} <= timings.keys()


def test_a_stream_has_the_same_text_and_ends(server: Server) -> None:
    _, whole = server.post("/v1/chat/completions", chat())
    events = [data for _, data in server.stream("/v1/chat/completions", chat(stream_options={"include_usage": True}))]
    *chunks, usage, done = events
    assert done == "[DONE]"
    assert usage["choices"] == []
    assert usage["usage"]["completion_tokens"] == whole["usage"]["completion_tokens"]
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    assert text == whole["choices"][0]["message"]["content"]
    assert chunks[-1]["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"]
    assert len({chunk["id"] for chunk in chunks}) == 1


def test_a_text_completion(server: Server) -> None:
    _, whole = server.post("/v1/completions", {"prompt": "hello", "max_tokens": 6, "logprobs": 2})
    assert whole["object"] == "text_completion"
    assert len(whole["choices"][0]["logprobs"]["tokens"]) == whole["usage"]["completion_tokens"]
    *chunks, done = [data for _, data in server.stream("/v1/completions", {"prompt": "hello", "max_tokens": 6})]
    assert done == "[DONE]"
    assert "".join(chunk["choices"][0]["text"] for chunk in chunks) == whole["choices"][0]["text"]


def test_a_response(server: Server) -> None:
    _, whole = server.post("/v1/responses", {"input": "hello", "max_output_tokens": 12})
    assert (whole["object"], whole["status"]) == ("response", "incomplete")
    (item,) = whole["output"]
    events = server.stream("/v1/responses", {"input": "hello", "max_output_tokens": 12})
    assert [name for name, _ in events] == [data["type"] for _, data in events]
    assert [data["sequence_number"] for _, data in events] == list(range(len(events)))
    deltas = "".join(data["delta"] for name, data in events if name == "response.output_text.delta")
    assert deltas == item["content"][0]["text"]
    assert events[-1][1]["response"]["output"][0]["content"] == item["content"]


def test_a_response_repeats_the_values_in_use(serve: Serve) -> None:
    own = {"sampling.top_p": 0.7, "sampling.presence_penalty": 0.5, "answer.max_tokens": 3}
    server = serve(settings=UNDRAFTED.over({**own, "answer.reasoning_effort": "max"}))
    asked = {"input": "hello", "frequency_penalty": 0.25, "text": {"verbosity": "low"}}
    expected = {
        "temperature": 0.0,
        "top_p": 0.7,
        "presence_penalty": 0.5,
        "frequency_penalty": 0.25,
        "max_output_tokens": 3,
        "reasoning": {"effort": "xhigh", "summary": None},
        "text": {"format": {"type": "text"}, "verbosity": "low"},
    }
    created = server.stream("/v1/responses", asked)[0][1]["response"]
    for response in (server.post("/v1/responses", asked)[1], created):
        assert {name: response[name] for name in expected} == expected
    requested = {"temperature": 1.5, "top_p": 0.5, "max_output_tokens": 2, "reasoning": {"effort": "low"}}
    response = server.post("/v1/responses", {**asked, **requested})[1]
    assert {name: response[name] for name in requested} == {
        **requested,
        "reasoning": {"effort": "low", "summary": None},
    }


def test_an_anthropic_message(server: Server) -> None:
    _, whole = server.post("/v1/messages", chat(system="be brief"))
    assert (whole["type"], whole["stop_reason"]) == ("message", "max_tokens")
    events = server.stream("/v1/messages", chat(system="be brief"))
    names = [name for name, _ in events]
    assert names[:2] == ["message_start", "content_block_start"]
    assert names[-3:] == ["content_block_stop", "message_delta", "message_stop"]
    deltas = [data["delta"]["text"] for name, data in events if name == "content_block_delta"]
    assert "".join(deltas) == whole["content"][0]["text"]
    # Null breaks a client, and Anthropic's schema requires the field.
    assert whole["content"][0]["citations"] == []


def test_the_stop_sequence_that_ended_a_message_is_named(server: Server) -> None:
    text = server.post("/v1/messages", chat())[1]["content"][0]["text"]
    asked = chat(stop_sequences=["never", text[4:6]])
    _, whole = server.post("/v1/messages", asked)
    assert (whole["stop_reason"], whole["stop_sequence"]) == ("stop_sequence", text[4:6])
    assert whole["content"][0]["text"] == text[: text.index(text[4:6])]
    ends = [data["delta"] for name, data in server.stream("/v1/messages", asked) if name == "message_delta"]
    assert ends == [{"stop_reason": "stop_sequence", "stop_sequence": text[4:6]}]
    _, chatted = server.post("/v1/chat/completions", chat(stop=[text[4:6]]))
    assert chatted["choices"][0]["finish_reason"] == "stop"


def test_tokens_are_counted(server: Server) -> None:
    assert server.post("/v1/messages/count_tokens", chat()) == (200, {"input_tokens": 5})


def test_what_clients_ask_first(server: Server) -> None:
    assert server.get("/health") == (200, {"status": "ok"})
    # Claude Code checks in this way whether the server exists.
    assert server.send("HEAD", "/").status == 200
    (model,) = server.get("/v1/models")[1]["data"]
    assert (model["id"], model["context_length"]) == ("fake", 256)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b"{", None),
        (b"[]", None),
        (b'{"messages": ' + b"[" * 5000 + b"]" * 5000 + b"}", None),
        (b'{"messages": [], "temperature": NaN}', None),
        ({}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content[0].type"),
        ({"messages": [{"role": "nobody", "content": "a"}]}, "messages[0].role"),
        ({"messages": [{"role": "user", "content": 1}]}, "messages[0].content"),
        ({"messages": [123]}, "messages[0]"),
        ({"messages": [{"role": "system", "content": "test"}, {}]}, "messages[1].role"),
        (chat(response_format={"type": "json_object", "schema": 123}), "response_format.schema"),
        (chat(temperature="hot"), "temperature"),
        (chat(temperature=-1), "temperature"),
        (chat(top_k="many"), "top_k"),
        (chat(max_tokens=-2), "max_tokens"),
        (chat(n=0), "n"),
        (chat(stop=[1]), "stop"),
        (chat(json_schema=False), "json_schema"),
        (chat(seed="x"), "seed"),
        (chat(stream="yes"), "stream"),
        (chat(response_format={"type": "xml"}), "response_format.type"),
        (chat(response_format={"type": "json_schema"}), "response_format.json_schema.schema"),
        (chat(response_format={"type": "json_schema", "json_schema": {}}), "response_format.json_schema.schema"),
        (
            chat(response_format={"type": "json_schema", "json_schema": {"schema": None}}),
            "response_format.json_schema.schema",
        ),
        (chat(functions=[{"name": "f"}]), "functions"),
        (chat(function_call="auto"), "function_call"),
        (chat(tool_choice="required"), "tool_choice"),
        (chat(tools=[{"type": "function", "function": {}}]), "tools[0].function.name"),
        (chat(logit_bias={"a": "b"}), "logit_bias"),
        (chat(top_logprobs=2), "top_logprobs"),
        (chat(grammar='root ::= "a"', json_schema={}), "grammar"),
        (chat(messages=[{"role": "user", "content": "a" * 300}]), "messages"),
    ],
)
def test_a_wrong_request_is_explained(server: Server, body: object, param: str | None) -> None:
    status, answer = server.post("/v1/chat/completions", body)
    assert status == 400
    assert answer["error"]["type"] == "invalid_request_error"
    assert answer["error"]["param"] == param
    assert answer["error"]["message"].endswith((".", ")"))


def test_tandem_run_gets_the_refusal_of_a_picture_in_its_own_words(serve: Serve) -> None:
    part = {"type": "image_url", "image_url": {"url": read_picture(png(4, 3)).data_url}}
    body = {"tandem": True, "messages": [{"role": "user", "content": [part]}]}
    status, answer = serve().post("/v1/chat/completions", body)
    assert (status, answer["error"]["type"], answer["error"]["code"]) == (400, "invalid_request_error", None)
    assert "cannot read pictures here: it is loaded without a projector. Name" in answer["error"]["message"]


def test_a_text_reaches_the_end_of_the_context(serve: Serve) -> None:
    pair = FakePair(FakeModel(script([1, 2] * 100, 0), n_ctx=64))
    status, answer = serve(pair).post("/v1/chat/completions", {"messages": ASKED, "temperature": 0})
    assert (status, answer["choices"][0]["finish_reason"]) == (200, "length")


def test_overflow_is_told_in_the_words_that_clients_recognize(server: Server) -> None:
    long = "a" * 300
    messages = [{"role": "user", "content": long}]
    for path, body, param in (
        ("/v1/chat/completions", {"messages": messages}, "messages"),
        ("/v1/completions", {"prompt": long}, "prompt"),
        ("/completion", {"prompt": long}, "prompt"),
        ("/v1/responses", {"input": long}, "input"),
    ):
        # A stream is refused before it begins.
        status, answer = server.post(path, {**body, "stream": path.startswith("/v1")})
        error = answer["error"]
        assert status == 400
        assert "exceeds the available context size (256 tokens)" in error["message"]
        assert "maximum context length is 256 tokens" in error["message"]
        assert (error["code"], error["param"]) == ("context_length_exceeded", param)
        assert (error["n_prompt_tokens"], error["n_ctx"]) == (300, 256)
    error = server.post("/v1/messages", {"messages": messages, "max_tokens": 5})[1]["error"]
    assert error["message"].startswith("prompt is too long: 300 tokens > 256 maximum")
    assert (error["n_prompt_tokens"], error["n_ctx"]) == (300, 256)


def test_a_message_starts_with_its_prompt_tokens(server: Server) -> None:
    for cached in (0, 4):
        events = dict(server.stream("/v1/messages", chat()))
        usage = events["message_start"]["message"]["usage"]
        assert usage == {"input_tokens": 5 - cached, "cache_read_input_tokens": cached, "output_tokens": 0}
        assert events["message_delta"]["usage"]["input_tokens"] == 5 - cached


def test_timings_are_numbers_on_the_last_event(server: Server) -> None:
    timings = server.post("/v1/chat/completions", chat(max_tokens=1))[1]["timings"]
    assert all(isinstance(value, int | float) for value in timings.values())
    assert {"prompt_per_token_ms", "predicted_per_token_ms"} <= timings.keys()
    asked = chat(stream_options={"include_usage": True}, timings_per_token=True)
    *chunks, usage, _ = [data for _, data in server.stream("/v1/chat/completions", asked)]
    assert usage["timings"]["predicted_n"] == 12
    counts = [chunk["timings"]["predicted_n"] for chunk in chunks if "timings" in chunk]
    assert counts == sorted(counts)
    assert len(counts) > 2


@pytest.mark.parametrize("path", ["/completion", "/v1/completions"])
def test_an_empty_prompt_has_an_empty_answer(server: Server, path: str) -> None:
    status, answer = server.post(path, {"prompt": "", "max_tokens": 4})
    shown = answer["choices"][0] if "choices" in answer else answer
    assert (status, shown.get("text", shown.get("content")), answer["timings"]["prompt_n"]) == (200, "", 0)
    assert "length" in (shown.get("finish_reason"), answer.get("stop_type", "").replace("limit", "length"))


def test_the_token_that_ends_an_answer_has_no_probability(serve: Serve) -> None:
    server = serve(FakePair(FakeModel(script([1, 2, 3], 5), n_ctx=64)))
    (choice,) = server.post("/v1/chat/completions", chat(logprobs=True))[1]["choices"]
    assert choice["finish_reason"] == "stop"
    assert [one["token"] for one in choice["logprobs"]["content"]] == ["a", "b", "c"]


def test_several_answers_are_choices(server: Server) -> None:
    _, whole = server.post("/v1/chat/completions", chat(n=2))
    assert [choice["index"] for choice in whole["choices"]] == [0, 1]
    usage = whole["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (5, 24, 29)
    several = server.post("/v1/completions", {"prompt": ["ab", "abc"], "max_tokens": 3, "n": 2})[1]["usage"]
    assert (several["prompt_tokens"], several["completion_tokens"]) == (5, 12)
    *chunks, done = [data for _, data in server.stream("/v1/chat/completions", chat(n=2))]
    assert done == "[DONE]"
    for index, choice in enumerate(whole["choices"]):
        mine = [chunk["choices"][0] for chunk in chunks if chunk["choices"][0]["index"] == index]
        assert "".join(one["delta"].get("content", "") for one in mine) == choice["message"]["content"]
        assert mine[-1]["finish_reason"] == "length"


def test_a_text_completion_repeats_its_prompt_on_request(server: Server) -> None:
    asked = {"prompt": ["ab", "cd"], "max_tokens": 3}
    plain = [choice["text"] for choice in server.post("/v1/completions", asked)[1]["choices"]]
    echoed = [choice["text"] for choice in server.post("/v1/completions", {**asked, "echo": True})[1]["choices"]]
    assert echoed == ["ab" + plain[0], "cd" + plain[1]]
    assert server.post("/v1/completions", {"prompt": [1, 2], "echo": True})[0] == 400


def test_probabilities_leave_out_the_stop_string(server: Server) -> None:
    text = server.post("/v1/completions", {"prompt": "hello", "max_tokens": 8})[1]["choices"][0]["text"]
    asked = {"prompt": "hello", "max_tokens": 8, "logprobs": 1, "stop": text[4:6]}
    choice = server.post("/v1/completions", asked)[1]["choices"][0]
    assert "".join(choice["logprobs"]["tokens"]) == choice["text"] == text[:4]
    assert choice["logprobs"]["text_offset"] == [0, 1, 2, 3]


@pytest.mark.parametrize("stop", [slice(4, 5), slice(4, 6), slice(3, 7), slice(0, 5)])
def test_a_stream_has_the_same_probabilities_as_a_whole_answer(server: Server, stop: slice) -> None:
    text = server.post("/v1/chat/completions", chat())[1]["choices"][0]["message"]["content"]
    for stops in ([text[stop], "never"], ["never"]):
        asked = chat(logprobs=True, top_logprobs=2, stop=stops)
        (whole,) = server.post("/v1/chat/completions", asked)[1]["choices"]
        chunks = [data["choices"][0] for _, data in server.stream("/v1/chat/completions", asked)[:-1]]
        with_logprobs = [chunk for chunk in chunks if "logprobs" in chunk]
        assert all("content" in chunk["delta"] for chunk in with_logprobs)
        streamed = [one for chunk in with_logprobs for one in chunk["logprobs"]["content"]]
        assert streamed == (whole["logprobs"] or {"content": []})["content"]
        assert "".join(one["token"] for one in streamed) == whole["message"]["content"]


def test_probabilities_of_a_response_belong_to_its_text(server: Server) -> None:
    asked = {"input": "hello", "max_output_tokens": 12, "top_logprobs": 2}
    (part,) = server.post("/v1/responses", asked)[1]["output"][0]["content"]
    assert "".join(one["token"] for one in part["logprobs"]) == part["text"]
    assert len(part["logprobs"][0]["top_logprobs"]) == 2
    events = server.stream("/v1/responses", asked)
    streamed = [one for name, data in events if name == "response.output_text.delta" for one in data["logprobs"]]
    assert streamed == part["logprobs"] == events[-1][1]["response"]["output"][0]["content"][0]["logprobs"]


def test_each_api_has_its_own_shape_of_errors(server: Server) -> None:
    status, answer = server.post("/v1/responses", {"input": "hello", "background": True})
    assert (status, answer["error"]["param"]) == (400, "background")
    status, answer = server.post("/v1/messages", {"messages": ASKED})
    assert (status, answer["type"], answer["error"]["type"]) == (400, "error", "invalid_request_error")
    assert server.get("/v1/nothing")[0] == 404
    assert ("GET", "/v1/nothing", 404) in server.ended


@pytest.mark.parametrize("encoding", ["", "Identity"])
def test_a_body_that_is_not_compressed_is_read(server: Server, encoding: str) -> None:
    assert server.post("/v1/chat/completions", chat(), **{"Content-Encoding": encoding})[0] == 200


def test_a_body_that_cannot_be_read_says_why(server: Server) -> None:
    status, answer = server.post("/v1/chat/completions", gzip.compress(b"{}"), **{"Content-Encoding": "gzip"})
    assert (status, answer["error"]["message"]) == (415, "The body is compressed (gzip). Send it without compression.")
    for wrong, message in (
        (
            {"messages": [{"role": "user", "content": 1}]},
            "messages[0].content is 1; it must be a string or an array of parts.",
        ),
        (chat(stop=5), "stop is 5; it must be a string or an array of strings."),
    ):
        assert server.post("/v1/chat/completions", wrong)[1]["error"]["message"] == message


def test_the_properties_and_counters_that_clients_of_llama_server_read(server: Server) -> None:
    for _ in range(2):
        server.post("/v1/chat/completions", chat(**{"speculative.n_max": 3}))
    shown = server.get("/props")[1]
    assert (shown["model_path"], shown["total_slots"], shown["model_alias"]) == ("fake.gguf", 1, "fake")
    assert {"chat_template", "bos_token", "eos_token", "modalities"} <= shown.keys()
    assert shown["default_generation_settings"]["n_ctx"] == 256
    text = server.send("GET", "/metrics").read().decode()
    values = dict(line.split(" ") for line in text.splitlines() if not line.startswith("#"))
    assert values["llamacpp:prompt_tokens_cached_total"] == "4"
    assert values["llamacpp:n_tokens_max"] == "17"
    assert (values["llamacpp:tokens_predicted_total"], values["tandem:requests_answered_total"]) == ("24", "2")
    n_steps = int(values["llamacpp:n_decode_total"])
    assert 0 < int(values["llamacpp:spec_decode_num_drafts_total"]) <= n_steps
    n_drafted = int(values["llamacpp:spec_decode_num_draft_tokens_total"])
    assert 0 < int(values["llamacpp:spec_decode_num_accepted_tokens_total"]) <= n_drafted


def test_a_body_has_a_limit(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.server.service._LONGEST_BODY", 1 << 20)
    status, answer = server.post("/v1/chat/completions", b'{"messages": "' + b"a" * (2 << 20) + b'"}')
    assert (status, answer["error"]["type"]) == (413, "request_too_large")


@pytest.mark.parametrize("stream", [True, False])
def test_a_closed_connection_ends_its_answer(serve: Serve, stream: bool) -> None:
    server = serve(endless())
    leave(occupied(server, stream=stream))
    until(lambda: server.queue.metrics.n_running == 0)
    assert server.post("/v1/chat/completions", chat(max_tokens=3))[0] == 200


def test_a_request_ends_when_its_client_leaves_before_its_turn(serve: Serve) -> None:
    server = serve(endless())
    first, second = occupied(server), server.connect()
    second.request("POST", "/v1/completions", json.dumps({"prompt": "hello"}))
    until(lambda: server.queue.metrics.n_waiting == 1)
    leave(second)
    until(lambda: ("POST", "/v1/completions", 503) in server.ended)
    assert server.queue.metrics.n_waiting == 0
    leave(first)


def test_requests_are_answered_in_order_and_too_many_are_refused(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_queue, "MOST_WAITING", 3)
    pair = endless()
    server = serve(pair)
    first = occupied(server)
    waiting = []
    for number in range(3):
        thread = threading.Thread(target=_answer_in_turn, args=(server, number))
        thread.start()
        waiting.append(thread)
        until(lambda number=number: server.queue.metrics.n_waiting == number + 1)  # type: ignore[misc]
    response = server.send("POST", "/v1/chat/completions", chat())
    assert response.status == 503
    assert int(response.getheader("retry-after") or 0) >= 1
    leave(first)
    for thread in waiting:
        thread.join(HANGS_S)
    assert [sampler.seed for sampler in pair.samplers[1:]] == [1, 2, 3]


def _answer_in_turn(server: Server, number: int) -> None:
    assert server.post("/v1/chat/completions", chat(max_tokens=3, temperature=1, seed=number + 1))[0] == 200


def test_a_waiting_stream_sends_comments(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.server.answer.KEEP_ALIVE_S", 0.05)
    server = serve(endless())
    first = occupied(server)
    second = server.send("POST", "/v1/chat/completions", chat(stream=True))
    lines = [second.readline() for _ in range(6)]
    assert b": keep-alive\n" in lines
    leave(first)
    assert second.read().endswith(b"data: [DONE]\n\n")


async def until_silence(parts: AsyncIterator[Any]) -> AsyncIterator[Any]:
    """Yield the parts up to the first None."""
    async for part in parts:
        yield part
        if part is None:
            return


async def test_a_stream_sends_comments_while_its_prompt_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.server.answer.KEEP_ALIVE_S", 0.05)
    ticket = Ticket(AnswerJob(AnswerRequest(())))

    async def read_on() -> None:
        for done in range(1000):
            ticket.put(PromptProgress(1, drafting=False, done=done, total=1000))
            await asyncio.sleep(0.01)

    reading = asyncio.create_task(read_on())
    kinds = [type(part) async for part in until_silence(answered_parts(ticket, AnswerRequest(())))]
    assert set(kinds[:-1]) == {PrefillProgress}
    assert kinds[-1] is type(None)
    assert not reading.done()
    reading.cancel()


@pytest.mark.parametrize("stream", [False, True])
def test_an_unexpected_failure_is_one_sentence_and_its_traceback_is_logged(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str], stream: bool
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("app.server.chat.ChatFormat.part" if stream else "app.server.chat.ChatFormat.whole", fail)
    log = tmp_path / "logs" / "tandem.log"
    with logged_to(log):
        response = server.send("POST", "/v1/chat/completions", chat(stream=stream))
        text = response.read().decode()
    assert response.status == (200 if stream else 500)
    assert json.loads(text.split("data: ")[-1])["error"]["message"] == "The server failed unexpectedly."
    assert "Traceback" in log.read_text()
    assert "ZeroDivisionError" in log.read_text()
    assert "Traceback" not in "".join(capfd.readouterr())


def test_streams_are_kept_alive_by_events_of_the_api() -> None:
    names = Names("", "fake")
    asked = (names, Fields({"tools": [{"type": "function", "name": "f" * 1000}]}), 0, AnswerRequest(()))
    assert AnthropicFormat(*asked).keep_alive() == 'event: ping\ndata: {"type": "ping"}\n\n'
    event = ResponseFormat(*asked).keep_alive()
    assert event.startswith("event: response.in_progress\n")
    # Clients such as Codex send a quarter of a megabyte of tools.
    assert "f" * 1000 not in event


def test_fields_override_the_settings(serve: Serve) -> None:
    pair = FakePair(FakeModel(mixing(5), n_ctx=256))
    settings = UNDRAFTED.over({"sampling.seed": 1, "answer.max_tokens": 4})
    server = serve(pair, settings=settings)
    assert server.post("/v1/chat/completions", {"messages": ASKED})[1]["usage"]["completion_tokens"] == 4
    server.post("/v1/chat/completions", chat(temperature=1, seed=7, json_schema={"type": "object"}))
    assert pair.samplers[-1].seed == 7
    assert pair.guidance is not None
    assert pair.guidance.schema == {"type": "object"}


def test_an_error_of_the_engine_names_no_files(serve: Serve) -> None:
    pair = endless()

    def fail(*_: object) -> RenderedPrompt:
        raise ModelFileError("/home/me/secret.gguf is gone.")

    pair.prompts.build = fail  # type: ignore[method-assign, assignment]
    server = serve(pair)
    status, answer = server.post("/v1/chat/completions", chat())
    assert status == 500
    assert "secret" not in json.dumps(answer)
    assert "secret" in server.queue.metrics.last_error


def test_fifty_clients_of_which_some_leave(server: Server) -> None:
    statuses: list[int] = []

    def ask(number: int) -> None:
        if number % 3:
            statuses.append(server.post("/v1/chat/completions", chat(max_tokens=5))[0])
            return
        connection = server.connect()
        connection.request("POST", "/v1/chat/completions", json.dumps(chat(stream=True)))
        connection.close()

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANGS_S)
    assert statuses == [200] * 33
    until(lambda: server.queue.metrics.n_running == server.queue.metrics.n_waiting == 0)
    until(lambda: n_tickets() == 0)
