"""How a page of help is laid out: nothing in it is wider than the terminal, and its usage can be taken in."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable
from typing import Any

from app.cli.argument_parser import shape
from app.cli.prose import broken

_MOST_LINES = 4
"""Of a usage with every flag; one that is longer names none, for they all stand below it."""
_LAST_COLUMN = re.compile(r" *\S.*\S {2,}(?=\S)")


class HelpPage(argparse.HelpFormatter):
    """Descriptions are broken between words, examples line by line, each below its own last column."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        lines = text.splitlines()
        return "\n".join(part for line in lines for part in broken(indent + line, width, len(indent) + _hang(line)))

    def _format_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[argparse._MutuallyExclusiveGroup],
        prefix: str | None,
    ) -> str:
        whole = super()._format_usage(usage, actions, groups, prefix)
        if whole.strip().count("\n") < _MOST_LINES:
            return whole
        rest = " ".join(shape(action) for action in actions if not action.option_strings)
        return super()._format_usage(f"%(prog)s [OPTIONS] {rest}".rstrip(), (), (), prefix)


def _hang(line: str) -> int:
    """Columns that what goes on of an example is indented by."""
    columns = _LAST_COLUMN.match(line)
    return columns.end() if columns is not None else len(line) - len(line.lstrip(" "))


def page(epilog: str) -> dict[str, Any]:
    """What every parser of this program is made with, besides its name: such a page, and no flag that was not given."""
    return {
        "epilog": epilog,
        "formatter_class": HelpPage,
        "argument_default": argparse.SUPPRESS,
        "allow_abbrev": False,
    }
