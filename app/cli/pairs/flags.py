"""The actions and flags of `tandem pairs`; see `app.cli.pairs.command`."""

from __future__ import annotations

import argparse

from app.cli.actions import actions_of

PAIRS_EPILOG = """examples:
  tandem pairs list
  tandem pairs check coder-32b
  tandem pairs check owner/big-GGUF:Q4_K_M owner/small-GGUF
  tandem pairs find bartowski/Qwen2.5-14B-Instruct-GGUF
  tandem pairs remove coder-32b
  tandem pairs remove --unused
"""
_EXAMPLES = {
    "list": "list --json",
    "show": "show coder-32b",
    "check": "check owner/big-GGUF:Q4_K_M owner/small-GGUF",
    "find": "find bartowski/Qwen2.5-14B-Instruct-GGUF",
    "add": "add mine big.gguf small.gguf",
    "remove": "remove coder-32b",
    "default": "default coder-32b",
}


def add_pairs_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command does, and the flags of each."""
    add_action = actions_of(parser, "pairs", _EXAMPLES)

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
    remove.add_argument("pair", nargs="?", metavar="PAIR")
    remove.add_argument(
        "--unused", action="store_true", help="in place of a pair: delete downloaded files that no pair has any more"
    )
    remove.add_argument("--keep-files", action="store_true", help="only forget it")
    remove.add_argument("--all-files", action="store_true", help="also delete files that other programs downloaded")
    remove.add_argument("--yes", "-y", action="store_true", help="do not ask")
    action("default", "Take this pair when none is named.", as_json=False).add_argument("pair", metavar="PAIR")
