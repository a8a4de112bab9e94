"""Recommended pairs: their shapes and memory as loaded, and the one order in which pairs are listed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from app.core.errors import CatalogError
from app.core.units import GB
from app.llama.fitting.pair_memory import needs
from app.llama.params import PairParams
from app.models.catalog import Catalog, Pair, read_pair, shipped_file, write_pair
from app.models.compatibility import PairCheck, check_pair, with_facts
from app.models.gguf import read_header
from app.models.memory_estimate import PairOverhead
from app.models.model_facts import ModelFacts, model_facts
from app.models.pair_summary import needed, weights, with_files
from app.models.recommend import Fit, Room, Standing, bytes_per_token, every_pair, in_order, propose, weigh, why
from app.models.registry import ModelOnDisk, Registered, SetUp
from app.models.source import HubModel
from tests.shapes import SHAPES, facts_of_shape, shape_of

CATALOG = Catalog(shipped_file()).pairs
PAIRS = [pytest.param(pair, id=name) for name, pair in CATALOG.items()]
SHAPED = [param for param in PAIRS if CATALOG[str(param.id)].working is not None]
"""Without those whose estimate is a guess until their headers are read."""
BIG = Pair("big", "Big", HubModel("a/big", size=10 * GB), None, working=PairOverhead(100_000, GB, GB))


def check_of(pair: Pair) -> PairCheck:
    """Return a check by the published shapes of a pair's models."""
    target, *draft = (facts_of_shape(shape_of(source), 0) for source in pair.sources)
    return check_pair(target, draft[0] if draft else None)


def real_facts(path: Path) -> ModelFacts:
    return model_facts(read_header(path, tensors=True), file=path.name, size=path.stat().st_size)


@pytest.mark.parametrize("pair", SHAPED)
def test_the_catalog_shows_of_every_pair_what_its_headers_will_say(pair: Pair) -> None:
    assert pair.working == check_of(pair).overhead


@pytest.mark.parametrize("pair", PAIRS)
def test_the_class_of_a_pair_holds_it(pair: Pair) -> None:
    assert needed(pair, 8192, on_card=True) <= pair.memory_gb * GB


def same_shape(real: ModelFacts, shape: str) -> bool:
    published = facts_of_shape(shape, 0)
    return (real.kv_bytes_per_token, real.graph, real.n_layers) == (
        published.kv_bytes_per_token,
        published.graph,
        published.n_layers,
    )


def test_a_header_shows_what_its_maker_publishes(demo_target: Path) -> None:
    assert same_shape(real_facts(demo_target), "SmolLM2-135M")


def test_every_shape_is_used() -> None:
    of_pairs = {shape_of(source) for pair in CATALOG.values() if pair.working for source in pair.sources}
    # tests/hardware/test_fit.py plans these two.
    assert of_pairs | {"Qwen3-0.6B", "Qwen3-32B"} == set(SHAPES)


def test_what_is_checked_is_what_is_loaded(demo_target: Path, demo_draft: Path) -> None:
    check = check_pair(real_facts(demo_target), real_facts(demo_draft))
    loaded = needs(PairParams(demo_target, demo_draft, 1, 4096))

    assert check.memory_bytes(4096) == sum(need.total for need in loaded if need is not None)


@pytest.mark.parametrize("pair", SHAPED)
@pytest.mark.parametrize("n_ctx", [8192, 16384, 65536])
def test_the_line_of_a_pair_is_true_where_it_begins_and_near_it_far_away(pair: Pair, n_ctx: int) -> None:
    check = check_of(pair)
    found = check.overhead.at(n_ctx)

    assert found == pytest.approx(check.memory_bytes(n_ctx), rel=0 if n_ctx <= 16384 else 0.02)


def test_a_card_is_not_charged_with_what_is_in_main_memory() -> None:
    assert weigh(BIG, Room(30 * GB)).need_bytes - weigh(BIG, Room(30 * GB, on_card=True)).need_bytes == GB


def test_setup_and_loading_agree_on_a_laptop() -> None:
    laptop = Room(int(4.2 * GB))

    assert weigh(CATALOG["qwen3.5-4b"], laptop).fit is Fit.TOO_BIG
    assert propose(list(CATALOG.values()), laptop)[0].pair.name == "qwen3.5-2b"


def test_a_longer_context_takes_more_up_to_what_the_pair_was_made_for() -> None:
    assert weigh(BIG, Room(30 * GB, n_ctx=20_000)).need_bytes - needed(BIG, 10_000) == 10_000 * 100_000
    assert needed(replace(BIG, context=10_000), 20_000) == needed(BIG, 10_000)


@pytest.mark.parametrize("name", sorted(name for name, pair in CATALOG.items() if name != "demo" and pair.working))
def test_an_estimate_is_called_one_and_not_far_off(name: str) -> None:
    pair = CATALOG[name]
    guessed = replace(pair, working=None)

    assert 0.6 < needed(guessed, 8192) / needed(pair, 8192) < 1.5
    assert weigh(guessed, Room(999 * GB)).reason.startswith("about ")


# What the headers have said is remembered


def test_what_the_headers_say_goes_over_the_catalog_and_is_written_down(tmp_path: Path) -> None:
    check = check_of(CATALOG["qwen3.5-4b"])
    known = with_facts(replace(BIG, working=PairOverhead(1, 2, 3)), check)

    assert known.working == check.overhead
    assert read_pair("big", write_pair(known), tmp_path / "pairs.toml") == known
    file = ModelOnDisk(tmp_path / "big.gguf", 9 * GB)
    assert weights(with_files(BIG, SetUp(known, file))) == 9 * GB
    assert with_files(BIG, SetUp(known, file)).working == check.overhead
    assert with_files(BIG, SetUp(replace(known, working=None), file)).working == BIG.working


def test_an_own_pair_is_weighed_with_its_context() -> None:
    check = check_of(CATALOG["qwen3.5-4b"])
    short = replace(check, target=replace(check.target, n_ctx_train=2000))

    assert with_facts(BIG, short).context == 2048
    assert with_facts(replace(BIG, context=4096), short).context == 4096
    assert with_facts(BIG, check).context == 0, "its file does not say"


def test_absurd_header_sizes_are_not_registered() -> None:
    vast = check_of(CATALOG["qwen3.5-4b"])
    vast = replace(vast, target=replace(vast.target, kv_bytes_per_token=1 << 64))

    assert with_facts(BIG, vast).working == BIG.working


@pytest.mark.parametrize(
    ("working", "said"),
    [
        ("8", "must be a table"),
        ("{ per_tokens = 8 }", 'Did you mean "per_token"'),
        ("{ main = -1 }", "main must be a whole number"),
    ],
)
def test_a_wrong_entry_is_reported(tmp_path: Path, working: str, said: str) -> None:
    file = tmp_path / "models.toml"
    file.write_text(f"[pairs.mine]\ntarget = 'a.gguf'\nworking = {working}\n")
    problem = Catalog(shipped_file(), file).unread

    assert isinstance(problem, CatalogError)
    assert said in problem.sentences


# What is said of the first


def sized(name: str, gigabytes: float, memory_gb: int = 8) -> Pair:
    return Pair(
        name,
        name,
        HubModel(f"a/{name}", size=int(gigabytes * GB)),
        None,
        memory_gb=memory_gb,
        working=PairOverhead(0, 0, 0),
    )


def test_a_pair_without_room_on_the_disk_is_not_the_first() -> None:
    room = Room(9 * GB, "a card")
    large, small = sized("large", 6), sized("small", 5)
    found = propose([large, small], room, lambda pair: pair.name == "small")

    assert [one.pair.name for one in found] == ["small"]
    assert why(found).endswith("at reading speed; the disk has no room for larger ones.")
    assert [one.pair.name for one in propose([large, small], room, lambda _: False)] == ["large", "small"]
    just = propose([large, sized("just", 8.9)], room, lambda pair: pair.name == "just")
    assert why(just) == "just is the best pair that fits and answers at reading speed, with little memory to spare."


CHOICES = list(Catalog(shipped_file()).pairs.values())
ROOM = Room(22 * GB, bytes_per_s=20e9)


def standings(room: Room | None = ROOM) -> list[Standing]:
    return [Standing(pair, weigh(pair, room)) for pair in CHOICES]


def listed(known: list[Standing], room: Room | None = ROOM) -> list[Standing]:
    return in_order(known, propose(CHOICES, room) if room is not None else [])


@pytest.mark.parametrize("room", [ROOM, Room(8 * GB, "a card"), Room(100 * GB, bytes_per_s=200e9), Room(4 * GB)])
def test_the_proposed_one_then_the_fast_by_size_the_slow_by_speed_and_what_does_not_fit(room: Room) -> None:
    best, *others = listed(standings(room), room)

    assert best.pair == propose(CHOICES, room)[0].pair
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

    assert names[:4] == [CHOICES[22].name, CHOICES[20].name, CHOICES[15].name, CHOICES[3].name]
    assert names[4] == propose(CHOICES, ROOM)[0].pair.name


def test_while_the_machine_is_not_known_the_catalog_has_the_say() -> None:
    assert [one.pair for one in listed(standings(None), None)] == CHOICES


def test_pairs_that_were_set_up_come_first_and_the_catalog_knows_them_better() -> None:
    old = Pair("mine", "Old", HubModel("a/b"), None)
    gone = Pair("gone", "Gone", HubModel("a/c"), None)
    here = {pair.name: SetUp(pair, ModelOnDisk(Path("x.gguf"), 1)) for pair in (gone, old)}
    other, new = Pair("other", "Other", HubModel("a/d"), None), replace(old, title="New")

    assert list(every_pair({"other": other, "mine": new}, Registered(here)).values()) == [gone, new, other]
