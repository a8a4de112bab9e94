"""Settings on the command line: their flags, the given flags, and the wording of fixes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from app.cli.command import Option, switch
from app.core.errors import AppError, UsageError
from app.core.fixes import command, quoted, worded
from app.core.printable import printable
from app.settings.kinds import Choice, Number, Overrides, Switch, Texts, Value
from app.settings.placement import MAX_LAYERS
from app.settings.setting import Setting
from app.settings.table import BY_NAME, NUMBERS, OF_AUTOMATIC, SETTINGS, TABLES

if TYPE_CHECKING:
    from app.hardware.offers import Offer
    from app.settings.layers import Layer


Given = Mapping[str, Any]
"""The given options by name."""
SEED = 1
"""Seed of every measured answer, so that repeated commands measure the same text."""
PAIR_TABLES = ("model", "draft")
ANSWER_TABLES = ("sampling", "answer", "")
_TOOL_SETTINGS = ("answer.tools", "answer.tool_rounds")
"""Settings that only the chat and `tandem run` use."""
_COMMON_SETTINGS = ("model.ctx", "model.gpu_layers", "answer.max_tokens", "answer.tools", "sampling.temp")
"""Settings whose flags appear in the short help."""
_FLAG_ALIASES = {
    "answer.max_tokens": ("-n", "--predict", "--n-predict"),
    "answer.system": ("-sys", "--system-prompt"),
    "draft.device": ("-devd", "--device-draft"),
    "draft.gpu_layers": ("-ngld", "--n-gpu-layers-draft"),
    "draft.kv_type": ("-ctkd", "--cache-type-k-draft"),
    "draft.n_max": ("--draft-max",),
    "draft.n_min": ("--draft-min",),
    "draft.ngram_min_match": ("--draft-lookup-min-match",),
    "model.cache_ram": ("-cram",),
    "model.ctx": ("-c", "--ctx-size", "--num-ctx"),
    "model.device": ("-dev",),
    "model.flash_attn": ("-fa",),
    "model.gpu_layers": ("-ngl", "--n-gpu-layers"),
    "model.n_cpu_moe": ("-ncmoe",),
    "model.offload_min_batch": ("--op-offload-min-batch",),
    "model.override_tensor": ("-ot",),
    "model.kv_type": ("-ctk", "--cache-type-k"),
    "model.tensor_split": ("-ts",),
    "model.threads": ("-t",),
    "sampling.seed": ("-s",),
    "sampling.temp": ("--temperature",),
}
"""llama.cpp's names of the same settings, and Tandem's earlier names."""
_FLAG_SHORTCUTS: tuple[tuple[str, str, Value], ...] = (
    ("no_draft", "draft.mode", "off"),
    ("no_ngram", "draft.source", "model"),
    ("cpu_moe", "model.n_cpu_moe", MAX_LAYERS),
)
_SHORTCUT_BY_VALUE: dict[tuple[str, object], str] = {
    (name, value): f"--{flag.replace('_', '-')}" for flag, name, value in _FLAG_SHORTCUTS
}
_COMMAND_BY_ACTION = {
    "doctor": ("doctor",),
    "pairs": ("pairs", "list"),
    "pairs.choose": ("pairs", "list"),
    "pairs.find": ("pairs", "find"),
    "pairs.remove": ("pairs", "remove"),
    "setup": ("setup",),
    "setup.latest": ("setup",),
    "setup.models": ("setup",),
    "tune": ("tune",),
}
"""Subcommands by action."""
_OPTIONS_AS_FLAGS = ("draft", "isolate", "rpc", "target")
_CONTINUATION_INDENT = "\n        "


class _Value(click.ParamType[Value]):
    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self.name = setting.key

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Value:
        kind = self._setting.kind
        try:
            if isinstance(kind, Overrides):
                kind.parse(value)
            return value if isinstance(kind, Texts) else kind.parse(value)
        except (ValueError, OverflowError):
            raise UsageError(self._setting.error(_flag(self._setting.name), printable(value))) from None


def setting_options(
    tables: Sequence[str], defaults: Mapping[str, str] | None = None, *, calls_tools: bool = False
) -> list[click.Parameter]:
    """Return the options of the settings in these tables.

    `defaults` describes the defaults of a command by setting; such a setting always takes a number. Tool settings are
    left out for commands without tools.
    """
    options: list[click.Parameter] = []
    for setting in SETTINGS:
        if setting.table in tables and setting.flags and (calls_tools or setting.name not in _TOOL_SETTINGS):
            default = (defaults or {}).get(setting.name)
            if default is not None:
                assert isinstance(setting.kind, Number)
                setting = replace(setting, kind=replace(setting.kind, word=""), unset=default)
            options.append(_option(setting))
    if "draft" in tables:
        section = TABLES["draft"]
        options.append(switch("--no-draft", section=section, help="decode without drafts; short for --drafting off"))
        text = "draft with the draft model only, without n-grams"
        options.append(switch("--no-ngram", aliases=["--no-lookup"], section=section, rare=True, help=text))
    if "model" in tables:
        text = "keep the experts of all layers in RAM, the rest on the GPU"
        options.append(switch("--cpu-moe", section=TABLES["model"], rare=True, help=text))
    return options


def _option(setting: Setting) -> Option:
    kind, aliases = setting.kind, _FLAG_ALIASES.get(setting.name, ())
    choices = f"{{{','.join(kind.options)}}}" if isinstance(kind, Choice) else "VALUE"
    return Option(
        setting.dest,
        *(alias for alias in aliases if not alias.startswith("--")),
        *setting.flags,
        aliases=[alias for alias in aliases if alias.startswith("--")],
        section=TABLES[setting.table],
        rare=setting.name not in _COMMON_SETTINGS,
        type=_Value(setting),
        multiple=isinstance(kind, Texts),
        metavar=setting.metavar or kind.metavar or choices,
        help=help_of(setting),
    )


def help_of(setting: Setting) -> str:
    """Return the description of a setting with its range and default."""
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
    return f"{setting.help} ({'; '.join(notes)})"


def read_flags(given: Given) -> Layer:
    """Return the settings given by flags."""
    layer: dict[str, Value] = {
        setting.name: given[setting.dest] for setting in SETTINGS if setting.flags and setting.dest in given
    }
    for shortcut, name, value in _FLAG_SHORTCUTS:
        if shortcut in given:
            if layer.get(name, value) != value:
                flag = _SHORTCUT_BY_VALUE[name, value]
                raise UsageError(f"{flag} and {_flag(name)} {layer[name]} exclude each other.")
            layer[name] = value
    numbers = [name for name in NUMBERS if name in layer]
    mode = layer.get("draft.mode", "fixed" if numbers else "auto")
    if numbers and mode != "fixed":
        raise UsageError(f"{_flag(numbers[0])} needs --drafting fixed, not {mode}.")
    if numbers:
        layer["draft.mode"] = "fixed"
    check_automatic(layer, mode)
    return layer


def check_automatic(flags: Layer, mode: Value) -> None:
    """Raise UsageError for a flag that only automatic drafting uses."""
    for name in OF_AUTOMATIC:
        # Fixed drafting uses the draft model, so a flag that asks for it is no contradiction.
        if mode != "auto" and name in flags and (mode, flags[name]) != ("fixed", "model"):
            raise UsageError(f"{_flag(name)} needs --drafting auto, and draft.mode is {mode}.")


def flags_of(layer: Layer) -> list[str]:
    """Return the flags that set these settings."""
    words: list[str] = []
    for name, value in layer.items():
        shortcut = _SHORTCUT_BY_VALUE.get((name, value))
        words += [shortcut] if shortcut else [_flag(name), BY_NAME[name].kind.show(value)]
    return words


def given_flag(names: Sequence[str], given: Given) -> str | None:
    """Return the flag of the first of these settings that was given."""
    return next((_flag(name) for name in names if BY_NAME[name].dest in given), None)


def _flag(name: str) -> str:
    """Return the best-known flag of a setting: --drafting is older than its table."""
    return BY_NAME[name].flags[-1]


def in_flags(text: str) -> str:
    """Replace the fixes in a text by flags and commands."""
    return worded(text, _words)


def _words(name: str, arguments: list[str]) -> str | None:
    if (setting := BY_NAME.get(name)) is not None:
        flag = setting.flags[-1] if setting.flags else setting.key
        shortcut = _SHORTCUT_BY_VALUE.get((name, arguments[0])) if len(arguments) == 1 else None
        return shortcut or " ".join([flag, *map(quoted, arguments)])
    if name == "setup.models":
        arguments = [word for pair in zip(("--target", "--draft"), arguments, strict=False) for word in pair]
    if name == "setup.latest":
        arguments = [*(arguments or ["NAME"]), "--latest"]
    if name == "install":
        from app.hardware.installation import install_command

        return install_command(*arguments)
    if name in _COMMAND_BY_ACTION:
        return command(["tandem", *_COMMAND_BY_ACTION[name], *arguments])
    if name in _OPTIONS_AS_FLAGS:
        return f"--{name}"
    return None


def hint_of(error: AppError) -> str:
    """Return the fix of an error, or the offers for a pair that does not fit."""
    offers: tuple[Offer, ...] = getattr(error, "offers", ())
    lines = ["Choose one of these, or load it anyway with --fit off:", *map(offer_line, offers)]
    return _CONTINUATION_INDENT.join(lines) if offers else error.hint


def offer_line(offer: Offer) -> str:
    """Return an offer in one line, with its flags."""
    flags = ["--pair", offer.pair] if offer.pair is not None else flags_of(offer.settings)
    what = f"{' '.join(flags)}: {offer.what}" if flags else offer.what
    return f"{what}, {offer.gain} ({offer.cost})"
