"""The pair that somebody means."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from app.cli.known_pairs import named_pair, registry
from app.core.errors import UsageError
from app.models.catalog import Pair
from app.models.pair_names import title_of
from app.models.registry import SetUp
from app.models.source import DemoModel, parse_source

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
