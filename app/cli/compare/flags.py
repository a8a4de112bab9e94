"""The flags of `tandem compare`; see `app.cli.compare.command`."""

from __future__ import annotations

import argparse

from app.cli.argument_parser import real_file
from app.cli.flags import SEED

COMPARE_EPILOG = """examples:
  tandem compare "Write a quicksort in Python."
  tandem compare --repeat 5 --fixed n_max=7,p_min=0.6 "Why is the sky blue?"
  tandem compare --json "Name three rivers." > comparison.json
"""
REPEAT, TOKENS = 3, 256
COMPARE_DEFAULTS = {"answer.max_tokens": f"{TOKENS}; settings can only lower it", "sampling.seed": f"{SEED}"}
"""Defaults of settings that are others here."""


def add_compare_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of its own; those of the pair and the answer are the program's."""
    parser.add_argument("prompt", nargs="?", metavar="PROMPT", help="the prompt; - reads it from standard input")
    parser.add_argument("--repeat", type=int, metavar="N", help=f"counted runs of each side (default: {REPEAT})")
    parser.add_argument("--fixed", metavar="n_max=N,p_min=P", help="a third side, drafting by these fixed parameters")
    parser.add_argument("--save", type=real_file, metavar="FILE", help="write the figures and both texts as JSON")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
