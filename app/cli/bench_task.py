"""The options of `tandem bench`, checked before anything is loaded."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from app.cli.command import STDIN
from app.cli.command_line import BENCH_TOKENS, CHECK_TOKENS, QUICK_KINDS, QUICK_TOKENS, REPEAT, SAMPLES
from app.cli.options import Options, read_options
from app.cli.race_session import answer_request, fixed_params
from app.cli.result_file import LineFile, check_writable, exists_already
from app.compare.server import Server
from app.compare.sides import Side, sides_of
from app.compare.suite import Prompt, choose, load_suite, read_suite
from app.core.errors import UsageError
from app.core.printable import printable
from app.core.regular_file import exists
from app.worker.request import AnswerRequest

CARD_SUFFIXES = (".md", ".svg")
_QUICK_SAMPLES = 50


@dataclass(frozen=True, slots=True)
class BenchTask:
    """Options of a benchmark.

    Attributes:
        repeat: Most runs of each side that count.
        is_quick: Stop when the overall result is clear, not that of every kind.
        ends_early: Skip rounds that would not change the result.
        server: A running server to measure, or None.
        save: File of the JSON lines.
        card: Name of the share card's files without suffix, or None.
        samples: Sampled answers of each side, when texts are compared.
    """

    options: Options
    prompts: tuple[Prompt, ...]
    request: AnswerRequest
    sides: tuple[Side, ...]
    repeat: int
    is_quick: bool
    ends_early: bool
    server: Server | None
    save: LineFile
    card: str | None
    as_json: bool
    with_steps: bool
    oracle: bool
    check_lossless: bool
    samples: int


def read_task(args: argparse.Namespace) -> BenchTask:
    """Read and check the options. Raises UsageError."""
    options = read_options(args, modes=("auto", "fixed"), use_recommended=False)
    sides = sides_of(options.automatic, fixed_params(args, options))
    quick, checking = "quick" in args, "check_lossless" in args
    kinds: Sequence[str] | None = [kind.strip() for kind in args.kinds.split(",")] if "kinds" in args else None
    if quick and kinds is None and "prompts" not in args:
        kinds = QUICK_KINDS
    # One prompt of each built-in kind is enough to compare texts.
    per_kind = 1 if quick or (checking and "prompts" not in args) else None
    card = str(args.card) if "card" in args else None
    if card is not None:
        for suffix in CARD_SUFFIXES:
            check_writable(file := Path(card + suffix))
            # --card README would overwrite README.md.
            if exists(file) and "force" not in args:
                raise exists_already(file)
    return BenchTask(
        options=options,
        prompts=tuple(choose(_suite(getattr(args, "prompts", None)), kinds, per_kind)),
        request=answer_request(args, options, QUICK_TOKENS if quick else CHECK_TOKENS if checking else BENCH_TOKENS),
        sides=sides,
        repeat=getattr(args, "repeat", REPEAT),
        is_quick=quick,
        ends_early="repeat" not in args,
        server=Server(args.against, key=_api_key(args)) if "against" in args else None,
        save=LineFile(getattr(args, "save", None)),
        card=card,
        as_json="json" in args,
        with_steps="steps" in args,
        oracle="oracle" in args,
        check_lossless=checking,
        samples=getattr(args, "samples", _QUICK_SAMPLES if quick else SAMPLES),
    )


def _suite(file: Path | None) -> tuple[Prompt, ...]:
    return read_suite(sys.stdin.buffer.read(), "Standard input") if file == STDIN else load_suite(file)


def _api_key(args: argparse.Namespace) -> str:
    """Return the server's API key; arguments are visible to other users."""
    name: str | None = getattr(args, "api_key_env", None)
    if name is None:
        return ""
    key = os.environ.get(name, "").strip()
    if not key:
        raise UsageError(f"The environment has no {printable(name)}, or it is empty.", "Set it to the server's key.")
    return key
