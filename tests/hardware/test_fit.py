"""Check placement: all layers of both models, or offers with their gain."""

from dataclasses import replace
from typing import Any

import pytest

from app.core.errors import UsageError
from app.hardware import fit
from app.hardware.devices import Device
from app.hardware.fit import MAIN, PairNeeds, Plan, Rooms
from app.hardware.offers import Offer, offers
from app.hardware.recommend import Fit, Proposal
from app.llama.fitting.machine_room import memory_rooms
from app.models.catalog import Pair
from app.models.memory_estimate import ContextShape, ModelMemory, estimate_memory
from app.models.source import DemoModel
from app.settings.model_params import DRAFT_ANYWHERE, ModelParams
from tests.shapes import facts_of_shape

GB, MB = 1_000_000_000, 1_000_000


def card(name: str = "CUDA0", gigabytes: float = 24, backend: str = "CUDA") -> Device:
    return Device(name, "gpu", backend, int(gigabytes * GB))


def shared(gigabytes: float = 32) -> Device:
    return Device("Vulkan1", "igpu", "Vulkan", int(gigabytes * GB))


def main(gigabytes: float = 32) -> Device:
    return Device(MAIN, "cpu", "CPU", int(gigabytes * GB))


def need(weights: float, kv: float = 1, name: str = "Big", **changes: object) -> ModelMemory:
    made = ModelMemory(name, int(weights * GB), int(kv * GB), GB // 10, GB // 10, n_layers=63, n_ctx=8192)
    return replace(made, **changes)  # type: ignore[arg-type]


SMALL = need(0.6, 0.1, "Small")


def pair(
    target: ModelMemory,
    draft: ModelMemory | None,
    rooms: Rooms,
    draft_place: ModelParams = DRAFT_ANYWHERE,
    **asked: Any,
) -> PairNeeds:
    return PairNeeds(target, draft, rooms, ModelParams(**asked), draft_place)


def on(device: str) -> ModelParams:
    return ModelParams(devices=(device,))


def plan(target: ModelMemory, draft: ModelMemory | None, rooms: Rooms, **asked: Any) -> Plan:
    return pair(target, draft, rooms, **asked).plan()


def where(found: Plan) -> tuple[tuple[str, ...], tuple[str, ...] | None]:
    return found.target.devices, found.draft.devices if found.draft is not None else None


def loaded(found: Plan) -> dict[str, int]:
    return {load.device: load.need_bytes for load in found.loads}


# Where it goes

RENDERER = Device("Vulkan0", "software", "Vulkan", 2 * GB)


@pytest.mark.parametrize(
    ("target", "draft", "rooms", "request_", "devices"),
    [
        (5, 1, (main(),), {}, ((MAIN,), (MAIN,))),
        (1, 1, (RENDERER, main()), {}, ((MAIN,), (MAIN,))),
        (1, 1, (card(), RENDERER, main()), {}, (("CUDA0",), ("CUDA0",))),
        (21, 3, (card(), card("CUDA1", 8), main()), {}, (("CUDA0",), ("CUDA1",))),
        (30, 1, (card(), card("CUDA1", 48), main()), {}, (("CUDA1",), ("CUDA0",))),
        (4, 1, (shared(64), card(gigabytes=8), main(64)), {}, (("CUDA0",), ("CUDA0",))),
        (5, 1, (card(), card("CUDA1"), main()), {"devices": ("cuda1",)}, (("CUDA1",), ("CUDA1",))),
        (5, 1, (card(), card("CUDA1"), main()), {"draft_place": on(MAIN)}, (("CUDA0",), (MAIN,))),
        (5, 1, (card(), card("CUDA1"), main()), {"devices": (MAIN,)}, ((MAIN,), (MAIN,))),
    ],
)
def test_the_devices_of_both_models(
    target: float, draft: float, rooms: Rooms, request_: dict[str, Any], devices: tuple[tuple[str, ...], ...]
) -> None:
    found = plan(need(target), need(draft, 0.1), rooms, **request_)

    assert where(found) == devices
    assert found.fits


def test_no_placement_is_computed_after_one_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    place, targets = fit._place, []

    def counted(target: ModelMemory, *more: Any) -> ModelParams:
        targets.append(target)
        return place(target, *more)

    monkeypatch.setattr(fit, "_place", counted)
    plan(need(5), SMALL, (card(), card("CUDA1"), card("CUDA2"), main()))

    assert len(targets) == 1


def test_a_projector_is_on_the_first_device_of_its_target() -> None:
    seeing = need(8, projector=3 * GB)
    alone, both = plan(need(8), None, (card(), main())), plan(seeing, None, (card(), main()))
    assert loaded(both)["CUDA0"] - loaded(alone)["CUDA0"] == 3 * GB
    assert loaded(both)[MAIN] == loaded(alone)[MAIN]
    on_cpu: dict[str, Any] = {"devices": (MAIN,)}
    assert (
        loaded(plan(seeing, None, (main(),), **on_cpu))[MAIN]
        == loaded(plan(need(8), None, (main(),), **on_cpu))[MAIN] + 3 * GB
    )
    assert where(plan(need(22, 0.5, projector=3 * GB), None, (card(), card("CUDA1"), main())))[0] == ("CUDA0", "CUDA1")


def test_the_context_is_where_the_layers_are_that_keep_it() -> None:
    halves: dict[str, Any] = {"devices": ("CUDA0", "CUDA1"), "tensor_split": (1.0, 1.0)}
    model = need(4, 2, n_layers=4, blocks=(GB,) * 4)
    found = [
        loaded(plan(one, None, (card(), card("CUDA1"), main()), **halves))
        for one in (model, replace(model, n_cached=2))
    ]
    # Three of the layers are on the first GPU.
    assert [one["CUDA0"] - one["CUDA1"] for one in found] == [3 * GB, 4 * GB]


def test_a_card_that_the_cpu_plays_is_taken_only_by_name() -> None:
    named = plan(need(1, 0.1), None, (RENDERER, main()), devices=("Vulkan0",))
    assert where(named) == (("Vulkan0",), None)
    # What it holds is in RAM.
    assert loaded(named)[MAIN] >= loaded(named)["Vulkan0"]


@pytest.mark.parametrize(
    ("n_gpu_layers", "there", "here"),
    [(1, 48_700_000, 210_300_000), (10, 96_900_000, 162_000_000), (20, 150_600_000, 108_400_000)],
)
def test_in_two_places_it_takes_what_llama_cpp_takes(n_gpu_layers: int, there: int, here: int) -> None:
    # SmolLM2 135M in Q4_1 with 4,096 tokens, by llama.cpp's own estimate, for a card that repeats the embedding.
    small = ModelMemory("S", 96_600_000, 94_400_000, 18_600_000, 49_400_000, n_layers=30, n_ctx=4096, output=30_100_000)
    found = loaded(plan(small, None, (card(), main()), n_gpu_layers=n_gpu_layers))

    assert found["CUDA0"] == pytest.approx(there, rel=0.002)
    assert found[MAIN] == pytest.approx(here, rel=0.002)


def test_running_states_lie_with_the_layers_and_no_offer_makes_them_smaller() -> None:
    plain, rooms = need(10, 4), (card(), main())
    big = replace(plain, states=4 * GB, saved=GB)

    assert loaded(plan(big, None, rooms))["CUDA0"] == loaded(plan(plain, None, rooms))["CUDA0"] + 4 * GB
    assert loaded(plan(big, None, rooms))[MAIN] == loaded(plan(plain, None, rooms))[MAIN] + GB
    assert big.total == plain.total + 5 * GB
    for smaller in (big.with_context(4096), big.with_kv_type("q8_0")):
        assert (smaller.states, smaller.saved) == (big.states, big.saved)


def test_without_a_draft_nothing_is_kept_to_take_drafts_back_with() -> None:
    rooms, target = (card(gigabytes=13), main(1)), need(10, 1, snapshots=4 * GB)
    found = by_setting(offers(pair(target, need(3), rooms)))

    assert found["draft.mode"].suffices
    assert found["draft.mode"].gain_bytes >= 7 * GB


def test_a_card_takes_all_layers_of_both_and_main_memory_what_stays_there() -> None:
    big = need(18)
    found = plan(big, SMALL, (card(), main()))

    assert where(found) == (("CUDA0",), ("CUDA0",))
    assert found.fits
    assert loaded(found) == {"CUDA0": big.total - big.host + SMALL.total - SMALL.host, MAIN: big.host + SMALL.host}


def test_every_part_counts_and_so_does_the_reserve() -> None:
    exact = need(18)
    room = exact.weights + exact.kv + exact.compute

    assert plan(exact, None, (card(gigabytes=room / GB + 0.81), main())).fits
    assert not plan(exact, None, (card(gigabytes=room / GB), main())).fits
    for part in ("weights", "kv", "compute", "host"):
        more = replace(exact, **{part: getattr(exact, part) + 100 * GB})
        assert not plan(more, None, (card(gigabytes=room / GB + 0.81), main())).fits, part


def test_a_large_target_is_split_and_its_draft_is_not() -> None:
    found = plan(need(38), SMALL, (card("CUDA0"), card("CUDA1"), main()))

    assert where(found) == (("CUDA0", "CUDA1"), ("CUDA0",))
    assert found.fits
    # The first one gives up what the draft takes.
    first, second = found.target.tensor_split
    assert first < second
    assert first + second == pytest.approx(1, abs=0.001)


def test_cards_of_one_size_and_of_two() -> None:
    found = plan(need(28), None, (card("CUDA0", 24), card("CUDA1", 12), main()))

    first, second = found.target.tensor_split
    assert 1.9 < first / second < 2.4


def test_the_output_is_whole_on_the_last_card() -> None:
    """As llama.cpp's load_tensors has it, and a vocabulary of 262,144 makes the output as large as ten blocks."""
    big = need(38, output=10 * GB)
    rooms = (card("CUDA0"), card("CUDA1"), main())
    block, compute = 29 * GB / 63, GB / 10

    halves = loaded(plan(big, None, rooms, tensor_split=(1, 1)))
    # The output is the last of 64 layers.
    assert halves["CUDA0"] == pytest.approx(32 * block + compute)
    assert halves["CUDA1"] == pytest.approx(31 * block + 10 * GB + compute)

    # So the second card gets fewer blocks where that is planned.
    found = plan(big, None, rooms)
    first, second = found.target.tensor_split
    assert found.fits
    assert first > 1.5 * second
    assert loaded(found)["CUDA0"] == pytest.approx(loaded(found)["CUDA1"], rel=0.1)


def test_in_part_the_output_is_on_the_last_card_too() -> None:
    rooms = (card("CUDA0"), card("CUDA1"), main(64))
    found = loaded(plan(need(62, output=2 * GB), None, rooms, tensor_split=(3, 1), n_gpu_layers=16))

    assert found["CUDA0"] == pytest.approx(12 * 61 * GB / 63 + GB / 10)
    assert found["CUDA1"] == pytest.approx(3 * 61 * GB / 63 + 2 * GB + GB / 10)


def test_an_integrated_one_takes_of_main_memory() -> None:
    found = plan(need(20), SMALL, (shared(32), main(32)))
    assert where(found) == (("Vulkan1",), ("Vulkan1",))
    assert found.fits
    assert loaded(found)[MAIN] > 20 * GB

    assert not plan(need(20), SMALL, (shared(32), main(16))).fits


def test_an_apple_takes_of_main_memory_and_is_a_card_all_the_same() -> None:
    devices = (
        Device("MTL0", "igpu", "MTL", 22 * GB, "Apple M2", 22 * GB),
        Device("Vulkan0", "igpu", "Vulkan", 22 * GB, "Intel(R) UHD Graphics", 22 * GB),
    )
    apple, intel, _ = memory_rooms(devices)

    assert (apple.is_fast, apple.has_own_memory, intel.is_fast) == (True, False, False)
    assert apple.with_room(10 * GB).room_bytes == pytest.approx(10 * GB)
    assert plan(need(12), SMALL, (apple, main(32))).fits
    # What others have taken of the one memory is nothing to Metal.
    assert not plan(need(12), SMALL, (apple, main(8))).fits
    remote = replace(card("RPC0", 20), backend="MTL")
    assert where(plan(need(30), None, (apple, remote, main(64)))) == (("MTL0", "RPC0"), None)


def test_one_card_under_two_backends_is_counted_once() -> None:
    rooms = (card("CUDA0"), card("Vulkan0", 24, "Vulkan"), main())

    assert not plan(need(30), None, rooms).fits
    assert where(plan(need(5), None, rooms))[0] == ("CUDA0",)


def test_requests_are_kept() -> None:
    rooms = (card("CUDA0"), card("CUDA1"), main())

    split = plan(need(5), None, rooms, tensor_split=(3, 1))
    assert (split.target.devices, split.target.tensor_split) == (("CUDA0", "CUDA1"), (3, 1))
    half = plan(need(5), None, rooms, n_gpu_layers=22)
    assert half.target.n_gpu_layers == 22
    # The output is the first of the 22, and 21 of 63 blocks follow.
    assert loaded(half)["CUDA0"] == pytest.approx(2 * GB + GB / 10)
    assert loaded(half)[MAIN] == pytest.approx(4 * GB + GB / 10)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"tensor_split": (3, 1)}, 2),
        ({"tensor_split": (3, 1), "n_gpu_layers": 22}, 0),
        ({"devices": ("CUDA1",)}, 0),
    ],
)
def test_batches_overlap_on_several_devices_that_hold_all_layers(request_: dict[str, Any], expected: int) -> None:
    rooms = (card("CUDA0"), card("CUDA1"), main(64))
    plain, overlapping = (
        sum(loaded(plan(replace(need(5), overlap=n), None, rooms, **request_)).values()) for n in (0, GB)
    )

    assert overlapping - plain == expected * GB


def test_draft_layers_that_share_tensors_are_on_the_devices_of_their_target() -> None:
    rooms, head = (card("CUDA0"), card("CUDA1"), main(64)), replace(SMALL, follows_target=True)

    def place(target: ModelMemory, **request: Any) -> tuple[tuple[str, ...], tuple[float, ...]]:
        draft = plan(target, head, rooms, **request).draft
        assert draft is not None
        return draft.devices, draft.tensor_split

    assert place(need(5), draft_place=on(MAIN)) == place(need(5), draft_place=ModelParams(0)) == (("CUDA0",), ())
    assert place(need(5), devices=("CUDA1",), draft_place=on("CUDA0")) == (("CUDA1",), ())
    # The output of a target in two places is on the last device.
    assert place(need(38)) == (("CUDA0", "CUDA1"), (0.0, 1.0))
    assert place(need(5), devices=("CUDA1", "CUDA0"), tensor_split=(1.0, 0.0)) == (("CUDA1", "CUDA0"), (1.0, 0.0))
    assert place(need(5), devices=(MAIN,), draft_place=on("CUDA0")) == place(need(5), n_gpu_layers=0) == ((MAIN,), ())
    assert "draft.device" not in by_setting(offers(pair(need(60), head, rooms)))
    split, alone = (loaded(plan(need(38), draft, rooms)) for draft in (head, None))
    assert sum(split.values()) - sum(alone.values()) == pytest.approx(head.total, rel=0.02)


def test_a_card_that_has_gone_is_named_with_those_that_are_there() -> None:
    for wish in ({"devices": ("CUDA1",)}, {"draft_place": on("CUDA1")}):
        with pytest.raises(UsageError, match="no device CUDA1") as caught:
            plan(need(5), SMALL, (card(), main()), **wish)
        assert "CUDA0, cpu" in caught.value.hint

    with pytest.raises(UsageError, match=r"2 shares for 1 device\."):
        plan(need(5), None, (card(), main()), tensor_split=(1, 1))
    with pytest.raises(UsageError, match="1 share for 2 devices"):
        plan(need(5), None, (card(), card("CUDA1"), main()), tensor_split=(1,))


# Experts


def mixture(n_ctx: int = 8192) -> ModelMemory:
    """Qwen3-30B-A3B in Q4_K_M; half of the layers have larger tensors."""
    made = estimate_memory(facts_of_shape("Qwen3-30B-A3B", 18_556_686_912), ContextShape(n_ctx))
    return replace(made, experts=(398 * MB, 340 * MB) * 24, expert_copy=165 * MB, output=255 * MB)


def by_layer(target: ModelMemory, found: Plan) -> dict[str, float]:
    """Return the bytes of weights and cache on each device, as llama.cpp's load_tensors assigns the layers."""
    placed, n = found.target, target.n_layers
    on_gpu = min(placed.n_gpu_layers if placed.n_gpu_layers >= 0 else n + 1, n + 1)
    shares = placed.tensor_split or (1.0,)
    ends = [sum(shares[: i + 1]) / sum(shares) for i in range(len(shares))]
    rest = (target.layers - target.output - sum(target.experts)) / n
    taken = dict.fromkeys(placed.devices, 0.0)
    for layer in range(n + 1 - on_gpu, n + 1):
        device = next((i for i, end in enumerate(ends) if end > (layer - (n + 1 - on_gpu)) / on_gpu), len(ends) - 1)
        size = target.output if layer == n else rest + target.experts[layer] * (layer >= (placed.cpu_experts or 0))
        taken[placed.devices[device]] += size
    return taken


@pytest.mark.parametrize(("gigabytes", "expected"), [(8, 37), (12, 26), (16, 14), (24, 0)])
def test_a_mixture_leaves_the_experts_of_as_few_layers_as_possible_in_ram(gigabytes: int, expected: int) -> None:
    target, draft = mixture(), estimate_memory(facts_of_shape("Qwen3-0.6B", 400 * MB), ContextShape(8192))
    rooms = (card(gigabytes=gigabytes * 1.024**3 - 0.4), main(32))
    found = plan(target, draft, rooms)

    assert found.fits
    assert where(found) == (("CUDA0",), ("CUDA0",))
    assert found.target == ModelParams(devices=("CUDA0",), cpu_experts=expected)
    if expected:
        assert not plan(target, draft, rooms, cpu_experts=expected - 1).fits
        # Everything else is on the card, with both caches and a copy for long batches.
        left = by_layer(target, found)["CUDA0"] + target.compute + target.expert_copy
        assert loaded(found)["CUDA0"] == pytest.approx(left + draft.total - draft.always_ram)
        assert loaded(found)[MAIN] == pytest.approx(
            sum(target.experts[:expected]) + target.always_ram + draft.always_ram
        )
    if expected:
        scarce = plan(target, draft, (rooms[0], main(1)))
        assert [load.device for load in scarce.loads if load.lacking] == [MAIN], "the smaller lack counts"


@pytest.mark.parametrize(("gigabytes", "fits"), [(8, False), (12, False), (16, False), (24, True)])
def test_a_dense_model_keeps_its_layers_together(gigabytes: int, fits: bool) -> None:
    target = estimate_memory(facts_of_shape("Qwen3-32B", 19_762_149_024), ContextShape(8192))
    rooms = (card(gigabytes=gigabytes * 1.024**3 - 0.4), main(64))
    found = plan(target, None, rooms)

    assert (found.fits, found.target.cpu_experts) == (fits, 0)
    offered = by_setting(offers(pair(target, None, rooms)))
    assert "model.n_cpu_moe" not in offered
    assert ("model.gpu_layers" in offered) is not fits


def test_all_devices_are_filled_before_experts_go_to_ram() -> None:
    target = mixture(65_536)
    two = (card("CUDA0", 12), card("CUDA1", 8), main(64))
    alone, both = plan(target, None, (two[0], two[2])), plan(target, None, two)

    assert both.fits
    assert both.target.devices == ("CUDA0", "CUDA1")
    assert 0 < both.n_in_ram < alone.n_in_ram
    # As llama.cpp reads the shares, no device has more than was planned, nor much less.
    for name, taken in by_layer(target, both).items():
        planned = loaded(both)[name] - target.compute - target.expert_copy
        assert 0 <= planned - taken < 0.2 * GB
    assert not plan(target, None, two, cpu_experts=both.n_in_ram - 1).fits


@pytest.mark.parametrize("shares", [(), (1, 1)])
@pytest.mark.parametrize("n", [10, 30])
def test_experts_in_ram_lighten_the_device_of_the_first_layers(shares: tuple[float, ...], n: int) -> None:
    target = mixture()
    rooms = (card("CUDA0"), card("CUDA1"), main(64))
    request = {"devices": ("CUDA0", "CUDA1"), "tensor_split": shares, "cpu_experts": n}
    found = plan(target, None, rooms, **request)

    for name, taken in by_layer(target, found).items():
        assert loaded(found)[name] == pytest.approx(taken + target.compute + target.expert_copy, abs=0.1 * GB)


@pytest.mark.parametrize(("n_gpu_layers", "n"), [(20, 10), (20, 28), (20, 40), (49, 10), (1, 48)])
def test_experts_of_layers_in_ram_are_counted_once(n_gpu_layers: int, n: int) -> None:
    target = mixture()
    request = {"n_gpu_layers": n_gpu_layers, "cpu_experts": n}
    found = plan(target, None, (card(), main(64)), **request)

    on_card = by_layer(target, found)["CUDA0"]
    assert loaded(found)["CUDA0"] == pytest.approx(on_card + target.compute + target.expert_copy)
    assert loaded(found)[MAIN] == pytest.approx(target.layers - on_card + target.always_ram)


def test_layers_in_ram_and_memory_that_is_shared_keep_their_experts() -> None:
    for rooms, request in (
        ((card(gigabytes=8), main(64)), {"n_gpu_layers": 40}),
        ((card(gigabytes=8), main(64)), {"devices": (MAIN,)}),
        ((shared(12), main(12)), {}),
        ((main(8),), {}),
    ):
        assert plan(mixture(), None, rooms, **request).target.cpu_experts == 0


def test_what_does_not_fit_anywhere_shows_how_much_is_lacking() -> None:
    found = plan(need(40), SMALL, (card(), main()))

    assert not found.fits
    assert found.fullness > 1
    (short,) = [load for load in found.loads if load.lacking]
    assert short.device == "CUDA0"
    assert found.lacking == short.need_bytes - short.room_bytes


# The ways out


def by_setting(found: tuple[Offer, ...]) -> dict[str, Offer]:
    return {next(iter(offer.settings), offer.pair or ""): offer for offer in found}


def test_what_fits_needs_no_offers() -> None:
    assert offers(pair(need(5), SMALL, (card(), main()))) == ()


def test_offers_stand_in_their_order_each_with_its_gain() -> None:
    big = need(19, 4, n_parameters=32 * GB, blocks=(19 * GB // 63,) * 63)
    half = Pair("half", "Half of it", DemoModel("target"), None)

    found = offers(pair(big, SMALL, (card(), main())), smaller=Proposal(half, Fit.FITS, 11 * GB))

    assert [offer.settings for offer in found] == [
        {"model.ctx": 4096},
        {"model.kv_type": "q8_0", "draft.kv_type": "q8_0"},
        {},
        {"draft.device": ("cpu",)},
        {"draft.mode": "off"},
        {},
        {"model.gpu_layers": 62},
    ]
    assert [offer.pair for offer in found if not offer.settings] == [None, "half"]
    assert found[0].gain_bytes == pytest.approx((big.kv + SMALL.kv) / 2)
    assert found[1].gain_bytes == pytest.approx((big.kv + SMALL.kv) * 15 / 32, rel=0.001)
    assert found[2].gain_bytes == pytest.approx(big.weights - 32 * GB * 3.9 / 8)
    assert found[3].gain_bytes == pytest.approx(SMALL.total - SMALL.host)
    assert found[5].gain_bytes == big.total + SMALL.total - 11 * GB
    assert found[6].gain_bytes == pytest.approx((big.weights + big.kv) * 2 / 63)
    assert all(offer.cost for offer in found)


def test_an_offer_that_suffices_does_and_the_smallest_step_is_offered() -> None:
    big, rooms = need(19, 4), (card(), main())
    found = by_setting(offers(pair(big, SMALL, rooms)))

    for name in ("model.ctx", "model.kv_type", "model.gpu_layers"):
        assert found[name].suffices
    assert plan(big.with_context(4096), SMALL.with_context(4096), rooms).fits
    assert plan(big.with_kv_type("q8_0"), SMALL, rooms).fits
    assert plan(big, SMALL, rooms, n_gpu_layers=62).fits
    assert not plan(big, SMALL, rooms, n_gpu_layers=63).fits


def test_an_offer_that_helps_but_does_not_suffice_shows_so() -> None:
    found = by_setting(offers(pair(need(30, 4), SMALL, (card(), main(64)))))

    assert not found["model.ctx"].suffices
    assert found["model.ctx"].settings == {"model.ctx": 2048}
    assert not found["model.kv_type"].suffices
    assert not found["draft.device"].suffices
    assert found["model.gpu_layers"].suffices


def test_a_draft_goes_to_another_card_before_the_cpu() -> None:
    rooms = (card("CUDA0"), card("CUDA1", 4), main())
    request: dict[str, Any] = {"devices": ("CUDA0",), "draft_place": on("CUDA0")}

    assert by_setting(offers(pair(need(21), need(1.5), rooms, **request)))["draft.device"].settings == {
        "draft.device": ("CUDA1",)
    }


def test_without_a_card_nothing_is_offered_that_moves_layers() -> None:
    found = by_setting(offers(pair(need(8, 2), SMALL, (main(10),))))

    assert set(found) == {"model.ctx", "model.kv_type", "draft.mode"}
    assert found["draft.mode"].gain_bytes == SMALL.total


def test_a_cache_that_is_small_already_and_one_without_flash_attention() -> None:
    assert "model.kv_type" not in by_setting(offers(pair(need(30, kv_type="q8_0"), None, (card(), main()))))

    whole = need(30, can_quantize_cache=False)
    assert "model.kv_type" not in by_setting(offers(pair(whole, None, (card(), main()))))
    assert "draft.kv_type" in by_setting(offers(pair(whole, SMALL, (card(), main()))))

    found = by_setting(offers(pair(need(30), None, (card(), main())), flash_attention="off"))
    assert found["model.kv_type"].settings == {"model.kv_type": "q8_0", "model.flash_attn": "auto"}


def test_a_card_that_the_draft_alone_fills_is_left_to_the_target() -> None:
    rooms = (card("CUDA0", 2.2), main(64))
    found = by_setting(offers(pair(need(19), need(1.5), rooms)))["model.gpu_layers"]

    assert found.settings["draft.device"] == ("cpu",)
    assert found.suffices
    assert "the draft on the CPU" in found.what
    n = found.settings["model.gpu_layers"]
    assert isinstance(n, int)
    assert n > 0
    assert plan(need(19), need(1.5), rooms, n_gpu_layers=n, draft_place=on("cpu")).fits
    assert not plan(need(19), need(1.5), rooms, n_gpu_layers=n + 1, draft_place=on("cpu")).fits
