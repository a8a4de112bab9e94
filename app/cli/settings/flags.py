"""The actions and flags of `tandem settings`; see `app.cli.settings.command`."""

from __future__ import annotations

import argparse

from app.cli.actions import actions_of

SETTINGS_EPILOG = """examples:
  tandem settings                            each value, and where it is from
  tandem settings --pair coder-32b           likewise, with another pair
  tandem settings set sampling.temp 0.2      or as its flag is: set temp 0.2
  tandem settings set presets.brief.answer.system "Answer in one sentence."
  tandem settings unset temp
"""
_EXAMPLES = {
    "show": "show --json",
    "set": "set sampling.temp 0.2",
    "unset": "unset temp",
    "path": "path",
}


def add_settings_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command does, and the flags of each."""
    _add_shown(parser)
    action = actions_of(parser, "settings", _EXAMPLES)
    show = action("show", "Every setting, its value, and where it comes from.")
    _add_shown(show)
    set_ = action("set", "Write a setting down.")
    set_.add_argument("name", metavar="NAME", help="of the setting, with presets.PRESET. in front for one of a preset")
    set_.add_argument("value", metavar="VALUE")
    unset = action("unset", "Take a setting, a preset or a key out of the file.")
    unset.add_argument("name", metavar="NAME")
    action("path", "Where the file is.")


def _add_shown(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--pair", metavar="NAME", help="as they count with this pair (default: the one of the chat)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
