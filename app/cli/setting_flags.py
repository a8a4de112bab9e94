"""The flags of the settings, generated from their table, and what was given by flags."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from app.cli.command import Option, switch
from app.core.errors import UsageError
from app.core.printable import printable
from app.settings.kinds import Choice, Number, Switch, Texts, Value
from app.settings.table import BY_NAME, NUMBERS, OF_AUTOMATIC, SETTINGS, TABLES, Setting

if TYPE_CHECKING:
    from argparse import Namespace

    from app.settings.layers import Layer

SEED = 1
"""Seed of every measured draw, so that the same command measures the same answers."""
PAIR_TABLES = ("model", "draft")
ANSWER_TABLES = ("sampling", "answer", "")
_COMMON = ("model.ctx", "model.gpu_layers", "answer.max_tokens", "sampling.temp")
"""Settings whose flags are in the short help."""
_ALIASES = {
    "answer.max_tokens": ("-n", "--predict", "--n-predict"),
    "answer.system": ("-sys", "--system-prompt"),
    "draft.device": ("-devd", "--device-draft"),
    "draft.gpu_layers": ("-ngld", "--n-gpu-layers-draft"),
    "draft.kv_type": ("-ctkd", "--cache-type-k-draft"),
    "draft.n_max": ("--draft-max",),
    "draft.n_min": ("--draft-min",),
    "model.ctx": ("-c", "--ctx-size", "--num-ctx"),
    "model.device": ("-dev",),
    "model.flash_attn": ("-fa",),
    "model.gpu_layers": ("-ngl", "--n-gpu-layers"),
    "model.kv_type": ("-ctk", "--cache-type-k"),
    "model.tensor_split": ("-ts",),
    "model.threads": ("-t",),
    "sampling.seed": ("-s",),
    "sampling.temp": ("--temperature",),
}
"""llama.cpp's names of the same settings."""


class _Value(click.ParamType[Value]):
    """The value of a setting."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self.name = setting.key

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Value:
        kind = self._setting.kind
        try:
            return value if isinstance(kind, Texts) else kind.parse(value)
        except (ValueError, OverflowError):
            raise UsageError(self._setting.wrong(_flag(self._setting), printable(value))) from None


def setting_options(tables: Sequence[str], defaults: Mapping[str, str] | None = None) -> list[click.Parameter]:
    """Return the options of the settings in these tables.

    Args:
        tables: Tables of the settings file.
        defaults: Defaults of one command, in words, by the name of the setting; it always takes a number.
    """
    defaults = defaults or {}
    options: list[click.Parameter] = []
    for setting in SETTINGS:
        if setting.table in tables and setting.flags:
            options.append(_option(_with_default(setting, defaults.get(setting.name))))
    if "draft" in tables:
        section = TABLES["draft"]
        options.append(switch("--no-draft", section=section, help="decode without drafts; short for --drafting off"))
        options.append(
            switch("--no-lookup", section=section, rare=True, help="draft with the draft model only, without n-grams")
        )
    return options


def _option(setting: Setting) -> Option:
    aliases = _ALIASES.get(setting.name, ())
    short = [alias for alias in aliases if not alias.startswith("--")]
    return Option(
        *(setting.dest, *short, *setting.flags),
        aliases=[alias for alias in aliases if alias.startswith("--")],
        section=TABLES[setting.table],
        rare=setting.name not in _COMMON,
        type=_Value(setting),
        multiple=isinstance(setting.kind, Texts),
        metavar=_metavar(setting),
        help=_help(setting),
    )


def _with_default(setting: Setting, default: str | None) -> Setting:
    if default is None:
        return setting
    assert isinstance(setting.kind, Number)
    return replace(setting, kind=replace(setting.kind, word=""), unset=default)


def _flag(setting: Setting) -> str:
    """Return the flag that people know: --drafting came before its table."""
    return setting.flags[-1]


def _metavar(setting: Setting) -> str:
    if setting.metavar:
        return setting.metavar
    return f"{{{','.join(setting.kind.options)}}}" if isinstance(setting.kind, Choice) else "VALUE"


def _help(setting: Setting) -> str:
    """Return what it does, its range and its default."""
    kind, notes = setting.kind, []
    if isinstance(kind, Number):
        notes.append(f"{kind.low:,.10g} to {kind.high:,.10g}" + (f", or {kind.word}" if kind.word else ""))
    elif isinstance(kind, Choice) and setting.metavar:
        notes.append(", ".join(kind.options))
    elif isinstance(kind, Texts):
        notes.append("repeatable")
    elif isinstance(kind, Switch):
        notes.append(kind.allowed)
    notes.append(f"default: {setting.shown_default}")
    text = ": ".join(filter(None, (setting.text, setting.besides)))
    return f"{text} ({'; '.join(notes)})"


def read_flags(args: Namespace) -> Layer:
    """Return the settings that were given by flags.

    Raises:
        UsageError: Flags contradict each other.
    """
    given = vars(args)
    layer: dict[str, Value] = {
        setting.name: given[setting.dest] for setting in SETTINGS if setting.flags and setting.dest in given
    }
    for shortcut, name, value in (("--no-draft", "draft.mode", "off"), ("--no-lookup", "draft.source", "model")):
        if shortcut.lstrip("-").replace("-", "_") in given:
            if layer.get(name, value) != value:
                raise UsageError(f"{shortcut} and {_flag(BY_NAME[name])} {layer[name]} exclude each other.")
            layer[name] = value
    numbers = [_flag(BY_NAME[name]) for name in NUMBERS if name in layer]
    mode = layer.get("draft.mode", "fixed" if numbers else None)
    if numbers and mode != "fixed":
        raise UsageError(f"{numbers[0]} needs --drafting fixed, not {mode}.")
    if mode in ("off", "fixed") and (flag := automatic_flag(args, str(mode))):
        raise UsageError(f"{flag} needs --drafting auto, not {mode}.")
    if layer.get("draft.source") == "model" and "draft.lookup_min_match" in layer:
        flag = _flag(BY_NAME["draft.lookup_min_match"])
        raise UsageError(f"{flag} is about n-gram drafting, which is off.", f"Leave {flag} out.")
    return layer


def automatic_flag(args: Namespace, mode: str) -> str:
    """Return the first given flag that only automatic drafting reads, or ""."""
    given = vars(args)
    named = {_flag(BY_NAME[name]): given[BY_NAME[name].dest] for name in OF_AUTOMATIC if BY_NAME[name].dest in given}
    if "no_lookup" in given:
        named["--no-lookup"] = "model"
    # Fixed drafting drafts with the draft model, so saying that is no contradiction.
    return next((flag for flag, value in named.items() if mode != "fixed" or value != "model"), "")


def given_flag(names: Sequence[str], args: Namespace) -> str:
    """Return the flag of the first of these settings that was given, or ""."""
    return next((_flag(BY_NAME[name]) for name in names if BY_NAME[name].dest in vars(args)), "")
