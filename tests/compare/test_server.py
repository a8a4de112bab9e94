"""A running server as a side: replies, errors and keys."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from app.compare.race import Run, RunEnded, Steps, in_process, race
from app.compare.server import Server, contender
from app.conversations.message import Message, Role
from app.core.errors import AppError, UsageError
from app.engine.types import FinishReason, SamplingParams
from app.worker.request import AnswerRequest
from tests.fakes import FakeModel, mixing
from tests.pairs import FakePair

TIMINGS: dict[str, Any] = {
    "prompt_n": 5,
    "prompt_ms": 20.0,
    "predicted_n": 9,
    "predicted_ms": 80.0,
    "draft_n": 8,
    "draft_n_accepted": 6,
}
ANSWER: dict[str, Any] = {
    "choices": [{"message": {"content": " Blue. "}, "finish_reason": "length"}],
    "timings": TIMINGS,
}
REQUEST = AnswerRequest((Message(Role.USER, "abc"),), SamplingParams(temperature=0.5, seed=7), max_tokens=9)

Play = Callable[..., str]


@pytest.fixture
def play() -> Iterator[Play]:
    """Starts a server that gives a status and a body; `play.asked` and `play.keys` hold what it was asked."""
    started: list[ThreadingHTTPServer] = []
    release = threading.Event()

    def start(body: object, status: int = 200, *, hold: bool = False, to: str = "") -> str:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                self.do_GET()

            def do_GET(self) -> None:
                keys.append(self.headers["Authorization"])
                if hold:
                    release.wait(20)
                self.send_response(status)
                self.send_header("Content-Length", str(len(raw)))
                if to:
                    self.send_header("Location", to)
                self.end_headers()
                # The client may have given up.
                with suppress(OSError):
                    self.wfile.write(raw)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        started.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        return f"http://127.0.0.1:{server.server_address[1]}"

    asked: list[dict[str, Any]] = []
    keys: list[str | None] = []
    start.asked, start.keys = asked, keys  # type: ignore[attr-defined]
    yield start
    release.set()
    for server in started:
        server.shutdown()
        server.server_close()


def ask(url: str, cancelled: Callable[[], bool] = lambda: False, **options: Any) -> Run:
    steps = Steps(contender(Server(url, **options)).answer(REQUEST, cancelled))
    list(steps)
    return steps.result


def test_the_servers_own_timings_are_taken(play: Play) -> None:
    run = ask(play(ANSWER))

    assert run.text == "Blue."
    assert run.ns_per_token == 10e6
    assert (run.stats.draft_n, run.stats.draft_n_accepted) == (8, 6)
    assert run.stats.first_token_ns == 20e6
    assert run.reason is FinishReason.LENGTH


def test_reasoning_is_separate(play: Play) -> None:
    message = {"content": None, "reasoning_content": " Hm. "}
    found = ask(play({**ANSWER, "choices": [{"message": message, "finish_reason": "length"}]}))
    assert (found.text, found.reasoning) == ("", "Hm.")


def test_it_gets_the_same_request_without_a_cached_prompt(play: Play) -> None:
    ask(play(ANSWER) + "/v1/")
    (body,) = play.asked  # type: ignore[attr-defined]

    assert body["messages"] == [{"role": "user", "content": "abc"}]
    assert body["cache_prompt"] is False
    assert (body["temperature"], body["seed"], body["max_tokens"]) == (0.5, 7, 9)


def test_it_alternates_with_the_pair(play: Play) -> None:
    pair = FakePair(FakeModel(mixing(1)))
    both = [in_process(pair, "plain", None), contender(Server(play(ANSWER)))]
    work = race(both, REQUEST, 2, lambda: False)
    ended = [event.run.contender for event in work if isinstance(event, RunEnded)]
    assert ended == ["plain", "server", "plain", "server", "server", "plain"]
    assert [b["max_tokens"] for b in play.asked] == [9, 9, 9]  # type: ignore[attr-defined]


def test_a_reused_prompt_is_noticed(play: Play) -> None:
    run = ask(play({**ANSWER, "timings": {**TIMINGS, "cache_n": 4}}))
    assert run.notices == ("the server reused a cached prompt",)


@pytest.mark.parametrize(
    "body",
    [
        [],
        {"choices": []},
        {**ANSWER, "timings": None},
        {"choices": ANSWER["choices"]},
        {**ANSWER, "timings": {**TIMINGS, "predicted_ms": "nan"}},
        {**ANSWER, "timings": {**TIMINGS, "predicted_n": -1}},
        {**ANSWER, "timings": {**TIMINGS, "predicted_ms": -1.0}},
        {**ANSWER, "choices": [{"message": {"content": 3}}]},
        {**ANSWER, "choices": [{"message": "x"}]},
        b"<html>",
        b"[" * 100_000,
    ],
)
def test_an_invalid_reply_is_an_error(play: Play, body: object) -> None:
    with pytest.raises(AppError, match=r"127\.0\.0\.1"):
        ask(play(body))


def test_an_http_error_has_its_reason(play: Play) -> None:
    with pytest.raises(AppError, match=r"answers 503: .*loading") as error:
        ask(play(b"the model is \x1b[31mloading", 503))
    assert "\x1b" not in error.value.message


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(AppError, match="cannot be reached"):
        ask("http://127.0.0.1:9")


def test_a_server_that_is_too_slow(play: Play) -> None:
    with pytest.raises(AppError, match=r"did not answer within 0\.05 seconds"):
        ask(play(ANSWER, hold=True), timeout_s=0.05)


def test_a_stopped_answer_does_not_count(play: Play) -> None:
    assert ask(play(ANSWER), lambda: True).reason is FinishReason.CANCELLED


def test_it_is_introduced_by_a_token_with_timings_and_its_model(play: Play) -> None:
    told = {"model_path": "/home/me/m.gguf", "build_info": "b1", "total_slots": 4}
    assert Server(play({**ANSWER, **told})).introduce() == {"model_path": "m.gguf", "build_info": "b1"}
    assert play.asked[-1]["max_tokens"] == 1  # type: ignore[attr-defined]
    with pytest.raises(AppError, match="no timings"):
        Server(play({"choices": ANSWER["choices"]})).introduce()


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8080",
        "file:///etc/passwd",
        "ftp://x/",
        "http://",
        "http://[::1",
        "http://a b/",
        "http://a:x",
    ],
)
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="not a server URL"):
        Server(url)


def test_a_key_goes_to_the_server_and_not_to_where_it_redirects(play: Play) -> None:
    elsewhere = play(ANSWER)
    assert ask(play(b"", 302, to=f"{elsewhere}/"), key="secret").text == "Blue."
    assert play.keys == ["Bearer secret", None]  # type: ignore[attr-defined]


def test_a_server_that_wants_a_key_says_how_to_give_it(play: Play) -> None:
    with pytest.raises(AppError, match="answers 401: no key") as error:
        Server(play(b"no key", 401)).introduce()
    assert "--api-key-env" in error.value.hint


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "schl\u00fcssel"])
def test_an_invalid_key_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(UsageError) as error:
        Server("http://127.0.0.1:1", key=key)
    assert key not in error.value.message
