"""The flags of the settings, from the one list of them, and what was given of them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

from app.core.errors import UsageError
from app.core.printable import printable
from app.settings.kinds import Choice, Number, Switch, Texts, Value
from app.settings.layers import Layer
from app.settings.tree import BY_NAME, NUMBERS, OF_AUTOMATIC, SETTINGS, TABLES, Setting

_SHORTCUTS = {
    "draft": (
        ("--no-draft", "the same as --drafting off"),
        ("--no-lookup", "automatic drafting by the draft model only"),
    )
}
_NOTES = {"sampling": "llama.cpp's chain and terms; what a pair or its model file says goes before these defaults"}


_BY_MODEL = "With fixed numbers the draft model alone drafts."

SEED = 1
"""Of every draw that is measured, unless another one is asked for: the same command must measure the same answers."""
PAIRS = ("model", "draft")
ANSWERS = ("sampling", "answer", "")
"""Tables whose flags belong to a pair, and to an answer."""


def add_setting_flags(
    parser: argparse.ArgumentParser, tables: Sequence[str], defaults: Mapping[str, str] | None = None
) -> None:
    """Give a command the settings of these tables.

    Args:
        parser: The command's.
        tables: Which.
        defaults: What the command takes where nobody gives a number, in words, by the name of the setting; it always
            takes one, so that the word that stands for none has no meaning there.
    """
    own = {name: _always_given(BY_NAME[name], default) for name, default in (defaults or {}).items()}
    for table in tables:
        settings = [own.get(setting.name, setting) for setting in SETTINGS if setting.table == table and setting.flags]
        group = parser.add_argument_group(TABLES[table].lower(), _NOTES.get(table))
        for setting in settings:
            more: dict[str, Any] = {"action": "append"} if isinstance(setting.kind, Texts) else {}
            group.add_argument(
                *setting.flags,
                dest=setting.dest,
                type=_reader(setting),
                metavar=_metavar(setting),
                help=_help(setting),
                **more,
            )
        for flag, text in _SHORTCUTS.get(table, ()):
            group.add_argument(flag, action="store_true", help=text)


def read_flags(args: argparse.Namespace) -> Layer:
    """The settings that were given by flags.

    Raises:
        UsageError: Flags contradict each other.
    """
    given = vars(args)
    layer: dict[str, Value] = {
        setting.name: given[setting.dest] for setting in SETTINGS if setting.flags and setting.dest in given
    }
    if "answer.stop" in layer:
        layer["answer.stop"] = tuple(given["stop"])
    mode = layer.get("draft.mode")
    if given.get("no_draft"):
        if mode not in (None, "off"):
            raise UsageError("--no-draft and --drafting exclude each other.")
        mode = layer["draft.mode"] = "off"
    if mode in ("off", "auto") and any(name in layer for name in NUMBERS):
        raise UsageError(f"--draft-n-max, --draft-n-min and --draft-p-min mean fixed drafting, not {mode}.")
    is_fixed = _means_fixed(layer)
    if (named := of_automatic(given, fixed=is_fixed)) and (mode == "off" or is_fixed):
        why = f"{_BY_MODEL} " if is_fixed else ""
        raise UsageError(
            f"{named} means automatic drafting, not {mode or 'fixed'}.", f"{why}Leave one or the other out."
        )
    if given.get("no_lookup"):
        if layer.get("draft.source", "model") != "model":
            raise UsageError(f"--no-lookup and --draft-source {layer['draft.source']} exclude each other.")
        layer["draft.source"] = "model"
    if layer.get("draft.source") == "model" and "draft.lookup_min_match" in layer:
        flag = spelled(("draft.lookup_min_match",), given)
        raise UsageError(f"{flag} is about the look-up, and only the draft model is to draft.", f"Leave {flag} out.")
    return layer


def spelled(names: Sequence[str], given: Container[str]) -> str:
    """The flag of the first of these settings that was given by one; "" if none was."""
    return next((_spelling(BY_NAME[name]) for name in names if BY_NAME[name].dest in given), "")


def of_automatic(given: Mapping[str, object], *, fixed: bool) -> str:
    """The first flag that was given of automatic drafting alone; "" if none was.

    Args:
        given: The flags.
        fixed: Whether drafting is fixed: then it is the draft model's, and whoever says just that is not contradicted.
    """
    if not fixed:
        return spelled(OF_AUTOMATIC, given) or ("--no-lookup" if "no_lookup" in given else "")
    return spelled([name for name in OF_AUTOMATIC if given.get(BY_NAME[name].dest) != "model"], given)


def refuse_words(names: Sequence[str], given: Mapping[str, Value]) -> None:
    """Raise UsageError for the word that stands for no number where a command always takes one.

    Its own flags do not know that word; see `add_setting_flags`. In front of the command they do.
    """
    for setting in (BY_NAME[name] for name in names):
        if given.get(setting.dest, 0) is None:
            raise UsageError(_always_given(setting, "").wrong(_spelling(setting), setting.kind.show(None)))


def _means_fixed(layer: Layer) -> bool:
    return layer.get("draft.mode") == "fixed" or any(name in layer for name in NUMBERS)


def _always_given(setting: Setting, default: str) -> Setting:
    assert isinstance(setting.kind, Number)
    return replace(setting, kind=replace(setting.kind, word=""), unset=default)


def _reader(setting: Setting) -> Callable[[str], Value]:
    def read(text: str) -> Value:
        try:
            return text if isinstance(setting.kind, Texts) else setting.kind.parse(text)
        except (ValueError, OverflowError):
            raise UsageError(setting.wrong(_spelling(setting), printable(text))) from None

    return read


def _spelling(setting: Setting) -> str:
    """The flag as people know it: --drafting was there before its table."""
    return setting.flags[-1]


def _metavar(setting: Setting) -> str:
    if setting.metavar:
        return setting.metavar
    return f"{{{','.join(setting.kind.options)}}}" if isinstance(setting.kind, Choice) else "VALUE"


def _help(setting: Setting) -> str:
    """What it does, its range and its default."""
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
    return f"{text} ({'; '.join(notes)})".replace("%", "%%")
