"""Race contenders against no draft, step by step, so that a drifting machine cannot mislead.

    python -m tests.bench.interleaved --target T.gguf [--draft D.gguf] [--fixed 7,0.6 ...] [--server PATH] [--cold]

Every contender has weights and caches of its own. Anyone who is behind makes the next step, so at any moment all
are at the same token of their answers: what slows the machine for a second slows them alike. A llama-server is stopped
as a process while it is not its turn. A ratio is the time without drafts over the contender's for the same tokens
after the first, what its draft model's reading of the prompt took included: a llama-server does that before its first
token and tells it no one, so it is charged with what the same draft model took for the same prompt here. A second
table tells what the decisions alone were worth: see `tests.bench.steady`. With --oracle, every answer is also followed
by the draft model, and in the end the least time in which these drafts could have served is estimated from what batches
took in the races: once with a draft model that knows the prompt already, and once with one that reads it like
everybody's here, or leaves all to the n-gram drafting; see `tests.bench.oracle`.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict
from functools import partial
from pathlib import Path
from random import Random

from app.conversations.message import Message, Role
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.types import AutoDraft, Drafting, DraftParams
from app.hardware.cpu import default_threads
from app.hardware.processors import others_seconds
from app.llama import stored_measurements
from tests.bench.fixed import Ours
from tests.bench.lanes import Lane, OwnLane, ServerLane, race
from tests.bench.loads import LOADS, Load
from tests.bench.oracle import ORACLES, Followed, follow, oracles, reading_ns
from tests.bench.peer import LlamaServer
from tests.bench.prompts import PROMPTS
from tests.bench.rivals import rivals
from tests.bench.steady import Race, steady, widths_of

Contender = Callable[[str], Lane]
"""Begins an answer to a prompt."""


def main() -> None:
    """Measure and print a table."""
    args = _arguments()
    with Load(args.load):
        _measure(args)


def _measure(args: argparse.Namespace) -> None:
    drafting: dict[str, Drafting] = {"plain": None, "auto": AutoDraft()}
    for setting in args.fixed:
        n_max, p_min = setting.split(",")
        drafting[f"n{n_max} p{p_min}"] = DraftParams(int(n_max), 0, float(p_min))
    memory: PairStatistics | None = None
    results: dict[str, dict[str, float]] = {}
    races: list[Race] = []
    followed: list[Followed] = []
    for kind in args.kinds:
        for number, prompt in list(enumerate(PROMPTS[kind], start=1))[: args.each]:
            ratios: dict[str, list[float]] = {}
            for run in range(args.runs):
                with ExitStack() as stack:
                    ours, contenders = _loaded(args, drafting, Random(f"{prompt} {run}"), stack)
                    memory = _knowing(ours, memory if memory is not None and not args.cold else _kept(args))
                    raced = _race(contenders, prompt)
                    races.append(_steps(f"{kind} {number}", raced))
                    for name, ratio in _ratios(raced).items():
                        ratios.setdefault(name, []).append(ratio)
                    if args.oracle:
                        followed.append(follow(ours, f"{kind} {number}", prompt, args.tokens))
            results[f"{kind} {number}"] = {name: statistics.median(values) for name, values in sorted(ratios.items())}
            print(f"{kind} {number:<3} ", _line(results[f"{kind} {number}"]), flush=True)
            if args.json:
                _keep(args.json, results, races, followed)
    if args.keep and memory is not None:
        stored_measurements.save_statistics(args.keep, memory)
    bounds = oracles(followed, races)
    _summary({prompt: ratios | bounds.get(prompt, {}) for prompt, ratios in results.items()})
    print("\nwith every batch at the median of its width, told in plain steps of the same answers:")
    print(_seen(races))
    steadily = {prompt: ratios | bounds.get(prompt, {}) for prompt, ratios in steady(races).items()}
    for name, of in steadily.items():
        print(f"{name:<8}", _line(of))
    _summary(steadily)


def _keep(file: Path, results: Mapping[str, Mapping[str, float]], races: list[Race], followed: list[Followed]) -> None:
    told = {"ratios": results, "oracles": oracles(followed, races), "races": [asdict(race) for race in races]}
    file.write_text(json.dumps(told))


def _knowing(ours: Ours, memory: PairStatistics | None) -> PairStatistics:
    """Give it what answers have taught, or else what it measures now, and say what that was."""
    if memory is None:
        for _ in ours.pair.calibrate(lambda: False):
            pass
        assert ours.pair.memory is not None
        print(_describe(ours.pair.memory), flush=True)
    else:
        ours.pair.memory = memory
    return ours.pair.memory


def _kept(args: argparse.Namespace) -> PairStatistics | None:
    """Return the memory that an earlier run saved under another load; None without one."""
    return stored_measurements.load_statistics(args.history) if args.history else None


def _own(args: argparse.Namespace, drafting: Drafting, servers: Mapping[str, LlamaServer]) -> Ours:
    def others() -> float:
        # The servers take turns with Tandem and do not count as other programs.
        return others_seconds() - sum(server.cpu_seconds for server in servers.values())

    return Ours(args.target, args.draft if drafting else None, args.ctx, default_threads(), others)


def _loaded(
    args: argparse.Namespace, drafting: dict[str, Drafting], order: Random, stack: ExitStack
) -> tuple[Ours, dict[str, Contender]]:
    """Everybody with files of their own, and who drafts automatically.

    Where in the machine's memory a copy of the weights lies was seen to make seven percent, for as long as it lies
    there; so all are loaded again for every answer, in another order.
    """
    flags = rivals(args.draft) if args.server else {}
    names = [*drafting, *(name for name in flags if not args.rivals or name in args.rivals)]
    ours: dict[str, Ours] = {}
    servers: dict[str, LlamaServer] = {}
    for name in order.sample(names, len(names)):
        if name in drafting:
            ours[name] = _own(args, drafting[name], servers)
            stack.callback(ours[name].pair.close)
        else:
            server = LlamaServer(args.server, args.target, default_threads(), args.ctx, flags[name])
            servers[name] = stack.enter_context(server)
    contenders: dict[str, Contender] = {}
    for name, lane in ours.items():
        contenders[name] = partial(OwnLane, lane, drafting=drafting[name], n_tokens=args.tokens)
    for name, server in servers.items():
        drafts = args.draft in flags[name]
        contenders[name] = partial(_served, server, ours["auto"], n_tokens=args.tokens, drafts=drafts)
    return ours["auto"], contenders


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--draft", type=Path)
    parser.add_argument("--fixed", nargs="*", default=[], metavar="N_MAX,P_MIN")
    parser.add_argument("--server", type=Path, help="a llama-server of the same source")
    parser.add_argument("--rivals", nargs="+", metavar="NAME", help="only these of its settings")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--ctx", type=int, default=4096)
    parser.add_argument("--kinds", nargs="+", choices=list(PROMPTS), default=list(PROMPTS))
    parser.add_argument("--each", type=int, help="most prompts of a kind")
    parser.add_argument("--cold", action="store_true", help="every answer knows nothing but a calibration of its own")
    parser.add_argument("--load", choices=LOADS, default="quiet", help="background load; see tests.bench.loads")
    parser.add_argument("--history", type=Path, metavar="FILE", help="start every answer with the memory in this file")
    parser.add_argument("--keep", type=Path, metavar="FILE", help="save the memory of the last answer for --history")
    parser.add_argument("--oracle", action="store_true", help="also estimate the oracle of every answer")
    parser.add_argument("--json", type=Path, help="every ratio and every round of ours")
    args = parser.parse_args()
    if unknown := set(args.rivals or ()) - rivals(args.draft).keys():
        parser.error(f"no such rivals: {', '.join(sorted(unknown))}; there are: {', '.join(rivals(args.draft))}")
    return args


def _served(server: LlamaServer, ours: Ours, prompt: str, n_tokens: int, drafts: bool) -> Lane:
    tokens = ours.pair.build_prompt((Message(Role.USER, prompt),)).tokens
    return ServerLane(server, tokens, n_tokens, draft_prompt_ns=reading_ns(ours, tokens) if drafts else 0)


def _race(contenders: dict[str, Contender], prompt: str) -> dict[str, Lane]:
    running: dict[str, Lane] = {}
    for name, begin in contenders.items():
        running[name] = lane = begin(prompt)
        while not lane.n_tokens:
            lane.step()
    race(running, Random(prompt))
    return running


def _ratios(raced: dict[str, Lane]) -> dict[str, float]:
    """Time of decoding without drafts over each one's."""
    spent = {name: (lane.ns + lane.draft_prompt_ns) / (lane.n_tokens - 1) for name, lane in raced.items()}
    return {name: spent["plain"] / ns for name, ns in spent.items()}


def _steps(prompt: str, raced: dict[str, Lane]) -> Race:
    own = {name: lane for name, lane in sorted(raced.items()) if isinstance(lane, OwnLane)}
    return Race(
        prompt,
        {name: lane.steps for name, lane in own.items()},
        {name: lane.draft_prompt_ns for name, lane in own.items()},
    )


def _summary(results: dict[str, dict[str, float]]) -> None:
    """Over the suite, every prompt with equal tokens and weighed by that of no draft time, which hardly differs."""
    names = list(next(iter(results.values())))
    spent = {name: sum(1 / ratios[name] for ratios in results.values()) for name in names}
    print("all     ", _line({name: spent["plain"] / ns for name, ns in spent.items()}))
    for name in names:
        if name in ORACLES:
            print(f"auto over the {name}: {spent[name] / spent['auto']:.3f}")
    for prefix, what in (("server", "the server's"), ("n", "our fixed")):
        if others := [name for name in names if name.startswith(prefix)]:
            best = min(others, key=lambda name: spent[name])
            each = sum(min(1 / ratios[name] for name in others) for ratios in results.values())
            print(f"auto over {what} best, {best}: {spent[best] / spent['auto']:.3f};", end=" ")
            print(f"over the best of them for each prompt: {each / spent['auto']:.3f}")


def _line(ratios: dict[str, float]) -> str:
    return "  ".join(f"{name} {ratio:.3f}" for name, ratio in ratios.items())


def _describe(memory: PairStatistics) -> str:
    profile = memory.costs.profile
    plain = profile.rows[1]
    rows = _staircase({n: ns / plain for n, ns in profile.rows.items()})
    return f"one row {plain / 1e6:.1f} ms, a drafted token {profile.draft_ns / plain:.2f} of that; rows {rows}"


def _seen(races: list[Race]) -> str:
    """What calibration should have said, had the machine been then what it was in the races."""
    plain = statistics.median(race.plain_ns for race in races)
    return f"one row {plain / 1e6:.1f} ms; rows {_staircase(widths_of(races))}"


def _staircase(shares: Mapping[int, float]) -> str:
    return "  ".join(f"{n}: {share:.2f}" for n, share in sorted(shares.items()))


if __name__ == "__main__":
    main()
