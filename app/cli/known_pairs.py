"""The pairs that this machine knows, the one that flags name, and its own settings."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import Any

from app.core.errors import ModelFileError, UsageError
from app.core.paths import cache_dir, config_dir, pairs_file
from app.core.shell import command
from app.models.catalog import Catalog, Pair, shipped_file
from app.models.gguf import read_header
from app.models.pair_names import title_of
from app.models.registry import ModelOnDisk, Registry, SetUp
from app.models.source import DemoModel, LocalModel, parse_source
from app.settings.layers import Layer
from app.settings.model_file import Recommended, recommended
from app.settings.params import pair_layer


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


DEFAULT_PAIR = "demo"
"""What is taken before any pair was set up."""
FILES = "files"
"""Name of a pair that is given by its files."""


def is_chosen(given: Container[str]) -> bool:
    """Whether flags say which models are meant, by the name of a pair or by their files."""
    return any(name in given for name in ("pair", "target", "draft"))


def choose_pair(given: dict[str, Any]) -> tuple[Pair, SetUp | None]:
    """The pair that the flags mean: a named one, two files, or the default."""
    target, draft = given.get("target"), given.get("draft")
    if given.get("pair") == "":
        raise UsageError("--pair is empty.", "Name a pair, or leave it out for the default.")
    if target is None and draft is None:
        return _named(given.get("pair"))
    if "pair" in given:
        raise UsageError("--pair and --target or --draft exclude each other.", "Name a pair, or its two files.")
    if target is None:
        raise UsageError("--draft needs --target.", "A draft model runs ahead of a target model; name both files.")
    sources = parse_source(target), parse_source(draft) if draft is not None else None
    pair = Pair(name=FILES, title=title_of(*sources), target=sources[0], draft=sources[1])
    for known in registry().read().pairs.values():
        if known.is_of(pair) and known.is_here:
            return known.pair, known
    return pair, None


def _named(name: str | None) -> tuple[Pair, SetUp | None]:
    pair, files = named_pair(name or registry().read().default or DEFAULT_PAIR)
    # An entry that was changed since it was set up means other files; the demo's are found, or made, anew.
    if files is not None and not files.is_of(pair):
        files = None
    if files is not None and not files.is_here:
        if not all(isinstance(source, DemoModel) for source in pair.sources):
            raise files.gone
        files = None
    return pair, files


def of_entry(pair: Pair) -> Layer:
    """What its entry says."""
    return pair_layer(pair.sampling, pair.drafting, pair.kept)


def of_file(pair: Pair, files: SetUp | None) -> Recommended:
    """What the file of its target recommends; nothing where that cannot be read, which loading it will tell.

    Args:
        pair: What it is.
        files: Where its files are, or None.
    """
    try:
        path = files.target.path if files is not None else _path(pair)
        return recommended(read_header(path, vocabulary=False).metadata) if path is not None else Recommended()
    except ModelFileError:
        return Recommended()


def _path(pair: Pair) -> Path | None:
    """The target's file; None where it has yet to be downloaded."""
    match pair.target:
        case LocalModel(path):
            return path
        case DemoModel(part):
            return demo_file(part)
    return None
