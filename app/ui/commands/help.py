"""What /help says: the commands, and keys that the last line seldom has room for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from textual.content import Content

from app.ui.commands.command import Command
from app.ui.key_names import CHOOSE, key
from app.ui.keys.bindings import CAN_SUSPEND
from app.ui.reading.rows import Columns, Row, TableRow


class _HelpRow(TableRow):
    """What is typed and what it does, broken each within its own column where there is little room."""

    # A copy is read as it looks here, not as Markdown.
    SEPARATOR = "  "


def help_rows(commands: Iterable[Command], room: int) -> list[Row]:
    """All that is said.

    Args:
        commands: In their order.
        room: Cells in a line.
    """
    known = [(command.usage, command.help) for command in commands]
    return [*_columns(known), Row(), *_columns(_some_keys(room))]


def _columns(rows: Iterable[Sequence[str]]) -> Iterator[Row]:
    """Rows in which every other cell is something to type."""
    read = [[Content.styled(cell, "" if at % 2 else "$foreground") for at, cell in enumerate(row)] for row in rows]
    columns = Columns()
    for cells in read:
        columns.include(cells)
    return (_HelpRow.of(cells, columns, frozenset()) for cells in read)


def _some_keys(room: int) -> Iterator[Sequence[str]]:
    """In three columns, or in one where there are fewer cells."""
    columns = (
        (
            (key("prompt.break_line", "ctrl+j"), "new line"),
            (key("chat.copy", "f8"), "copy answer"),
            (key("app.suspend", "ctrl+z"), "suspend") if CAN_SUSPEND else (key("app.quit", "ctrl+q"), "quit"),
        ),
        (
            (key("prompt.search", "ctrl+s"), "search past prompts"),
            (key("chat.copy_code", "ctrl+b"), "copy its last code"),
            (key("chat.choose", CHOOSE), "choose a message"),
        ),
        (
            ("@file", "include a file"),
            (key("prompt.undo", "ctrl+_"), "undo"),
            (key("app.keys", "f1"), "every key"),
        ),
    )
    widths = [max(map(len, texts)) for column in columns for texts in zip(*column, strict=True)]
    if sum(widths) + 2 * len(widths) > room:
        yield from chain(*columns)
    else:
        for cells in zip(*columns, strict=True):
            yield tuple(chain(*cells))
