"""Strategies against plain decoding, step by step side by side, so that a machine whose speed drifts cannot mislead.

    python -m tests.bench.interleaved --target T.gguf [--draft D.gguf] [--fixed 7,0.6 ...] [--cold]

Every contender has caches of its own over the same files. Whoever is behind makes the next verify round, so at any
moment all are at the same token of their answers: what slows the machine for a second slows them alike. A ratio is
the time of plain decoding over the contender's for the same tokens after the first; what the draft model's reading of
the prompt took is given apart and counts in the second figure.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from app.chat.message import Message, Role
from app.engine.tuning.memory import Memory
from app.engine.types import AutoDraft, Drafting, DraftParams, SamplingParams
from app.events import Event, Finished, PromptProgressed, StepCompleted
from app.hardware.cpu import default_threads
from app.responder import AnswerRequest, answer
from tests.bench.fixed import Ours
from tests.bench.prompts import PROMPTS


@dataclass
class Lane:
    """One contender's answer on its way. Times are nanoseconds."""

    events: Iterator[Event] = field(default_factory=lambda: iter(()))
    ns: int = 0
    draft_prompt_ns: int = 0
    n_tokens: int = 0
    done: bool = False
    _spent_ns: int = 0
    _began_ns: int = 0

    def clock(self) -> int:
        """Time that this lane has had; it stands still while others run."""
        return self._spent_ns + time.perf_counter_ns() - self._began_ns

    def step(self) -> None:
        """One event more."""
        self._began_ns = time.perf_counter_ns()
        event = next(self.events)
        spent = time.perf_counter_ns() - self._began_ns
        self._spent_ns += spent
        match event:
            case StepCompleted(stats=stats):
                self.ns += spent if self.n_tokens else 0
                self.n_tokens = stats.predicted_n
            case PromptProgressed(drafting=True):
                self.draft_prompt_ns += spent
            case Finished():
                self.done = True


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--draft", type=Path)
    parser.add_argument("--fixed", nargs="*", default=[], metavar="N_MAX,P_MIN")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--ctx", type=int, default=4096)
    parser.add_argument("--kinds", nargs="+", choices=list(PROMPTS), default=list(PROMPTS))
    parser.add_argument("--cold", action="store_true", help="every answer begins with what calibration alone knows")
    args = parser.parse_args()
    drafting: dict[str, Drafting] = {"plain": None, "auto": AutoDraft()}
    for setting in args.fixed:
        n_max, p_min = setting.split(",")
        drafting[f"n{n_max} p{p_min}"] = DraftParams(int(n_max), 0, float(p_min))
    lanes = {
        name: Ours(args.target, args.draft if d else None, args.ctx, default_threads()) for name, d in drafting.items()
    }
    for _ in lanes["auto"].pair.calibrate(lambda: False):
        pass
    calibrated = copy.deepcopy(lanes["auto"].pair.memory)
    assert calibrated is not None
    print(_describe(calibrated), flush=True)
    totals = dict.fromkeys(lanes, 0.0)
    for kind in args.kinds:
        for number, prompt in enumerate(PROMPTS[kind], start=1):
            ratios: dict[str, list[float]] = {}
            whole: list[float] = []
            for _ in range(args.runs):
                if args.cold:
                    lanes["auto"].pair.memory = copy.deepcopy(calibrated)
                ended = _race(lanes, drafting, prompt, args.tokens)
                for name, lane in ended.items():
                    ratios.setdefault(name, []).append(ended["plain"].ns / lane.ns)
                    totals[name] += lane.ns / (lane.n_tokens - 1)
                whole.append(ended["plain"].ns / (ended["auto"].ns + ended["auto"].draft_prompt_ns))
            figures = "  ".join(f"{name} {statistics.median(values):.3f}" for name, values in ratios.items())
            spread = " ".join(f"{value:.3f}" for value in ratios["auto"])
            print(
                f"{kind} {number:<3} {figures}  with the draft's prompt {statistics.median(whole):.3f}  [{spread}]",
                flush=True,
            )
    print("all  " + "  ".join(f"{name} {totals['plain'] / total:.3f}" for name, total in totals.items()))


def _race(lanes: dict[str, Ours], drafting: dict[str, Drafting], prompt: str, n_tokens: int) -> dict[str, Lane]:
    running = {}
    for name, ours in lanes.items():
        ours.pair.target.rollback(0)
        request = AnswerRequest(
            (Message(Role.USER, prompt),), SamplingParams(temperature=0), drafting[name], max_tokens=n_tokens
        )
        running[name] = lane = Lane()
        lane.events = answer(ours.pair, 0, request, lambda: False, lane.clock)
    for lane in running.values():
        while not lane.n_tokens:
            lane.step()
    while left := [lane for lane in running.values() if not lane.done]:
        min(left, key=lambda lane: lane.n_tokens).step()
    return running


def _describe(memory: Memory) -> str:
    profile = memory.costs.profile
    plain = profile.rows[1]
    rows = "  ".join(f"{n}: {ns / plain:.2f}" for n, ns in profile.rows.items())
    return f"one row {plain / 1e6:.1f} ms, a drafted token {profile.draft_ns / plain:.2f} of that; rows {rows}"


if __name__ == "__main__":
    main()
