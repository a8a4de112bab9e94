"""All commands of the command line."""

from collections.abc import Iterator

from app.cli.command import Command, Group
from app.cli.command_line import ROOT


def every_command(command: Command = ROOT) -> Iterator[Command]:
    """Yield a command and all its subcommands."""
    yield command
    if isinstance(command, Group):
        for below in command.commands.values():
            yield from every_command(below)
