"""Load a pair where flags place it, and compare its text with and without drafts, in a process of its own.

`python -m tests.llama.placement_runs KIND FOLDER`, with a JSON list of lists of flags on standard input, prints one
JSON object per list. A driver reads its environment once in a process, and a wrong placement aborts it.
"""

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from app.cli.command_line import parse_args
from app.cli.options import read_pair
from app.engine.fixed import FixedDrafting, NoDrafting
from app.engine.types import DraftParams
from app.llama.cancel import CancelFlag
from app.llama.fitting import fit_pair
from app.llama.fitting.machine_room import memory_rooms
from app.llama.pair import NativePair
from app.worker import loading
from tests.llama.test_draft_heads import answer, writers
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


def run(flags: list[str]) -> dict[str, Any]:
    """Load a pair; answer without drafts, with them, and with them again from a restored state."""
    pair = loading.load(read_pair(parse_args([*_SETTINGS, *flags]).given), CancelFlag(), lambda *_: True)
    assert isinstance(pair, NativePair)
    plain, _ = answer(pair, NoDrafting(), _PROMPT, _N_TOKENS)
    pair.target.rollback(0)
    strategy = FixedDrafting(pair.drafter, _FIXED) if pair.drafter is not None else NoDrafting()
    drafted, steps = answer(pair, strategy, _PROMPT, _N_TOKENS)
    for conversation, prompt in (("other", _PROMPT[::-1]), ("first", [*_PROMPT, *drafted[:-1]])):
        pair.prepare_caches(prompt, conversation)
        longer, _ = answer(pair, strategy, prompt, _N_TOKENS)
    pair.target.rollback(0)
    fresh, _ = answer(pair, strategy, [*_PROMPT, *drafted[:-1]], _N_TOKENS)
    found = {
        "device": pair.info.device,
        "n_drafted": sum(len(step.draft) for step in steps),
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
