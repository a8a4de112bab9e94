"""`tandem settings`: show what counts and why; set and unset what holds for all commands and conversations."""

from __future__ import annotations

import argparse
import json
import sys

from app.cli.known_pairs import choose_pair, left_out, of_entry, of_file
from app.cli.output import HANG, for_reading
from app.core.errors import AppError, UsageError
from app.core.paths import settings_file
from app.core.printable import printable
from app.core.shell import quoted
from app.models.catalog import Pair
from app.models.registry import SetUp
from app.settings.checking import is_preset_name
from app.settings.file import KEYS, PRESETS, SettingsFile
from app.settings.layers import BUILT_IN, Origin, Resolved, unknown_preset
from app.settings.live import LiveSettings
from app.settings.table import BY_NAME, SETTINGS, Setting, find, given, nearest

_WIDEST = 32
_THEME = "appearance.theme"
_FIXED = "Drafting is fixed now, and no longer automatic; back: tandem settings set draft-mode auto"


def settings(args: argparse.Namespace) -> int:
    """Do what was asked for; see the module."""
    file = SettingsFile(settings_file())
    if args.action == "path":
        print(str(file.path))
    elif args.action == "set":
        _set(file, args.name, args.value)
    elif args.action == "unset":
        _unset(file, args.name)
    else:
        pair, files, note = _pair(args)
        live = LiveSettings(file)
        if pair is not None:
            live.switch_pair(of_entry(pair), of_file(pair, files))
        # In ASCII, for what ends an answer may be what steers a terminal.
        print(json.dumps(_as_json(live, pair)) if "json" in args else "\n".join(_lines(live, pair)))
        for sentence in (*note, *_sentences(live)):
            print(for_reading(f"tandem: {sentence}", sys.stderr, HANG), file=sys.stderr)
    return 0


def _set(file: SettingsFile, name: str, text: str) -> None:
    preset, setting = _named(file, name)
    try:
        value = setting.kind.parse(text)
    except (ValueError, OverflowError):
        raise UsageError(setting.wrong(name, printable(text))) from None
    if preset and not setting.in_preset:
        raise UsageError(f"{setting.name} cannot be part of a preset.")
    if not preset and (refusal := LiveSettings(file).refusal(setting.name, value)):
        raise UsageError(refusal)
    if setting.name == _THEME and (unknown := _unknown_theme(str(value))) is not None:
        raise unknown
    file.set(setting.name, value, preset)
    if told := _of_mode(LiveSettings(file), setting, preset):
        print(told)


def _of_mode(live: LiveSettings, setting: Setting, preset: str) -> str:
    """Return the effect of a setting on the drafting mode; "" if there is none."""
    if preset:
        is_meant = setting.only_fixed and "draft.mode" not in live.presets.get(preset, {})
        return f"With the preset {printable(preset)} drafting is fixed, and not automatic." if is_meant else ""
    now = live.resolved()
    if setting.name in now.meaning_fixed:
        return _FIXED
    mode = now["draft.mode"]
    if setting.only_fixed and mode != "fixed":
        return f"{setting.name} counts for fixed drafting only; draft.mode is {mode}."
    if setting.only_auto and mode != "auto":
        return f"{setting.name} counts for automatic drafting only; draft.mode is {mode}."
    return ""


def _unset(file: SettingsFile, name: str) -> None:
    table, _, rest = name.partition(".")
    preset, behind = _in_preset(file, rest) if table == PRESETS and rest else ("", "")
    if preset and not behind:
        if not file.remove_preset(preset):
            _check_preset(file, preset)
    elif table == KEYS and rest:
        if not file.unset_key(rest):
            keys = file.read().keys
            raise UsageError(
                f'The file has no key for "{printable(rest)}".{nearest(rest, keys)}',
                f"Those that it has stand under [{KEYS}]. tandem settings path tells where it is.",
            )
    elif (known := find(name)) is not None:
        if known.name == "draft.mode":
            _unset_mode(file)
        else:
            file.unset(known.name)
    elif preset and (known := find(behind)) is not None:
        if not file.unset(known.name, preset=preset):
            _check_preset(file, preset)
    elif not file.unset(behind if preset else name, preset=preset):
        # What this Tandem does not know may be the very thing to take out, if the file holds it.
        raise UsageError(
            f'There is no setting "{printable(name)}", here or in the file.{nearest(name)}',
            "tandem settings lists all of them.",
        )


def _unset_mode(file: SettingsFile) -> None:
    """Take the mode of drafting out of the file; one that only numbers mean goes with these."""
    if numbers := Resolved({Origin.FILE: file.read().values}).meaning_fixed:
        file.unset(*numbers)
        mode = LiveSettings(file).resolved()["draft.mode"]
        print(f"Without {' and '.join(numbers)}, which the file no longer has, draft.mode is {mode}.")
        return
    file.unset("draft.mode")
    if meant := LiveSettings(file).resolved().meaning_fixed:
        print(f"Drafting is fixed now, because {given(meant)}.")


def _check_preset(file: SettingsFile, name: str) -> None:
    """Raise UsageError for a preset that is neither in the file nor comes with Tandem."""
    if name not in (known := LiveSettings(file).presets):
        raise unknown_preset(name, known)


def _in_preset(file: SettingsFile, text: str) -> tuple[str, str]:
    """A preset, and what of it is meant; "" for all of it. Its name may have dots, as the screen takes it.

    The longest name that is known counts, and else the shortest that leaves a setting.
    """
    known = LiveSettings(file).presets
    ends = [end for end, letter in enumerate(f"{text}.") if letter == "."]
    for end in reversed(ends):
        if text[:end] in known:
            return text[:end], text[end + 1 :]
    end = next((end for end in ends if find(text[end + 1 :]) is not None), ends[0])
    return text[:end], text[end + 1 :]


def _named(file: SettingsFile, name: str) -> tuple[str, Setting]:
    """The preset, or "", and the setting that a name means."""
    preset, rest = "", name
    if name.startswith(f"{PRESETS}."):
        preset, rest = _in_preset(file, name.removeprefix(f"{PRESETS}."))
        if not is_preset_name(preset):
            raise UsageError(f'"{printable(preset)}" is no name for a preset.', "Take letters, digits and dashes.")
        if not rest:
            raise UsageError(
                f"{printable(name)} names a preset, and no setting in it.",
                f"For example: tandem settings set {quoted(f'{printable(name)}.temp')} 0.2",
            )
    if name.startswith(f"{KEYS}."):
        raise UsageError(
            "Keys are not set here.",
            f'Write them into the file, under [{KEYS}]: "chat.again" = "f8". tandem settings path tells where it is.',
        )
    setting = find(rest)
    if setting is None:
        raise UsageError(
            f'There is no setting "{printable(rest)}".{nearest(rest)}', "tandem settings lists all of them."
        )
    return preset, setting


def _pair(args: argparse.Namespace) -> tuple[Pair | None, SetUp | None, tuple[str, ...]]:
    """The pair whose own settings count and where its files are, and what is wrong with that or why there is none.

    Raises:
        AppError: The one that was named cannot be used.
    """
    try:
        return *choose_pair(vars(args)), tuple(map(printable, left_out()))
    except AppError as error:
        if "pair" in args:
            raise
        return None, None, (f"Without the settings of the pair: {printable(error.message)}",)


def _sentences(live: LiveSettings) -> list[str]:
    """Return the ignored entries of settings and model file."""
    now = live.resolved()
    notice, unknown = live.model.under(now).notice, _unknown_theme(str(now[_THEME]))
    theme = [f"{settings_file()}: {unknown.message}"] if unknown is not None else []
    return [*live.sentences(), *theme, *([printable(notice)] if notice else [])]


def _unknown_theme(name: str) -> UsageError | None:
    """As `app.ui.look.themes` has it; that takes longer to import than all else here."""
    if name == BY_NAME[_THEME].default:
        return None
    from app.ui.look.themes import unknown_theme

    return unknown_theme(name)


def _lines(live: LiveSettings, pair: Pair | None) -> list[str]:
    now = live.resolved()
    lines = []
    for setting in SETTINGS:
        shown = " ".join(printable(setting.said(now[setting.name])).split())
        shown = shown if len(shown) <= _WIDEST else shown[: _WIDEST - 1] + "…"
        whence = now.origin(setting.name).value
        if setting.name == "draft.mode" and now.meaning_fixed:
            whence += f", because {given(now.meaning_fixed)}"
        lines.append(f"{setting.name:<26} {shown:<{_WIDEST}} {whence}")
    own = [name for name in live.presets if name not in BUILT_IN]
    about = [f"pair: {printable(pair.name)}, {printable(pair.title)}"] if pair is not None else []
    return [*lines, "", *about, f"presets: {', '.join(map(printable, [*BUILT_IN, *own]))}"]


def _as_json(live: LiveSettings, pair: Pair | None) -> dict[str, object]:
    now = live.resolved()
    return {
        "file": str(settings_file()),
        "pair": pair.name if pair is not None else None,
        "settings": {
            setting.name: {
                "value": now[setting.name],
                "from": now.origin(setting.name).value,
                "default": setting.default,
                "text": setting.text,
                "allowed": setting.kind.allowed,
                "flag": setting.flags[0] if setting.flags else None,
                "needs_reload": setting.needs_reload,
            }
            for setting in SETTINGS
        },
        "presets": {name: dict(values) for name, values in live.presets.items()},
        "keys": dict(live.content.keys),
        "problems": _sentences(live),
    }
