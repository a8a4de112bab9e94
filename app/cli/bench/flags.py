"""The flags of `tandem bench`; see `app.cli.bench.command`."""

from __future__ import annotations

import argparse

from app.cli.argument_parser import file_path, real_file
from app.cli.flags import SEED
from app.compare.kinds import KINDS

BENCH_EPILOG = """examples:
  tandem bench                                      every kind of text
  tandem bench --quick --fixed n_max=7,p_min=0.6    short, and fixed as well
  tandem bench --card result --save result.jsonl    result.md and result.svg
  tandem bench --against http://127.0.0.1:8080      and a running llama-server
  tandem bench --check-lossless

What the model file recommends for sampling does not count here, so that results of several files can be compared.
"""
REPEAT, SAMPLES = 3, 200
QUICK_KINDS = ("code", "edit", "prose", "chat")
"""What is drafted well, given back, foretold by nobody, and asked most."""
TOKENS, QUICK_TOKENS, CHECK_TOKENS = 128, 48, 64
BENCH_DEFAULTS = {
    "answer.max_tokens": f"{TOKENS}, with --quick {QUICK_TOKENS}, with --check-lossless {CHECK_TOKENS}; "
    "settings can only lower it",
    "sampling.seed": f"{SEED}",
}
"""Defaults of settings that are others here."""


def add_bench_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of its own; those of the pair and the answer are the program's."""
    parser.add_argument(
        "--prompts",
        type=file_path,
        metavar="FILE",
        help="other prompts: TOML by kind, or one a line, - for standard input",
    )
    parser.add_argument("--kinds", metavar="KIND,...", help=f"only these kinds of text, of {', '.join(KINDS)}")
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"short answers to one prompt a kind ({', '.join(QUICK_KINDS)}), until the answer over all is clear",
    )
    parser.add_argument(
        "--repeat",
        type=int,
        metavar="N",
        help=f"counted runs of each side, even if fewer would tell (default: {REPEAT} at most)",
    )
    parser.add_argument("--fixed", metavar="n_max=N,p_min=P", help="a third side, drafting by these fixed parameters")
    parser.add_argument("--against", metavar="URL", help="a running llama-server as another side")
    parser.add_argument("--api-key-env", metavar="NAME", help="environment variable that holds that server's key")
    parser.add_argument("--oracle", action="store_true", help="also reckon what these drafts could bring at most")
    parser.add_argument("--json", action="store_true", help="print one JSON object a run, and one in the end")
    parser.add_argument("--save", type=real_file, metavar="FILE", help="write the same lines to a file")
    parser.add_argument("--steps", action="store_true", help="with --json or --save: every verify step of every run")
    parser.add_argument("--card", type=real_file, metavar="NAME", help="write a share card: NAME.md and NAME.svg")
    parser.add_argument("--force", action="store_true", help="overwrite the card's files if they exist")
    parser.add_argument("--check-lossless", action="store_true", help="compare the texts instead of the speed")
    parser.add_argument("--samples", type=int, metavar="N", help=f"sampled answers a side (default: {SAMPLES})")
