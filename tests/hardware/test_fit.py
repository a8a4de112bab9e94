"""Check placement: which devices a pair is placed on, the memory of each, and the offers where it does not fit."""

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from app.core.errors import UsageError
from app.hardware import fit
from app.hardware.devices import Device
from app.hardware.fit import PairNeeds, Plan, Rooms
from app.hardware.offers import Offer, offers
from app.hardware.recommend import Fit, Proposal
from app.llama.fitting.machine_room import memory_rooms
from app.models.catalog import Pair
from app.models.memory_estimate import ModelMemory, estimate_memory
from app.models.source import DemoModel
from app.settings.model_params import DRAFT_ANYWHERE, ContextParams, ModelParams
from app.settings.placement import CPU
from tests.shapes import facts_of_shape

GB, MB = 1_000_000_000, 1_000_000


def gpu(gigabytes: float = 24, name: str = "CUDA0", backend: str = "CUDA") -> Device:
    return Device(name, "gpu", backend, int(gigabytes * GB))


def integrated(gigabytes: float = 32) -> Device:
    return Device("Vulkan1", "igpu", "Vulkan", int(gigabytes * GB))


def ram(gigabytes: float = 32) -> Device:
    return Device(CPU, "cpu", "CPU", int(gigabytes * GB))


def need(weights: float, kv: float = 1, name: str = "Big", **changes: object) -> ModelMemory:
    made = ModelMemory(name, int(weights * GB), int(kv * GB), GB // 10, GB // 10, n_layers=63, n_ctx=8192)
    return replace(made, **changes)  # type: ignore[arg-type]


def mixture(n_ctx: int = 8192) -> ModelMemory:
    """Return Qwen3-30B-A3B in Q4_K_M; half of the layers have larger tensors."""
    made = estimate_memory(facts_of_shape("Qwen3-30B-A3B", 18_556_686_912), ContextParams(n_ctx))
    return replace(made, experts=(398 * MB, 340 * MB) * 24, expert_copy=165 * MB, output=255 * MB)


SMALL = need(0.6, 0.1, "Small")
HEAD = replace(SMALL, follows_target=True)
RENDERER = Device("Vulkan0", "software", "Vulkan", 2 * GB)
ONE, TWO = (gpu(), ram(64)), (gpu(), gpu(name="CUDA1"), ram(64))
BOTH = ("CUDA0", "CUDA1")


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


# Devices


@pytest.mark.parametrize(
    ("target", "draft", "rooms", "asked", "devices"),
    [
        (need(5), need(1, 0.1), (ram(),), {}, ((CPU,), (CPU,))),
        (need(1), need(1, 0.1), (RENDERER, ram()), {}, ((CPU,), (CPU,))),
        (need(1), need(1, 0.1), (gpu(), RENDERER, ram()), {}, (("CUDA0",), ("CUDA0",))),
        (need(1, 0.1), None, (RENDERER, ram()), {"devices": ("Vulkan0",)}, (("Vulkan0",), None)),
        (need(21), need(3, 0.1), (gpu(), gpu(8, "CUDA1"), ram()), {}, (("CUDA0",), ("CUDA1",))),
        (need(30), SMALL, (gpu(), gpu(48, "CUDA1"), ram()), {}, (("CUDA1",), ("CUDA0",))),
        (need(4), SMALL, (integrated(64), gpu(8), ram(64)), {}, (("CUDA0",), ("CUDA0",))),
        (need(20), SMALL, (integrated(), ram()), {}, (("Vulkan1",), ("Vulkan1",))),
        (need(38), SMALL, TWO, {}, (BOTH, ("CUDA0",))),
        (need(22, 0.5, projector=3 * GB), None, TWO, {}, (BOTH, None)),
        (need(5), None, (gpu(), gpu(24, "Vulkan0", "Vulkan"), ram()), {}, (("CUDA0",), None)),
        (need(5), SMALL, TWO, {"devices": ("cuda1",)}, (("CUDA1",), ("CUDA1",))),
        (need(5), SMALL, TWO, {"draft_place": on(CPU)}, (("CUDA0",), (CPU,))),
        (need(5), SMALL, TWO, {"draft_place": ModelParams(0)}, (("CUDA0",), (CPU,))),
        (need(5), SMALL, TWO, {"devices": (CPU,)}, ((CPU,), (CPU,))),
        (need(5), SMALL, TWO, {"n_gpu_layers": 0}, ((CPU,), (CPU,))),
        (need(5), SMALL, TWO, {"tensor_split": (3, 1)}, (BOTH, ("CUDA0",))),
    ],
)
def test_the_devices_of_both_models(
    target: ModelMemory,
    draft: ModelMemory | None,
    rooms: Rooms,
    asked: dict[str, Any],
    devices: tuple[tuple[str, ...], tuple[str, ...] | None],
) -> None:
    found = plan(target, draft, rooms, **asked)

    assert where(found) == devices
    assert found.fits


@pytest.mark.parametrize(
    ("target", "asked", "place"),
    [
        (need(5), {"draft_place": on(CPU)}, (("CUDA0",), ())),
        (need(5), {"draft_place": ModelParams(0)}, (("CUDA0",), ())),
        (need(5), {"devices": ("CUDA1",), "draft_place": on("CUDA0")}, (("CUDA1",), ())),
        # The output of a target on two devices is on the last one with a share.
        (need(38), {}, (BOTH, (0.0, 1.0))),
        (need(5), {"devices": ("CUDA1", "CUDA0"), "tensor_split": (1.0, 0.0)}, (("CUDA1", "CUDA0"), (1.0, 0.0))),
        (need(5), {"devices": (CPU,), "draft_place": on("CUDA0")}, ((CPU,), ())),
        (need(5), {"n_gpu_layers": 0}, ((CPU,), ())),
    ],
)
def test_draft_layers_that_share_tensors_are_on_the_devices_of_their_target(
    target: ModelMemory, asked: dict[str, Any], place: tuple[tuple[str, ...], tuple[float, ...]]
) -> None:
    draft = plan(target, HEAD, TWO, **asked).draft

    assert draft is not None
    assert (draft.devices, draft.tensor_split, draft.n_gpu_layers) == (*place, -1)


def test_no_placement_is_computed_after_one_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    place, targets = fit._place, []

    def counted(target: ModelMemory, *more: Any) -> ModelParams:
        targets.append(target)
        return place(target, *more)

    monkeypatch.setattr(fit, "_place", counted)
    plan(need(5), SMALL, TWO)

    assert len(targets) == 1


def test_several_gpus_get_layers_by_their_room() -> None:
    first, second = plan(need(28), None, (gpu(), gpu(12, "CUDA1"), ram())).target.tensor_split
    assert 1.9 < first / second < 2.4
    # The draft takes room of the first, and a large output of the last.
    first, second = plan(need(38), SMALL, TWO).target.tensor_split
    assert first < second
    assert first + second == pytest.approx(1, abs=0.001)
    found = plan(need(38, output=10 * GB), None, TWO)
    first, second = found.target.tensor_split
    assert found.fits
    assert first > 1.5 * second
    assert loaded(found)["CUDA0"] == pytest.approx(loaded(found)["CUDA1"], rel=0.1)


def test_an_apple_gpu_is_fast_and_takes_ram() -> None:
    devices = (
        Device("MTL0", "igpu", "MTL", 22 * GB, "Apple M2", 22 * GB),
        Device("Vulkan0", "igpu", "Vulkan", 22 * GB, "Intel(R) UHD Graphics", 22 * GB),
    )
    apple, intel, _ = memory_rooms(devices)

    assert (apple.is_fast, apple.has_own_memory, intel.is_fast) == (True, False, False)
    assert apple.with_room(10 * GB).room_bytes == pytest.approx(10 * GB)
    assert plan(need(12), SMALL, (apple, ram())).fits
    # Metal does not see what other programs have taken of the one memory.
    assert not plan(need(12), SMALL, (apple, ram(8))).fits
    remote = replace(gpu(20, "RPC0"), backend="MTL")
    assert where(plan(need(30), None, (apple, remote, ram(64)))) == (("MTL0", "RPC0"), None)


def test_an_absent_device_is_reported_with_the_present_devices() -> None:
    for asked in ({"devices": ("CUDA1",)}, {"draft_place": on("CUDA1")}):
        with pytest.raises(UsageError, match="no device CUDA1") as caught:
            plan(need(5), SMALL, ONE, **asked)
        assert "CUDA0, cpu" in caught.value.hint
    with pytest.raises(UsageError, match=r"2 shares for 1 device\."):
        plan(need(5), None, ONE, tensor_split=(1, 1))
    with pytest.raises(UsageError, match="1 share for 2 devices"):
        plan(need(5), None, TWO, tensor_split=(1,))


# Memory


def taken(need: ModelMemory, placed: ModelParams, rooms: Rooms) -> Counter[str]:
    """Count the bytes of a model on each device, layer by layer as llama.cpp's load_tensors does."""
    found, n = Counter({CPU: need.always_ram + need.embedding}), need.n_layers
    n_there = 0 if placed.on_cpu else n + 1 if placed.n_gpu_layers < 0 else min(placed.n_gpu_layers, n + 1)
    shares = placed.tensor_split or (1.0,)
    ends = [sum(shares[: i + 1]) / sum(shares) for i in range(len(shares))]
    experts, n_cached = need.experts or (0,) * n, need.n_cached or n
    # Output weights that repeat the embedding are a copy, and only beside it.
    rest = (need.weights - need.output - sum(experts) - need.embedding + need.repeated) / n
    found[CPU] -= 0 if n_there else need.repeated
    for layer in range(n + 1):
        before = layer - (n + 1 - n_there)
        there = next((i for i, end in enumerate(ends) if end > before / max(1, n_there)), len(ends) - 1)
        device = placed.devices[there] if before >= 0 else CPU
        if layer == n:
            found[device] += need.output
        else:
            cached = need.context / n_cached if layer < n_cached else 0.0
            found[device] += int((need.blocks[layer] if need.blocks else rest) + cached)
            found[device if layer >= (placed.cpu_experts or 0) else CPU] += experts[layer]
    devices = [name for name in placed.devices if found[name] and n_there] or [CPU]
    overlaps = len(devices) > 1 and placed.n_gpu_layers < 0 and not placed.cpu_experts
    for name in devices:
        found[name] += need.compute + need.overlap * overlaps + need.expert_copy * bool(placed.cpu_experts)
    found[devices[0]] += need.projector
    for room in rooms[:-1]:
        found[CPU] += found[room.name] * (not room.has_own_memory)
    return found


SPLIT: dict[str, Any] = {"tensor_split": (1, 1)}


@pytest.mark.parametrize(
    ("target", "draft", "rooms", "asked"),
    [
        (need(18), SMALL, ONE, {}),
        (need(18), SMALL, (ram(),), {}),
        (need(20), SMALL, (integrated(), ram(64)), {}),
        (need(1, 0.1), None, (RENDERER, ram()), {"devices": ("Vulkan0",)}),
        (need(10, 4, states=4 * GB, saved=GB, snapshots=GB), None, ONE, {}),
        *((need(10, embedding=GB, output=GB, repeated=GB), None, ONE, {"n_gpu_layers": n}) for n in (-1, 1, 0)),
        (need(8, projector=3 * GB), None, ONE, {}),
        (need(8, projector=3 * GB), None, ONE, {"devices": (CPU,)}),
        (need(5), None, ONE, {"n_gpu_layers": 22}),
        (need(5), SMALL, ONE, {"draft_place": ModelParams(12)}),
        (need(4, 2, n_layers=4, blocks=(GB,) * 4), None, TWO, SPLIT),
        (need(4, 2, n_layers=4, blocks=(GB,) * 4, n_cached=2), None, TWO, SPLIT),
        # A vocabulary of 262,144 makes the output as large as ten blocks.
        (need(38, output=10 * GB), None, TWO, SPLIT),
        (need(62, output=2 * GB), None, TWO, {"tensor_split": (3, 1), "n_gpu_layers": 16}),
        (need(5, overlap=GB), None, TWO, {"tensor_split": (3, 1)}),
        (need(5, overlap=GB), None, TWO, {"tensor_split": (3, 1), "n_gpu_layers": 22}),
        (need(5, overlap=GB), None, TWO, {"devices": ("CUDA1",)}),
        (need(38), HEAD, TWO, {}),
        *((mixture(), None, TWO, {"devices": BOTH, "cpu_experts": n}) for n in (10, 30)),
        *((mixture(), None, TWO, {**SPLIT, "cpu_experts": n}) for n in (10, 30)),
        *((mixture(), None, ONE, {"n_gpu_layers": n, "cpu_experts": 28}) for n in (1, 20, 49)),
    ],
)
def test_the_memory_of_each_device(
    target: ModelMemory, draft: ModelMemory | None, rooms: Rooms, asked: dict[str, Any]
) -> None:
    found = plan(target, draft, rooms, **asked)

    expected = taken(target, found.target, rooms)
    if draft is not None and found.draft is not None:
        expected += taken(draft, found.draft, rooms)
    assert loaded(found) == pytest.approx(+expected, abs=1000)
    assert sum(expected.values()) > target.total - 1000


@pytest.mark.parametrize(
    ("n_gpu_layers", "there", "here"),
    [(1, 48_700_000, 210_300_000), (10, 96_900_000, 162_000_000), (20, 150_600_000, 108_400_000)],
)
def test_layers_on_a_gpu_take_what_llama_cpp_estimates(n_gpu_layers: int, there: int, here: int) -> None:
    # SmolLM2 135M in Q4_1 with 4,096 tokens, by llama.cpp's own estimate, for a GPU that repeats the embedding.
    small = ModelMemory("S", 96_600_000, 94_400_000, 18_600_000, 49_400_000, n_layers=30, n_ctx=4096, output=30_100_000)
    found = loaded(plan(small, None, ONE, n_gpu_layers=n_gpu_layers))

    assert found == {"CUDA0": pytest.approx(there, rel=0.002), CPU: pytest.approx(here, rel=0.002)}


def test_every_part_and_the_reserve_count() -> None:
    exact = need(18)
    room = exact.weights + exact.kv + exact.compute

    assert plan(exact, None, (gpu(room / GB + 0.81), ram())).fits
    assert not plan(exact, None, (gpu(room / GB), ram())).fits
    for part in ("weights", "kv", "compute", "host"):
        more = replace(exact, **{part: getattr(exact, part) + 100 * GB})
        assert not plan(more, None, (gpu(room / GB + 0.81), ram())).fits, part


def test_a_pair_that_does_not_fit_lacks_memory() -> None:
    found = plan(need(40), SMALL, ONE)

    assert (found.fits, found.fullness > 1) == (False, True)
    (short,) = [load for load in found.loads if load.lacking]
    assert short.device == "CUDA0"
    assert found.lacking == short.need_bytes - short.room_bytes
    assert not plan(need(20), SMALL, (integrated(), ram(16))).fits
    assert not plan(need(30), None, (gpu(), gpu(24, "Vulkan0", "Vulkan"), ram())).fits, "one GPU under two backends"


# Experts


@pytest.mark.parametrize(("gigabytes", "expected"), [(8, 37), (12, 26), (16, 14), (24, 0)])
def test_a_mixture_leaves_the_experts_of_as_few_layers_as_possible_in_ram(gigabytes: int, expected: int) -> None:
    target, draft = mixture(), estimate_memory(facts_of_shape("Qwen3-0.6B", 400 * MB), ContextParams(8192))
    rooms = (gpu(gigabytes * 1.024**3 - 0.4), ram())
    found = plan(target, draft, rooms)

    assert found.fits
    assert found.target == ModelParams(devices=("CUDA0",), cpu_experts=expected)
    if expected:
        assert not plan(target, draft, rooms, cpu_experts=expected - 1).fits
        scarce = plan(target, draft, (rooms[0], ram(1)))
        assert [load.device for load in scarce.loads if load.lacking] == [CPU], "the smaller lack counts"


@pytest.mark.parametrize(("gigabytes", "fits"), [(8, False), (16, False), (24, True)])
def test_a_dense_model_keeps_its_layers_together(gigabytes: int, fits: bool) -> None:
    target = estimate_memory(facts_of_shape("Qwen3-32B", 19_762_149_024), ContextParams(8192))
    rooms = (gpu(gigabytes * 1.024**3 - 0.4), ram(64))
    found = plan(target, None, rooms)

    assert (found.fits, found.n_in_ram) == (fits, 0)
    assert ("model.gpu_layers" in by_setting(pair(target, None, rooms))) is not fits


def test_all_devices_are_filled_before_experts_go_to_ram() -> None:
    target, two = mixture(65_536), (gpu(12), gpu(8, "CUDA1"), ram(64))
    alone, both = plan(target, None, (two[0], two[2])), plan(target, None, two)

    assert both.fits
    assert both.target.devices == BOTH
    assert 0 < both.n_in_ram < alone.n_in_ram
    assert not plan(target, None, two, cpu_experts=both.n_in_ram - 1).fits


@pytest.mark.parametrize(
    ("rooms", "asked"),
    [
        ((gpu(8), ram(64)), {"n_gpu_layers": 40}),
        ((gpu(8), ram(64)), {"devices": (CPU,)}),
        ((gpu(8), ram(64)), {"overrides": ("norm=cpu",)}),
        ((integrated(12), ram(12)), {}),
        ((ram(8),), {}),
    ],
)
def test_layers_in_ram_and_shared_memory_keep_their_experts(rooms: Rooms, asked: dict[str, Any]) -> None:
    assert plan(mixture(), None, rooms, **asked).n_in_ram == 0


# Offers


def by_setting(wanted: PairNeeds, **more: Any) -> dict[str, Offer]:
    return {next(iter(offer.settings), offer.pair or ""): offer for offer in offers(wanted, **more)}


def test_a_pair_that_fits_needs_no_offers() -> None:
    assert offers(pair(need(5), SMALL, ONE)) == ()


def test_offers_are_in_their_order_each_with_its_gain() -> None:
    big = need(19, 4, n_parameters=32 * GB, blocks=(19 * GB // 63,) * 63)
    half = Pair("half", "Half of it", DemoModel("target"), None)

    found = offers(pair(big, SMALL, ONE), smaller=Proposal(half, Fit.FITS, 11 * GB))

    weights_and_cache = (big.weights + big.kv) * 2 / 63
    assert [(offer.settings, offer.pair, offer.gain_bytes, offer.suffices) for offer in found] == [
        ({"model.ctx": 4096}, None, pytest.approx((big.kv + SMALL.kv) / 2), True),
        (
            {"model.kv_type": "q8_0", "draft.kv_type": "q8_0"},
            None,
            pytest.approx((big.kv + SMALL.kv) * 15 / 32, rel=0.001),
            True,
        ),
        ({}, None, pytest.approx(big.weights - 32 * GB * 3.9 / 8), True),
        ({"draft.device": (CPU,)}, None, pytest.approx(SMALL.total - SMALL.host), True),
        ({"draft.mode": "off"}, None, pytest.approx(SMALL.total - SMALL.host), True),
        ({}, "half", big.total + SMALL.total - 11 * GB, True),
        ({"model.gpu_layers": 62}, None, pytest.approx(weights_and_cache), True),
    ]
    assert all(offer.cost for offer in found)
    assert plan(big, SMALL, ONE, n_gpu_layers=62).fits
    assert not plan(big, SMALL, ONE, n_gpu_layers=63).fits


def test_an_offer_that_helps_but_does_not_suffice_says_so() -> None:
    found = by_setting(pair(need(30, 4), SMALL, ONE))

    assert found["model.ctx"].settings == {"model.ctx": 2048}
    names = ("model.ctx", "model.kv_type", "draft.device", "model.gpu_layers")
    assert [found[name].suffices for name in names] == [False, False, False, True]
    assert found["model.ctx"].gain.endswith(" (not enough alone)")


def test_without_a_draft_no_snapshots_are_kept() -> None:
    found = by_setting(pair(need(10, 1, snapshots=4 * GB), need(3), (gpu(13), ram(1))))["draft.mode"]

    assert (found.suffices, found.gain_bytes >= 7 * GB) == (True, True)


def test_a_draft_goes_to_another_gpu_before_the_cpu() -> None:
    rooms = (gpu(), gpu(4, "CUDA1"), ram())
    found = by_setting(pair(need(21), need(1.5), rooms, on("CUDA0"), devices=("CUDA0",)))
    assert found["draft.device"].settings == {"draft.device": ("CUDA1",)}
    assert "draft.device" not in by_setting(pair(need(60), HEAD, TWO))


def test_without_a_gpu_no_layers_are_moved() -> None:
    found = by_setting(pair(need(8, 2), SMALL, (ram(10),)))

    assert set(found) == {"model.ctx", "model.kv_type", "draft.mode"}
    assert found["draft.mode"].gain_bytes == SMALL.total


def test_quantized_caches_are_offered_where_they_are_possible() -> None:
    whole = need(30, can_quantize_cache=False)
    assert "model.kv_type" not in by_setting(pair(need(30, kv_type="q8_0"), None, ONE))
    assert "model.kv_type" not in by_setting(pair(whole, None, ONE))
    assert "draft.kv_type" in by_setting(pair(whole, SMALL, ONE))
    found = by_setting(pair(need(30), None, ONE), flash_attention="off")
    assert found["model.kv_type"].settings == {"model.kv_type": "q8_0", "model.flash_attn": "auto"}


def test_a_gpu_that_the_draft_alone_fills_is_left_to_the_target() -> None:
    rooms = (gpu(2.2), ram(64))
    found = by_setting(pair(need(19), need(1.5), rooms))["model.gpu_layers"]

    n = found.settings["model.gpu_layers"]
    assert isinstance(n, int)
    assert (found.settings["draft.device"], found.suffices, n > 0) == ((CPU,), True, True)
    assert "the draft on the CPU" in found.what
    assert plan(need(19), need(1.5), rooms, n_gpu_layers=n, draft_place=on(CPU)).fits
    assert not plan(need(19), need(1.5), rooms, n_gpu_layers=n + 1, draft_place=on(CPU)).fits
