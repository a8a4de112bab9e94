"""`tandem run` as a user runs it: automatic, fixed and no draft, one process after the other, under load.

    python -m tests.bench.processes --target T.gguf --draft D.gguf [--load bursts] [--rounds 10] [--first quiet]

Each round runs the modes in random order. A result is the median over the rounds of automatic drafting's tokens per
second over another mode's in the same round. All runs share one home folder, so automatic drafting uses the statistics
of earlier runs. `--first` runs four answers under another load before the first round.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from tests.bench.loads import LOADS, Load
from tests.bench.prompts import PROMPTS

_MODES = {"auto": (), "fixed": ("--draft-n-max", "7", "--draft-p-min", "0.6"), "none": ("--no-draft",)}


def main() -> None:
    """Measure and print a line per round, then the medians."""
    args = _arguments()
    random = Random(args.seed)
    with tempfile.TemporaryDirectory() as home:
        if args.first:
            with Load(args.first, args.seed):
                for prompt in (PROMPTS["prose"] * 4)[:4]:
                    print("before:", _line({"auto": _run(args, home, prompt, ())}), flush=True)
        rounds = []
        with Load(args.load, args.seed):
            for number in range(args.rounds):
                prompt = args.prompt or random.choice([text for kind in PROMPTS.values() for text in kind[:1]])
                found = {}
                for mode in random.sample(list(_MODES), len(_MODES)):
                    found[mode] = _run(args, home, prompt, _MODES[mode])
                rounds.append({mode: float(run["timings"]["predicted_per_second"]) for mode, run in found.items()})
                print(f"{number + 1:2} {_line(found)}  {prompt[:30]!r}", flush=True)
    for mode in ("fixed", "none"):
        ratio = statistics.median(speeds["auto"] / speeds[mode] for speeds in rounds)
        print(f"automatic over {mode}: {ratio:.3f}")
    best = statistics.median(speeds["auto"] / max(speeds["fixed"], speeds["none"]) for speeds in rounds)
    print(f"automatic over the better of both, each round: {best:.3f}")


def _line(found: dict[str, dict[str, Any]]) -> str:
    return "  ".join(f"{mode} {_shown(run)}" for mode, run in sorted(found.items()))


def _shown(run: dict[str, Any]) -> str:
    timings, speculation = run["timings"], run.get("speculation") or {}
    shown = {key: speculation.get(key) for key in ("verdict", "speedup", "measured", "reason") if key in speculation}
    return f"{timings['predicted_per_second']:.1f} tok/s {shown or ''}"


def _run(args: argparse.Namespace, home: str, prompt: str, flags: Sequence[str]) -> dict[str, Any]:
    environment = {**os.environ, "HOME": home, "XDG_CONFIG_HOME": home, "XDG_DATA_HOME": home, "XDG_STATE_HOME": home}
    environment["XDG_CACHE_HOME"] = home
    command = [sys.executable, "-m", "app", "run", "--json", "--temp", "0", "--max-tokens", str(args.tokens)]
    command += ["--target", str(args.target), "--draft", str(args.draft), *flags, prompt]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=Path, required=True)
    parser.add_argument("--draft", type=Path, required=True)
    parser.add_argument("--load", choices=LOADS, default="quiet")
    parser.add_argument("--first", choices=LOADS, help="run four answers under this load first")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--prompt", help="use this prompt instead of random ones")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


if __name__ == "__main__":
    main()
