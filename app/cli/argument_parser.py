"""A parser of arguments that says what is wrong in a sentence; argparse itself would print every flag there is."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from app.errors import UsageError
from app.settings.tree import nearest

_LONGEST_USAGE = 160
_CHOICE = re.compile(r"argument (\S+): invalid choice: (?:'(.*?)'|\"(.*?)\") \(", re.DOTALL)
_ENDED = re.compile(r"argument (\S+): expected .*argument")
_NUMBER = re.compile(r"argument (\S+): invalid (?:int|float) value: '(.*)'")
_MISSING = re.compile(r"the following arguments are required: (.*)")
_KINDS = {"COMMAND": "command", "ACTION": "action"}
"""What is chosen where there are parsers below this one."""


class SentenceParser(argparse.ArgumentParser):
    """Raises UsageError for what it cannot read, in the words of the command that it was said to."""

    _args: Sequence[str] = ()

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Read arguments; the parser of a command refuses what is left over itself, as only it knows what there is."""
        self._args = sys.argv[1:] if args is None else args
        read, more = super().parse_known_args(args, namespace)
        if more:
            flags = [text for text in more if text.startswith("-") and text.partition("=")[0] not in self._flags]
            self._refuse(next(iter(flags), more[0]))
        return read, []

    def error(self, message: str) -> NoReturn:
        """Raise UsageError for what argparse found."""
        if (found := _CHOICE.match(message)) and found[1] in _KINDS:
            self._refuse_choice(found[1], found[2] or found[3] or "")
        raise UsageError(self._sentence(message), self._usage)

    def _refuse(self, text: str) -> NoReturn:
        if not text.startswith("-") or text.partition("=")[0] in self._flags:
            raise UsageError(f'"{text}" is more than {self.prog} takes.', self._usage)
        flag = text.partition("=")[0]
        raise UsageError(f"{self.prog} has no option {flag}.{nearest(flag, self._flags)}", self._usage)

    def _refuse_choice(self, where: str, given: str) -> NoReturn:
        # A flag that nobody knows lets its value look like a command.
        before = self._args[self._args.index(given) - 1] if given in self._args[1:] else ""
        if before.startswith("-") and before not in self._flags:
            self._refuse(before)
        kind = _KINDS[where]
        below = next(action.choices for action in self._actions if action.metavar == where)
        subject = "There is no" if kind == "command" else f"{self.prog} has no"
        raise UsageError(
            f'{subject} {kind} "{given}".{nearest(given, below)}',
            f"{_meant(given) if kind == 'command' else ''}{self.prog} --help lists all {kind}s.",
        )

    def _sentence(self, message: str) -> str:
        if found := _CHOICE.match(message):
            choices = next((a.choices for a in self._actions if found[1] == "/".join(a.option_strings)), None)
            return f'{found[1]} is "{found[2] or found[3]}"; it must be one of {", ".join(choices or ())}.'
        if found := _ENDED.match(message):
            return f"{found[1]} needs a value."
        if found := _NUMBER.match(message):
            return f'{found[1]} is "{found[2]}"; it must be a number.'
        if found := _MISSING.match(message):
            return f"{self.prog} needs {found[1]}."
        return f"{message[:1].upper()}{message[1:]}."

    @property
    def _flags(self) -> Sequence[str]:
        return [flag for action in self._actions for flag in action.option_strings]

    @property
    def _usage(self) -> str:
        """How it is called, in one line, and where more is said."""
        options = [f"[{shape(action)}]" for action in self._actions if action.option_strings]
        rest = [shape(action) for action in self._actions if not action.option_strings]
        whole = " ".join([self.prog, *options[1:], *rest])
        brief = " ".join([self.prog, "[OPTIONS]", *rest])
        return f"Usage: {whole if len(whole) <= _LONGEST_USAGE else brief}\n{self.prog} --help tells more."


def _meant(given: str) -> str:
    """How to say what somebody may have meant who gave this as a command, before what else there is."""
    if given == "chat":
        return "The chat opens without one: tandem; "
    if given.lower().endswith(".gguf"):
        return f"For a model file: tandem --target {shlex.quote(given)}; "
    return 'For a prompt: tandem run "..."; ' if " " in given else ""


def shape(action: argparse.Action) -> str:
    """An argument as it is typed."""
    value = action.metavar or ("{" + ",".join(map(str, action.choices)) + "}" if action.choices else "")
    if action.option_strings:
        return f"{action.option_strings[0]} {value}".rstrip()
    return str(value) if action.required else f"[{value}]"
