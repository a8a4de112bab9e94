"""`tandem settings`: show settings and their origin; change the settings file."""

import sys
from collections.abc import Sequence

from app.cli.options import choose_pair
from app.cli.output import HANG, for_reading, print_result
from app.core.columns import fit, text_table
from app.core.errors import AppError, UsageError
from app.core.paths import settings_file
from app.core.printable import printable
from app.settings.checking import is_preset_name
from app.settings.file import KEYS, PRESETS, SettingsFile
from app.settings.layers import BUILT_IN
from app.settings.live import LiveSettings
from app.settings.setting import Setting
from app.settings.table import BY_DEST, BY_NAME, FORMER, SETTINGS, nearest
from app.worker.known_pairs import KnownPair, left_out

_MAX_VALUE_COLUMNS = 32
"""Width of a value."""
_THEME_SETTING = "appearance.theme"
_LIST_HINT = "To list all settings: tandem settings"


def show_settings(pair: str | None = None, *, as_json: bool = False) -> int:
    """Print every setting with its value and origin."""
    live = LiveSettings(SettingsFile(settings_file()))
    known, notes = _pair(pair)
    if known is not None:
        live.switch_pair(known.entry_settings, known.file_settings)
    problems = live.sentences()
    print_result(_as_json(live, known, problems), _lines(live, known), as_json=as_json)
    for note in (*notes, *problems):
        print(for_reading(f"tandem: {note}", sys.stderr, HANG), file=sys.stderr)
    return 0


def set_settings(name: str, value: str) -> int:
    """Change a setting in the file."""
    file = SettingsFile(settings_file())
    preset, setting = _named(name)
    try:
        parsed = setting.kind.parse(value)
    except (ValueError, OverflowError):
        raise UsageError(setting.error(name, printable(value))) from None
    if preset and not setting.in_preset:
        raise UsageError(f"{setting.name} cannot be part of a preset.")
    if not preset and (refusal := LiveSettings(file).refusal(setting.name, parsed)):
        raise UsageError(refusal)
    if setting.name == _THEME_SETTING and parsed != BY_NAME[_THEME_SETTING].default:
        from app.ui.themes import unknown_theme

        if (unknown := unknown_theme(str(parsed))) is not None:
            raise unknown
    file.set(setting.name, parsed, preset)
    return _changed(file, preset, setting)


def unset_settings(name: str) -> int:
    """Remove a setting, preset or key from the file."""
    file = SettingsFile(settings_file())
    given, (preset, name) = name, _split(name)
    setting = find(name)
    presets = LiveSettings(file).presets
    if preset and not name:
        is_known = file.remove_preset(preset) or preset in presets
    elif not preset and name.startswith(f"{KEYS}."):
        is_known = file.unset_key(name.removeprefix(f"{KEYS}."))
    else:
        # The user may want to remove an unknown entry.
        was_there = file.unset(setting.name if setting is not None else name, preset=preset)
        is_known = was_there or (setting is not None and (not preset or preset in presets))
    if not is_known:
        near = nearest(preset, presets) if preset and preset not in presets else nearest(name)
        raise UsageError(f'There is no setting "{printable(given)}", here or in the file.{near}', _LIST_HINT)
    return _changed(file, preset, setting)


def path_settings(*, as_json: bool = False) -> int:
    """Print the path of the settings file."""
    print_result({"file": str(settings_file())}, [str(settings_file())], as_json=as_json)
    return 0


def _split(text: str) -> tuple[str | None, str]:
    if not text.startswith(f"{PRESETS}."):
        return None, text
    preset, _, name = text.removeprefix(f"{PRESETS}.").partition(".")
    if not preset:
        raise UsageError(f'"{printable(text)}" names no preset.', "For example: presets.brief.temp")
    return preset, name


def _named(text: str) -> tuple[str | None, Setting]:
    preset, name = _split(text)
    if preset and not is_preset_name(preset):
        raise UsageError(f'"{printable(preset)}" is not a valid preset name.', "Use letters, digits and dashes.")
    if text.startswith(f"{KEYS}."):
        raise UsageError("Keys are not set here.", f'Add "chat.again" = "f8" under [{KEYS}] in {settings_file()}.')
    setting = find(name)
    if setting is None:
        raise UsageError(f'There is no setting "{printable(name)}".{nearest(name)}', _LIST_HINT)
    return preset, setting


def find(name: str) -> Setting | None:
    """Find a setting by its name, its flag, or its key if no other setting has the same key."""
    word = name.strip().lstrip("-").replace("-", "_")
    word = FORMER.get(word, word)
    if word in BY_NAME or word in BY_DEST:
        return BY_NAME.get(word) or BY_DEST[word]
    found = [setting for setting in SETTINGS if setting.key == word]
    return found[0] if len(found) == 1 else None


def _changed(file: SettingsFile, preset: str | None, setting: Setting | None) -> int:
    """Say if the changed setting has no effect in the drafting mode; return the exit code."""
    mode = LiveSettings(file).resolved()["draft.mode"]
    if not preset and setting is not None and setting.mode not in (None, mode):
        print(f"{setting.name} has no effect now: draft.mode is {mode}.")
    return 0


def _pair(name: str | None) -> tuple[KnownPair | None, tuple[str, ...]]:
    """Return the pair whose settings are shown, and notices."""
    try:
        return choose_pair({} if name is None else {"pair": name}), tuple(map(printable, left_out()))
    except AppError as error:
        if name is not None:
            raise
        return None, (f"Without the settings of the pair: {printable(error.message)}",)


def _lines(live: LiveSettings, known: KnownPair | None) -> list[str]:
    now = live.resolved()
    cells = []
    for setting in SETTINGS:
        value = fit(setting.in_one_line(now[setting.name]), _MAX_VALUE_COLUMNS)
        cells.append((setting.name, value, now.origin(setting.name).value))
    own = [name for name in live.presets if name not in BUILT_IN]
    about = [f"pair: {printable(known.pair.name)}, {printable(known.pair.title)}"] if known is not None else []
    return [*text_table(cells, left=3), "", *about, f"presets: {', '.join(map(printable, [*BUILT_IN, *own]))}"]


def _as_json(live: LiveSettings, known: KnownPair | None, problems: Sequence[str]) -> dict[str, object]:
    now = live.resolved()
    return {
        "file": str(settings_file()),
        "pair": known.pair.name if known is not None else None,
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
        "problems": list(problems),
    }
