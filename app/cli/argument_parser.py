"""A parser of arguments that says what is wrong in a sentence; argparse itself would print every flag there is."""

from __future__ import annotations

import argparse
import difflib
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from app.cli.flags_elsewhere import ELSEWHERE
from app.core.errors import UsageError
from app.core.shell import quoted
from app.settings.tree import find, nearest

_LONGEST_USAGE = 160
_CHOICE = re.compile(r"argument (\S+): invalid choice: (?:'(.*?)'|\"(.*?)\") \(", re.DOTALL)
_ENDED = re.compile(r"argument (\S+): expected .*argument")
_NUMBER = re.compile(r"argument (\S+): invalid (?:int|float) value: '(.*)'")
_VALUED = re.compile(r"argument (\S+): ignored explicit argument")
_EMPTY = "is empty"
_DASH = 'is "-"'
_NO_FILE = re.compile(rf"argument (\S+): ({_EMPTY}|{_DASH})")
_MISSING = re.compile(r"the following arguments are required: (.*)")
_KINDS = {"COMMAND": "command", "ACTION": "action"}
"""What is chosen where there are parsers below this one."""


STDIN = Path("-")
"""Stands for standard input, where a file is read that may be a pipe."""


def file_path(text: str) -> Path:
    """The value of a flag that names a file. An empty one, as a script gives it, would be the folder one is in."""
    if not text.strip():
        raise argparse.ArgumentTypeError(_EMPTY)
    return Path(text)


def real_file(text: str) -> Path:
    """As `file_path`, where only a file will do: whoever gives - means standard input or output, and has no file."""
    if text == "-":
        raise argparse.ArgumentTypeError(_DASH)
    return file_path(text)


class SentenceParser(argparse.ArgumentParser):
    """Raises UsageError for what it cannot read, in the words of the command that it was said to."""

    _args: Sequence[str] = ()
    _below: SentenceParser | None = None
    """That of the command that was chosen."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Read arguments; the parser of a command refuses what is left over itself, as only it knows what there is."""
        self._args = sys.argv[1:] if args is None else args
        self._below = None
        read, more = super().parse_known_args(args, namespace)
        if more:
            flags = [text for text in more if text.startswith("-") and text.partition("=")[0] not in self._flags]
            self._refuse(next(iter(flags), more[0]))
        return read, []

    def choose(self, below: SentenceParser, namespace: argparse.Namespace) -> None:
        """Take note of the command that was chosen, and refuse what was given before it and none of it reads."""
        self._below = below
        given = [action for action in self._actions if action.option_strings and action.dest in namespace]
        reader: SentenceParser | None = below
        while reader is not None:
            for action in given:
                if not set(action.option_strings) & set(reader._flags):
                    typed = (text.partition("=")[0] for text in self._args)
                    reader._refuse(next(text for text in typed if text in action.option_strings))
            reader = reader._below

    def format_help(self) -> str:
        """All there is to say, and what scripts find in the objects that are printed."""
        # Whoever does not ask for help does not wait for it.
        from app.cli.json_keys import told

        return super().format_help() + told(self.prog.partition(" ")[2])

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """End after help or the version, once it is known that they could be written."""
        sys.stdout.flush()
        super().exit(status, message)

    def _print_message(self, message: str, file: Any = None) -> None:
        # argparse keeps it to itself where there is no room for it.
        if message:
            (file or sys.stdout).write(message)

    def error(self, message: str) -> NoReturn:
        """Raise UsageError for what argparse found."""
        if (found := _CHOICE.match(message)) and found[1] in _KINDS:
            self._refuse_choice(found[1], found[2] or found[3] or "")
        if found := _VALUED.match(message):
            self._refuse_value(found[1].split("/"))
        raise UsageError(self._sentence(message), self._usage)

    def _refuse(self, text: str) -> NoReturn:
        if not text.startswith("-") or text.partition("=")[0] in self._flags:
            raise UsageError(f'"{text}" is more than {self.prog} takes.', self._usage)
        flag = text.partition("=")[0]
        raise UsageError(f"{self.prog} has no option {flag}.{_nearest_flag(flag, self._flags)}", self._way_on(text))

    def _refuse_value(self, flags: Sequence[str]) -> NoReturn:
        """Refuse what hangs on a flag that takes no value: a value, or letters behind that of a short one."""
        typed = (text for text in self._args for flag in flags if text.startswith(flag) and text != flag)
        text = next(typed, flags[0])
        flag = text.partition("=")[0]
        if flag not in flags:
            self._refuse(text)
        raise UsageError(f"{flag} takes no value.", self._usage)

    def _refuse_choice(self, where: str, given: str) -> NoReturn:
        # A flag that nobody knows lets its value look like a command.
        before = self._args[self._args.index(given) - 1] if given in self._args[1:] else ""
        if before.startswith("-") and before not in self._flags:
            self._refuse(before)
        kind = _KINDS[where]
        below = next(action.choices for action in self._actions if action.metavar == where)
        known = find(given) if "set" in (below or ()) else None
        if known is not None:
            words = ["set", known.name, "VALUE"]
            raise UsageError(f'"{given}" is a setting.', f"To change it: {self.prog} {' '.join(words)}")
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
        if found := _NO_FILE.match(message):
            return f"{found[1]} {found[2]}; it must name a file."
        if found := _MISSING.match(message):
            return f"{self.prog} needs {found[1]}."
        return f"{message[:1].upper()}{message[1:]}."

    def _way_on(self, text: str) -> str:
        """What to do about something that looks like a flag; a prompt may begin with a dash."""
        takes_text = any(not action.option_strings and action.metavar not in _KINDS for action in self._actions)
        if text.startswith("--") or not takes_text:
            return self._usage
        return f"What is no option goes behind --: {self.prog} -- {quoted(text)}\n{self.prog} --help tells more."

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


class Commands(argparse._SubParsersAction):  # type: ignore[type-arg]
    """The parsers of commands. What is given before a command counts for it: it is refused, or read, as behind it."""

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        """Let the command read what is its own."""
        before = argparse.Namespace(**vars(namespace))
        super().__call__(parser, namespace, values, option_string)
        parser.choose(self.choices[values[0]], before)
        for dest, first in vars(before).items():
            # What is repeatable is that across the command, too.
            if isinstance(first, list) and (then := getattr(namespace, dest)) is not first:
                setattr(namespace, dest, [*first, *then])


def _nearest_flag(given: str, flags: Sequence[str]) -> str:
    """As `nearest`, also by what others call a flag; the dashes, which all flags share, make none alike."""
    bare = {flag.lstrip("-"): flag for flag in flags}
    close = [bare[name] for name in difflib.get_close_matches(given.lstrip("-"), list(bare), n=1)]
    if (meant := ELSEWHERE.get(given)) is not None and meant in flags:
        close = [meant]
    return f' Did you mean "{close[0]}"?' if close else ""


def _meant(given: str) -> str:
    """How to say what somebody may have meant who gave this as a command, before what else there is."""
    if given == "chat":
        return "The chat opens without one: tandem; "
    if given.lower().endswith(".gguf"):
        return f"For a model file: tandem --target {quoted(given)}; "
    return 'For a prompt: tandem run "..."; ' if " " in given else ""


def shape(action: argparse.Action) -> str:
    """An argument as it is typed."""
    value = action.metavar or ("{" + ",".join(map(str, action.choices)) + "}" if action.choices else "")
    if action.option_strings:
        return f"{action.option_strings[0]} {value}".rstrip()
    return str(value) if action.required else f"[{value}]"
