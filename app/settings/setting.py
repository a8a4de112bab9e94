"""What a setting is: its name, type, default and texts."""

from __future__ import annotations

from dataclasses import dataclass

from app.settings.kinds import Kind, Value

_MAX_SHOWN_CHARACTERS = 40
"""Characters of an invalid value in its error."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes:
        name: Table and key, with a dot between.
        kind: Type and range.
        text: Help in a few words, a noun phrase.
        more: Further help, such as what its values mean; "" for none.
        unset: Words for a default that is not a value.
        metavar: Placeholder of the value in the help, if not that of its kind.
        flags: Its flags, the first one named after it; () for none.
        field: Its field of `SamplingParams`; "" for none.
        needs_reload: The models must be loaded again.
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
        """A conversation may override it: it acts at once and concerns answers."""
        return self.is_for_answers and not self.needs_reload

    @property
    def in_preset(self) -> bool:
        """A preset may contain it."""
        return self.is_for_answers and bool(self.table)

    @property
    def is_for_answers(self) -> bool:
        """It has a flag, because it acts on answers and not on the program alone."""
        return bool(self.flags)

    @property
    def help(self) -> str:
        """The whole help."""
        return f"{self.text}; {self.more}" if self.more else self.text

    @property
    def shown_default(self) -> str:
        """The default in words."""
        return self.unset or self.kind.show(self.default)

    def display(self, value: Value) -> str:
        """Format a value as the command line and the panel show it."""
        # True equals 1 in Python, but not for a reader.
        is_default = value == self.default and type(value) is type(self.default)
        return (self.shown_default if is_default else self.kind.show(value)) or "none"

    def error(self, where: str, given: object) -> str:
        """Return the error for an invalid value."""
        text = given if isinstance(given, str) else repr(given)
        if len(text) > _MAX_SHOWN_CHARACTERS:
            text = f"{text[: _MAX_SHOWN_CHARACTERS - 1]}…"
        return f'{where} is "{text}"; it must be {self.kind.allowed}.'
