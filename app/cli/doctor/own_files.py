"""Files of Tandem in `tandem doctor`: what is broken, and the fix."""

from __future__ import annotations

from app.conversations.opening import check_file
from app.core.errors import AppError
from app.core.paths import config_dir, conversations_file, pairs_file
from app.core.regular_file import is_closed, is_file, is_gone
from app.core.shell import command
from app.hardware.checks import Line, Section
from app.models.catalog import Catalog
from app.models.registry import Registry, SetUp


def own_files() -> Section:
    """A line for each file, whether it is there or not."""
    return Section("files", (*_catalogue(), *_pairs(), _conversations()))


def _catalogue() -> list[Line]:
    file = config_dir() / "models.toml"
    if is_gone(file, follow_links=False):
        return [Line("ok", "models.toml", "none of your own")]
    try:
        found = Catalog([file])
    except AppError as error:
        return [_broken("models.toml", error)]
    n = len(found.pairs)
    good = [Line("ok", "models.toml", f"{n} pair{'s' * (n != 1)} of your own in {file}")]
    broken = [_broken("models.toml", error) for error in found.problems.values()]
    return broken if broken and not n else good + broken


def _pairs() -> list[Line]:
    try:
        found = Registry(pairs_file()).read()
    except AppError as error:
        return [_broken("pairs.toml", error)]
    known, broken = found.pairs, [_broken("pairs.toml", error) for error in found.problems.values()]
    if not known:
        return broken or [Line("ok", "pairs.toml", "no pair is set up yet")]
    here = [name for name, pair in known.items() if pair.is_here]
    lines = [Line("ok", "pairs.toml", f"set up: {', '.join(here)}")] if here else []
    return lines + [_gone(name, pair) for name, pair in known.items() if not pair.is_here] + broken


def _gone(name: str, pair: SetUp) -> Line:
    missing = next(model.path for model in pair.models if not is_file(model.path))
    if is_closed(missing):
        error = pair.gone
        return Line("warning", "pairs.toml", error.message, hint=(error.hint,))
    commands = (f"  {command(['tandem', *words, name])}" for words in (["setup"], ["pairs", "remove"]))
    hint = ("Download them again, or remove the pair:", *commands)
    return Line("warning", "pairs.toml", f"files of {name} are gone: {missing}", hint=hint)


def _conversations() -> Line:
    try:
        n = check_file(conversations_file())
    except AppError as error:
        return _broken("chats", error)
    return Line("ok", "chats", "none yet" if n is None else f"{n:,} in {conversations_file()}")


def _broken(label: str, error: AppError) -> Line:
    return Line("problem", label, error.message, hint=(error.hint,) if error.hint else ())
