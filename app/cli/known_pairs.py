"""The pairs that this machine knows, and the files of the one that came with it."""

from __future__ import annotations

from pathlib import Path

from app.core.errors import ModelFileError
from app.core.paths import cache_dir, config_dir, pairs_file
from app.core.shell import command
from app.models.catalog import Catalog, Pair, shipped_file
from app.models.registry import ModelOnDisk, Registry, SetUp
from app.models.source import DemoModel


def catalog() -> Catalog:
    """The pairs that ship, under the user's own."""
    return Catalog([shipped_file(), config_dir() / "models.toml"])


def left_out() -> tuple[str, ...]:
    """Why pairs of the user's own are not known, as a notice; () where their file can be read, or there is none."""
    unread = catalog().unread
    return (unread.sentences,) if unread is not None else ()


def known_pairs() -> list[Pair]:
    """What the catalogue has."""
    return list(catalog().pairs.values())


def registry() -> Registry:
    """The pairs that were set up here."""
    return Registry(pairs_file())


def demo_file(part: str) -> Path:
    """A file of the demo pair; the draft is made when it is asked for first."""
    from app.llama import demo

    return demo.target_file() if part == "target" else demo.draft_file(cache_dir())


def demo_is_installed() -> bool:
    """Whether the demo's model came with this installation."""
    from app.llama import demo

    try:
        return demo.target_file().is_file()
    except ModelFileError:
        return False


def used_demo(pair: Pair) -> SetUp | None:
    """The demo's files, if it was used without being set up, so that its draft lies here; None for any other pair."""
    from app.llama import demo

    if not isinstance(pair.target, DemoModel):
        return None
    try:
        target, draft = demo.target_file(), demo.draft_place(cache_dir())
        return SetUp(pair, *(ModelOnDisk(file, file.stat().st_size) for file in (target, draft)))
    except (ModelFileError, OSError):
        return None


def named_pair(name: str) -> tuple[Pair, SetUp | None]:
    """A pair by its name, and what was set up for it, if anything was.

    An entry of the catalogue is the newer one; what was set up stays one that another release makes of other files.

    Raises:
        UsageError: There is none; it names the nearest.
        CatalogError: Its entry is wrong.
    """
    registered, pair = registry().read(), newest(name)
    here = registered.pairs.get(name)
    return (here.pair, here) if here is not None and registered.in_place_of(pair) is not None else (pair, here)


def newest(name: str) -> Pair:
    """A pair by its name, as setting it up makes it; raises as `named_pair`."""
    registered, known = registry().read(), catalog()
    if name not in known.pairs and name not in known.problems:
        if name in registered.pairs:
            return registered.pairs[name].pair
        if name in registered.problems:
            raise registered.problems[name]
    return known.get(name, registered.pairs)


def about_catalogue(pair: Pair) -> tuple[str, ...]:
    """What the user should know of the catalogue that names a pair which is loaded, as notices."""
    known = catalog()
    unread = (known.unread.sentences,) if known.unread is not None else ()
    entry = known.pairs.get(pair.name)
    if entry is None or registry().read().in_place_of(entry) is None:
        return unread
    again = command(["tandem", "setup", pair.name])
    return (*unread, f"{pair.name} stays as it was set up; Tandem takes other files for it by now: {again}")
