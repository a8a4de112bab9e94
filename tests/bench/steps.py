"""Compare the time of a step with llama-server's, on a tiny target with a large vocabulary.

    python -m tests.bench.steps --server PATH [--rounds 5] [--tokens 400]

A token costs almost nothing but its logits, so sampling, confidences and bookkeeping decide, as on a fast GPU. The
draft model is the target itself. Both programs answer in turn with one thread, and the other one is stopped meanwhile.
Times are CPU times, which other programs raise less than wall times, and the shortest of the rounds counts. A ratio is
llama-server's time per step over Tandem's. Linux only.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

from app.engine.events import Step
from app.engine.fixed import FixedDrafting, NoDrafting
from app.engine.generator import Generator, Request
from app.engine.interfaces import Strategy
from app.engine.types import DraftParams, SamplingParams
from app.llama.cancel import CancelFlag
from app.llama.pair import NativePair
from tests.bench.peer import LlamaServer
from tests.llama.params import pair_params
from tests.llama.tiny_heads import write_target
from tests.llama.tiny_model import TINY

N_VOCAB, N_CTX, N_DRAFTED = 151_936, 1024, 4
PROMPT = [2 + 37 * i % 250 for i in range(64)]
_REST_S = 0.05
"""Seconds for which idle threads of the other program may still spin."""


def own_step_us(pair: NativePair, temperature: float, seed: int, n_tokens: int, *, drafts: bool) -> tuple[float, float]:
    """Return the microseconds of a step, and the share of its time outside native calls; begin with empty caches."""
    assert pair.drafter is not None
    pair.target.rollback(0)
    chain = pair.new_sampler(SamplingParams(temperature=temperature, seed=seed))
    strategy: Strategy = FixedDrafting(pair.drafter, DraftParams(N_DRAFTED, 0, 0.0)) if drafts else NoDrafting()
    generator = Generator(pair.target, strategy, chain, drafter=pair.drafter)
    began = 0
    for event in generator.run(Request(PROMPT, lambda token: False, n_tokens, lambda *_: None)):
        if isinstance(event, Step) and not began:
            began = time.process_time_ns()
    spent = time.process_time_ns() - began
    chain.close()
    stats = generator.stats
    return spent / 1e3 / stats.verify_steps, stats.overhead_ns / stats.predicted_ns


def server_step_us(server: LlamaServer, temperature: float, seed: int, n_tokens: int) -> float:
    """Return the microseconds of a step of llama-server: of an answer without the time to its first token."""
    sampling = {"temperature": temperature, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "seed": seed}
    url, header = f"http://127.0.0.1:{server.address[1]}/completion", {"Content-Type": "application/json"}
    spent, n_steps = [], 1
    for n in (1, n_tokens):
        body = LlamaServer.greedy(PROMPT, n) | sampling | {"ignore_eos": True}
        server.resume()
        before = server.cpu_ns
        with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode(), header), timeout=300) as got:
            timings: dict[str, float] = json.load(got)["timings"]
        server.pause()
        time.sleep(_REST_S)
        spent.append(server.cpu_ns - before)
        n_steps = int(timings["predicted_n"] - 1 - timings.get("draft_n_accepted", 0))
    return (spent[1] - spent[0]) / 1e3 / n_steps


def compare(pair: NativePair, target: Path, binary: Path, n_rounds: int, n_tokens: int, *, drafts: bool) -> None:
    """Print a line for greedy answers and one for sampled ones."""
    extra: list[object] = ["--spec-type", "draft-simple", "-md", target, "--spec-draft-n-max", N_DRAFTED]
    extra += ["--spec-draft-p-min", 0]
    with LlamaServer(binary, target, 1, N_CTX, extra if drafts else []) as server:
        for temperature in (0.0, 1.0):
            ours, theirs, outside = [], [], []
            for seed in range(n_rounds + 1):
                step_us = server_step_us(server, temperature, seed, n_tokens)
                own_us, share = own_step_us(pair, temperature, seed, n_tokens, drafts=drafts)
                # The first answers touch the weights.
                if seed:
                    theirs.append(step_us)
                    ours.append(own_us)
                    outside.append(share)
            print(
                f"temperature {temperature:g}, {f'drafts of {N_DRAFTED}' if drafts else 'no draft':11} step: "
                f"Tandem {min(ours):6.0f} us ({min(outside):.0%} outside native calls), "
                f"llama-server {min(theirs):6.0f} us; ratio {min(theirs) / min(ours):.3f}",
                flush=True,
            )
        server.resume()


def main() -> None:
    """Print a line per case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", type=Path, required=True, help="llama-server of the same llama.cpp source")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=400)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        target = write_target(Path(folder) / "target.gguf", replace(TINY, n_vocab=N_VOCAB, quantized=True))
        pair = NativePair(pair_params(target, target, n_threads=1, n_ctx=N_CTX), CancelFlag(), lambda *_: True)
        for drafts in (False, True):
            compare(pair, target, given.server, given.rounds, given.tokens, drafts=drafts)
        pair.close()


if __name__ == "__main__":
    main()
