"""The flags of `tandem tune`; see `app.cli.tune.command`."""

from __future__ import annotations

import argparse

from app.cli.argument_parser import real_file

TUNE_EPILOG = """examples:
  tandem tune
  tandem tune --target big.gguf --draft small.gguf --heat-map "Write a haiku."
"""


def add_tune_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    parser.add_argument("--quick", action="store_true", help="costs only, without following a sample answer")
    parser.add_argument("--heat-map", metavar="PROMPT", help="show every fixed setting on the answer to this prompt")
    parser.add_argument("--save-trace", type=real_file, metavar="FILE", help="append the followed answer, for replays")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
