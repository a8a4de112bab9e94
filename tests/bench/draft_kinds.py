"""Compare the time per step of draft layers with llama-server's, at the same draft length and acceptance.

    python -m tests.bench.draft_kinds --server PATH [--tiny] [--kinds dflash,eagle3] [--n-max 4] [--accepted 2]

The weights are random, so both programs are told how many drafted tokens to accept (`--spec-synth-rates`). They answer
in turn, and the other one is stopped meanwhile. A ratio is llama-server's time per step over Tandem's, the median of
the rounds. llama-server reports its own time, without HTTP; Tandem's is that of the generator, without text.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from app.engine.draft_model import HiddenDrafter
from app.engine.fixed import FixedDrafting, NoDrafting
from app.engine.generator import Generator, Request
from app.engine.interfaces import Strategy
from app.engine.stats import GenerationStats
from app.engine.types import NO_DRAFT, Draft, DraftParams, SamplingParams
from app.hardware.cpu import default_threads
from app.llama.cancel import CancelFlag
from app.llama.pair import NativePair
from app.llama.sampler import SamplerChain
from app.settings.model_params import ModelParams
from tests.bench.peer import LlamaServer
from tests.llama.params import pair_params
from tests.llama.tiny_heads import KINDS
from tests.llama.tiny_model import TINY, Size

REAL = Size(n_heads=16, head=64, forward=4096, n_vocab=65_536, n_repeats=3, quantized=True)
N_CTX = 1024
_REST_S = 0.05
"""Seconds for which idle threads of the other program may still spin."""


class ForcedDrafting(FixedDrafting):
    """Draft `n_max` tokens in every step, and remember them."""

    draft = NO_DRAFT

    def propose(self, sequence: Sequence[int], limit: int) -> Draft:
        self.draft = super().propose(sequence, limit)
        return self.draft


class ForcedSampler:
    """Let the target choose, but accept exactly the first `n_accepted` drafted tokens; implements `Sampler`."""

    def __init__(self, chain: SamplerChain, strategy: Strategy, n_accepted: int) -> None:
        self._chain, self._strategy, self._n_accepted = chain, strategy, n_accepted
        self.begin = chain.begin

    @property
    def native_ns(self) -> int:
        return self._chain.native_ns

    def sample(self, i: int) -> int:
        token = self._chain.sample(i)
        drafted = self._strategy.draft.tokens if isinstance(self._strategy, ForcedDrafting) else ()
        if i < min(self._n_accepted, len(drafted)):
            return drafted[i]
        return token + 1 if i < len(drafted) and token == drafted[i] else token


@dataclass(frozen=True)
class Plan:
    """Numbers of a comparison: draft length, accepted tokens, steps of an answer, rounds, threads, server."""

    n_max: int
    n_accepted: int
    n_steps: int
    n_rounds: int
    n_threads: int
    server: Path

    @property
    def n_tokens(self) -> int:
        return 1 + self.n_steps * (self.n_accepted + 1)


def own_answer(
    pair: NativePair, strategy: Strategy, plan: Plan, prompt: Sequence[int], n_tokens: int
) -> GenerationStats:
    """Run a greedy answer from an empty cache."""
    pair.target.rollback(0)
    chain = pair.new_sampler(SamplingParams(temperature=0))
    generator = Generator(pair.target, strategy, ForcedSampler(chain, strategy, plan.n_accepted), drafter=pair.drafter)
    for _ in generator.run(Request(prompt, lambda token: False, n_tokens, lambda *_: None)):
        pass
    chain.close()
    return generator.stats


def server_answer(server: LlamaServer, plan: Plan, prompt: Sequence[int]) -> dict[str, float]:
    """Return llama-server's timings of a greedy answer."""
    body = LlamaServer.greedy(prompt, plan.n_tokens) | {"ignore_eos": True}
    url, header = f"http://127.0.0.1:{server.address[1]}/completion", {"Content-Type": "application/json"}
    server.resume()
    with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), header), timeout=300) as got:
        timings: dict[str, float] = json.load(got)["timings"]
    server.pause()
    time.sleep(_REST_S)
    return timings


def compare(name: str, size: Size, folder: Path, plan: Plan) -> None:
    """Print a line for one kind."""
    if name == "mtp-hybrid":
        size = replace(size, n_repeats=2 * size.n_repeats)
    target, draft = KINDS[name].write(folder, size)
    model = ModelParams(load_mtp=draft is None)
    params = pair_params(target, draft, n_threads=plan.n_threads, n_ctx=N_CTX, model=model)
    pair = NativePair(params, CancelFlag(), lambda *_: True)
    drafter = pair.drafter
    assert isinstance(drafter, HiddenDrafter), pair.notices
    plan = replace(plan, n_max=min(plan.n_max, drafter.longest))
    prompt = [2 + 37 * i % 250 for i in range(150)]
    rates = ",".join("1" if i < plan.n_accepted else "0" for i in range(plan.n_max))
    extra: list[object] = ["--spec-type", KINDS[name].server, "--spec-draft-n-max", plan.n_max]
    extra += ["--spec-draft-p-min", 0]
    extra += ["--spec-synth-rates", rates, *(["-md", draft] if draft is not None else [])]
    ratios, ours, theirs, plain, outside, drafting = [], [], [], [], [], []
    with LlamaServer(plan.server, target, plan.n_threads, N_CTX, extra) as server:
        for n in range(plan.n_rounds + 1):
            timings = server_answer(server, plan, prompt)
            strategy = ForcedDrafting(drafter, DraftParams(plan.n_max, 0, 0.0))
            stats = own_answer(pair, strategy, plan, prompt, plan.n_tokens)
            single = own_answer(pair, NoDrafting(), plan, prompt, plan.n_steps)
            time.sleep(_REST_S)
            # llama-server never accepts an end token.
            assert stats.draft_n_accepted - 2 <= timings["draft_n_accepted"] <= stats.draft_n_accepted, timings
            if n == 0:
                # The first answers touch the weights.
                continue
            ours.append(stats.predicted_ns / 1e6 / plan.n_steps)
            theirs.append(timings["predicted_ms"] / plan.n_steps)
            plain.append(single.predicted_ns / 1e6 / (plan.n_steps - 1))
            ratios.append(theirs[-1] / ours[-1])
            outside.append(1 - stats.native_ns / stats.predicted_ns)
            drafting.append(stats.draft_ns / stats.predicted_ns)
        server.resume()
    pair.close()
    middle = statistics.median
    print(
        f"{name:15} no draft {middle(plain):7.2f} ms; step: Tandem {middle(ours):7.2f} ms, "
        f"llama-server {middle(theirs):7.2f} ms; ratio {middle(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f}); "
        f"drafting {middle(drafting):.0%}, outside native calls {middle(outside):.1%}",
        flush=True,
    )


def main() -> None:
    """Print a line per kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path, required=True, help="llama-server of the same llama.cpp source")
    parser.add_argument("--tiny", action="store_true", help="models of 100 kB, where Python decides")
    parser.add_argument("--kinds", default=",".join(name for name, kind in KINDS.items() if kind.server))
    parser.add_argument("--vocab", type=int, default=REAL.n_vocab)
    parser.add_argument("--n-max", type=int, default=4)
    parser.add_argument("--accepted", type=int, default=2)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=default_threads())
    given = parser.parse_args()
    plan = Plan(given.n_max, given.accepted, given.steps, given.rounds, given.threads, given.server)
    for name in given.kinds.split(","):
        with tempfile.TemporaryDirectory() as folder:
            compare(name, TINY if given.tiny else replace(REAL, n_vocab=given.vocab), Path(folder), plan)


if __name__ == "__main__":
    main()
