"""Validate settings of a file, a conversation or a model file, each separately."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from app.core.printable import printable, storable
from app.engine.types import MAX_DRAFT, SAMPLING_BOUNDS
from app.settings.kinds import Value
from app.settings.setting import Setting
from app.settings.table import BY_NAME, FORMER, TABLES, nearest

_MAX_SHOWN_CHARACTERS = 300
_FORMER_DRAFT_LENGTHS = (63, 64)
"""Lengths that earlier versions allowed."""
_SAMPLING_KEY_PREFIX = "general.sampling."
"""Prefix of the keys of recommended values, as in llama_model_meta_key of llama.h."""
_BY_KEY = {
    "temp": "temp",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "penalty_repeat": "repeat_penalty",
    "penalty_last_n": "repeat_last_n",
    "xtc_probability": "xtc_probability",
    "xtc_threshold": "xtc_threshold",
    "mirostat": "mirostat",
    "mirostat_tau": "mirostat_ent",
    "mirostat_eta": "mirostat_lr",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """An ignored entry of a file, and why, as a printable sentence without the file's name."""

    name: str
    text: str


def check(
    table: Mapping[str, object], accepts: Callable[[Setting], bool] = lambda setting: True
) -> tuple[dict[str, Value], list[Problem]]:
    """Return the valid settings of nested tables from TOML or JSON, and the ignored entries."""
    values: dict[str, Value] = {}
    problems: list[Problem] = []
    for name, raw in _entries(table, problems):
        name = FORMER.get(name, name)
        setting = BY_NAME.get(name)
        if setting is None:
            problems.append(_problem(name, f"{name} is no setting.{nearest(name)}"))
        elif not accepts(setting):
            problems.append(_problem(name, f"{name} cannot be set here."))
        else:
            try:
                if name in ("draft.n_max", "draft.n_min") and raw in _FORMER_DRAFT_LENGTHS:
                    raw = MAX_DRAFT
                values[name] = setting.kind.read(raw)
            except (ValueError, OverflowError):
                problems.append(_problem(name, setting.error(name, _value_text(raw))))
    return values, problems


def check_presets(raw: object) -> tuple[dict[str, dict[str, Value]], list[Problem]]:
    """Return the valid presets of a table, and the ignored entries."""
    if not isinstance(raw, Mapping):
        return {}, [_problem("presets", "presets must be a table; write [presets.NAME].")]
    presets: dict[str, dict[str, Value]] = {}
    problems: list[Problem] = []
    for name, table in raw.items():
        if not isinstance(table, Mapping) or not is_preset_name(name):
            problems.append(_problem(f"presets.{name}", f"presets.{name} must be a table with a name of its own."))
            continue
        presets[name], wrong = check(table, lambda setting: setting.in_preset)
        for one in wrong:
            text = f"presets.{printable(name)}: {one.text}"
            problems.append(replace(one, name=f"presets.{name}.{one.name}", text=text))
    return presets, problems


def is_preset_name(name: str) -> bool:
    """Return whether a preset may have this name; "none" is reserved."""
    return name.isprintable() and name.strip().lower() not in ("", "none")


def check_keys(raw: object) -> tuple[dict[str, str], list[Problem]]:
    """Return the keys by binding id, and the ignored entries; the ui checks ids and keys."""
    if not isinstance(raw, Mapping):
        return {}, [_problem("keys", 'keys must be a table; write [keys] and lines such as "chat.again" = "f8".')]
    keys: dict[str, str] = {}
    problems: list[Problem] = []
    for name, key in _flat(raw):
        if isinstance(key, str):
            keys[name] = key
        else:
            problems.append(_problem(f"keys.{name}", f'keys.{name} must be a text such as "ctrl+k".'))
    return keys, problems


def recommended(metadata: Mapping[str, object]) -> dict[str, Value]:
    """Return the sampling values that a model file recommends in its metadata; ignore invalid values."""
    given = {key: metadata[_SAMPLING_KEY_PREFIX + key] for key in _BY_KEY if _SAMPLING_KEY_PREFIX + key in metadata}
    if given.get("penalty_last_n") == -1:
        # In llama.cpp this means the whole context.
        given["penalty_last_n"] = SAMPLING_BOUNDS["repeat_last_n"][1]
    values, _ = check({"sampling": {_BY_KEY[key]: raw for key, raw in given.items()}})
    # Show a float32 such as 0.949999988 with its significant digits.
    return {name: float(f"{value:.7g}") if isinstance(value, float) else value for name, value in values.items()}


def in_one_line(values: Mapping[str, Value]) -> str:
    """Return the values of settings in one printable line."""
    return ", ".join(f"{BY_NAME[name].key} {BY_NAME[name].in_one_line(value)}" for name, value in values.items())


def document(values: Mapping[str, Value]) -> dict[str, object]:
    """Return values as nested tables that `check` reads."""
    return nested({name: BY_NAME[name].kind.write(value) for name, value in values.items()})


def nested(values: Mapping[str, object]) -> dict[str, object]:
    """Nest values with dotted names into tables."""
    table: dict[str, object] = {}
    for name, value in values.items():
        put(table, name.split("."), value)
    return table


def put(table: dict[str, Any], path: list[str], value: object) -> None:
    """Set an entry of nested tables; replace an ignored value where a table belongs."""
    *tables, key = path
    for name in tables:
        if not isinstance(table.get(name), dict):
            table[name] = {}
        table = table[name]
    table[key] = value


def _entries(table: Mapping[str, object], problems: list[Problem]) -> Iterator[tuple[str, object]]:
    for key, raw in table.items():
        if key in TABLES:
            if isinstance(raw, Mapping):
                yield from ((f"{key}.{name}", value) for name, value in raw.items())
            else:
                problems.append(_problem(key, f"{key} must be a table; write [{key}]."))
        else:
            yield key, raw


def _flat(table: Mapping[str, object], head: str = "") -> Iterator[tuple[str, object]]:
    """Yield entries by binding id; an id without quotes, as in chat.again = "f8", is a table in TOML."""
    for key, value in table.items():
        if isinstance(value, Mapping) and not head:
            yield from _flat(value, f"{key}.")
        else:
            yield f"{head}{key}", value


def _problem(name: str, text: str) -> Problem:
    # A name may be as long as the file, and in JSON it may contain half a surrogate pair.
    line = " ".join(storable(printable(text)).split())
    return Problem(name, line if len(line) <= _MAX_SHOWN_CHARACTERS else f"{line[: _MAX_SHOWN_CHARACTERS - 1]}…")


def _value_text(raw: object) -> str:
    if isinstance(raw, Mapping | list | tuple):
        return "a table" if isinstance(raw, Mapping) else "a list"
    try:
        return str(raw)
    except ValueError:
        # Python does not format integers of more than 4,300 digits.
        return "a very long number"
