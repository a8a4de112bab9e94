"""Flags and help. Flags that were not given are absent from the result, so that defaults have one home elsewhere."""

from __future__ import annotations

import argparse
from typing import Any

from app import __version__
from app.cli.argument_parser import Commands, SentenceParser, file_path
from app.cli.bench.flags import BENCH_DEFAULTS, BENCH_EPILOG, add_bench_arguments
from app.cli.compare.flags import COMPARE_DEFAULTS, COMPARE_EPILOG, add_compare_arguments
from app.cli.conversations.flags import EXPORT_EPILOG, IMPORT_EPILOG, add_export_arguments, add_import_arguments
from app.cli.doctor.flags import DOCTOR_EPILOG, add_doctor_arguments
from app.cli.flags import ANSWERS, PAIRS, add_setting_flags
from app.cli.help_page import page
from app.cli.pairs.flags import PAIRS_EPILOG, add_pairs_arguments
from app.cli.process import add_process_flags
from app.cli.settings.flags import SETTINGS_EPILOG, add_settings_arguments
from app.cli.setup.flags import SETUP_EPILOG, add_setup_arguments
from app.cli.tune.flags import TUNE_EPILOG, add_tune_arguments

_EPILOG = """examples:
  tandem                                     open the chat
  tandem run "Why is the sky blue?"          one answer to standard output
  tandem run --target big.gguf --draft small.gguf "Write a haiku."
"""

_RUN_EPILOG = """examples:
  tandem run "Write a quicksort in Python."
  tandem run --temp 0 --json "Name three rivers." > answer.json
  tandem run --file notes.md "Sum this up."
  git diff | tandem run --system "Write a commit message." -
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole program."""
    parser = SentenceParser(
        prog="tandem",
        description="Chat with a local model that answers faster: a small draft model runs ahead, the big one checks.",
        **page(_EPILOG),
    )
    parser.add_argument("--version", action="version", version=f"tandem {__version__}")
    parser.set_defaults(command="chat")
    _add_pair_flags(parser)
    add_process_flags(parser)
    add_setting_flags(parser, ANSWERS)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", action=Commands)
    run = commands.add_parser("run", help="answer one prompt on standard output", **page(_RUN_EPILOG))
    run.description = (
        "Answer one prompt on standard output; numbers go to standard error. Terminal control and invisible characters "
        "are removed from the answer, in pipes and files too; --json keeps them as escapes."
    )
    run.set_defaults(command="run")
    run.add_argument(
        "prompt",
        nargs="?",
        metavar="PROMPT",
        help="the prompt; - or a pipe gives it on standard input",
    )
    run.add_argument(
        "--prompt-file", type=file_path, metavar="FILE", help="read the prompt from a file, - for standard input"
    )
    run.add_argument("--prefill", metavar="TEXT", help="what the answer begins with; it goes on from there")
    run.add_argument(
        "--file",
        type=file_path,
        action="append",
        metavar="FILE",
        help="a text file to put before the prompt, - for standard input (repeatable)",
    )
    run.add_argument("--json", action="store_true", help="print one JSON object with the answer and all numbers")
    _add_pair_flags(run)
    add_process_flags(run)
    add_setting_flags(run, ANSWERS)
    tune = commands.add_parser("tune", help="measure what drafting costs here, and show it", **page(TUNE_EPILOG))
    tune.description = "Measure what batches and drafted tokens cost on this machine; automatic drafting goes by it."
    tune.set_defaults(command="tune")
    add_tune_arguments(tune)
    _add_pair_flags(tune)
    doctor = commands.add_parser("doctor", help="what this machine has, and what is wrong", **page(DOCTOR_EPILOG))
    doctor.description = "What this machine has, what the installed llama.cpp can use of it, and what to do about it."
    doctor.set_defaults(command="doctor")
    add_doctor_arguments(doctor)
    _add_pair_flags(doctor)
    setup = commands.add_parser("setup", help="download, check and remember a pair", **page(SETUP_EPILOG))
    setup.description = "Find a pair that fits this machine, download both models, check them, try them, remember them."
    setup.set_defaults(command="setup")
    add_setup_arguments(setup)
    pairs = commands.add_parser(
        "pairs", help="list, show, check, find, add, remove and choose pairs", **page(PAIRS_EPILOG)
    )
    pairs.set_defaults(command="pairs", action="list")
    add_pairs_arguments(pairs)
    _add_export(commands)
    _add_comparisons(commands)
    settings = commands.add_parser("settings", help="show and change the settings", **page(SETTINGS_EPILOG))
    settings.description = "Show and change the settings that hold for all commands and conversations."
    settings.set_defaults(command="settings", action="show")
    add_settings_arguments(settings)
    return parser


def _add_comparisons(commands: Any) -> None:
    compare = commands.add_parser("compare", help="one prompt with and without drafts", **page(COMPARE_EPILOG))
    compare.description = "Run one prompt with and without drafts on the weights loaded once, in alternating order."
    compare.set_defaults(command="compare")
    add_compare_arguments(compare)
    bench = commands.add_parser("bench", help="a suite of prompts by kind of text", **page(BENCH_EPILOG))
    bench.description = "Measure plain decoding, automatic drafting and fixed settings on prompts of many kinds."
    bench.set_defaults(command="bench")
    add_bench_arguments(bench)
    for parser, defaults in ((compare, COMPARE_DEFAULTS), (bench, BENCH_DEFAULTS)):
        _add_pair_flags(parser)
        add_setting_flags(parser, ANSWERS, defaults)


def _add_export(commands: Any) -> None:
    export = commands.add_parser("export", help="conversations as Markdown or JSON", **page(EXPORT_EPILOG))
    export.description = "Write conversations to a file or to standard output."
    export.set_defaults(command="export")
    add_export_arguments(export)
    import_ = commands.add_parser("import", help="conversations from Markdown or JSON", **page(IMPORT_EPILOG))
    import_.description = "Read conversations from a file, beside those that are there."
    import_.set_defaults(command="import")
    add_import_arguments(import_)


def _add_pair_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("models")
    group.add_argument(
        "--pair", metavar="NAME", help="a pair by name (default: that of tandem pairs default, else demo)"
    )
    group.add_argument("--target", metavar="MODEL", help="the model that answers: a GGUF file, or owner/repo:QUANT")
    group.add_argument("--draft", metavar="MODEL", help="the small model that runs ahead, likewise")
    add_setting_flags(parser, PAIRS)
