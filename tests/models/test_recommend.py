"""Facts from headers, pairs held against each other and against the machine."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest

from app.cli.pairs_check import check_lines
from app.cli.setup import progress_line
from app.core.units import GB
from app.engine.vocab_compatibility import VocabInfo
from app.models.catalog import Catalog, Pair, PublishedSpeed, shipped_file
from app.models.compatibility import check_pair
from app.models.gguf import GgufHeader, parse_header
from app.models.memory_estimate import N_SNAPSHOTS, PairOverhead, estimate_memory, n_saved_states
from app.models.model_facts import GraphWidths, ModelFacts, model_facts
from app.models.progress import DownloadProgress, FileProgress
from app.models.recommend import PLEASANT, Fit, PairSpeed, Proposal, Room, propose, weigh, why
from app.models.source import HubModel
from tests.llama import tiny_model
from tests.llama.gguf_files import header, text

GRAPH = GraphWidths(0, 0, 0, 0, 0, 0, masks=0)
LITTLE = PairOverhead(per_token=0, fixed=2_000_000_000, main=100_000_000)


def facts(**changes: Any) -> ModelFacts:
    vocab = VocabInfo("gpt2", [b"t%d" % i for i in range(20)], bos=0, eos=1)
    base = ModelFacts("Big", "llama", "Q4_K_M", 10**9, 16, 8192, 8 * GB, 1000, GRAPH, vocab, True, True)
    return replace(base, **changes)


def of_header(**values: Any) -> ModelFacts:
    metadata = {
        "general.architecture": "llama",
        "llama.block_count": 4,
        "llama.embedding_length": 64,
        "llama.attention.head_count": 8,
        "llama.context_length": 2048,
        **{key.replace("__", "."): value for key, value in values.items()},
    }
    parsed = GgufHeader({key: value for key, value in metadata.items() if value is not None}, 99)
    return model_facts(parsed, file="m-Q8_0.gguf", size=1000)


@pytest.mark.parametrize(
    ("changes", "can"),
    [
        ({}, False),
        ({"llama__embedding_length": 512}, True),
        ({"llama__attention__key_length": 64, "llama__attention__value_length": 80}, False),
        ({"llama__embedding_length": 512, "llama__attention__key_length_swa": 80}, False),
    ],
)
def test_a_cache_of_fewer_bits_needs_heads_that_divide_into_blocks(changes: dict[str, Any], can: bool) -> None:
    assert of_header(**changes).can_quantize_cache is can


def test_the_cache_of_grouped_and_uneven_heads_is_reckoned() -> None:
    assert of_header().kv_bytes_per_token == 2 * 4 * 8 * (8 + 8)
    assert of_header(llama__attention__head_count_kv=2).kv_bytes_per_token == 2 * 4 * 2 * 16
    assert of_header(llama__attention__head_count_kv=[2, 0, 2, 1]).kv_bytes_per_token == 2 * 5 * 16
    assert of_header(llama__attention__key_length=32, llama__attention__value_length=16).kv_bytes_per_token == (
        2 * 4 * 8 * 48
    )


@pytest.mark.parametrize(("bytes_per_s", "said"), [(120_000, "120 kB/s"), (2_000_000, "2 MB/s"), (3, "")])
def test_a_slow_line_has_a_speed_too(bytes_per_s: float, said: str) -> None:
    one = FileProgress("target", 0, 2 * GB)

    line = progress_line(DownloadProgress((one,), bytes_per_s, None))

    assert line == f"target 0 MB of 2.0 GB  {said}".rstrip()


def of_qwen(**values: Any) -> ModelFacts:
    """Qwen3.5-27B."""
    state = {"conv_kernel": 4, "inner_size": 6144, "state_size": 128, "group_count": 16, "time_step_rank": 48}
    return of_header(
        general__architecture="qwen35",
        qwen35__block_count=64,
        **{f"qwen35__ssm__{key}": value for key, value in state.items()},
        **values,
    )


def test_running_states_are_reckoned() -> None:
    # 48 of 64 layers: the last three inputs of the convolution, and what is known of all before.
    assert of_qwen().state_bytes == 4 * 48 * (3 * (6144 + 2 * 16 * 128) + 128 * 6144)
    assert of_qwen(qwen35__full_attention_interval=2).state_bytes == of_qwen().state_bytes * 32 // 48
    assert of_qwen(qwen35__attention__recurrent_layers=[True] * 3).state_bytes == of_qwen().state_bytes * 3 // 48
    assert of_header().state_bytes == 0
    assert of_header(llama__attention__head_count_kv=[2, 0, 2, 0]).state_bytes == 0


def test_earlier_states_are_counted_where_they_are_kept() -> None:
    kept = of_qwen()
    alone, drafted = estimate_memory(kept, 256), estimate_memory(kept, 256, n_snapshots=N_SNAPSHOTS)
    assert (alone.states, alone.snapshots) == (kept.state_bytes, 0)
    assert alone.saved == drafted.saved == n_saved_states(kept.state_bytes) * kept.state_bytes
    assert alone.always_ram == alone.host + alone.vocabulary + alone.saved
    assert drafted.total - alone.total == N_SNAPSHOTS * kept.state_bytes
    assert estimate_memory(replace(kept, keeps_snapshots=False), 256, n_snapshots=7).snapshots == 0


@pytest.mark.parametrize(("state", "n"), [(0, 0), (1, 8), (64 << 20, 8), (150 << 20, 3), (1 << 40, 2)])
def test_small_states_are_kept_of_many_prompts_and_large_ones_of_two(state: int, n: int) -> None:
    assert n_saved_states(state) == n


def test_a_hostile_header_gives_no_nonsense() -> None:
    strange = of_header(
        llama__block_count="many", llama__attention__head_count=0, general__name="\x1b\n", llama__embedding_length=-3
    )

    assert (strange.n_layers, strange.kv_bytes_per_token, strange.name) == (0, 0, "m")


def test_a_hostile_number_of_layers_takes_no_memory() -> None:
    assert of_header(llama__block_count=1 << 60, llama__attention__head_count_kv=[0, "many"]).state_bytes == 0


@pytest.mark.parametrize("architecture", ["lfm2", "lfm2moe", "mamba", "qwen3next", "falcon-h1"])
def test_a_running_state_is_known_by_the_architecture(architecture: str) -> None:
    assert of_header().can_rollback
    assert not of_header(general__architecture=architecture).can_rollback


def test_parameters_are_counted_from_the_list_of_tensors() -> None:
    infos = [
        text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, 0)
        for name, shape in (("a", (3, 5)), ("b", (7,)))
    ]
    data = header(tiny_model.values(), n_tensors=2) + b"".join(infos)

    assert parse_header(data, tensors=True).n_parameters == 22


def test_the_first_token_that_differs_is_named() -> None:
    other = VocabInfo("gpt2", [b"t%d" % i if i != 7 else b"x" for i in range(20)], bos=0, eos=1)

    check = check_pair(facts(), facts(weight_bytes=GB, vocab=other))

    assert check.problems == ('The vocabularies differ: token 7 is "t7" in the target and "x" in the draft.',)


def test_a_fitting_draft_has_no_problem_and_a_large_or_short_one_a_warning() -> None:
    good = check_pair(facts(), facts(weight_bytes=GB))
    assert (good.problems, good.warnings) == ((), ())
    doubtful = check_pair(facts(), facts(weight_bytes=6 * GB, n_ctx_train=512))
    assert doubtful.problems == ()
    assert len(doubtful.warnings) == 2


def test_models_that_cannot_take_back_or_cannot_chat_are_reported() -> None:
    state = "its recurrent state cannot be rolled back after a rejected draft."
    hybrid = facts(can_rollback=False, keeps_snapshots=True)
    [problem] = check_pair(facts(), replace(hybrid, name="Small")).problems
    assert problem == f"Small cannot be used as a draft: {state}"
    [problem] = check_pair(facts(can_rollback=False), facts(name="Small")).problems
    assert problem == f"Big cannot use a draft model: {state}"
    assert not check_pair(hybrid, facts()).problems
    assert not check_pair(facts(can_rollback=False), None).problems
    assert "base model" in check_pair(facts(has_chat_template=False), None).warnings[0]
    assert "no vocabulary" in check_pair(facts(vocab=VocabInfo("none", [])), None).problems[0]


def test_memory_counts_both_models_and_grows_with_the_context() -> None:
    check = check_pair(facts(), facts(weight_bytes=GB))

    assert check.memory_bytes(0) == 9 * GB
    assert check.memory_bytes(512) - check.memory_bytes(0) == 512 * 2 * 1000
    assert check.memory_bytes(100) == check.memory_bytes(256), "a context comes by the block"


def test_memory_is_reported_for_the_context_that_the_pair_gets() -> None:
    short, long = (check_pair(facts(n_ctx_train=trained), None) for trained in (2048, 131072))

    assert "memory  7.5 GB with a context of 2,048 tokens" in check_lines(short)
    assert "memory  7.5 GB with a context of 10,240 tokens" in check_lines(long, n_ctx=10_000)


# Proposals

CATALOG = list(Catalog(shipped_file()).pairs.values())
DENSE = Pair("dense", "Dense", HubModel("a/dense", size=20 * GB), None, working=PairOverhead(380_000, 200_000_000, GB))


@pytest.mark.parametrize("gigabytes", [4, 6, 8, 12, 16, 24, 32, 48, 80])
def test_every_size_of_card_gets_a_real_pair_that_fits_and_alternatives(gigabytes: int) -> None:
    proposals = propose(CATALOG, Room(int(0.97 * gigabytes * GB), "a card"))

    assert len(proposals) == (2 if gigabytes == 4 else 3)
    assert all(p.fit is not Fit.TOO_BIG for p in proposals)
    assert proposals[0].pair.name != "demo"
    assert proposals[0].pair.memory_gb >= gigabytes / 2


def test_a_pair_with_a_published_speedup_is_proposed_before_a_larger_one() -> None:
    room, speed = Room(99 * GB, "a card"), PublishedSpeed("RTX 4090", 40.0, 80.0, "a page")
    small = Pair("small", "Small", HubModel("a/small", size=8 * GB), None, memory_gb=12, published=(speed,))
    large = Pair("large", "Large", HubModel("a/large", size=50 * GB), None, memory_gb=64)

    assert [found.pair.name for found in propose([large, small], room)] == ["small", "large"]
    assert propose([small, replace(large, published=(speed,))], room)[0].pair.name == "large"
    little = replace(large, published=(PublishedSpeed("RTX 4090", 40.0, 42.0, "a page"),))
    assert propose([small, little], room)[0].pair.name == "small", "5% is not known to pay"


def dense(room: Room) -> list[Proposal]:
    """Without the mixture of experts, which is fast everywhere."""
    return propose([pair for pair in CATALOG if not pair.bytes_per_token], room)


@pytest.mark.parametrize("bytes_per_s", [8e9, 20e9, 40e9, 80e9, 200e9])
def test_the_proposal_answers_as_fast_as_people_read(bytes_per_s: float) -> None:
    room = Room(100 * GB, bytes_per_s=bytes_per_s)
    best, *others = dense(room)

    assert best.speed is not None
    assert best.speed >= PLEASANT
    larger = [pair for pair in CATALOG if pair.memory_gb > best.pair.memory_gb and not pair.bytes_per_token]
    assert all(p.slow or p.fit is not Fit.FITS for p in (weigh(pair, room) for pair in larger))
    assert len(others) == 2
    assert any(p.slow for p in others), "the next one up can be taken still"
    said = why([best, *others])
    assert said.startswith(f"{best.pair.name} is the best pair that fits and answers at reading speed")


def test_a_guessed_speed_is_shown_to_be_one() -> None:
    slow = weigh(DENSE, Room(60 * GB, bytes_per_s=40e9))
    assert (slow.word, slow.reason) == ("slow", "about 2 tok/s; 33.2 GB to spare")
    assert weigh(DENSE, Room(60 * GB, bytes_per_s=20e9)).reason.startswith("about 1 tok/s;")
    assert weigh(DENSE, Room(60 * GB, bytes_per_s=5e9)).reason.startswith("under 1 tok/s;")
    fast = weigh(DENSE, Room(60 * GB, bytes_per_s=900e9))
    assert (fast.word, fast.reason) == ("fits", "33.2 GB to spare")


def test_a_pair_that_answered_here_has_its_measured_speed() -> None:
    pair = Pair("mine", "Mine", HubModel("a/b", size=GB), None)
    room = Room(60 * GB, bytes_per_s=2 * GB, measured={"mine": PairSpeed(5.43)})

    found = weigh(pair, room)
    assert (found.reason.partition(";")[0], found.word) == ("5.4 tok/s", "slow")
    assert weigh(pair, replace(room, measured={"mine": PairSpeed(41.6)})).reason.startswith("42 tok/s; ")
    assert weigh(replace(pair, name="other"), room).reason.startswith("about 2 tok/s; ")


def test_a_slow_pair_is_slow_however_much_memory_is_left_as_it_stands_in_the_list() -> None:
    pair = Pair("big", "Big", HubModel("a/big", size=20 * GB), None, working=LITTLE)
    need = weigh(pair, Room(99 * GB)).need_bytes
    ample, scarce, none = (weigh(pair, Room(room, bytes_per_s=10e9)) for room in (2 * need, need, need - 1))

    assert (scarce.fit, scarce.word, ample.word, none.word) == (Fit.TIGHT, "slow", "slow", "too big")
    assert "; only 0 MB to spare" in scarce.reason
    assert weigh(pair, Room(need, "a card")).word == "tight"


def test_where_everything_is_slow_the_fastest_is_proposed_and_called_slow() -> None:
    proposals = propose(CATALOG, Room(60 * GB, bytes_per_s=4e9))

    assert proposals[0].pair.name == "qwen3.5-0.8b"
    assert all(p.slow for p in proposals)
    assert why(proposals) == ("Every model that fits is slow here; qwen3.5-0.8b is the fastest, about 5 tok/s.")


def test_without_a_measurement_what_cpus_usually_do_decides_and_no_figure_is_shown() -> None:
    best, *others = dense(Room(60 * GB))

    assert best.need_bytes <= 8 * GB
    assert "slow without a GPU" in weigh(DENSE, Room(60 * GB)).reason
    assert "about" not in why([best, *others])


def test_a_mixture_of_experts_is_reckoned_by_what_a_token_reads() -> None:
    best, *_ = propose(CATALOG, Room(60 * GB, bytes_per_s=40e9))

    assert (best.pair.name, best.speed) == ("qwen3.6-35b-q6", 15.0)


def test_a_tiny_machine_gets_the_demo() -> None:
    assert [p.pair.name for p in propose(CATALOG, Room(int(0.7 * GB)))] == ["demo"]


@pytest.mark.parametrize(("experts", "used", "share"), [(128, 8, 0.0625), (8, 0, 1.0), (8, 9, 1.0), (None, None, 1.0)])
def test_a_mixture_of_experts_reads_a_part_of_its_weights(experts: int, used: int, share: float) -> None:
    found = of_header(llama__expert_count=experts, llama__expert_used_count=used)

    assert found.expert_share == share
    assert found.bytes_per_token == 1000 - int(950 * (1 - share))


# Experts in RAM beside a GPU


def beside(vram: float, ram: int, ram_speed: float | None = 50e9) -> Room:
    """Return the room of a GPU with 400 GB/s and RAM, in GB."""
    free = int(vram * GB) - (768 << 20)
    return Room(free, "a card", 400e9, on_card=True, ram_bytes=int(0.8 * ram * GB), ram_bytes_per_s=ram_speed)


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
def test_experts_that_exceed_the_gpu_may_lie_in_ram(name: str, vram: int, ram: int, word: str, layers: int) -> None:
    pair = next(pair for pair in CATALOG if pair.name == name)
    found = weigh(pair, beside(vram, ram))

    assert (found.word, found.layers_in_ram) == (word, layers)
    assert (f"{layers} of {pair.expert_layers} layers' experts in RAM" in found.reason) == (layers > 0)


def test_the_speed_of_a_mixture_counts_what_each_memory_is_read_for() -> None:
    model = HubModel("a/b", size=10 * GB)
    pair = Pair("moe", "", model, None, working=LITTLE, bytes_per_token=3 * GB, expert_bytes=8 * GB, expert_layers=8)
    need = weigh(pair, beside(99, 64)).need_bytes
    # A layer is lacking, and a copy of a third of one: two move, with a quarter of the 1 GB of active experts.
    room = replace(beside(0, 64, 5e9), free_bytes=need - GB)

    found = weigh(pair, replace(room, bytes_per_s=50e9))
    seconds = 2.75 * GB / 50e9 + 0.25 * GB / 5e9
    assert found.speed == pytest.approx(1 / seconds, rel=0.15)
    assert found.reason.startswith("about 10 tok/s; 2 of 8 layers' experts in RAM, ")
    unknown = weigh(pair, replace(room, ram_bytes_per_s=None))
    assert (unknown.speed, unknown.slow, unknown.reason[:9]) == (None, False, "2 of 8 la")
    # Without RAM beside the GPU nothing can move.
    assert weigh(pair, replace(room, ram_bytes=0)).fit is Fit.TOO_BIG
    assert weigh(replace(pair, expert_layers=0), room).fit is Fit.TOO_BIG


def test_a_gpu_with_ram_beside_it_gets_a_mixture_that_answers_at_reading_speed() -> None:
    found = propose(CATALOG, beside(8, 32))
    assert [(p.pair.name, p.word, p.layers_in_ram) for p in found] == [
        ("qwen3.6-35b", "fits", 31),
        ("gemma4-26b", "fits", 24),
        ("qwen3.5-4b-q8", "fits", 0),
    ], "the last one is all on the GPU"
    assert propose(CATALOG, beside(8, 32, 4e9))[0].pair.name == "qwen3.5-4b-q8"
