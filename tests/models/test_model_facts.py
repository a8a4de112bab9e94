"""Facts from headers, and checks of two models against each other."""

import struct
from dataclasses import replace
from typing import Any

import pytest

from app.cli.compatibility_report import check_lines
from app.core.units import GB
from app.engine.vocab_compatibility import VocabInfo
from app.models.compatibility import check_pair
from app.models.gguf import GgufHeader, parse_header
from app.models.memory_estimate import N_SNAPSHOTS, estimate_memory, n_saved_states
from app.models.model_facts import GraphWidths, ModelFacts, model_facts
from app.settings.model_params import ContextParams
from tests.llama import tiny_model
from tests.llama.gguf_files import header, text

GRAPH = GraphWidths(0, 0, 0, 0, 0, 0, masks=0)


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
    ("changes", "fact", "value"),
    [
        # A cache of fewer bits needs heads that divide into blocks.
        ({}, "can_quantize_cache", False),
        ({"llama__embedding_length": 512}, "can_quantize_cache", True),
        ({"llama__attention__key_length": 64, "llama__attention__value_length": 80}, "can_quantize_cache", False),
        ({"llama__embedding_length": 512, "llama__attention__key_length_swa": 80}, "can_quantize_cache", False),
        # The cache of grouped and uneven heads
        ({}, "kv_bytes_per_token", 2 * 4 * 8 * (8 + 8)),
        ({"llama__attention__head_count_kv": 2}, "kv_bytes_per_token", 2 * 4 * 2 * 16),
        ({"llama__attention__head_count_kv": [2, 0, 2, 1]}, "kv_bytes_per_token", 2 * 5 * 16),
        (
            {"llama__attention__key_length": 32, "llama__attention__value_length": 16},
            "kv_bytes_per_token",
            2 * 4 * 8 * 48,
        ),
        # The architecture decides whether there is a recurrent state.
        ({}, "can_rollback", True),
        *(
            ({"general__architecture": name}, "can_rollback", False)
            for name in ("lfm2", "lfm2moe", "mamba", "qwen3next", "falcon-h1")
        ),
        ({}, "state_bytes", 0),
        ({"llama__attention__head_count_kv": [2, 0, 2, 0]}, "state_bytes", 0),
        # Hostile headers
        ({"llama__block_count": 1 << 60, "llama__attention__head_count_kv": [0, "many"]}, "state_bytes", 0),
        ({"llama__block_count": "many"}, "n_layers", 0),
        ({"llama__attention__head_count": 0, "llama__embedding_length": -3}, "kv_bytes_per_token", 0),
        ({"general__name": "\x1b\n"}, "name", "m"),
        # A mixture reads a part of its weights; 5% of them belong to no expert.
        ({"llama__expert_count": 128, "llama__expert_used_count": 8}, "expert_share", 0.0625),
        ({"llama__expert_count": 128, "llama__expert_used_count": 8}, "bytes_per_token", 1000 - int(950 * 0.9375)),
        ({"llama__expert_count": 8, "llama__expert_used_count": 0}, "expert_share", 1.0),
        ({"llama__expert_count": 8, "llama__expert_used_count": 9}, "bytes_per_token", 1000),
        ({}, "bytes_per_token", 1000),
    ],
)
def test_facts_follow_from_the_header(changes: dict[str, Any], fact: str, value: object) -> None:
    assert getattr(of_header(**changes), fact) == value


def of_qwen(**values: Any) -> ModelFacts:
    """Return facts of Qwen3.5-27B."""
    state = {"conv_kernel": 4, "inner_size": 6144, "state_size": 128, "group_count": 16, "time_step_rank": 48}
    return of_header(
        general__architecture="qwen35",
        qwen35__block_count=64,
        **{f"qwen35__ssm__{key}": value for key, value in state.items()},
        **values,
    )


def test_running_states_are_reckoned() -> None:
    # 48 of 64 layers: the last three inputs of the convolution, and the summary of all earlier tokens.
    assert of_qwen().state_bytes == 4 * 48 * (3 * (6144 + 2 * 16 * 128) + 128 * 6144)
    assert of_qwen(qwen35__full_attention_interval=2).state_bytes == of_qwen().state_bytes * 32 // 48
    assert of_qwen(qwen35__attention__recurrent_layers=[True] * 3).state_bytes == of_qwen().state_bytes * 3 // 48


def test_earlier_states_are_counted_where_they_are_kept() -> None:
    kept = of_qwen()
    alone, drafted = (
        estimate_memory(kept, ContextParams(256)),
        estimate_memory(kept, ContextParams(256, n_snapshots=N_SNAPSHOTS)),
    )
    assert (alone.states, alone.snapshots) == (kept.state_bytes, 0)
    assert alone.saved == drafted.saved == n_saved_states(kept.state_bytes) * kept.state_bytes
    assert alone.always_ram == alone.host + alone.vocabulary + alone.saved
    assert drafted.total - alone.total == N_SNAPSHOTS * kept.state_bytes
    assert estimate_memory(replace(kept, keeps_snapshots=False), ContextParams(256, n_snapshots=7)).snapshots == 0


@pytest.mark.parametrize(("state", "n"), [(0, 0), (1, 8), (64 << 20, 8), (150 << 20, 3), (1 << 40, 2)])
def test_many_small_states_and_two_large_states_are_kept(state: int, n: int) -> None:
    assert n_saved_states(state) == n


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
