"""Commands that do several things: each has a name of its own behind the command's."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping

from app.cli.argument_parser import Commands
from app.cli.help_page import page


def actions_of(
    parser: argparse.ArgumentParser, command: str, examples: Mapping[str, str]
) -> Callable[[str, str], argparse.ArgumentParser]:
    """How a command gets its actions: each by its name and what it does.

    Args:
        parser: The command's.
        command: Its name.
        examples: What to show of each action in its help, behind the command's name.
    """
    actions = parser.add_subparsers(title="actions", metavar="ACTION", action=Commands)

    def action(name: str, help_: str) -> argparse.ArgumentParser:
        example = f"example:\n  tandem {command} {examples[name]}\n"
        made: argparse.ArgumentParser = actions.add_parser(name, help=help_, description=help_, **page(example))
        made.set_defaults(command=command, action=name)
        return made

    return action
