"""Schemas and tool calls of `tandem serve`: drafts against none, and how soon arguments stream.

    python -m tests.bench.structured --target T.gguf --draft D.gguf [--rounds 4] [--first 2]

`--rounds`: answers under a JSON schema, answers that must call a tool, and plain text, each with automatic drafting and
without drafts in random order, greedy and at temperature 0.7 with the same seed. Prints the ratio of tokens per second.

`--first`: time to the first streamed byte of a call's arguments in every API, over the time to the first token of plain
text after the same prompt; both read the whole prompt.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from typing import Any

from tests.bench.serving import Program, free_port

SUBJECTS = ("a used bicycle", "a small hotel in Lisbon", "a textbook of botany", "a coffee machine", "a night train")
_TEXT, _NUMBER = {"type": "string"}, {"type": "number"}
OFFER: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": _TEXT,
        "category": {"enum": ["travel", "household", "books", "sports"]},
        "price": _NUMBER,
        "currency": {"enum": ["EUR", "USD"]},
        "in_stock": {"type": "boolean"},
        "seller": {"type": "object", "properties": {"name": _TEXT, "city": _TEXT}, "required": ["name", "city"]},
        "description": _TEXT,
        "rating": {"type": "integer", "minimum": 1, "maximum": 5},
        "features": {
            "type": "array",
            "minItems": 4,
            "maxItems": 6,
            "items": {"type": "object", "properties": {"name": _TEXT, "value": _TEXT}, "required": ["name", "value"]},
        },
    },
    "required": ["title", "category", "price", "currency", "in_stock", "seller", "description", "rating", "features"],
    "additionalProperties": False,
}
WRITE: dict[str, Any] = {
    "type": "object",
    "properties": {"content": {"type": "string", "minLength": 900, "maxLength": 900}, "path": _TEXT},
    "required": ["content", "path"],
}
_NOTES = "Tandem is a small program that keeps a list of notes. " * 20


def function(name: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool of the chat API."""
    return {"type": "function", "function": {"name": name, "description": name, "parameters": parameters}}


KINDS: dict[str, dict[str, Any]] = {
    "schema": {"response_format": {"type": "json_schema", "json_schema": {"name": "offer", "schema": OFFER}}},
    "call": {"tools": [function("publish_offer", OFFER)], "tool_choice": "required"},
    "text": {},
}


class Served(Program):
    """`tandem serve` in a process that is stopped between requests."""

    def stream(self, path: str, body: Mapping[str, Any]) -> Iterator[tuple[float, dict[str, Any]]]:
        """Yield the events of an answer, each after the seconds since the request."""
        self._send(signal.SIGCONT)
        connection = HTTPConnection("127.0.0.1", self.port, timeout=600)
        began = time.perf_counter()
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        response = connection.getresponse()
        if response.status != 200:
            raise SystemExit(response.read().decode())
        for line in response:
            if line.startswith(b"data: {"):
                yield time.perf_counter() - began, json.loads(line[6:])
        connection.close()
        self._send(signal.SIGSTOP)

    def prompt_of(self, messages: list[dict[str, str]], tools: list[Any]) -> str:
        """Return the prompt that a chat request has."""
        self._send(signal.SIGCONT)
        connection = HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("POST", "/apply-template", json.dumps({"messages": messages, "tools": tools}))
        return str(json.loads(connection.getresponse().read())["prompt"])


@contextmanager
def served(args: argparse.Namespace) -> Iterator[Served]:
    """Start `tandem serve` with folders of its own."""
    with tempfile.TemporaryDirectory() as home:
        folders = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        port = free_port()
        command = [sys.executable, "-m", "app", "serve", "--port", str(port), "--ctx", "4096"]
        command += ["--target", str(args.target), "--draft", str(args.draft)]
        server = Served("tandem", command, {**os.environ, **dict.fromkeys(folders, home)}, port)
        try:
            yield server
        finally:
            server.close()


def print_speeds(server: Served, kinds: Sequence[str], rounds: int, n_tokens: int, random: Random) -> None:
    """Print tokens per second with and without drafts, and their ratio, of each kind of answer."""
    for kind in kinds:
        more = KINDS[kind]
        for temperature in (0.0, 0.7):
            tokens, seconds, drafted = dict.fromkeys((True, False), 0), dict.fromkeys((True, False), 0.0), [0, 0]
            for number in range(rounds):
                ask = f"Describe an offer for {SUBJECTS[number % len(SUBJECTS)]}, with four features."
                body = {"messages": [{"role": "user", "content": ask}], "stream": True, "max_tokens": n_tokens, **more}
                body |= {"temperature": temperature, "seed": number, "timings_per_token": True}
                for with_drafts in random.sample((True, False), 2):
                    asked = body if with_drafts else {**body, "speculative.n_max": 0}
                    events = [event for _, event in server.stream("/v1/chat/completions", asked)]
                    timings = [event["timings"] for event in events if "timings" in event][-1]
                    tokens[with_drafts] += timings["predicted_n"] - 1
                    seconds[with_drafts] += (timings["predicted_ms"] + timings.get("draft_prompt_ms", 0.0)) / 1e3
                    if with_drafts:
                        drafted[0] += timings["draft_n"]
                        drafted[1] += timings["draft_n_accepted"]
            speeds = {key: tokens[key] / seconds[key] for key in tokens}
            print(
                f"{kind} at {temperature}: {speeds[True]:.2f} tok/s, without drafts {speeds[False]:.2f},"
                f" ratio {speeds[True] / speeds[False]:.2f}; {drafted[1]} of {drafted[0]} drafted tokens accepted,"
                f" {tokens[True]} tokens",
                flush=True,
            )


def arguments_in(event: dict[str, Any]) -> str:
    """Return the text of arguments in an event of any API."""
    chat = (call for choice in event.get("choices", ()) for call in choice["delta"].get("tool_calls", ()))
    if text := "".join(call["function"].get("arguments", "") for call in chat):
        return text
    match event.get("type"):
        case "response.function_call_arguments.delta":
            return str(event["delta"])
        case "content_block_delta":
            return str(event["delta"].get("partial_json", ""))
    return ""


def print_first(server: Served, rounds: int) -> None:
    """Print how soon the arguments of a call begin in every API, over plain text after the same prompt."""
    common = {"stream": True, "temperature": 0, "cache_prompt": False}
    apis = {
        "/v1/chat/completions": ("messages", function("write", WRITE), "required"),
        "/v1/responses": ("input", {"type": "function", "name": "write", "parameters": WRITE}, "required"),
        "/v1/messages": ("messages", {"name": "write", "input_schema": WRITE}, {"type": "any"}),
    }
    for path, (field, tool, choice) in apis.items():
        for _ in range(rounds):
            ask = [{"role": "user", "content": f"{_NOTES}Write a report of 900 characters to report.txt."}]
            prompt = server.prompt_of(ask, [function("write", WRITE)])
            plain = {"prompt": prompt, "n_predict": 4, **common}
            text = next(at for at, event in list(server.stream("/completion", plain)) if event.get("content"))
            body = {field: ask, "tools": [tool], "tool_choice": choice, "max_tokens": 600, **common}
            parts = [(at, part) for at, event in server.stream(path, body) if (part := arguments_in(event))]
            first, last = parts[0][0], parts[-1][0]
            print(
                f"{path}: plain text after {text:.2f} s, arguments after {first:.2f} s ({first / text:.2f}),", end=" "
            )
            print(f"complete after {last:.2f} s in {len(parts)} parts", flush=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--draft", type=Path, required=True)
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=[*KINDS])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with served(args) as server:
        server.answer([{"role": "user", "content": "Count from one to thirty."}], 48)
        server.settle()
        print_speeds(server, args.kinds, args.rounds, args.tokens, Random(args.seed))
        print_first(server, args.first)


if __name__ == "__main__":
    main()
