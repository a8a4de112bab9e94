"""`tandem serve` and llama-server behind the same client, one request at a time, in random order.

    python -m tests.bench.serving --target T.gguf --draft D.gguf --server path/to/llama-server [--rounds 9] [--turns 20]

Both programs have the models loaded; the process of one is stopped while the other answers. Prints the ratios of
streamed tokens per second and of the time to first token, the share of the time that is spent outside the engine, and
the time of a conversation that grows turn by turn, as an agent's does.

`--long 4000` measures kept states instead: the time to first token of a prompt of about this length when it is read,
after another conversation, and after a restart, for which llama-server saves and restores its slot by request.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from random import Random
from typing import Any

from tests.bench.prompts import PROMPTS
from tests.bench.rivals import rivals

_READY_S = 120.0
_SETTLING_S = 30.0
_ROW_TOKENS = 14
"""Tokens of a row of a long prompt, in the vocabulary of Qwen2.5."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """One answer: seconds to the first token and after it, tokens, text, engine seconds, the prompt, and drafts."""

    first_s: float
    rest_s: float
    n_tokens: int
    text: str
    engine_s: float
    n_prompt: int
    n_read: int
    n_drafted: int
    n_accepted: int

    @property
    def counts(self) -> str:
        """Return the prompt tokens that were read, and the accepted and drafted tokens."""
        return f"{self.n_read} read, {self.n_accepted}/{self.n_drafted} accepted"

    @property
    def speed(self) -> float:
        return (self.n_tokens - 1) / self.rest_s


def free_port() -> int:
    """Return a port of this machine that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Program:
    """A running server. Only the one that answers gets the CPU."""

    def __init__(self, name: str, command: Sequence[str], environment: dict[str, str], port: int) -> None:
        self.name = name
        self.port = port
        self._command = command
        self._environment = environment
        self._start()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            self._command,
            env=self._environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        deadline = time.monotonic() + _READY_S
        while not self._is_ready():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"{self.name} did not start: {' '.join(self._command)}")
            time.sleep(0.2)
        self._send(signal.SIGSTOP)

    def _send(self, number: signal.Signals) -> None:
        """Send a signal to the process and its children; Tandem runs in one."""
        os.killpg(self._process.pid, number)

    def _is_ready(self) -> bool:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=5)
        try:
            connection.request("GET", "/health")
            return connection.getresponse().status == 200
        except OSError:
            return False
        finally:
            connection.close()

    def settle(self) -> None:
        """Leave the program alone after its first answer: Tandem measures a pair while no request waits."""
        self._send(signal.SIGCONT)
        time.sleep(_SETTLING_S)
        self._send(signal.SIGSTOP)

    def answer(self, messages: list[dict[str, str]], n_tokens: int) -> Streamed:
        """Stream a greedy answer of limited length."""
        self._send(signal.SIGCONT)
        try:
            return self._answer({"messages": messages, "max_tokens": n_tokens, "temperature": 0, "stream": True})
        finally:
            self._send(signal.SIGSTOP)

    def _answer(self, body: dict[str, Any]) -> Streamed:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=600)
        began = time.perf_counter()
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        first, text = 0.0, ""
        timings: dict[str, float] = {}
        for line in connection.getresponse():
            if not line.startswith(b"data: {"):
                continue
            chunk = json.loads(line[6:])
            for choice in chunk["choices"]:
                if piece := choice["delta"].get("content"):
                    first = first or time.perf_counter()
                    text += piece
            timings = chunk.get("timings") or timings
        ended = time.perf_counter()
        connection.close()
        engine_ms = timings["predicted_ms"] + timings.get("draft_prompt_ms", 0.0)
        n_read, n_cached, n_tokens = (int(timings.get(key, 0)) for key in ("prompt_n", "cache_n", "predicted_n"))
        drafts = (int(timings.get(key, 0)) for key in ("draft_n", "draft_n_accepted"))
        return Streamed(
            first - began, ended - first, n_tokens, text, engine_ms / 1000, n_read + n_cached, n_read, *drafts
        )

    def restart(self) -> None:
        """Let the program end by itself, and start it again; llama-server keeps its slot only on request."""
        self._send(signal.SIGCONT)
        self._keep_slot("save")
        self._send(signal.SIGINT)
        self._process.wait()
        self._start()
        self._send(signal.SIGCONT)
        self._keep_slot("restore")
        self._send(signal.SIGSTOP)

    def _keep_slot(self, action: str) -> None:
        if self.name == "llama-server":
            connection = HTTPConnection("127.0.0.1", self.port, timeout=600)
            body = json.dumps({"filename": "slot.bin"})
            began = time.perf_counter()
            connection.request("POST", f"/slots/0?action={action}", body, {"Content-Type": "application/json"})
            print(f"{action} slot: {connection.getresponse().status}, {time.perf_counter() - began:.2f} s")
            connection.close()

    def close(self) -> None:
        self._send(signal.SIGCONT)
        self._send(signal.SIGKILL)
        self._process.wait()


@contextmanager
def both(args: argparse.Namespace) -> Iterator[dict[str, Program]]:
    """Start both programs."""
    with ExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory())
        folders = ("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        environment = {**os.environ, **dict.fromkeys(folders, home)}
        ports = free_port(), free_port()
        ours = [sys.executable, "-m", "app", "serve", "--port", str(ports[0]), "--ctx", str(args.ctx)]
        ours += ["--target", str(args.target), "--draft", str(args.draft)]
        theirs = [str(args.server), "-m", str(args.target), "--port", str(ports[1]), "-c", str(args.ctx), "-np", "1"]
        theirs += ["-t", str(os.cpu_count() or 1), "--no-webui", "--jinja"]
        theirs += ["--slot-save-path", home, *map(str, rivals(args.draft)[args.rival])]
        programs = {}
        for name, command, port in (("tandem", ours, ports[0]), ("llama-server", theirs, ports[1])):
            programs[name] = Program(name, command, environment, port)
            stack.callback(programs[name].close)
        yield programs
        for file in [*Path(home).rglob("*.state"), *Path(home).glob("slot.bin")]:
            print(f"{file.name}: {file.stat().st_size:,} bytes")


def main() -> None:
    """Measure and print a line per answer, then the ratios."""
    args = _arguments()
    random = Random(args.seed)
    with both(args) as programs:
        for program in programs.values():
            program.answer([{"role": "user", "content": "Count from one to thirty."}], 48)
            program.settle()
            if args.long:
                _print_return(program, args.long)
        if args.long:
            return
        kinds = [texts[0] for texts in PROMPTS.values()]
        rounds = []
        for number in range(args.rounds):
            messages = [{"role": "user", "content": f"{kinds[number % len(kinds)]} ({number})"}]
            found = {}
            for name in random.sample(list(programs), len(programs)):
                found[name] = programs[name].answer(messages, args.tokens)
            rounds.append(found)
            shown = "  ".join(
                f"{name} {one.speed:.1f} tok/s, TTFT {one.first_s:.2f} s ({one.counts})" for name, one in found.items()
            )
            print(f"{number + 1:2} {shown}  {messages[0]['content'][:30]!r}", flush=True)
        if rounds:
            _print_ratios(rounds)
        _print_conversation(programs, args, random)


def _print_return(program: Program, n_tokens: int) -> None:
    """Time the first token of a long prompt: read, after another conversation, and after a restart."""
    rows = "".join(f"Row {n}: the value is {37 * n % 500}. " for n in range(n_tokens // _ROW_TOKENS))
    talk = [{"role": "user", "content": rows + "Which row has the highest value?"}]
    read = program.answer(talk, 16)
    talk += [{"role": "assistant", "content": read.text}, {"role": "user", "content": "And the lowest?"}]
    program.answer([{"role": "user", "content": PROMPTS["code"][0]}], 16)
    back = program.answer(talk, 16)
    talk += [{"role": "assistant", "content": back.text}, {"role": "user", "content": "Are you sure?"}]
    program.restart()
    again = program.answer(talk, 16)
    answers = {"read": read, "from memory": back, "after a restart": again}
    shown = (f"{name} {one.first_s:.2f} s ({one.n_read:,} of {one.n_prompt:,} read)" for name, one in answers.items())
    print(f"{program.name}: TTFT {', '.join(shown)}", flush=True)


def _print_ratios(rounds: list[dict[str, Streamed]]) -> None:
    pairs = [(found["tandem"], found["llama-server"]) for found in rounds]
    speed = statistics.median(ours.speed / theirs.speed for ours, theirs in pairs)
    first = statistics.median(ours.first_s / theirs.first_s for ours, theirs in pairs)
    outside = statistics.median(1 - ours.engine_s / ours.rest_s for ours, _ in pairs)
    print(f"tokens per second over llama-server's: {speed:.3f}; time to first token over its: {first:.3f}")
    print(f"share of tandem's time after the first token outside the engine: {outside:.2%}")


def _print_conversation(programs: dict[str, Program], args: argparse.Namespace, random: Random) -> None:
    """Time a conversation of growing turns, both programs in turn."""
    seconds = dict.fromkeys(programs, 0.0)
    talks: dict[str, list[dict[str, str]]] = {name: [] for name in programs}
    for turn in range(args.turns):
        question = f"Step {turn + 1}: " + PROMPTS["code"][turn % len(PROMPTS["code"])]
        for name in random.sample(list(programs), len(programs)):
            talk = talks[name]
            talk.append({"role": "user", "content": question})
            one = programs[name].answer(talk, args.turn_tokens)
            talk.append({"role": "assistant", "content": one.text})
            seconds[name] += one.first_s + one.rest_s
    ratio = seconds["llama-server"] / seconds["tandem"] if args.turns else 0.0
    print(f"{args.turns} turns: {seconds}, speedup over llama-server {ratio:.3f}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--draft", type=Path, required=True)
    parser.add_argument("--server", type=Path, required=True, help="a llama-server of the same source")
    parser.add_argument(
        "--rival", default="server draft n7 p0.6", help="its parameters, by their name in tests.bench.rivals"
    )
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--turn-tokens", type=int, default=32)
    parser.add_argument("--long", type=int, default=0, help="measure kept states with a prompt of so many tokens")
    parser.add_argument("--ctx", type=int, default=4096)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
