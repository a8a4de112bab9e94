"""Decoding without drafts and fixed drafting, ours against ours and against llama-server, in alternating order.

    python -m tests.bench.fixed --target T.gguf --draft D.gguf [--server PATH/llama-server] [--runs 3]

Every figure is a ratio of two runs that lie next to each other in time, and the median over the runs. All runs are
greedy, without a cached prefix, on the same token ids. `predicted_per_second` is what is compared: it begins after
the first token on both sides.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from app.conversations.message import Message, Role
from app.engine.interfaces import Controls
from app.engine.types import Drafting, DraftParams, SamplingParams
from app.hardware.cpu import default_threads
from app.hardware.processors import others_seconds
from app.llama.cancel import CancelFlag
from app.llama.pair import NativePair
from app.llama.pair_params import PairParams
from app.worker.events import Finished
from app.worker.request import AnswerRequest
from app.worker.responder import answer
from tests.bench.peer import LlamaServer

PROMPTS = (
    "Write a quicksort function in Python with comments.",
    "Explain in three short paragraphs why the sky is blue.",
    "List the planets of the solar system as a JSON array of objects with name, diameter_km and moons.",
    "Write a C function that reverses a singly linked list, and explain each line.",
)


class Ours:
    """Runs answers in this process, each from an empty cache."""

    def __init__(
        self,
        target: Path,
        draft: Path | None,
        n_ctx: int,
        n_threads: int,
        others: Callable[[], float] = others_seconds,
    ) -> None:
        params = PairParams(target, draft, n_threads=n_threads, n_ctx=n_ctx, gives_way=True)
        self._cancel = CancelFlag()
        self.pair = NativePair(params, self._cancel, lambda what, share: True, others=others)

    def run(self, prompt: str, drafting: Drafting, max_tokens: int) -> Finished:
        self.pair.target.rollback(0)
        request = AnswerRequest(
            (Message(Role.USER, prompt),), SamplingParams(temperature=0), drafting, max_tokens=max_tokens
        )
        *_, last = answer(self.pair, 0, request, Controls(self._cancel))
        assert isinstance(last, Finished)
        return last


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--draft", type=Path, required=True)
    parser.add_argument("--server", type=Path)
    parser.add_argument("--n-max", type=int, default=7)
    parser.add_argument("--p-min", type=float, default=0.6)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--ctx", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=default_threads())
    parser.add_argument("--prompt", action="append", help="instead of the built-in four (repeatable)")
    args = parser.parse_args()
    drafting = DraftParams(args.n_max, 0, args.p_min)
    ours = Ours(args.target, args.draft, args.ctx, args.threads)
    overheads: list[float] = []

    def our_speed(prompt: str, params: DraftParams | None) -> float:
        stats = ours.run(prompt, params, args.tokens).stats
        overheads.append(stats.overhead_ns / stats.predicted_ns)
        speed = stats.predicted_per_second
        assert speed is not None, "there is no second token to tell a speed by"
        return speed

    with ExitStack() as stack:
        contenders: dict[str, Callable[[str], float]] = {
            "plain": lambda prompt: our_speed(prompt, None),
            "draft": lambda prompt: our_speed(prompt, drafting),
        }
        if args.server:
            spec = ["-md", args.draft, "--spec-type", "draft-simple"]
            spec += ["--spec-draft-n-max", args.n_max, "--spec-draft-p-min", args.p_min]
            for name, extra in (("server plain", []), ("server draft", spec)):
                server = stack.enter_context(LlamaServer(args.server, args.target, args.threads, args.ctx, extra))
                contenders[name] = partial(_server_speed, server, ours, tokens=args.tokens)
        print(f"{args.target.name} + {args.draft.name}, n_max {args.n_max}, p_min {args.p_min}, {args.runs} runs")
        for prompt in args.prompt or PROMPTS:
            _measure(prompt, contenders, args.runs)
    print(f"time outside native calls: median {statistics.median(overheads):.2%}, worst {max(overheads):.2%}")


def _measure(prompt: str, contenders: dict[str, Callable[[str], float]], runs: int) -> None:
    """One warm-up, then rounds in which everybody runs once, in alternating order."""
    for run in contenders.values():
        run(prompt)
    rounds = []
    for index in range(runs):
        order = list(contenders) if index % 2 == 0 else list(reversed(contenders))
        rounds.append({name: contenders[name](prompt) for name in order})
    print(f"\n{prompt}")
    for name in contenders:
        print(f"  {name:14} {statistics.median(r[name] for r in rounds):7.2f} t/s")
    pairs = [("draft", "plain"), ("plain", "server plain"), ("draft", "server draft"), ("server draft", "server plain")]
    for a, b in pairs:
        if a in contenders and b in contenders:
            ratios = sorted(r[a] / r[b] for r in rounds)
            median = statistics.median(ratios)
            print(f"  {a} / {b}: {median:.3f}  ({ratios[0]:.3f} to {ratios[-1]:.3f})", flush=True)


def _server_speed(server: LlamaServer, ours: Ours, prompt: str, *, tokens: int) -> float:
    ids = ours.pair.build_prompt((Message(Role.USER, prompt),)).tokens
    speed: float = server.complete(ids, tokens)["timings"]["predicted_per_second"]
    return speed


if __name__ == "__main__":
    main()
