"""Automatic drafting against plain decoding, fixed settings and llama-server's, on one pair, in alternating order.

    python -m tests.bench.auto --target T.gguf [--draft D.gguf] [--server PATH/llama-server] [--runs 3] [--fixed]

Greedy, without a cached prefix, the same token ids for everybody. Automatic drafting starts from a calibration of this
run and keeps what it learns, as it does in use. Speed is tokens after the first over the time after the first. A
llama-server whose look-up keeps what it has seen between requests is started anew for every run: it would find its own
answer there. With --oracle every answer is also followed by the draft model, and the least time in which these drafts
could have served is reckoned from that trace and the measured costs.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TypeVar

from app.chat.message import Message, Role
from app.engine.tuning.replay import Curve, oracle_cost, plain_cost
from app.engine.tuning.trace import Trace
from app.engine.types import AutoDraft, Drafting, DraftParams
from app.hardware.cpu import default_threads
from tests.bench.fixed import Ours
from tests.bench.peer import LlamaServer
from tests.bench.prompts import PROMPTS
from tests.bench.record import record_all

FIXED = {"n3 p0": (3, 0.0), "n3 p.5": (3, 0.5), "n7 p.6": (7, 0.6), "n15 p.8": (15, 0.8)}
SERVER_MODEL = {"draft-simple n3 p0": (3, 0.0), "draft-simple n7 p.6": (7, 0.6), "draft-simple n15 p.8": (15, 0.8)}
SERVER_LOOKUP = ("ngram-simple", "ngram-mod")
_KEEPS_ANSWERS = "ngram-mod"
_DEPTH = 16

T = TypeVar("T")
Contender = Callable[[str], float]
Raw = dict[str, dict[str, list[float]]]
"""Prompt to contender to speeds; the oracle's are ratios."""


def main() -> None:
    """Measure and print a table; with --json also the raw speeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--draft", type=Path)
    parser.add_argument("--server", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--ctx", type=int, default=4096)
    parser.add_argument("--kinds", nargs="+", choices=list(PROMPTS), default=list(PROMPTS))
    parser.add_argument("--fixed", action="store_true", help="also run our own fixed settings")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="only these rivals, by the names in the table")
    parser.add_argument("--oracle", action="store_true", help="also reckon the oracle of every answer")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    threads = default_threads()
    ours = Ours(args.target, args.draft, args.ctx, threads)
    for _ in ours.pair.calibrate(lambda: False):
        pass
    print(f"{args.target.name} + {args.draft.name if args.draft else 'no draft'}, {args.runs} runs", flush=True)
    raw: Raw = {}
    with ExitStack() as stack:
        contenders: dict[str, Contender] = {
            "plain": partial(_our_speed, ours, None, tokens=args.tokens),
            "auto": partial(_our_speed, ours, AutoDraft(), tokens=args.tokens),
        }
        if args.draft and args.fixed:
            for name, (n, p) in _wanted(FIXED, args.only).items():
                contenders[name] = partial(_our_speed, ours, DraftParams(n, 0, p), tokens=args.tokens)
        if args.server:
            for name, extra in _wanted(_server_flags(args.draft), args.only).items():
                server = stack.enter_context(LlamaServer(args.server, args.target, threads, args.ctx, extra))
                contenders[name] = partial(_server_speed, server, ours, tokens=args.tokens)
        for kind in args.kinds:
            for number, prompt in enumerate(PROMPTS[kind], start=1):
                name = f"{kind} {number}"
                raw[name] = _measure(name, prompt, contenders, args.runs)
                if args.oracle:
                    raw[name]["oracle"] = [_oracle(ours, name, prompt, args.tokens)]
                    print(f"{'':14}oracle {raw[name]['oracle'][0]:.3f}", flush=True)
                if args.json:
                    args.json.write_text(json.dumps(raw), encoding="utf-8")
    _summary(raw)


def _wanted(rivals: dict[str, T], names: list[str] | None) -> dict[str, T]:
    return {name: rival for name, rival in rivals.items() if names is None or name in names}


def _server_flags(draft: Path | None) -> dict[str, list[object]]:
    flags: dict[str, list[object]] = {"server plain": []}
    for kind in SERVER_LOOKUP:
        flags[f"server {kind}"] = ["--spec-type", kind]
    for name, (n, p) in SERVER_MODEL.items() if draft else ():
        flags[f"server {name}"] = ["-md", draft, "--spec-type", "draft-simple", "--spec-draft-n-max", n]
        flags[f"server {name}"] += ["--spec-draft-p-min", p]
    return flags


def _our_speed(ours: Ours, drafting: Drafting, prompt: str, *, tokens: int) -> float:
    return ours.run(prompt, drafting, tokens).stats.predicted_per_second


def _server_speed(server: LlamaServer, ours: Ours, prompt: str, *, tokens: int) -> float:
    ids = ours.pair.build_prompt((Message(Role.USER, prompt),)).tokens
    if _KEEPS_ANSWERS in server.flags:
        server.restart()
    speed: float = server.complete(ids, tokens)["timings"]["predicted_per_second"]
    return speed


def _measure(name: str, prompt: str, contenders: dict[str, Contender], runs: int) -> dict[str, list[float]]:
    """Rounds in which everybody runs once, in alternating order; all are cold at the first, so all count."""
    speeds: dict[str, list[float]] = {contender: [] for contender in contenders}
    for index in range(runs):
        order = list(contenders) if index % 2 == 0 else list(reversed(contenders))
        for contender in order:
            speeds[contender].append(contenders[contender](prompt))
    plain = speeds["plain"]
    ratios = {c: statistics.median(s / p for s, p in zip(v, plain, strict=True)) for c, v in speeds.items()}
    print(f"{name:14}" + "  ".join(f"{c} {r:.3f}" for c, r in ratios.items()), flush=True)
    return speeds


def _oracle(ours: Ours, name: str, prompt: str, n_tokens: int) -> float:
    """Plain decoding's time over the oracle's, both reckoned from the costs as they are known now."""
    assert ours.pair.memory is not None
    if ours.pair.drafter is not None:
        trace = record_all(ours.pair, name, name, prompt, n_tokens, _DEPTH)
    else:
        prompt_tokens = ours.pair.build_prompt((Message(Role.USER, prompt),)).tokens
        ours.run(prompt, None, n_tokens)
        text = ours.pair.target.tokens[len(prompt_tokens) :]
        trace = Trace(name, name, tuple(prompt_tokens), tuple(text), (0,) * len(text), ((),) * len(text))
    profile = ours.pair.memory.costs.profile
    curve = Curve(name, profile.rows, profile.draft_ns)
    return plain_cost(trace, curve) / oracle_cost(trace, curve, lookup=True)


def _summary(raw: Raw) -> None:
    """Whole-suite speed-ups: the time of the suite by plain decoding over the time by each contender."""
    medians = {name: {c: statistics.median(v) for c, v in speeds.items()} for name, speeds in raw.items()}
    for speeds in medians.values():
        if "oracle" in speeds:
            speeds["oracle"] *= speeds["plain"]
    contenders = list(next(iter(medians.values())))
    time_of = {c: sum(1 / m[c] for m in medians.values()) for c in contenders}
    print("\nthe suite, equal tokens a prompt, against plain:")
    for contender in contenders:
        print(f"  {contender:28} {time_of['plain'] / time_of[contender]:.3f}")
    for prefix, what in (("server", "the server's best over the suite"), ("n", "our best fixed setting over all")):
        rivals = [c for c in contenders if c.startswith(prefix)]
        if rivals:
            best = min(rivals, key=lambda c: time_of[c])
            print(f"  auto over {what} ({best}): {time_of[best] / time_of['auto']:.3f}")
            each = sum(min(1 / m[c] for c in rivals) for m in medians.values())
            print(f"  auto over the best of them for each prompt: {each / time_of['auto']:.3f}")


if __name__ == "__main__":
    main()
