"""Flags and help. Flags that were not given are absent from the result, so that defaults have one home elsewhere."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from app import __version__
from app.cli.argument_parser import SentenceParser, file_path
from app.cli.bench.flags import BENCH_EPILOG, add_bench_arguments
from app.cli.compare.flags import COMPARE_EPILOG, add_compare_arguments
from app.cli.conversations.flags import EXPORT_EPILOG, IMPORT_EPILOG, add_export_arguments, add_import_arguments
from app.cli.doctor.flags import DOCTOR_EPILOG, add_doctor_arguments
from app.cli.flags import ANSWERS, PAIRS, add_setting_flags
from app.cli.help_page import HelpPage
from app.cli.process import add_process_flags

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


_TUNE_EPILOG = """examples:
  tandem tune
  tandem tune --target big.gguf --draft small.gguf --heat-map "Write a haiku."
"""


_SETUP_EPILOG = """examples:
  tandem setup                               propose the best here, and ask
  tandem setup coder-32b --yes               download, check and try this pair
  tandem setup --target owner/big-GGUF:Q4_K_M --draft owner/small-GGUF
"""

_PAIRS_EPILOG = """examples:
  tandem pairs list
  tandem pairs check coder-32b
  tandem pairs check owner/big-GGUF:Q4_K_M owner/small-GGUF
  tandem pairs find bartowski/Qwen2.5-14B-Instruct-GGUF
  tandem pairs remove coder-32b
"""


_ACTION_EXAMPLES = {
    ("pairs", "list"): "list --json",
    ("pairs", "show"): "show coder-32b",
    ("pairs", "check"): "check owner/big-GGUF:Q4_K_M owner/small-GGUF",
    ("pairs", "find"): "find bartowski/Qwen2.5-14B-Instruct-GGUF",
    ("pairs", "add"): "add mine big.gguf small.gguf",
    ("pairs", "remove"): "remove coder-32b",
    ("pairs", "default"): "default coder-32b",
    ("settings", "show"): "show --json",
    ("settings", "set"): "set sampling.temp 0.2",
    ("settings", "unset"): "unset temp",
    ("settings", "path"): "path",
}


_SETTINGS_EPILOG = """examples:
  tandem settings                            each value, and where it is from
  tandem settings --pair coder-32b           likewise, with another pair
  tandem settings set sampling.temp 0.2      or as its flag is: set temp 0.2
  tandem settings set presets.brief.answer.system "Answer in one sentence."
  tandem settings unset temp
"""


def build_parser() -> argparse.ArgumentParser:
    """The parser of the whole program."""
    parser = SentenceParser(
        prog="tandem",
        description="Chat with a local model that answers faster: a small draft model runs ahead, the big one checks.",
        **_style(_EPILOG),
    )
    parser.add_argument("--version", action="version", version=f"tandem {__version__}")
    parser.set_defaults(command="chat")
    _add_pair_flags(parser)
    add_process_flags(parser)
    add_setting_flags(parser, ANSWERS)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    run = commands.add_parser("run", help="answer one prompt on standard output", **_style(_RUN_EPILOG))
    run.description = "Answer one prompt on standard output; numbers go to standard error."
    run.set_defaults(command="run")
    run.add_argument(
        "prompt",
        nargs="?",
        metavar="PROMPT",
        help="the prompt; - or a pipe gives it on standard input",
    )
    run.add_argument("--prompt-file", type=file_path, metavar="FILE", help="read the prompt from a file")
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
    tune = commands.add_parser("tune", help="measure what drafting costs here, and show it", **_style(_TUNE_EPILOG))
    tune.description = "Measure what batches and drafted tokens cost on this machine; automatic drafting goes by it."
    tune.set_defaults(command="tune")
    tune.add_argument("--quick", action="store_true", help="costs only, without following a sample answer")
    tune.add_argument("--heat-map", metavar="PROMPT", help="show every fixed setting on the answer to this prompt")
    tune.add_argument("--save-trace", type=file_path, metavar="FILE", help="append the followed answer, for replays")
    tune.add_argument("--json", action="store_true", help="print one JSON object")
    _add_pair_flags(tune)
    doctor = commands.add_parser("doctor", help="what this machine has, and what is wrong", **_style(DOCTOR_EPILOG))
    doctor.description = "What this machine has, what the installed llama.cpp can use of it, and what to do about it."
    doctor.set_defaults(command="doctor")
    add_doctor_arguments(doctor)
    _add_pair_flags(doctor)
    _add_setup(commands)
    _add_pairs(commands)
    _add_export(commands)
    _add_comparisons(commands)
    _add_settings(commands)
    return parser


def _add_setup(commands: Any) -> None:
    setup = commands.add_parser("setup", help="download, check and remember a pair", **_style(_SETUP_EPILOG))
    setup.description = "Find a pair that fits this machine, download both models, check them, try them, remember them."
    setup.set_defaults(command="setup")
    setup.add_argument("pair", nargs="?", metavar="PAIR", help="a pair by name; none proposes the best that fits")
    setup.add_argument(
        "--target", metavar="MODEL", help="owner/repo, owner/repo:QUANT, an address on the hub, or a file"
    )
    setup.add_argument("--draft", metavar="MODEL", help="the draft, likewise")
    setup.add_argument("--name", metavar="NAME", help="what to call a pair given by --target and --draft")
    setup.add_argument("--yes", "-y", action="store_true", help="do not ask")
    setup.add_argument("--no-trial", action="store_true", help="do not load the pair in the end")
    setup.add_argument("--no-default", action="store_true", help="keep the default pair as it is")
    setup.add_argument("--json", action="store_true", help="print one JSON object about the result")


def _add_pairs(commands: Any) -> None:
    pairs = commands.add_parser(
        "pairs", help="list, show, check, find, add, remove and choose pairs", **_style(_PAIRS_EPILOG)
    )
    pairs.set_defaults(command="pairs", action="list")
    add_action = _actions_of(pairs, "pairs")

    def action(name: str, help_: str, *, as_json: bool = True) -> argparse.ArgumentParser:
        made = add_action(name, help_)
        if as_json:
            made.add_argument("--json", action="store_true", help="print JSON")
        return made

    action("list", "All known pairs, what fits here and what is on disk.")
    action("show", "Everything about one pair.").add_argument("pair", metavar="PAIR")
    check = action("check", "Read the headers of two models, a few megabytes, and say whether they can ride together.")
    check.add_argument(
        "target",
        metavar="PAIR|TARGET",
        help="the name of a pair, for both of its models; or owner/repo[:quant or file], an address on the hub, a file",
    )
    check.add_argument("draft", nargs="?", metavar="DRAFT", help="likewise; none looks at the target alone")
    check.add_argument("--ctx", type=int, metavar="N", help="context to reckon the memory for (default: 8,192)")
    find = action("find", "Propose drafts for a target, from the catalogue and from the hub.")
    find.add_argument("target", metavar="TARGET", help="owner/repo[:quant or file], an address on the hub, or a file")
    add = action("add", "Remember a pair of files that are on this machine, or set up one from the hub.")
    add.add_argument("name", metavar="NAME")
    add.add_argument("target", metavar="TARGET")
    add.add_argument("draft", nargs="?", metavar="DRAFT")
    remove = action(
        "remove", "Forget a pair, and delete the files that Tandem downloaded or made for it.", as_json=False
    )
    remove.add_argument("pair", metavar="PAIR")
    remove.add_argument("--keep-files", action="store_true", help="only forget it")
    remove.add_argument("--all-files", action="store_true", help="also delete files that other programs downloaded")
    remove.add_argument("--yes", "-y", action="store_true", help="do not ask")
    action("default", "Take this pair when none is named.", as_json=False).add_argument("pair", metavar="PAIR")


def _add_comparisons(commands: Any) -> None:
    compare = commands.add_parser("compare", help="one prompt with and without drafts", **_style(COMPARE_EPILOG))
    compare.description = "Run one prompt with and without drafts on the weights loaded once, in alternating order."
    compare.set_defaults(command="compare")
    add_compare_arguments(compare)
    bench = commands.add_parser("bench", help="a suite of prompts by kind of text", **_style(BENCH_EPILOG))
    bench.description = "Measure plain decoding, automatic drafting and fixed settings on prompts of many kinds."
    bench.set_defaults(command="bench")
    add_bench_arguments(bench)
    for parser in (compare, bench):
        _add_pair_flags(parser)
        add_setting_flags(parser, ANSWERS)


def _add_settings(commands: Any) -> None:
    settings = commands.add_parser("settings", help="show and change the settings", **_style(_SETTINGS_EPILOG))
    settings.description = "Show and change the settings that hold for all commands and conversations."
    settings.set_defaults(command="settings", action="show")
    _add_shown_settings(settings)
    action = _actions_of(settings, "settings")
    show = action("show", "Every setting, its value, and where it comes from.")
    _add_shown_settings(show)
    set_ = action("set", "Write a setting down.")
    set_.add_argument("name", metavar="NAME", help="of the setting, with presets.PRESET. in front for one of a preset")
    set_.add_argument("value", metavar="VALUE")
    unset = action("unset", "Take a setting, a preset or a key out of the file.")
    unset.add_argument("name", metavar="NAME")
    action("path", "Where the file is.")


def _add_shown_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pair", metavar="NAME", help="as they count with this pair (default: the one of the chat)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def _add_export(commands: Any) -> None:
    export = commands.add_parser("export", help="conversations as Markdown or JSON", **_style(EXPORT_EPILOG))
    export.description = "Write conversations to a file or to standard output."
    export.set_defaults(command="export")
    add_export_arguments(export)
    import_ = commands.add_parser("import", help="conversations from Markdown or JSON", **_style(IMPORT_EPILOG))
    import_.description = "Read conversations from a file, beside those that are there."
    import_.set_defaults(command="import")
    add_import_arguments(import_)


def _actions_of(parser: argparse.ArgumentParser, command: str) -> Callable[[str, str], argparse.ArgumentParser]:
    """How a command gets its actions: each by its name and what it does."""
    actions = parser.add_subparsers(title="actions", metavar="ACTION")

    def action(name: str, help_: str) -> argparse.ArgumentParser:
        example = f"example:\n  tandem {command} {_ACTION_EXAMPLES[command, name]}\n"
        style = _style(example)
        made: argparse.ArgumentParser = actions.add_parser(name, help=help_, description=help_, **style)
        made.set_defaults(command=command, action=name)
        return made

    return action


def _style(epilog: str) -> dict[str, Any]:
    return {
        "epilog": epilog,
        "formatter_class": HelpPage,
        "argument_default": argparse.SUPPRESS,
        "allow_abbrev": False,
    }


def _add_pair_flags(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("models")
    group.add_argument(
        "--pair", metavar="NAME", help="a pair by name (default: that of tandem pairs default, else demo)"
    )
    group.add_argument("--target", metavar="MODEL", help="the model that answers: a GGUF file, or owner/repo:QUANT")
    group.add_argument("--draft", metavar="MODEL", help="the small model that runs ahead, likewise")
    add_setting_flags(parser, PAIRS)
