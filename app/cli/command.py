"""Click commands that parse to a call of their function, and their help; defaults live with functions and settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from app.core.errors import UsageError
from app.core.fixes import quoted
from app.core.printable import printable

STDIN = Path("-")
"""Standard input, where an option takes a file or a pipe."""
OPTIONS = "Options"
_MAX_HELP_WIDTH = 100
_MORE_HELP = "--help-all lists every option; tandem settings shows and changes their defaults"


@dataclass(frozen=True, slots=True)
class Call:
    """A command of a command line.

    Attributes:
        name: Words of the command, such as "pairs list".
        function: Its module in `app.cli` and its function there, such as "pairs:list_pairs".
    """

    name: str
    function: str
    given: dict[str, Any]


class FilePath(click.ParamType[Path]):
    """A file name that is not empty; "-" is accepted only where a stream works."""

    name = "file"

    def __init__(self, *, stream: bool = False) -> None:
        self._stream = stream

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if not str(value).strip() or (value == "-" and not self._stream):
            self.fail(f'"{value}" is not a file name.', param, ctx)
        return Path(value)


STREAM = FilePath(stream=True)


class WholeNumber(click.IntRange):
    """A whole number in a range, refused in the same words as a setting's number."""

    name = "n"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return int(super().convert(value, param, ctx))
        except click.UsageError:
            bounds = f"between {self.min:,} and {self.max:,}" if self.max is not None else f"of at least {self.min:,}"
            flag = param.opts[-1] if param is not None else "It"
            raise UsageError(f'{flag} is "{printable(value)}"; it must be a whole number {bounds}.') from None


class Option(click.Option):
    """An option in a section of --help-all; rare options appear only there, and aliases nowhere."""

    def __init__(
        self, *names: str, section: str = OPTIONS, rare: bool = False, aliases: Sequence[str] = (), **more: Any
    ) -> None:
        super().__init__([*names, *aliases], **more)
        self.section = section
        self.rare = rare
        self._listed = sorted((name for name in names if name.startswith("-")), key=lambda name: name.startswith("--"))

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        value = "" if self.is_flag else f" {self.make_metavar(ctx)}"
        return f"{', '.join(self._listed)}{value}", self.help or ""


def switch(*names: str, **more: Any) -> Option:
    """Return an option without a value."""
    return Option(*names, is_flag=True, **more)


class Command(click.Command):
    """A command that returns its call.

    Args:
        function: See `Call`; imported when the command runs. By default, the module and function of the command's name.
        notes: Sentences of the long help.
    """

    def __init__(
        self,
        name: str,
        help_: str,
        params: Sequence[click.Parameter] = (),
        examples: str = "",
        *,
        function: str | None = None,
        notes: str = "",
        **more: Any,
    ) -> None:
        self.options = [param for param in params if isinstance(param, Option)]
        self._has_rare = any(option.rare for option in self.options)
        self.options.append(switch("-h", "--help", help="print this help", **_HELP_OPTION))
        if self._has_rare:
            self.options.append(switch("--help-all", help="print help with every option", **_HELP_OPTION))
        arguments = [param for param in params if not isinstance(param, Option)]
        super().__init__(name, params=[*arguments, *self.options], help=help_, add_help_option=False, **more)
        self.examples = examples
        self.has_function = function is not None
        self.function = function or f"{name}:{name}"
        self._notes = notes

    def invoke(self, ctx: click.Context) -> Any:
        """Return the call with the given options."""
        given = {
            name: value
            for name, value in ctx.params.items()
            if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
        }
        return Call(" ".join(ctx.command_path.split()[1:]), self.function, given)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write usage and purpose, commands and examples, then the options."""
        self.format_usage(ctx, formatter)
        for text in filter(None, (self.help, self._notes)):
            formatter.write_paragraph()
            formatter.write_text(text)
        if isinstance(self, Group):
            with formatter.section("Commands"):
                listed = [command for command in self.commands.values() if not command.hidden]
                formatter.write_dl([(str(command.name), command.help or "") for command in listed])
        with formatter.section("Examples"):
            for line in self.examples.strip().splitlines():
                formatter.write(f"  {line.strip()}\n")
        self._format_options(ctx, formatter)

    def _format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {}
        for option in self.options:
            if ctx.meta.get(_HELP_ALL_KEY) or not option.rare:
                title = option.section if ctx.meta.get(_HELP_ALL_KEY) else OPTIONS
                sections.setdefault(title, []).append(option.get_help_record(ctx))
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)
        if self._has_rare and not ctx.meta.get(_HELP_ALL_KEY):
            formatter.write_paragraph()
            formatter.write_text(_MORE_HELP)


class Group(Command):
    """A command with subcommands, one of which is the default; options before a subcommand belong to it."""

    allow_extra_args = True
    allow_interspersed_args = False

    def __init__(
        self, *args: Any, commands: Sequence[Command], default: str, noun: str | None = None, **more: Any
    ) -> None:
        super().__init__(*args, **more)
        self.commands = {str(command.name): command for command in commands}
        for command in commands:
            if noun is not None and not command.has_function:
                command.function = f"{noun}:{command.name}_{noun}"
        self._default = default

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[COMMAND]"]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Save the options before a subcommand for that subcommand."""
        given = list(args)
        rest = super().parse_args(ctx, args)
        ctx.meta[_EARLIER_OPTIONS_KEY] = given[: len(given) - len(rest)]
        return rest

    def invoke(self, ctx: click.Context) -> Any:
        """Return the call of the subcommand, or of the default."""
        name, *rest = ctx.args or [self._default]
        if name not in self.commands:
            raise click.NoSuchCommand(name, possibilities=self.commands, ctx=ctx)
        command = self.commands[name]
        with command.make_context(name, [*ctx.meta[_EARLIER_OPTIONS_KEY], *rest], parent=ctx) as below:
            return command.invoke(below)


def parse(root: Command, argv: Sequence[str]) -> Call:
    """Return the call of a command line. Raises UsageError, or SystemExit after printing help or the version."""
    try:
        with root.make_context(str(root.name), list(argv), max_content_width=_MAX_HELP_WIDTH) as ctx:
            return root.invoke(ctx)  # type: ignore[no-any-return]
    except click.exceptions.Exit as end:
        raise SystemExit(end.exit_code) from None
    except click.UsageError as error:
        raise UsageError(*_explained(error)) from None


def _explained(error: click.UsageError) -> tuple[str, str]:
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        option, chat = error.option_name, error.ctx.find_root().command
        if any(option in each.opts for each in chat.params):
            return error.message, f"It is an option of {chat.name} without a command. {_fix(error)}"
    return error.format_message(), _fix(error)


def _fix(error: click.UsageError) -> str:
    path = error.ctx.command_path if error.ctx is not None else "tandem"
    if isinstance(error, click.NoSuchCommand) and path == "tandem":
        if error.command_name.lower().endswith(".gguf"):
            return f"To open a model file: tandem --target {quoted(error.command_name)}"
        if " " in error.command_name:
            return f"For one answer: tandem run {quoted(error.command_name)}"
    return f"For help: {path} --help"


def _show_help(ctx: click.Context, option: click.Parameter, asked: bool) -> None:
    if asked:
        ctx.meta[_HELP_ALL_KEY] = option.name == "help_all"
        print(ctx.get_help(), flush=True)
        ctx.exit()


_HELP_ALL_KEY, _EARLIER_OPTIONS_KEY = "tandem.all", "tandem.before"
_HELP_OPTION: Mapping[str, Any] = {"is_eager": True, "expose_value": False, "callback": _show_help}
