"""Flags and help. Flags that were not given are absent from the result, so that defaults have one home elsewhere."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from app import __version__

_EPILOG = """examples:
  tandem                                     open the chat
  tandem run "Why is the sky blue?"          one answer to standard output
  tandem run --target big.gguf --draft small.gguf "Write a haiku."
"""

_RUN_EPILOG = """examples:
  tandem run "Write a quicksort in Python."
  tandem run --temp 0 --max-tokens 200 --json "Name three rivers." > answer.json
  git diff | tandem run --system "Write a commit message." -
"""


_TUNE_EPILOG = """examples:
  tandem tune
  tandem tune --target big.gguf --draft small.gguf --heat-map "Write a haiku."
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole program."""
    parser = argparse.ArgumentParser(
        prog="tandem",
        description="Chat with a local model that answers faster: a small draft model runs ahead, the big one checks.",
        **_style(_EPILOG),
    )
    parser.add_argument("--version", action="version", version=f"tandem {__version__}")
    parser.set_defaults(command="chat")
    _add_pair_flags(parser)
    _add_answer_flags(parser)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    run = commands.add_parser("run", help="answer one prompt on standard output", **_style(_RUN_EPILOG))
    run.description = "Answer one prompt on standard output; numbers go to standard error."
    run.set_defaults(command="run")
    run.add_argument("prompt", nargs="?", metavar="PROMPT", help="the prompt; - reads it from standard input")
    run.add_argument("--prompt-file", type=Path, metavar="FILE", help="read the prompt from a file")
    run.add_argument("--json", action="store_true", help="print one JSON object with the answer and all numbers")
    _add_pair_flags(run)
    _add_answer_flags(run)
    tune = commands.add_parser("tune", help="measure what drafting costs here, and show it", **_style(_TUNE_EPILOG))
    tune.description = "Measure what batches and drafted tokens cost on this machine; automatic drafting goes by it."
    tune.set_defaults(command="tune")
    tune.add_argument("--quick", action="store_true", help="costs only, without following a sample answer")
    tune.add_argument("--heat-map", metavar="PROMPT", help="show every fixed setting on the answer to this prompt")
    tune.add_argument("--save-trace", type=Path, metavar="FILE", help="append the followed answer, for replays")
    tune.add_argument("--json", action="store_true", help="print one JSON object")
    _add_pair_flags(tune)
    return parser


def _style(epilog: str) -> dict[str, Any]:
    return {
        "epilog": epilog,
        "formatter_class": argparse.RawDescriptionHelpFormatter,
        "argument_default": argparse.SUPPRESS,
        "allow_abbrev": False,
    }


def _add_pair_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("models")
    group.add_argument("--pair", metavar="NAME", help="a pair from models.toml (default: demo)")
    group.add_argument("--target", type=Path, metavar="FILE", help="GGUF file of the model that answers")
    group.add_argument("--draft", type=Path, metavar="FILE", help="GGUF file of the small model that runs ahead")
    group.add_argument("--ctx", type=int, metavar="N", help="context length in tokens (default: 8192 at most)")
    group.add_argument("--threads", type=int, metavar="N", help="CPU threads (default: physical cores)")
    group = parser.add_argument_group("drafting")
    group.add_argument(
        "--drafting",
        choices=("auto", "fixed", "off"),
        help="auto tunes itself and stays off where it cannot gain (default); fixed uses the numbers below",
    )
    group.add_argument("--no-draft", action="store_true", help="the same as --drafting off")
    group.add_argument("--no-lookup", action="store_true", help="automatic drafting by the draft model only")
    group.add_argument("--draft-n-max", type=int, metavar="N", help="most tokens drafted in a round; means fixed")
    group.add_argument("--draft-n-min", type=int, metavar="N", help="shorter drafts are not submitted")
    group.add_argument("--draft-p-min", type=float, metavar="P", help="less probable tokens are not drafted")


def _add_answer_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("answer")
    group.add_argument("--system", metavar="TEXT", help="system prompt")
    group.add_argument("--max-tokens", type=int, metavar="N", help="most tokens to generate")
    group.add_argument("--stop", action="append", metavar="TEXT", help="end the answer before this text (repeatable)")
    group = parser.add_argument_group(
        "sampling (llama.cpp's chain and terms; defaults are the pair's, then llama.cpp's)"
    )
    group.add_argument("--temp", type=float, metavar="T", help="temperature; 0 always takes the most probable token")
    group.add_argument("--top-k", type=int, metavar="K", help="keep the K most probable; 0 keeps all")
    group.add_argument("--top-p", type=float, metavar="P", help="keep the smallest set with probability P")
    group.add_argument("--min-p", type=float, metavar="P", help="keep what has P of the top token's probability")
    group.add_argument("--typical-p", type=float, metavar="P", help="locally typical sampling; 1 keeps all")
    group.add_argument("--repeat-penalty", type=float, metavar="X", help="divide the logits of recent tokens; 1 is off")
    group.add_argument("--frequency-penalty", type=float, metavar="X", help="subtract per occurrence; 0 is off")
    group.add_argument("--presence-penalty", type=float, metavar="X", help="subtract once per token; 0 is off")
    group.add_argument("--repeat-last-n", type=int, metavar="N", help="how far back the penalties look")
    group.add_argument("--seed", type=int, metavar="N", help="of the random draw; the same seed gives the same text")
