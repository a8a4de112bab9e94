"""Every command with its options and help: those that load a pair here, the others in `app.cli.library_commands`."""

import sys
from collections.abc import Sequence

import click
from click import Argument

from app import __version__
from app.cli.command import STREAM, Call, Command, FilePath, Group, Option, WholeNumber, parse, switch
from app.cli.library_commands import EXPORT, IMPORT, JSON, PAIRS, SETTINGS, SETUP, TOOLS
from app.cli.setting_flags import ANSWER_TABLES, PAIR_TABLES, SEED, setting_options

COMPARE_TOKENS, BENCH_TOKENS, QUICK_TOKENS = 256, 128, 48
REPEAT = 3
KINDS = ("code", "edit", "prose", "chat", "extraction", "structured", "reasoning", "translation")
"""Kinds of text of the built-in suite; repeated here because --help must not read the suite."""
QUICK_KINDS = ("code", "edit", "prose", "chat")


def parse_args(argv: Sequence[str] | None = None) -> Call:
    """Read a command line; see `app.cli.command.parse` for errors."""
    return parse(ROOT, sys.argv[1:] if argv is None else argv)


def _count(flag: str, text: str) -> Option:
    return Option(flag, type=WholeNumber(min=1), help=text)


def _model(*flags: str, alias: str, text: str, multiple: bool = False) -> Option:
    return Option(*flags, aliases=[alias], multiple=multiple, metavar="MODEL", section="Models", help=text)


def _rpc(*, rare: bool) -> Option:
    text = (
        "use the devices of a ggml-rpc-server too (repeatable; implies --isolate); prompts and weights cross the "
        "network unencrypted, use it on trusted networks only"
    )
    return Option("--rpc", metavar="HOST:PORT", multiple=True, section="Process", rare=rare, help=text)


_DRAFT_HELP = "draft model: a GGUF file or owner/repo:QUANT"
_FIXED = Option("--fixed", metavar="n_max=N,p_min=P", help="also measure these fixed draft parameters")
_ISOLATE = switch(
    "--isolate", section="Process", rare=True, help="run the models in a child process, so a crash spares Tandem"
)
_PAIR_FLAGS = [
    Option("--pair", metavar="NAME", section="Models", help="pair to load (default: tandem pairs default, else demo)"),
    _model("-m", "--target", alias="--model", text="target (main model): a GGUF file or owner/repo:QUANT"),
    _model("-md", "--draft", alias="--model-draft", text=_DRAFT_HELP),
    *setting_options(PAIR_TABLES),
]
_DRAFTS_FLAG = _model(
    "-md", "--draft", alias="--model-draft", text=f"{_DRAFT_HELP} (repeat to find the best)", multiple=True
)
_CHAT_OPTIONS = [*_PAIR_FLAGS, *setting_options(ANSWER_TABLES, calls_tools=True), _ISOLATE, _rpc(rare=True)]


def _in_one(_context: object, _argument: object, words: Sequence[str]) -> str | None:
    """Join the words of a prompt; a pipe is read with or without "-" after them."""
    return " ".join(word for word in words if word != "-") or ("-" if words else None)


_RUN = Command(
    "run",
    "answer one prompt on stdout",
    [
        Argument(["prompt"], required=False, nargs=-1, callback=_in_one),
        Option("-f", "--prompt-file", type=STREAM, help="read the prompt from a file, - for stdin"),
        Option(
            "--file",
            type=STREAM,
            multiple=True,
            help="put a text, document or picture before the prompt (repeatable)",
        ),
        Option("--prefill", metavar="TEXT", help="begin the answer with this text"),
        Option("--json-schema", type=FilePath(), help="answer with JSON of this schema"),
        Option("--grammar", type=FilePath(), help="answer by this grammar, in llama.cpp's GBNF"),
        Option("--allow", metavar="TOOL", multiple=True, help="let the model call this tool of --tools (repeatable)"),
        switch("--no-server", help="load the models here, even if tandem serve runs this pair"),
        JSON,
        *_CHAT_OPTIONS,
    ],
    notes="Statistics go to stderr. A pipe is put before the prompt, or is the prompt if there is no other. Put -- "
    "before a prompt that starts with a dash. Control characters are removed from the answer; --json escapes them.",
    examples="""
tandem run "Write a quicksort in Python."
tandem run --temp 0 --json "Name three rivers." > answer.json
tandem run --file notes.md "Sum this up."
tandem run --tools files --allow read_file "Sum up notes.md."
git diff | tandem run "Write a commit message."
git diff | tandem run --system "Write a commit message." -
""",
)
_SERVE = Command(
    "serve",
    "serve the pair to editors and agents, with the APIs of OpenAI and Anthropic",
    [
        Option("--host", metavar="ADDRESS", help="address to listen on (default: 127.0.0.1, this machine only)"),
        Option("--port", type=WholeNumber(0, 65_535), help="port (default: 8087; 0 chooses one)"),
        Option("--api-key", metavar="KEY", help="API key that clients must send (default: TANDEM_API_KEY)"),
        Option(
            "--cors", multiple=True, metavar="ORIGIN", help="origin of web pages that may call the server (repeatable)"
        ),
        *_PAIR_FLAGS,
        *setting_options(ANSWER_TABLES),
        _ISOLATE,
        _rpc(rare=True),
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
        Option("--save", type=FilePath(), help="write numbers and texts as JSON"),
        JSON,
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
        Option("--prompts", type=STREAM, help="use other prompts: TOML by kind or one per line, - for stdin"),
        Option("--kinds", metavar="KIND,...", help=f"use only these kinds of text: {', '.join(KINDS)}"),
        _count("--repeat", f"counted runs of each side (default: up to {REPEAT})"),
        _FIXED,
        Option("--save", type=FilePath(), help="write the JSON lines to a file"),
        Option("--card", type=FilePath(), metavar="NAME", help="write a share card to NAME.md and NAME.svg"),
        switch("--force", help="overwrite the card's files"),
        JSON,
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
    "compared. --json prints one object per run and one at the end.",
    examples="""
tandem bench                                      every kind of text
tandem bench --quick --fixed n_max=7,p_min=0.6    short, with fixed parameters
tandem bench --card result --save result.jsonl    result.md and result.svg
""",
    function="compare:bench",
)
_TUNE = Command(
    "tune",
    "measure the cost of a verify step, or find the best draft or placement",
    [
        Option("--prompts", type=FilePath(), help="prompts to compare drafts on: TOML or one per line"),
        switch("--placement", help="compare placements on GPU and RAM, and keep the fastest for this pair"),
        JSON,
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
    [Argument(["named"], metavar="[PAIR]", required=False), _rpc(rare=False), JSON, *_PAIR_FLAGS],
    examples="""
tandem doctor
tandem doctor qwen3.8-27b                  where it goes and what slows it down
tandem doctor --rpc workstation:50052      with the devices of another machine
tandem doctor --json > machine.json
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
_OPEN_OPTIONS = [switch("--continue", "continues", help="open the last conversation, with its pair"), *_CHAT_OPTIONS]
ROOT = Group(
    "tandem",
    _CHAT_SUMMARY,
    [
        *_OPEN_OPTIONS,
        switch("--version", help="print the version", is_eager=True, expose_value=False, callback=_print_version),
    ],
    default="chat",
    commands=[
        *(SETUP, _RUN, _SERVE, _COMPARE, _BENCH, _TUNE, PAIRS, _DOCTOR, SETTINGS, TOOLS, EXPORT, IMPORT),
        Command("chat", "open the chat", _OPEN_OPTIONS, examples=_CHAT_EXAMPLES, hidden=True),
    ],
    notes="A small draft model proposes tokens and the target verifies them in one pass: the same answers, sooner. "
    "Without a command, tandem opens the chat.",
    examples=_CHAT_EXAMPLES,
)
