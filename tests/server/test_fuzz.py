"""Random requests get an answer or an explained error, never a failure of the server."""

import json
import os
from http.client import HTTPConnection
from random import Random
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest

from tests.fakes import FakeModel, mixing
from tests.hanging import HANGS_S
from tests.pairs import FakePair
from tests.server.conftest import Serve, n_tickets
from tests.server.test_app import until
from tests.server.test_conversation import ANTHROPIC, CHAT, FIELDS, RESPONSE

N_REQUESTS = int(os.environ.get("TANDEM_FUZZ", "600"))
CUSTOM = {"syntax": "lark", "definition": 'start: "a" /[b-d]+/ -> x'}
PATCH = {"type": "custom", "name": "patch", "format": {"type": "grammar", **CUSTOM}}
BODIES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("/v1/chat/completions", CHAT),
    (
        "/v1/chat/completions",
        {**CHAT, "tools": [{"type": "custom", "custom": {**PATCH, "format": {"grammar": CUSTOM}}}]},
    ),
    ("/v1/completions", {"prompt": "hello"}),
    ("/completion", {"prompt": "hello", "n_predict": 3}),
    ("/infill", {"input_prefix": "a", "input_suffix": "b", "input_extra": [{"text": "c"}], "n_predict": 3}),
    ("/tokenize", {"content": "hello"}),
    ("/detokenize", {"tokens": [1, 2]}),
    ("/apply-template", CHAT),
    ("/v1/responses", RESPONSE),
    ("/v1/responses", {**RESPONSE, "tools": [PATCH, {"type": "namespace", "name": "s", "tools": RESPONSE["tools"]}]}),
    ("/v1/messages", ANTHROPIC),
    ("/v1/messages/count_tokens", ANTHROPIC),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2.5, 1e308, -(1 << 70), "", "a", "required", "text", "user", "assistant", "tool"),
    *(
        "regex",
        "lark",
        "start: (",
        "a{3,}|[^b]$",
        "function",
        "json_object",
        "\ud800",
        "\0",
        "a" * 500,
        [],
        [None],
        [[]],
        {},
        {"type": "text"},
        ["a", "b"],
    ),
    *({"a": {"b": [1, {"c": None}]}}, [{"role": "user", "content": "hi"}], {"0": 1}, [[1, False]], {"type": "tool"}),
)
SCHEMAS: tuple[Any, ...] = (
    *(
        {"type": "string", "pattern": pattern}
        for pattern in (r"^\\d{4}-\\d{2}$", r"\\w+\\.\\/", "(?=a)b", "(?:a|b)*", "[", "a{9999}", '"')
    ),
    *({"type": "string", "format": name} for name in ("date-time", "uuid", "email", "ipv6", "regex", "nothing", 5)),
    *(
        {"enum": values}
        for values in ([], ["a\\b", 'c"d', "e\nf"], [1, None, {"a": [1]}], ["\U0001f600"], [1.5e300], "a")
    ),
    *(
        {"type": "integer", "minimum": low, "maximum": high}
        for low, high in ((0, 9), (9, 0), (-(1 << 63), 1 << 63), (0.5, 0.6))
    ),
    *({"type": "array", "minItems": n, "maxItems": n, "items": {"const": 0}} for n in (0, 3, 100_000, -1)),
    *({"$ref": ref} for ref in ("#", "#/definitions/none", "https://a.example/b.json", "#/$defs/a")),
    {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}, "$ref": "#/$defs/a"},
    {
        "type": "object",
        "properties": {'a"b\\': {"type": "string"}, "": {}, "\n": {"const": "\u2028"}},
        "required": ["", "z"],
    },
    {"type": ["string", "null"], "not": {"const": "a"}, "if": {}, "then": {}, "else": {}},
    {"type": "object", "additionalProperties": {"type": "string", "maxLength": 1 << 40}, "minProperties": 3},
    *({"oneOf": [{"type": "number", "multipleOf": 0.3}, True]}, {"allOf": [{}, False]}, {"type": "any"}, True, {}),
)
SHORT = {"max_tokens": 3, "max_output_tokens": 3, "max_completion_tokens": 3}
SCHEMA_FIELDS = ("json_schema", "schema", "parameters", "input_schema")


def mutated(value: Any, random: Random) -> Any:
    """Return a copy with some parts replaced, removed or added."""
    if random.random() < 0.06:
        return random.choice(VALUES)
    if isinstance(value, dict):
        out = {key: mutated(one, random) for key, one in value.items() if random.random() > 0.04}
        if random.random() < 0.3:
            out[random.choice(FIELDS)] = random.choice(VALUES)
        for key in SCHEMA_FIELDS:
            if key in out and random.random() < 0.5:
                out[key] = random.choice(SCHEMAS)
        return out
    if isinstance(value, list):
        return [mutated(one, random) for one in value for _ in range(random.choice((1, 1, 1, 1, 0, 2)))]
    return value


def send_random(connection: HTTPConnection, random: Random) -> int:
    """Send a random request; check that it is answered or explained, and return the status."""
    path, asked = random.choice(BODIES)
    body = mutated({**asked, **SHORT}, random)
    if isinstance(body, dict) and random.random() < 0.9:
        # A longer answer finds little more and takes most of the time.
        body |= SHORT
    if isinstance(body, dict) and random.random() < 0.2:
        body["json_schema"] = random.choice(SCHEMAS)
    data = json.dumps(body).encode()
    if random.random() < 0.05:
        cut = random.randrange(len(data))
        data = data[:cut] + bytes([random.randrange(256)]) + data[cut + 1 :]
    connection.request("POST", path, data)
    response = connection.getresponse()
    text = response.read()
    assert response.status in (200, 400), (path, body, text)
    if response.status == 400:
        error = json.loads(text)["error"]
        assert error["message"].rstrip().endswith((".", "?", ")", '"', "}")), error
    return response.status


def test_random_requests_are_answered_or_explained(serve: Serve) -> None:
    random = Random(7)
    server = serve(FakePair(FakeModel(mixing(5), n_ctx=96)))
    statuses = set()
    memory = []
    connection = server.connect()
    for number in range(N_REQUESTS):
        if number % (N_REQUESTS // 3) == 0:
            memory.append(psutil.Process().memory_info().rss)
        statuses.add(send_random(connection, random))
    memory.append(psutil.Process().memory_info().rss)
    assert statuses == {200, 400}
    assert server.queue.metrics.n_running == server.queue.metrics.n_waiting == 0
    assert server.post("/v1/chat/completions", {**CHAT, "max_tokens": 3})[0] == 200
    connection.close()
    until(lambda: n_tickets() == 0)
    # The first third fills caches.
    assert memory[-1] - memory[1] < 8 << 20


@pytest.mark.skipif("TANDEM_FUZZ_URL" not in os.environ, reason="TANDEM_FUZZ_URL names no server with a short context")
def test_a_real_model_answers_or_explains_random_requests() -> None:
    random, address = Random(), urlsplit(os.environ["TANDEM_FUZZ_URL"])
    connection = HTTPConnection(address.hostname or "", address.port, timeout=HANGS_S)
    for _ in range(N_REQUESTS):
        send_random(connection, random)
