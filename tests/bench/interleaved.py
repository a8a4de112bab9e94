"""Compare contenders with no draft, step by step, so that a change of the machine's speed affects all alike.

    python -m tests.bench.interleaved --target T.gguf [--draft D.gguf] [--fixed 7,0.6 ...] [--server PATH] [--cold]

README.md explains the method. In the second table, every batch counts the median time of its size; see
`tests.bench.steady`.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random

from app.conversations.message import Message, Role
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.drafting_report import Speedup
from app.engine.types import AutoDraft, Drafting, DraftParams
from app.hardware.cpu import default_threads, others_seconds
from app.llama import stored_measurements
from app.llama.pair import NativePair
from tests.bench.lanes import Lane, OwnLane, ServerLane, draft_prompt_ns, load, race
from tests.bench.loads import LOADS, Load
from tests.bench.peer import LlamaServer
from tests.bench.prompts import PROMPTS
from tests.bench.rivals import rivals
from tests.bench.steady import Race, batch_costs, steady

Contender = Callable[[str], Lane]
"""Starts an answer to a prompt."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The speedup that Tandem showed for an answer, and the speedup measured here."""

    prompt: str
    contender: str
    shown: Speedup
    measured: float

    @property
    def is_wrong(self) -> bool:
        """Return True for "winning" below 1.0, or "losing" above it."""
        if self.shown.verdict == "losing":
            return self.measured > 1
        return self.shown.verdict == "winning" and self.measured < 1


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
    claims: list[Claim] = []
    for kind in args.kinds:
        for number, prompt in list(enumerate(PROMPTS[kind], start=1))[: args.each]:
            ratios: dict[str, list[float]] = {}
            for run in range(args.runs):
                with ExitStack() as stack:
                    pair, contenders = _loaded(args, drafting, prompt, run, stack)
                    if not args.first:
                        known = memory if memory is not None and not args.cold else _loaded_history(args)
                        memory = _prepare(pair, known)
                    raced = _race(contenders, prompt)
                    races.append(_steps(f"{kind} {number}", raced))
                    found = _ratios(raced)
                    claims += _claims(f"{kind} {number}", raced, found)
                    for name, ratio in found.items():
                        ratios.setdefault(name, []).append(ratio)
            results[f"{kind} {number}"] = {name: statistics.median(values) for name, values in sorted(ratios.items())}
            print(f"{kind} {number:<3} ", _line(results[f"{kind} {number}"]), flush=True)
            if args.json:
                _save(args.json, results, races, claims)
    _print_claims(claims)
    if args.keep and memory is not None:
        stored_measurements.save_statistics(args.keep, memory)
    _summary(results)
    print("\nwith every batch at the median of its size, in steps with no draft:")
    print(_measured_costs(races))
    steady_ratios = steady(races)
    for name, ratios_of_prompt in steady_ratios.items():
        print(f"{name:<8}", _line(ratios_of_prompt))
    _summary(steady_ratios)


def _save(file: Path, results: Mapping[str, Mapping[str, float]], races: list[Race], claims: list[Claim]) -> None:
    document = {
        "ratios": results,
        "races": [asdict(race) for race in races],
        "claims": [asdict(claim) for claim in claims],
    }
    file.write_text(json.dumps(document))


def _prepare(pair: NativePair, memory: PairStatistics | None) -> PairStatistics:
    """Give a pair the statistics of earlier answers, or measure it."""
    if memory is None:
        for _ in pair.measure_costs(lambda: False):
            pass
        assert pair.memory is not None
        print(_describe(pair.memory), flush=True)
    else:
        pair.memory = memory
    return pair.memory


def _loaded_history(args: argparse.Namespace) -> PairStatistics | None:
    """Return the statistics that an earlier run saved; None without --history."""
    return stored_measurements.load_statistics(args.history) if args.history else None


def _own(args: argparse.Namespace, drafting: Drafting, servers: Mapping[str, LlamaServer]) -> NativePair:
    def others() -> float:
        # The servers take turns with Tandem, so they do not count as other programs.
        return others_seconds() - sum(server.cpu_seconds for server in servers.values())

    return load(args.target, args.draft if drafting else None, args.ctx, others)


def _loaded(
    args: argparse.Namespace, drafting: dict[str, Drafting], prompt: str, run: int, stack: ExitStack
) -> tuple[NativePair, dict[str, Contender]]:
    """Load every contender with its own weights; return the automatic one and all of them.

    Q4_0 weights that were loaded later were up to 15% faster. So all are loaded again for every answer, in random
    order, and in the opposite order for every second one.
    """
    flags = rivals(args.draft) if args.server else {}
    names = [*drafting, *(name for name in flags if not args.rivals or name in args.rivals)]
    pairs: dict[str, NativePair] = {}
    servers: dict[str, LlamaServer] = {}
    order = Random(f"{prompt} {run // 2}").sample(names, len(names))
    for name in order[::-1] if run % 2 else order:
        if name in drafting:
            pairs[name] = _own(args, drafting[name], servers)
            stack.callback(pairs[name].close)
        else:
            server = LlamaServer(args.server, args.target, args.server_threads, args.ctx, flags[name])
            servers[name] = stack.enter_context(server)
    contenders: dict[str, Contender] = {}
    for name, pair in pairs.items():
        contenders[name] = partial(OwnLane, pair, drafting=drafting[name], n_tokens=args.tokens)
    for name, server in servers.items():
        drafts = args.draft in flags[name]
        contenders[name] = partial(_served, server, pairs["auto"], n_tokens=args.tokens, drafts=drafts)
    return pairs["auto"], contenders


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--draft", type=Path)
    parser.add_argument("--fixed", nargs="*", default=[], metavar="N_MAX,P_MIN")
    parser.add_argument("--server", type=Path, help="a llama-server of the same source")
    parser.add_argument("--rivals", nargs="+", metavar="NAME", help="only these of its settings")
    parser.add_argument("--server-threads", type=int, default=default_threads(), help="fewer where other programs run")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--ctx", type=int, default=4096)
    parser.add_argument("--kinds", nargs="+", choices=list(PROMPTS), default=list(PROMPTS))
    parser.add_argument("--each", type=int, help="most prompts of a kind")
    parser.add_argument("--cold", action="store_true", help="measure before every answer and forget the earlier ones")
    parser.add_argument("--first", action="store_true", help="measure nothing before: every answer is a pair's first")
    parser.add_argument("--load", choices=LOADS, default="quiet", help="background load; see tests.bench.loads")
    parser.add_argument(
        "--history", type=Path, metavar="FILE", help="start every answer with the statistics in this file"
    )
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="save the statistics of the last answer for --history"
    )
    parser.add_argument("--json", type=Path, help="save every ratio and every step")
    args = parser.parse_args()
    if unknown := set(args.rivals or ()) - rivals(args.draft).keys():
        parser.error(f"no such rivals: {', '.join(sorted(unknown))}; there are: {', '.join(rivals(args.draft))}")
    return args


def _served(server: LlamaServer, pair: NativePair, prompt: str, n_tokens: int, drafts: bool) -> Lane:
    tokens = pair.prompts.build((Message(Role.USER, prompt),)).tokens
    return ServerLane(server, tokens, n_tokens, draft_prompt_ns=draft_prompt_ns(pair, tokens) if drafts else 0)


def _race(contenders: dict[str, Contender], prompt: str) -> dict[str, Lane]:
    running: dict[str, Lane] = {}
    for name, begin in contenders.items():
        running[name] = lane = begin(prompt)
        while not lane.n_tokens:
            lane.step()
    race(running, Random(prompt))
    return running


def _ratios(raced: dict[str, Lane]) -> dict[str, float]:
    """Return the time with no draft over that of each contender."""
    spent = {name: (lane.ns + lane.draft_prompt_ns) / (lane.n_tokens - 1) for name, lane in raced.items()}
    return {name: spent["plain"] / ns for name, ns in spent.items()}


def _steps(prompt: str, raced: dict[str, Lane]) -> Race:
    own = {name: lane for name, lane in sorted(raced.items()) if isinstance(lane, OwnLane)}
    return Race(
        prompt,
        {name: lane.steps for name, lane in own.items()},
        {name: lane.draft_prompt_ns for name, lane in own.items()},
    )


def _claims(prompt: str, raced: dict[str, Lane], ratios: Mapping[str, float]) -> list[Claim]:
    own = {name: lane for name, lane in sorted(raced.items()) if isinstance(lane, OwnLane)}
    return [Claim(prompt, name, lane.claim, ratios[name]) for name, lane in own.items() if lane.claim is not None]


def _print_claims(claims: list[Claim]) -> None:
    """Print every speedup that Tandem showed beside the measured speedup, and count the wrong verdicts."""
    for claim in claims:
        shown = (
            f"{claim.shown.ratio:.2f} {claim.shown.verdict or ('measured' if claim.shown.measured else 'estimated')}"
        )
        print(f"{claim.prompt} {claim.contender}: shown {shown}, measured here {claim.measured:.2f}")
    judged = [claim for claim in claims if claim.shown.verdict]
    wrong = [claim for claim in judged if claim.is_wrong]
    print(f"{len(wrong)} wrong of {len(judged)} verdicts, {len(claims)} speedups shown")


def _summary(results: dict[str, dict[str, float]]) -> None:
    """Print the ratios over the whole suite."""
    names = list(next(iter(results.values())))
    spent = {name: sum(1 / ratios[name] for ratios in results.values()) for name in names}
    print("all     ", _line({name: spent["plain"] / ns for name, ns in spent.items()}))
    for prefix, group in (("server", "the server's"), ("n", "our fixed")):
        if others := [name for name in names if name.startswith(prefix)]:
            best = min(others, key=lambda name: spent[name])
            each = sum(min(1 / ratios[name] for name in others) for ratios in results.values())
            print(f"auto over {group} best, {best}: {spent[best] / spent['auto']:.3f};", end=" ")
            print(f"over the best of them for each prompt: {each / spent['auto']:.3f}")


def _line(ratios: dict[str, float]) -> str:
    return "  ".join(f"{name} {ratio:.3f}" for name, ratio in ratios.items())


def _describe(memory: PairStatistics) -> str:
    profile = memory.costs.profile
    single = profile.batch_ns[1]
    batches = _staircase({n: ns / single for n, ns in profile.batch_ns.items()})
    return f"single token {single / 1e6:.1f} ms, drafted token {profile.draft_ns / single:.2f}; batches {batches}"


def _measured_costs(races: list[Race]) -> str:
    """Return the batch costs during the races."""
    single = statistics.median(race.single_ns for race in races)
    return f"single token {single / 1e6:.1f} ms; batches {_staircase(batch_costs(races))}"


def _staircase(shares: Mapping[int, float]) -> str:
    return "  ".join(f"{n}: {share:.2f}" for n, share in sorted(shares.items()))


if __name__ == "__main__":
    main()
