"""Load a pair where flags place it, and compare its text with that of no draft; run in a process of its own.

`python -m tests.llama.placement_runs KIND FOLDER`, with a JSON list of lists of flags on standard input, prints one
JSON object per list. A driver reads its environment once in a process, and a wrong placement aborts it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from app.cli import loading
from app.cli.command_line import parse_args
from app.cli.options import read_options
from app.engine.fixed import FixedDrafting, NoDrafting
from app.engine.generator import Generator, Request
from app.engine.interfaces import Strategy
from app.engine.types import DraftParams, SamplingParams, Step
from app.llama.cancel import CancelFlag
from app.llama.fitting import fit_pair
from app.llama.fitting.machine_room import memory_rooms
from app.llama.pair import NativePair
from tests.llama.test_draft_heads import writers
from tests.llama.tiny_heads import write_target

_PROMPT = [2 + 37 * i % 250 for i in range(7)]
_N_TOKENS = 24
_FIXED = DraftParams(3, 0, 0.0)
_SETTINGS = ("--threads", "1", "--ctx", "512", "--kv-type", "f32", "--draft-kv-type", "f32", "--draft-n-max", "3")


def write_pair(kind: str, folder: Path) -> list[str]:
    """Write the files of a kind of draft and return the flags that name them."""
    write, write_draft = (write_target, partial(write_target, seed=1)) if kind == "model" else writers(kind)
    flags = ["--target", str(write(folder / "target.gguf"))]
    return flags + (["--draft", str(write_draft(folder / "draft.gguf"))] if write_draft is not None else [])


def tokens_of(pair: NativePair, strategy: Strategy, prompt: Sequence[int]) -> tuple[list[int], int]:
    """Return the tokens of a greedy answer and how many were drafted."""
    chain = pair.new_sampler(SamplingParams(temperature=0))
    request = Request(prompt, lambda token: False, _N_TOKENS, lambda *_: None)
    steps = [event for event in Generator(pair.target, strategy, chain).run(request) if isinstance(event, Step)]
    chain.close()
    return [token for step in steps for token in step.tokens], sum(len(step.draft) for step in steps)


def run(flags: list[str]) -> dict[str, Any]:
    """Load a pair; answer without drafts, with them, and with them again from a restored state."""
    pair = loading.load(read_options(parse_args([*_SETTINGS, *flags])), CancelFlag(), lambda *_: True)
    assert isinstance(pair, NativePair)
    plain, _ = tokens_of(pair, NoDrafting(), _PROMPT)
    pair.target.rollback(0)
    strategy = FixedDrafting(pair.drafter, _FIXED) if pair.drafter is not None else NoDrafting()
    drafted, n_drafted = tokens_of(pair, strategy, _PROMPT)
    for conversation, prompt in (("other", _PROMPT[::-1]), ("first", [*_PROMPT, *drafted[:-1]])):
        pair.prepare_caches(prompt, conversation)
        longer, _ = tokens_of(pair, strategy, prompt)
    pair.target.rollback(0)
    fresh, _ = tokens_of(pair, strategy, [*_PROMPT, *drafted[:-1]])
    found = {
        "device": pair.info.device,
        "n_drafted": n_drafted,
        "is_equal": drafted == plain,
        "is_restored": longer == fresh,
        "notices": pair.notices,
    }
    pair.close()
    return found


if __name__ == "__main__":
    # A child process lists the devices.
    rooms = memory_rooms()
    for module in (loading, fit_pair):
        vars(module)["memory_rooms"] = lambda: rooms
    files = write_pair(sys.argv[1], Path(sys.argv[2]))
    for placement in json.load(sys.stdin):
        print(json.dumps(run([*files, *placement])), flush=True)  # noqa: T201
