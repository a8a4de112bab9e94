"""Every command with its options and help."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click
from click import Argument

from app import __version__
from app.cli.command import STREAM, Command, FilePath, Group, Option, parse, switch
from app.cli.setting_flags import ANSWER_TABLES, PAIR_TABLES, SEED, setting_options
from app.settings.table import MAX_CONTEXT

if TYPE_CHECKING:
    from argparse import Namespace

COMPARE_TOKENS, BENCH_TOKENS, QUICK_TOKENS = 256, 128, 48
REPEAT = 3
KINDS = ("code", "edit", "prose", "chat", "extraction", "structured", "reasoning", "translation")
"""Kinds of text of the built-in suite; not read from it, since --help must be fast."""
QUICK_KINDS = ("code", "edit", "prose", "chat")
_MODEL_FORMS = "owner/repo, owner/repo:QUANT, a Hugging Face URL or a GGUF file"


def parse_args(argv: Sequence[str] | None = None) -> Namespace:
    """Read a command line; raises as `app.cli.command.parse`."""
    return parse(ROOT, sys.argv[1:] if argv is None else argv)


def _count(flag: str, text: str) -> Option:
    return Option(flag, type=click.IntRange(min=1), metavar="N", help=text)


def _model(*flags: str, alias: str, text: str) -> Option:
    return Option(*flags, aliases=[alias], metavar="MODEL", section="Models", help=text)


def _rpc(*, rare: bool) -> Option:
    text = (
        "use the devices of a ggml-rpc-server too (repeatable; implies --isolate); prompts and weights cross the "
        "network unencrypted, use it on trusted networks only"
    )
    return Option("--rpc", metavar="HOST:PORT", multiple=True, section="Process", rare=rare, help=text)


_JSON = switch("--json", help="print JSON")
_YES = switch("-y", "--yes", help="do not ask")
_FIXED = Option("--fixed", metavar="n_max=N,p_min=P", help="also measure these fixed draft parameters")
_ISOLATE = switch(
    "--isolate", section="Process", rare=True, help="run the models in a child process, so a crash spares Tandem"
)
_PAIR_FLAGS = [
    Option("--pair", metavar="NAME", section="Models", help="pair to load (default: tandem pairs default, else demo)"),
    _model("-m", "--target", alias="--model", text="target (main model): a GGUF file or owner/repo:QUANT"),
    _model("-md", "--draft", alias="--model-draft", text="draft model: a GGUF file or owner/repo:QUANT"),
    *setting_options(PAIR_TABLES),
]
_DRAFTS_FLAG = Option(
    *("-md", "--draft"),
    multiple=True,
    aliases=["--model-draft"],
    metavar="MODEL",
    section="Models",
    help="draft model: a GGUF file or owner/repo:QUANT (repeat to find the best)",
)
_CHAT_OPTIONS = [*_PAIR_FLAGS, *setting_options(ANSWER_TABLES), _ISOLATE, _rpc(rare=True)]


def _in_one(_context: object, _argument: object, words: Sequence[str]) -> str | None:
    """Return a prompt in several words as one; a pipe is read with or without "-" behind them."""
    return " ".join(word for word in words if word != "-") or ("-" if words else None)


_RUN = Command(
    "run",
    "answer one prompt on stdout",
    [
        Argument(["prompt"], required=False, nargs=-1, callback=_in_one),
        Option("-f", "--prompt-file", type=STREAM, metavar="FILE", help="read the prompt from a file, - for stdin"),
        Option(
            "--file", type=STREAM, multiple=True, metavar="FILE", help="put a text file before the prompt (repeatable)"
        ),
        Option("--prefill", metavar="TEXT", help="begin the answer with this text"),
        Option("--json-schema", type=FilePath(), metavar="FILE", help="answer with JSON of this schema"),
        Option("--grammar", type=FilePath(), metavar="FILE", help="answer by this grammar, in llama.cpp's GBNF"),
        switch("--no-server", help="load the models here, also if tandem serve runs this pair"),
        _JSON,
        *_CHAT_OPTIONS,
    ],
    notes="Statistics go to stderr. A pipe is put before the prompt, or is the prompt if there is no other. Put -- "
    "before a prompt that starts with a dash. Control characters are removed from the answer; --json escapes them.",
    examples="""
tandem run "Write a quicksort in Python."
tandem run --temp 0 --json "Name three rivers." > answer.json
tandem run --file notes.md "Sum this up."
git diff | tandem run "Write a commit message."
git diff | tandem run --system "Write a commit message." -
""",
)
_SERVE = Command(
    "serve",
    "serve the pair to editors and agents, with the APIs of OpenAI and Anthropic",
    [
        Option("--host", metavar="ADDRESS", help="address to listen on (default: 127.0.0.1, this machine only)"),
        Option("--port", type=click.IntRange(0, 65_535), metavar="N", help="port (default: 8087; 0 chooses one)"),
        Option("--api-key", metavar="KEY", help="API key that clients must send (default: TANDEM_API_KEY)"),
        Option(
            "--cors", multiple=True, metavar="ORIGIN", help="origin of web pages that may call the server (repeatable)"
        ),
        *_CHAT_OPTIONS,
    ],
    notes="Tandem answers one request at a time with the loaded pair, whatever model the request names. "
    "Fields of a request override the settings.",
    examples="""
tandem serve                               http://127.0.0.1:8087/v1
tandem serve --pair qwen3.5-9b --ctx 16384
""",
)
_COMPARE = Command(
    "compare",
    "run one prompt with and without the draft",
    [
        Argument(["prompt"], required=False),
        _count("--repeat", f"counted runs of each side (default: {REPEAT})"),
        _FIXED,
        Option("--save", type=FilePath(), metavar="FILE", help="write numbers and texts as JSON"),
        _JSON,
        *_PAIR_FLAGS,
        *setting_options(
            ANSWER_TABLES,
            {"answer.max_tokens": f"{COMPARE_TOKENS}; settings can only lower it", "sampling.seed": f"{SEED}"},
        ),
    ],
    notes="Both sides share the loaded weights and run in alternating order. The prompt - is read from stdin.",
    examples="""
tandem compare "Write a quicksort in Python."
tandem compare --repeat 5 --fixed n_max=7,p_min=0.6 "Why is the sky blue?"
tandem compare --json "Name three rivers." > comparison.json
""",
)
_BENCH = Command(
    "bench",
    "measure the speedup on a suite of prompts",
    [
        switch("--quick", help=f"one short answer for each of {', '.join(QUICK_KINDS)}, until the speedup is clear"),
        Option(
            "--prompts", type=STREAM, metavar="FILE", help="use other prompts: TOML by kind or one a line, - for stdin"
        ),
        Option("--kinds", metavar="KIND,...", help=f"use only these kinds of text: {', '.join(KINDS)}"),
        _count("--repeat", f"counted runs of each side (default: up to {REPEAT})"),
        _FIXED,
        Option("--save", type=FilePath(), metavar="FILE", help="write the JSON lines to a file"),
        Option("--card", type=FilePath(), metavar="NAME", help="write a share card to NAME.md and NAME.svg"),
        switch("--force", help="overwrite the card's files"),
        _JSON,
        *_PAIR_FLAGS,
        *setting_options(
            ANSWER_TABLES,
            {
                "answer.max_tokens": f"{BENCH_TOKENS}, with --quick {QUICK_TOKENS}; settings can only lower it",
                "sampling.seed": f"{SEED}",
            },
        ),
    ],
    notes="Sampling settings recommended by the model file are ignored, so that results of different files can be "
    "compared. --json prints one object a run and one at the end.",
    examples="""
tandem bench                                      every kind of text
tandem bench --quick --fixed n_max=7,p_min=0.6    short, with fixed parameters
tandem bench --card result --save result.jsonl    result.md and result.svg
""",
)
_TUNE = Command(
    "tune",
    "measure the cost of a verify step, or find the best draft or placement",
    [
        Option("--prompts", type=FilePath(), metavar="FILE", help="prompts to compare drafts on: TOML or one per line"),
        switch("--placement", help="compare placements on GPU and RAM, and keep the fastest for this pair"),
        _JSON,
        *(_DRAFTS_FLAG if option.name == "draft" else option for option in _PAIR_FLAGS),
    ],
    notes="Automatic drafting uses these measurements. Several drafts are compared on text that the target writes.",
    examples="""
tandem tune
tandem tune -m big.gguf -md small.gguf
tandem tune -m big.gguf -md small-Q8_0.gguf -md small-Q4_0.gguf    find the best draft
tandem tune --placement                                            find the best placement
""",
)
_DOCTOR = Command(
    "doctor",
    "show your hardware, whether llama.cpp uses it, and how to fix it",
    [Argument(["named"], metavar="[PAIR]", required=False), _rpc(rare=False), _JSON, *_PAIR_FLAGS],
    examples="""
tandem doctor
tandem doctor qwen3.8-27b                  where it goes and what slows it down
tandem doctor --rpc workstation:50052      with the devices of another machine
tandem doctor --json > machine.json
""",
)
_SETUP = Command(
    "setup",
    "download, verify and try a pair that fits this machine",
    [
        Argument(["pair"], required=False),
        Option("-m", "--target", metavar="MODEL", help=_MODEL_FORMS),
        Option(
            "-md",
            "--draft",
            metavar="MODEL",
            help="draft model, in the same forms, or none (default: the target's draft layers)",
        ),
        Option("--name", metavar="NAME", help="name of a pair given by --target and --draft"),
        _YES,
        switch("--latest", help="use the current files where they changed on Hugging Face, without a checksum"),
        switch("--no-trial", help="do not load the pair after the download"),
        switch("--no-default", help="keep the default pair"),
        _JSON,
    ],
    examples="""
tandem setup                               choose from the best for this machine
tandem setup qwen3.8-27b --yes             download, verify and try this pair
tandem setup --target owner/big-GGUF:Q4_K_M --draft owner/small-GGUF
""",
)
_PAIRS = Group(
    "pairs",
    "list, show, check, find, add and remove pairs",
    default="list",
    commands=[
        Command("list", "list all pairs, what fits and what is on disk", [_JSON], examples="tandem pairs list --json"),
        Command("show", "show one pair", [Argument(["pair"]), _JSON], examples="tandem pairs show qwen3.8-27b"),
        Command(
            "check",
            "check whether two models are compatible, from their headers",
            [
                Argument(["target"], required=False),
                Argument(["draft"], required=False),
                switch("--all", help="ask Hugging Face for every file of the catalog: what is gone, changed or newer"),
                Option(
                    *("-c", "--ctx"),
                    type=click.IntRange(1, MAX_CONTEXT),
                    metavar="N",
                    help="context to estimate memory for (default: 8,192)",
                ),
                _JSON,
            ],
            notes=f"TARGET is the name of a pair, or {_MODEL_FORMS}. Without DRAFT, its draft layers are checked.",
            examples="tandem pairs check owner/big-GGUF:Q4_K_M owner/small-GGUF",
        ),
        Command(
            "find",
            "find draft models for a target",
            [
                Argument(["target"]),
                switch("--measure", help="measure those on this machine and name the best"),
                _JSON,
            ],
            notes=f"TARGET is {_MODEL_FORMS}.",
            examples="tandem pairs find bartowski/Qwen2.5-14B-Instruct-GGUF",
        ),
        Command(
            "add",
            "add a pair of local files, or download one",
            [Argument(["name"]), Argument(["target"]), Argument(["draft"], required=False), _JSON],
            examples="tandem pairs add mine big.gguf small.gguf",
        ),
        Command(
            "remove",
            "forget a pair and delete its downloaded files",
            [
                Argument(["pair"], required=False),
                switch("--unused", help="delete downloaded files that belong to no pair"),
                switch("--keep-files", help="keep the files"),
                switch("--all-files", help="also delete files that other programs downloaded"),
                _YES,
            ],
            examples="tandem pairs remove qwen3.8-27b",
        ),
        Command(
            "default",
            "choose the pair that is used when none is named",
            [Argument(["pair"])],
            examples="tandem pairs default qwen3.8-27b",
        ),
    ],
    examples="""
tandem pairs list
tandem pairs check qwen3.8-27b
tandem pairs find bartowski/Qwen2.5-14B-Instruct-GGUF
tandem pairs remove qwen3.8-27b
tandem pairs remove --unused
""",
)
_SHOW_FLAGS: list[click.Parameter] = [
    Option("--pair", metavar="NAME", help="show the values with this pair (default: the chat's)"),
    _JSON,
]
_SETTINGS = Group(
    "settings",
    "show and change settings",
    _SHOW_FLAGS,
    default="show",
    commands=[
        Command(
            "show", "show every setting, its value and origin", _SHOW_FLAGS, examples="tandem settings show --json"
        ),
        Command(
            "set",
            "change a setting",
            [Argument(["name"]), Argument(["value"])],
            notes="Put presets.PRESET. before NAME to change a preset.",
            examples="tandem settings set sampling.temp 0.2",
        ),
        Command(
            "unset",
            "remove a setting, preset or key from the file",
            [Argument(["name"])],
            examples="tandem settings unset temp",
        ),
        Command("path", "print the path of the settings file", examples="tandem settings path"),
    ],
    examples="""
tandem settings                            every value and its origin
tandem settings --pair qwen3.8-27b         with another pair
tandem settings set sampling.temp 0.2      short: set temp 0.2
tandem settings set presets.brief.answer.system "Answer in one sentence."
tandem settings unset temp
""",
)
_EXPORT = Command(
    "export",
    "export conversations as Markdown or JSON",
    [
        Argument(["conversation"], required=False),
        Option(
            "--format",
            type=click.Choice(["markdown", "json"]),
            help="markdown holds the active branch, json everything (default: by file name, else markdown)",
        ),
        Option("-o", "--output", type=STREAM, metavar="FILE", help="write to a file, - for stdout"),
        switch("--force", help="overwrite the file"),
        switch("--all", help="export every conversation"),
        switch("--list", help="list conversations; with --format json for scripts"),
    ],
    notes="CONVERSATION is a number or part of a title; without it the latest is exported.",
    examples="""
tandem export                              the latest, as Markdown
tandem export 12 --output quicksort.md     one by number
tandem export "trip to" --format json      one by part of its title
tandem export --all --output backup.json   everything, for tandem import
tandem export --list
""",
)
_IMPORT = Command(
    "import",
    "import conversations from Markdown or JSON",
    [Argument(["files"], type=FilePath(), nargs=-1, required=True)],
    notes="FILES may be folders. Existing conversations are skipped. Exports of ChatGPT, Claude, Open WebUI, LM "
    "Studio, llama.cpp's web UI, ShareGPT and llm are read too.",
    examples="""
tandem import backup.json              from tandem export --format json
tandem import quicksort.md             text whose headings name the speakers
tandem import conversations.json       the export of ChatGPT or Claude
tandem import ~/.lmstudio/conversations
""",
)


def _print_version(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked:
        print(f"tandem {__version__}", flush=True)
        ctx.exit()


_CHAT_SUMMARY = "chat with a local model, faster through speculative decoding"
_CHAT_EXAMPLES = """
tandem                                     open the chat
tandem setup                               choose and download a pair
tandem --continue                          open the last conversation
tandem run "Why is the sky blue?"          print one answer
tandem -m big.gguf -md small.gguf          open the chat with your own files
"""
_OPEN_OPTIONS = [switch("--continue", help="open the last conversation"), *_CHAT_OPTIONS]
ROOT = Group(
    "tandem",
    _CHAT_SUMMARY,
    [
        *_OPEN_OPTIONS,
        switch("--version", help="print the version", is_eager=True, expose_value=False, callback=_print_version),
    ],
    default="chat",
    commands=[
        *(_SETUP, _RUN, _SERVE, _COMPARE, _BENCH, _TUNE, _PAIRS, _DOCTOR, _SETTINGS, _EXPORT, _IMPORT),
        Command("chat", "open the chat", _OPEN_OPTIONS, examples=_CHAT_EXAMPLES, hidden=True),
    ],
    notes="A small draft model proposes tokens and the target verifies them in one pass: the same answers, sooner. "
    "Without a command, tandem opens the chat.",
    examples=_CHAT_EXAMPLES,
)
