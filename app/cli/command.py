"""Click commands that parse to a namespace of the options that were given; defaults live with the settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from app.cli.json_keys import JSON_KEYS, TIMINGS
from app.core.errors import UsageError
from app.core.shell import quoted

if TYPE_CHECKING:
    from argparse import Namespace

STDIN = Path("-")
"""Standard input, where an option takes a file or a pipe."""
OPTIONS = "Options"
_WIDEST = 100
_MORE = "--help-all lists every option; tandem settings shows and changes their defaults"


class FilePath(click.ParamType[Path]):
    """A file name that is not empty; "-" only where a stream will do."""

    name = "file"

    def __init__(self, *, stream: bool = False) -> None:
        self._stream = stream

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        if not str(value).strip() or (value == "-" and not self._stream):
            self.fail(f'"{value}" is not a file name.', param, ctx)
        return Path(value)


STREAM = FilePath(stream=True)


class Option(click.Option):
    """An option in a section of the help.

    Args:
        names: Name of the parameter and flags, the first flag in front.
        section: Heading in --help-all.
        rare: List it in --help-all only.
        aliases: Flags that are accepted and not listed, such as llama.cpp's.
        more: See `click.Option`.
    """

    def __init__(
        self, *names: str, section: str = OPTIONS, rare: bool = False, aliases: Sequence[str] = (), **more: Any
    ) -> None:
        super().__init__([*names, *aliases], **more)
        self.section = section
        self.rare = rare
        self._listed = sorted((name for name in names if name.startswith("-")), key=lambda name: name.startswith("--"))

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the listed flags with their value, and the help."""
        value = "" if self.is_flag else f" {self.make_metavar(ctx)}"
        return f"{', '.join(self._listed)}{value}", self.help or ""


def switch(*names: str, **more: Any) -> Option:
    """Return an option without a value."""
    return Option(*names, is_flag=True, **more)


class Command(click.Command):
    """A command that returns what was given to it.

    Args:
        name: Name on the command line.
        help_: What it does: imperative, lower case, no full stop.
        params: Arguments and options.
        examples: Shown below the usage.
        notes: Sentences of the long help.
    """

    def __init__(
        self,
        name: str,
        help_: str,
        params: Sequence[click.Parameter] = (),
        *,
        examples: str,
        notes: str = "",
        **more: Any,
    ) -> None:
        everything = [*params, switch("-h", "--help", help="print this help", **_HELP)]
        if any(isinstance(param, Option) and param.rare for param in params):
            everything.append(switch("--help-all", help="print help with every option", **_HELP))
        super().__init__(name, params=everything, help=help_, add_help_option=False, **more)
        self.examples = examples
        self._notes = notes

    def below(self) -> Iterator[Command]:
        """Yield this command and all below it."""
        yield self

    def invoke(self, ctx: click.Context) -> Any:
        """Return the namespace of what was given."""
        return _given(ctx)

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write usage and purpose, commands and examples, then the options."""
        self.format_usage(ctx, formatter)
        formatter.write_paragraph()
        formatter.write_text(self.help or "")
        if self._notes:
            formatter.write_paragraph()
            formatter.write_text(self._notes)
        if isinstance(self, Group):
            with formatter.section("Commands"):
                listed = [command for command in self.commands.values() if not command.hidden]
                formatter.write_dl([(str(command.name), command.help or "") for command in listed])
        with formatter.section("Examples"):
            for line in self.examples.strip().splitlines():
                formatter.write(f"  {line.strip()}\n")
        for title, records in self._sections(ctx):
            with formatter.section(title):
                formatter.write_dl(records)
        path = ctx.command_path.partition(" ")[2]
        for title, keys in (("JSON keys", JSON_KEYS.get(path)), ("JSON keys of timings", TIMINGS * (path == "run"))):
            if keys:
                with formatter.section(title):
                    formatter.write_text(", ".join(keys))

    def _sections(self, ctx: click.Context) -> Iterator[tuple[str, list[tuple[str, str]]]]:
        options = [param for param in self.params if isinstance(param, Option)]
        if not ctx.meta.get(_ALL):
            common = [option for option in options if not option.rare]
            yield OPTIONS, _records(common, ctx)
            return
        titles = list(dict.fromkeys(option.section for option in options))
        options.sort(key=lambda option: titles.index(option.section))
        for title, group in groupby(options, key=lambda option: option.section):
            yield title, _records(group, ctx)


class Group(Command):
    """A command with commands below it; options before a command count as behind it.

    Args:
        name: Name on the command line.
        help_: What it does.
        params: Options.
        commands: The commands below; hidden ones are not listed.
        default: The command that runs if none is named.
        more: See `Command`.
    """

    allow_extra_args = True
    allow_interspersed_args = False

    def __init__(
        self,
        name: str,
        help_: str,
        params: Sequence[click.Parameter] = (),
        *,
        commands: Sequence[Command],
        default: str,
        **more: Any,
    ) -> None:
        super().__init__(name, help_, params, **more)
        self.commands = {str(command.name): command for command in commands}
        self.default = default

    def below(self) -> Iterator[Command]:
        """Yield this command and all below it."""
        yield self
        for command in self.commands.values():
            yield from command.below()

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*super().collect_usage_pieces(ctx), "[COMMAND]"]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Keep the options before a command for that command."""
        given = list(args)
        rest = super().parse_args(ctx, args)
        ctx.meta[_BEFORE] = given[: len(given) - len(rest)]
        return rest

    def invoke(self, ctx: click.Context) -> Any:
        """Return the namespace of the command, or of the default one."""
        if not ctx.args:
            return super().invoke(ctx)
        name, *rest = ctx.args
        if name not in self.commands:
            raise click.NoSuchCommand(name, possibilities=self.commands, ctx=ctx)
        with self.commands[name].make_context(name, [*ctx.meta[_BEFORE], *rest], parent=ctx) as below:
            return self.commands[name].invoke(below)


def parse(root: Command, argv: Sequence[str]) -> Namespace:
    """Read a command line.

    Raises:
        UsageError: The command line is wrong.
        SystemExit: It asked for help or the version, which was printed.
    """
    try:
        with root.make_context(str(root.name), list(argv), max_content_width=_WIDEST) as ctx:
            return root.invoke(ctx)  # type: ignore[no-any-return]
    except click.exceptions.Exit as end:
        raise SystemExit(end.exit_code) from None
    except click.UsageError as error:
        raise UsageError(error.format_message(), _fix(error)) from None


def _given(ctx: click.Context) -> Namespace:
    from argparse import Namespace

    words = ctx.command_path.split()[1:]
    if isinstance(ctx.command, Group):
        words.append(ctx.command.default)
    named = dict(zip(("command", "action"), words, strict=False))
    given = {
        name: value
        for name, value in ctx.params.items()
        if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    return Namespace(**named, **given)


def _fix(error: click.UsageError) -> str:
    """Return the command that helps after wrong usage."""
    path = error.ctx.command_path if error.ctx is not None else "tandem"
    if isinstance(error, click.NoSuchCommand):
        given = error.command_name
        if path == "tandem settings":
            from app.settings.table import find

            if (setting := find(given)) is not None:
                return f"To change it: tandem settings set {setting.name} VALUE"
        elif path == "tandem" and given.lower().endswith(".gguf"):
            return f"To open a model file: tandem --target {quoted(given)}"
        elif path == "tandem" and " " in given:
            return f"For one answer: tandem run {quoted(given)}"
    takes_text = error.cmd is not None and any(param.name == "prompt" for param in error.cmd.params)
    if isinstance(error, click.NoSuchOption) and takes_text and not error.option_name.startswith("--"):
        return f"To pass text that starts with a dash, put -- before it: {path} -- {quoted(error.option_name)}"
    return f"For help: {path} --help"


def _records(options: Any, ctx: click.Context) -> list[tuple[str, str]]:
    return [record for option in options if (record := option.get_help_record(ctx)) is not None]


def _show_help(ctx: click.Context, option: click.Parameter, asked: bool) -> None:
    if asked:
        ctx.meta[_ALL] = option.name == "help_all"
        help_ = ctx.get_help()
        command = ctx.command
        if not ctx.meta[_ALL] and any(isinstance(param, Option) and param.rare for param in command.params):
            help_ += f"\n\n{_MORE}"
        print(help_, flush=True)
        ctx.exit()


_ALL, _BEFORE = "tandem.all", "tandem.before"
_HELP: Mapping[str, Any] = {"is_eager": True, "expose_value": False, "callback": _show_help}
