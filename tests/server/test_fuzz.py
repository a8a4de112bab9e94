"""Random requests get an answer or an explained error, never a failure of the server."""

from __future__ import annotations

import json
import os
from random import Random
from typing import Any

import psutil

from tests.fakes import FakeModel, mixing
from tests.pairs import FakePair
from tests.server.conftest import Serve, n_tickets
from tests.server.test_app import until
from tests.server.test_conversation import ANTHROPIC, CHAT, RESPONSE

N_REQUESTS = int(os.environ.get("TANDEM_FUZZ", "600"))
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": {"prompt": "hello"},
    "/completion": {"prompt": "hello", "n_predict": 3},
    "/infill": {"input_prefix": "a", "input_suffix": "b", "input_extra": [{"text": "c"}], "n_predict": 3},
    "/tokenize": {"content": "hello"},
    "/detokenize": {"tokens": [1, 2]},
    "/apply-template": CHAT,
    "/v1/responses": RESPONSE,
    "/v1/messages": ANTHROPIC,
    "/v1/messages/count_tokens": ANTHROPIC,
}
FIELDS = (
    *("messages", "prompt", "input", "system", "tools", "tool_choice", "stream", "stream_options", "stop", "seed", "n"),
    *("max_tokens", "max_output_tokens", "temperature", "top_p", "top_k", "logprobs", "top_logprobs", "logit_bias"),
    *("response_format", "json_schema", "grammar", "reasoning", "reasoning_effort", "chat_template_kwargs", "thinking"),
    *("output_config", "suffix", "echo", "best_of", "n_probs", "response_fields", "return_progress", "ignore_eos"),
    *("speculative", "speculative.n_max", "cache_prompt", "t_max_predict_ms", "parallel_tool_calls", "custom"),
    *("text", "instructions", "content", "role", "type", "function", "name", "parameters", "tool_calls", "tandem"),
    *("tool_call_id", "arguments", "input_schema", "format", "schema", "stop_sequences", "metadata", "mirostat"),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2.5, 1e308, -(1 << 70), "", "a", "required", "text", "user", "assistant", "tool"),
    *("function", "json_object", "\ud800", "\0", "a" * 500, [], [None], [[]], {}, {"type": "text"}, ["a", "b"]),
    *({"a": {"b": [1, {"c": None}]}}, [{"role": "user", "content": "hi"}], {"0": 1}, [[1, False]], {"type": "tool"}),
)


def mutated(value: Any, random: Random) -> Any:
    """Return a copy with some parts replaced, removed or added."""
    if random.random() < 0.06:
        return random.choice(VALUES)
    if isinstance(value, dict):
        out = {key: mutated(one, random) for key, one in value.items() if random.random() > 0.04}
        if random.random() < 0.3:
            out[random.choice(FIELDS)] = random.choice(VALUES)
        return out
    if isinstance(value, list):
        return [mutated(one, random) for one in value for _ in range(random.choice((1, 1, 1, 1, 0, 2)))]
    return value


def test_random_requests_are_answered_or_explained(serve: Serve) -> None:
    random = Random(7)
    server = serve(FakePair(FakeModel(mixing(5), n_ctx=96)))
    statuses = set()
    memory = []
    connection = server.connect()
    for number in range(N_REQUESTS):
        if number % (N_REQUESTS // 3) == 0:
            memory.append(psutil.Process().memory_info().rss)
        path = random.choice(list(BODIES))
        body = mutated({**BODIES[path], "max_tokens": 3, "max_output_tokens": 3}, random)
        data = json.dumps(body).encode()
        if random.random() < 0.05:
            cut = random.randrange(len(data))
            data = data[:cut] + bytes([random.randrange(256)]) + data[cut + 1 :]
        connection.request("POST", path, data)
        response = connection.getresponse()
        text = response.read()
        assert response.status in (200, 400), (path, body, text)
        statuses.add(response.status)
        if response.status == 400:
            error = json.loads(text)["error"]
            assert error["message"].rstrip().endswith((".", "?", ")", '"', "}")), error
    assert statuses == {200, 400}
    assert server.queue.metrics.n_running == server.queue.metrics.n_waiting == 0
    assert server.post("/v1/chat/completions", {**CHAT, "max_tokens": 3})[0] == 200
    connection.close()
    until(lambda: n_tickets() == 0)
    # The first third fills caches.
    assert psutil.Process().memory_info().rss - memory[1] < 8 << 20
