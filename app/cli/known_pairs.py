"""The pairs that this machine knows, and the files of the one that came with it."""

from __future__ import annotations

from pathlib import Path

from app.catalog import Catalog, Pair, shipped_file
from app.errors import ModelFileError
from app.paths import cache_dir, config_dir, pairs_file
from app.registry import ModelOnDisk, Registry, SetUp
from app.source import DemoModel


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
    """A pair by its name, and what was set up for it, if anything was; an entry of the catalogue is the newer one.

    Raises:
        UsageError: There is none; it names the nearest.
        CatalogError: Its entry is wrong.
    """
    registered, known = registry().read(), catalog()
    here = registered.pairs.get(name)
    if name not in known.pairs and name not in known.problems:
        if here is not None:
            return here.pair, here
        if name in registered.problems:
            raise registered.problems[name]
    return known.get(name, registered.pairs), here
