"""The one order in which pairs are listed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from app.core.units import GB
from app.models.catalog import Catalog, Pair, shipped_file
from app.models.recommend import Fit, Room, Standing, bytes_per_token, every_pair, in_order, propose, weigh
from app.models.registry import ModelOnDisk, Registered, SetUp
from app.models.source import HubModel

CATALOG = list(Catalog(shipped_file()).pairs.values())
ROOM = Room(22 * GB, bytes_per_s=20e9)


def standings(room: Room | None = ROOM) -> list[Standing]:
    return [Standing(pair, weigh(pair, room)) for pair in CATALOG]


def listed(known: list[Standing], room: Room | None = ROOM) -> list[Standing]:
    return in_order(known, propose(CATALOG, room) if room is not None else [])


@pytest.mark.parametrize("room", [ROOM, Room(8 * GB, "a card"), Room(100 * GB, bytes_per_s=200e9), Room(4 * GB)])
def test_the_proposed_one_then_the_fast_by_size_the_slow_by_speed_and_what_does_not_fit(room: Room) -> None:
    best, *others = listed(standings(room), room)

    assert best.pair == propose(CATALOG, room)[0].pair
    kinds = {Fit.FITS: 0, Fit.TIGHT: 1, Fit.TOO_BIG: 3}
    for above, below in pairwise(others):
        kind, next_kind = (2 if p.slow else kinds[p.fit] for p in (above.proposal, below.proposal))
        assert kind <= next_kind
        if kind == next_kind == 2:
            assert bytes_per_token(above.pair) <= bytes_per_token(below.pair)
        elif kind == next_kind == 3:
            assert above.proposal.need_bytes <= below.proposal.need_bytes
        elif kind == next_kind:
            assert above.pair.memory_gb >= below.pair.memory_gb


def test_what_can_be_opened_is_first_then_what_is_here_then_what_was_just_put_together() -> None:
    known = standings()
    known[3] = replace(known[3], is_new=True)
    known[15] = replace(known[15], here=True)
    known[20] = replace(known[20], here=True, set_up=True)
    known[22] = replace(known[22], here=True, set_up=True, is_default=True)

    names = [one.pair.name for one in listed(known)]

    assert names[:4] == [CATALOG[22].name, CATALOG[20].name, CATALOG[15].name, CATALOG[3].name]
    assert names[4] == propose(CATALOG, ROOM)[0].pair.name


def test_while_the_machine_is_not_known_the_catalog_has_the_say() -> None:
    assert [one.pair for one in listed(standings(None), None)] == CATALOG


def test_pairs_that_were_set_up_come_first_and_the_catalog_knows_them_better() -> None:
    old = Pair("mine", "Old", HubModel("a/b"), None)
    gone = Pair("gone", "Gone", HubModel("a/c"), None)
    here = {pair.name: SetUp(pair, ModelOnDisk(Path("x.gguf"), 1)) for pair in (gone, old)}
    other, new = Pair("other", "Other", HubModel("a/d"), None), replace(old, title="New")

    assert list(every_pair({"other": other, "mine": new}, Registered(here)).values()) == [gone, new, other]
