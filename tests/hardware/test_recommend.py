"""Pairs that are proposed for a machine, and the order in which pairs are listed."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from app.core.units import GB
from app.hardware.devices import Device
from app.hardware.recommend import (
    PLEASANT,
    Capacity,
    Fit,
    Proposal,
    Standing,
    bytes_per_token,
    every_pair,
    in_order,
    propose,
    weigh,
    why,
)
from app.models.catalog import Catalog, Pair, PublishedSpeed, WorkingMemory, shipped_file
from app.models.pair_summary import pair_memory
from app.models.registry import ModelOnDisk, Registered, SetUp
from app.models.source import DemoModel, HubModel, LocalModel
from app.settings.placement import CPU
from tests.capacities import in_ram, measured_at, on_gpu, proposed

WORKING = WorkingMemory(per_token=0, fixed=2_000_000_000, main=100_000_000)
BY_NAME = Catalog(shipped_file()).pairs
CATALOG = list(BY_NAME.values())
BIG = Pair("big", "Big", HubModel("a/big", size=10 * GB), None, working=WorkingMemory(100_000, GB, GB))


def sized(name: str, gigabytes: float) -> Pair:
    model = HubModel(f"a/{name}", size=int(gigabytes * GB))
    return Pair(name, name, model, None, memory_gb=8, working=WorkingMemory(0, 0, 0))


def test_a_pair_without_room_on_the_disk_is_not_proposed_first() -> None:
    room = on_gpu(9 * GB)
    large, small = sized("large", 6), sized("small", 5)
    found = proposed([large, small], room, lambda pair: pair.name == "small")

    assert [one.pair.name for one in found] == ["small"]
    assert why(found).endswith("at reading speed; the disk has no room for larger ones.")
    assert [one.pair.name for one in proposed([large, small], room, lambda _: False)] == ["large", "small"]
    just = proposed([large, sized("just", 8.9)], room, lambda pair: pair.name == "just")
    assert why(just) == "just is the best pair that fits and answers at reading speed, with little memory to spare."


ROOM = in_ram(22 * GB, bytes_per_s=20e9)


def standings(room: Capacity | None = ROOM) -> list[Standing]:
    return [Standing(weigh(pair, room)) for pair in CATALOG]


def listed(known: list[Standing], room: Capacity | None = ROOM) -> list[Standing]:
    return in_order(known, propose([one.proposal for one in known]) if room is not None else [])


@pytest.mark.parametrize("room", [ROOM, on_gpu(8 * GB), in_ram(100 * GB, bytes_per_s=200e9), in_ram(4 * GB)])
def test_pairs_are_listed_proposed_first_then_fast_slow_and_too_big(room: Capacity) -> None:
    best, *others = listed(standings(room), room)

    assert best.pair == proposed(CATALOG, room)[0].pair
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


def test_pairs_on_this_machine_come_before_all_others() -> None:
    known = standings()
    known[3] = replace(known[3], is_new=True)
    known[15] = replace(known[15], here=True)
    known[20] = replace(known[20], here=True, set_up=True)
    known[22] = replace(known[22], here=True, set_up=True, is_default=True)

    names = [one.pair.name for one in listed(known)]

    assert names[:4] == [CATALOG[22].name, CATALOG[20].name, CATALOG[15].name, CATALOG[3].name]
    assert names[4] == proposed(CATALOG, ROOM)[0].pair.name


def test_an_unknown_machine_keeps_the_order_of_the_catalog() -> None:
    assert [one.pair for one in listed(standings(None), None)] == CATALOG


def test_the_catalog_entry_of_a_pair_replaces_an_older_one() -> None:
    old = Pair("mine", "Old", HubModel("a/b"), None)
    gone = Pair("gone", "Gone", HubModel("a/c"), None)
    here = {pair.name: SetUp(pair, ModelOnDisk(Path("x.gguf"), 1)) for pair in (gone, old)}
    other, new = Pair("other", "Other", HubModel("a/d"), None), replace(old, title="New")

    assert list(every_pair({"other": other, "mine": new}, Registered(here)).values()) == [gone, new, other]


def test_models_found_here_are_listed_once_and_a_demo_without_its_package_is_not() -> None:
    demo = Pair("demo", "Demo", DemoModel("target"), None)
    mine, found = Pair("mine", "Mine", LocalModel(Path("a.gguf")), None), LocalModel(Path("b.gguf"))
    same, other = replace(mine, name="a"), Pair("mine", "Other", found, None)
    listed = every_pair({"demo": demo, "mine": mine}, Registered(), (same, other), has_demo=False)
    assert list(listed) == ["mine", "mine-2"]
    assert listed["mine-2"].target == found


DENSE = Pair("dense", "Dense", HubModel("a/dense", size=20 * GB), None, working=WorkingMemory(380_000, 200_000_000, GB))


@pytest.mark.parametrize("gigabytes", [4, 6, 8, 12, 16, 24, 32, 48, 80])
def test_every_memory_size_gets_a_pair_and_alternatives(gigabytes: int) -> None:
    proposals = proposed(CATALOG, on_gpu(0.97 * gigabytes * GB, 2 * GB))

    assert len(proposals) == (2 if gigabytes == 4 else 3)
    assert all(p.fit is not Fit.TOO_BIG for p in proposals)
    assert proposals[0].pair.name != "demo"
    assert proposals[0].pair.memory_gb >= gigabytes / 2


def test_a_pair_with_a_published_speedup_is_proposed_before_a_larger_one() -> None:
    room, speed = on_gpu(99 * GB), PublishedSpeed("RTX 4090", 40.0, 80.0, "a page")
    small = Pair("small", "Small", HubModel("a/small", size=8 * GB), None, memory_gb=12, published=(speed,))
    large = Pair("large", "Large", HubModel("a/large", size=50 * GB), None, memory_gb=64)

    assert [found.pair.name for found in proposed([large, small], room)] == ["small", "large"]
    assert proposed([small, replace(large, published=(speed,))], room)[0].pair.name == "large"
    little = replace(large, published=(PublishedSpeed("RTX 4090", 40.0, 42.0, "a page"),))
    assert proposed([small, little], room)[0].pair.name == "small", "5% is not known to pay"


def dense(room: Capacity) -> list[Proposal]:
    """Propose pairs without mixtures of experts, which are fast everywhere."""
    return proposed([pair for pair in CATALOG if not pair.bytes_per_token], room)


@pytest.mark.parametrize("bytes_per_s", [8e9, 20e9, 40e9, 80e9, 200e9])
def test_the_first_proposal_answers_at_reading_speed(bytes_per_s: float) -> None:
    room = in_ram(100 * GB, bytes_per_s=bytes_per_s)
    best, *others = dense(room)

    assert best.speed is not None
    assert best.speed >= PLEASANT
    larger = [pair for pair in CATALOG if pair.memory_gb > best.pair.memory_gb and not pair.bytes_per_token]
    assert all(p.slow or p.fit is not Fit.FITS for p in (weigh(pair, room) for pair in larger))
    assert len(others) == 2
    assert any(p.slow for p in others), "the next one up can be taken still"
    said = why([best, *others])
    assert said.startswith(f"{best.pair.name} is the best pair that fits and answers at reading speed")


def test_an_estimated_speed_is_marked() -> None:
    slow = weigh(DENSE, in_ram(60 * GB, bytes_per_s=40e9))
    assert (slow.word, slow.reason) == ("slow", "about 2 tok/s; 33.2 GB to spare")
    assert weigh(DENSE, in_ram(60 * GB, bytes_per_s=20e9)).reason.startswith("about 1 tok/s;")
    assert weigh(DENSE, in_ram(60 * GB, bytes_per_s=5e9)).reason.startswith("under 1 tok/s;")
    fast = weigh(DENSE, in_ram(60 * GB, bytes_per_s=900e9))
    assert (fast.word, fast.reason) == ("fits", "33.2 GB to spare")


def test_a_pair_that_answered_here_has_its_measured_speed() -> None:
    pair = Pair("mine", "Mine", HubModel("a/b", size=GB), None)
    room = in_ram(60 * GB, bytes_per_s=2 * GB, measured={"mine": measured_at(5.43)})

    found = weigh(pair, room)
    assert (found.reason.partition(";")[0], found.word) == ("5.4 tok/s", "slow")
    assert weigh(pair, replace(room, measured={"mine": measured_at(41.6)})).reason.startswith("42 tok/s; ")
    assert weigh(replace(pair, name="other"), room).reason.startswith("about 2 tok/s; ")


def test_slow_comes_before_tight() -> None:
    pair = Pair("big", "Big", HubModel("a/big", size=20 * GB), None, working=WORKING)
    need = weigh(pair, in_ram(99 * GB)).need_bytes
    ample, scarce, none = (weigh(pair, in_ram(room, bytes_per_s=10e9)) for room in (2 * need, need + 9, need - 9))

    assert (scarce.fit, scarce.word, ample.word, none.word) == (Fit.TIGHT, "slow", "slow", "too big")
    assert "; only 0 MB to spare" in scarce.reason
    assert weigh(pair, on_gpu(need - WORKING.main)).word == "tight"


def test_memory_that_other_programs_use_now_is_named() -> None:
    ram = Device(CPU, "cpu", "CPU", 4 * GB, total_bytes=32 * GB)
    found = weigh(BIG, Capacity((ram,)))
    assert (found.word, found.fit) == ("no room", Fit.TOO_BIG)
    assert found.reason.endswith("more than is free now: other programs use the rest")
    assert weigh(BIG, Capacity((replace(ram, total_bytes=8 * GB),))).word == "too big"


def test_the_fastest_pair_is_proposed_where_all_are_slow() -> None:
    proposals = proposed(CATALOG, in_ram(60 * GB, bytes_per_s=4e9))

    assert proposals[0].pair.name == "qwen3.5-0.8b"
    assert all(p.slow for p in proposals)
    assert why(proposals) == ("Every model that fits is slow here; qwen3.5-0.8b is the fastest, about 5 tok/s.")


def test_an_unmeasured_bandwidth_shows_no_speed() -> None:
    best, *others = dense(in_ram(60 * GB))

    assert best.need_bytes <= 8 * GB
    assert "slow without a GPU" in weigh(DENSE, in_ram(60 * GB)).reason
    assert "about" not in why([best, *others])


def test_the_speed_of_a_mixture_counts_the_bytes_of_one_token() -> None:
    best, *_ = proposed(CATALOG, in_ram(60 * GB, bytes_per_s=40e9))

    assert (best.pair.name, best.speed) == ("qwen3.6-35b-q6", 15.0)


def test_a_tiny_machine_gets_the_demo() -> None:
    assert [p.pair.name for p in proposed(CATALOG, in_ram(int(0.7 * GB)))] == ["demo"]


# Experts in RAM beside a GPU


def beside(vram: float, ram: int, ram_speed: float | None = 50e9) -> Capacity:
    """Return a GPU with 400 GB/s, and RAM, in GB."""
    return on_gpu(int(vram * GB) - (768 << 20), 0.8 * ram * GB, bytes_per_s=400e9, ram_bytes_per_s=ram_speed)


@pytest.mark.parametrize(
    ("name", "vram", "ram", "word", "layers"),
    [
        ("qwen3-coder-30b", 8, 32, "fits", 34),
        ("qwen3-coder-30b", 12, 32, "fits", 23),
        ("qwen3-coder-30b", 16, 64, "fits", 12),
        ("qwen3-coder-30b", 24, 64, "fits", 0),
        ("qwen3-coder-30b", 8, 12, "too big", 0),
        ("qwen3-coder-30b", 2, 64, "too big", 0),
        ("gpt-oss-20b", 12, 32, "fits", 4),
        ("qwen3.6-35b", 12, 32, "fits", 24),
        ("qwen3.8-27b", 12, 64, "too big", 0),
        ("qwen3.8-27b-q8", 16, 64, "too big", 0),
    ],
)
def test_experts_that_exceed_the_gpu_go_to_ram(name: str, vram: int, ram: int, word: str, layers: int) -> None:
    pair = next(pair for pair in CATALOG if pair.name == name)
    found = weigh(pair, beside(vram, ram))

    assert (found.word, found.layers_in_ram) == (word, layers)
    assert (f"{layers} of {pair.expert_layers} layers' experts in RAM" in found.reason) == (layers > 0)


def test_the_speed_of_a_mixture_counts_what_each_memory_is_read_for() -> None:
    model = HubModel("a/b", size=10 * GB)
    pair = Pair("moe", "", model, None, working=WORKING, bytes_per_token=3 * GB, expert_bytes=8 * GB, expert_layers=8)
    need = weigh(pair, beside(99, 64)).need_bytes
    # A layer is lacking, and a copy of a third of one: two move, with a quarter of the 1 GB of active experts.
    room = on_gpu(need - GB, bytes_per_s=50e9, ram_bytes_per_s=5e9)

    found = weigh(pair, room)
    seconds = 2.75 * GB / 50e9 + 0.25 * GB / 5e9
    assert found.speed == pytest.approx(1 / seconds, rel=0.15)
    assert found.reason.startswith("about 10 tok/s; 2 of 8 layers' experts in RAM, ")
    unknown = weigh(pair, replace(room, ram_bytes_per_s=None))
    assert (unknown.speed, unknown.slow, unknown.reason[:9]) == (None, False, "2 of 8 la")
    assert weigh(pair, on_gpu(need - GB, GB)).fit is Fit.TOO_BIG, "RAM has no room for experts"
    assert weigh(replace(pair, expert_layers=0), room).fit is Fit.TOO_BIG


def test_a_gpu_with_ram_gets_a_mixture_at_reading_speed() -> None:
    found = proposed(CATALOG, beside(8, 32))
    assert [(p.pair.name, p.word, p.layers_in_ram) for p in found] == [
        ("qwen3.6-35b", "fits", 31),
        ("gemma4-26b", "fits", 24),
        ("qwen3.5-4b-q8", "fits", 0),
    ], "the last one is all on the GPU"
    assert proposed(CATALOG, beside(8, 32, 4e9))[0].pair.name == "qwen3.5-4b-q8"


def test_memory_that_stays_in_ram_takes_nothing_of_a_gpu() -> None:
    assert weigh(BIG, in_ram(30 * GB)).need_bytes - weigh(BIG, on_gpu(30 * GB)).need_bytes == GB


def test_setup_and_loading_agree_on_a_laptop() -> None:
    laptop = in_ram(int(4.2 * GB))

    assert weigh(BY_NAME["qwen3.5-4b"], laptop).fit is Fit.TOO_BIG
    assert proposed(CATALOG, laptop)[0].pair.name == "qwen3.5-2b"


def test_a_longer_context_takes_more_up_to_the_training_context() -> None:
    assert weigh(BIG, in_ram(30 * GB, n_ctx=20_000)).need_bytes - pair_memory(BIG, 10_000).total == 10_000 * 100_000
    assert pair_memory(replace(BIG, context=10_000), 20_000) == pair_memory(BIG, 10_000)
