"""A setting: its name, type, default and texts."""

from __future__ import annotations

from dataclasses import dataclass

from app.core.printable import printable
from app.settings.kinds import Kind, Value

_MAX_SHOWN_CHARACTERS = 40
"""Longest part of an invalid value in its error, in characters."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting.

    Attributes:
        name: Table and key, separated by a dot.
        text: Help in a few words, a noun phrase.
        more: Further help, such as the meaning of its values, or "".
        unset: Words for a default that is not a value.
        metavar: Placeholder of the value in the help, if it differs from its kind's.
        flags: Its flags, the first named after it; () for none.
        field: Its field of `SamplingParams`, or "".
        mode: The only drafting mode that uses it; None for every mode.
    """

    name: str
    kind: Kind
    default: Value
    text: str
    more: str = ""
    unset: str = ""
    metavar: str = ""
    flags: tuple[str, ...] = ()
    field: str = ""
    needs_reload: bool = False
    mode: str | None = None

    @property
    def table(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def key(self) -> str:
        """Its name within the table."""
        return self.name.rpartition(".")[2]

    @property
    def dest(self) -> str:
        """Its name among the options of a command."""
        return self.flags[0].lstrip("-").replace("-", "_") if self.flags else ""

    @property
    def in_conversation(self) -> bool:
        """Whether a conversation may override it: it takes effect immediately and concerns answers."""
        return self.is_for_answers and not self.needs_reload

    @property
    def in_preset(self) -> bool:
        return self.is_for_answers and bool(self.table)

    @property
    def is_for_answers(self) -> bool:
        """Whether it has a flag, because it affects answers and not only the program."""
        return bool(self.flags)

    @property
    def help(self) -> str:
        """The complete help text."""
        return f"{self.text}; {self.more}" if self.more else self.text

    @property
    def shown_default(self) -> str:
        """The default in words."""
        return self.unset or self.kind.show(self.default)

    def display(self, value: Value) -> str:
        """Format a value for the command line and the panel."""
        # True equals 1 in Python, but not for a reader.
        is_default = value == self.default and type(value) is type(self.default)
        return (self.shown_default if is_default else self.kind.show(value)) or "none"

    def in_one_line(self, value: Value) -> str:
        """Format a value in one printable line."""
        return " ".join(printable(self.display(value)).split())

    def error(self, where: str, given: object) -> str:
        text = given if isinstance(given, str) else repr(given)
        if len(text) > _MAX_SHOWN_CHARACTERS:
            text = f"{text[: _MAX_SHOWN_CHARACTERS - 1]}…"
        return f'{where} is "{text}"; it must be {self.kind.allowed}.'
