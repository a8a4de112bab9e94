"""Commands about pairs, settings and conversations, with their options."""

import click
from click import Argument

from app.cli.command import STREAM, Command, FilePath, Group, Option, WholeNumber, switch
from app.settings.table import MAX_CONTEXT

_MODEL_FORMS = "owner/repo, owner/repo:QUANT, a Hugging Face URL or a GGUF file"
JSON = switch("--json", "as_json", help="print JSON")
_YES_SWITCH = switch("-y", "--yes", help="do not ask")
SETUP = Command(
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
        Option(
            "--mmproj",
            type=click.Choice(["auto", "none"]),
            help="none: no projector, the file that reads pictures (default: auto, the target's if it has one)",
        ),
        _YES_SWITCH,
        switch("--latest", help="use the current files if they changed on Hugging Face, without a checksum"),
        switch("--no-trial", help="do not load the pair after the download"),
        switch("--no-default", help="keep the default pair"),
        JSON,
    ],
    examples="""
tandem setup                               choose from the best for this machine
tandem setup qwen3.8-27b --yes             download, verify and try this pair
tandem setup --target owner/big-GGUF:Q4_K_M --draft owner/small-GGUF
""",
)
PAIRS = Group(
    "pairs",
    "list, show, check, find, add and remove pairs",
    noun="pairs",
    default="list",
    commands=[
        Command("list", "list all pairs, what fits and what is on disk", [JSON], "tandem pairs list --json"),
        Command("show", "show one pair", [Argument(["pair"]), JSON], "tandem pairs show qwen3.8-27b"),
        Command(
            "check",
            "check whether two models are compatible, from their headers",
            [
                Argument(["target"], required=False),
                Argument(["draft"], required=False),
                switch(
                    "--all",
                    "everything",
                    help="ask Hugging Face for every file of the catalog: what is gone, changed or newer",
                ),
                Option(
                    *("-c", "--ctx"),
                    type=WholeNumber(1, MAX_CONTEXT),
                    help="context to estimate memory for (default: 8,192)",
                ),
                JSON,
            ],
            "tandem pairs check owner/big-GGUF:Q4_K_M owner/small-GGUF",
            notes=f"TARGET is the name of a pair, or {_MODEL_FORMS}. Without DRAFT, its draft layers are checked.",
            function="pairs_check:check_pairs",
        ),
        Command(
            "find",
            "find draft models for a target",
            [Argument(["target"]), switch("--measure", help="measure those on this machine and name the best"), JSON],
            "tandem pairs find bartowski/Qwen2.5-14B-Instruct-GGUF",
            notes=f"TARGET is {_MODEL_FORMS}.",
            function="pairs_check:find_pairs",
        ),
        Command(
            "add",
            "add a pair of local files, or download one",
            [Argument(["name"]), Argument(["target"]), Argument(["draft"], required=False), JSON],
            "tandem pairs add mine big.gguf small.gguf",
            function="setup:add_pairs",
        ),
        Command(
            "remove",
            "forget a pair and delete its downloaded files",
            [
                Argument(["pair"], required=False),
                switch("--unused", help="delete downloaded files that belong to no pair"),
                switch("--keep-files", help="keep the files"),
                switch("--all-files", help="also delete files that other programs downloaded"),
                _YES_SWITCH,
            ],
            "tandem pairs remove qwen3.8-27b",
            function="pairs_remove:remove_pairs",
        ),
        Command(
            "default",
            "choose the pair that is used when none is named",
            [Argument(["pair"])],
            "tandem pairs default qwen3.8-27b",
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
    JSON,
]
SETTINGS = Group(
    "settings",
    "show and change settings",
    _SHOW_FLAGS,
    noun="settings",
    default="show",
    commands=[
        Command("show", "show every setting, its value and origin", _SHOW_FLAGS, "tandem settings show --json"),
        Command(
            "set",
            "change a setting",
            [Argument(["name"]), Argument(["value"])],
            "tandem settings set sampling.temp 0.2",
            notes="Put presets.PRESET. before NAME to change a preset.",
        ),
        Command(
            "unset", "remove a setting, preset or key from the file", [Argument(["name"])], "tandem settings unset temp"
        ),
        Command("path", "print the path of the settings file", [JSON], "tandem settings path"),
    ],
    examples="""
tandem settings                            every value and its origin
tandem settings --pair qwen3.8-27b         with another pair
tandem settings set sampling.temp 0.2      short: set temp 0.2
tandem settings set presets.brief.answer.system "Answer in one sentence."
tandem settings unset temp
""",
)
TOOLS = Group(
    "tools",
    "list and check the MCP servers whose tools the model may call",
    [JSON],
    noun="tools",
    default="list",
    commands=[
        Command(
            "list",
            "list the servers of mcp.json, and the tools that run without a question",
            [JSON],
            "tandem tools list --json",
        ),
        Command(
            "check",
            "start each server, and list its tools or why it fails",
            [Argument(["names"], metavar="[SERVER]...", nargs=-1), JSON],
            "tandem tools check files",
        ),
        Command(
            "revoke",
            "ask again before a tool runs that is always allowed",
            [Argument(["names"], metavar="TOOL|SERVER...", nargs=-1, required=True), JSON],
            "tandem tools revoke write_file",
        ),
        Command("path", "print the path of mcp.json", [JSON], "tandem tools path"),
    ],
    notes="mcp.json has the shape of Claude Desktop, LM Studio and VS Code, so entries can be copied.",
    examples="""
tandem tools path                          where mcp.json belongs
tandem tools check                         start every server once
tandem run --tools files --allow read_file "Sum up notes.md."
""",
)
EXPORT = Command(
    "export",
    "export conversations as Markdown or JSON",
    [
        Argument(["conversation"], required=False),
        Option(
            *("--format", "form"),
            type=click.Choice(["markdown", "json"]),
            help="markdown holds the active branch, json everything (default: by file name, else markdown)",
        ),
        Option("-o", "--output", type=STREAM, help="write to a file, - for stdout"),
        switch("--force", help="overwrite the file"),
        switch("--all", "everything", help="export every conversation"),
        switch("--list", "listed", help="list conversations; with --format json for scripts"),
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
IMPORT = Command(
    "import",
    "import conversations from Markdown or JSON",
    [Argument(["files"], type=FilePath(), nargs=-1, required=True)],
    notes="FILES may be folders. Existing conversations are skipped. Exports of ChatGPT, Claude, Open WebUI, LM "
    "Studio, llama.cpp's web UI, ShareGPT and llm are read too.",
    function="export:import_",
    examples="""
tandem import backup.json              from tandem export --format json
tandem import quicksort.md             text whose headings name the speakers
tandem import conversations.json       the export of ChatGPT or Claude
tandem import ~/.lmstudio/conversations
""",
)
