"""Kinds of drafts from headers: detected, selected, and refused in one sentence."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app.models.compatibility import check_pair, head_problem, kind_of, mtp_problem, select_draft
from app.models.draft_kinds import EMBEDDING, d2t_fault, kind_of_file
from app.models.gguf import read_header
from app.models.memory_estimate import draft_memory, estimate_memory
from app.models.model_facts import ModelFacts, read_facts
from app.settings.model_params import ContextParams
from tests.llama.gguf_files import I32, Array
from tests.llama.tiny_heads import (
    write_chain,
    write_dense_mtp,
    write_dflash,
    write_dflash2,
    write_dspark,
    write_eagle3,
    write_gemma4,
    write_gemma4_mtp,
    write_mtp,
    write_mtp_alone,
    write_target,
)
from tests.llama.tiny_model import N_VOCAB

CONTEXT = ContextParams(1024)


@pytest.fixture
def target(tmp_path: Path) -> ModelFacts:
    return read_facts(write_target(tmp_path / "target.gguf"))


@pytest.fixture
def mtp(tmp_path: Path) -> ModelFacts:
    return read_facts(write_mtp(tmp_path / "mtp.gguf"))


@pytest.fixture
def eagle(tmp_path: Path) -> ModelFacts:
    return read_facts(write_eagle3(tmp_path / "eagle.gguf"))


def test_kinds_are_found_in_headers(tmp_path: Path, target: ModelFacts, mtp: ModelFacts, eagle: ModelFacts) -> None:
    dflash, dflash2 = read_facts(write_dflash(tmp_path / "1.gguf")), read_facts(write_dflash2(tmp_path / "2.gguf"))
    assert [kind_of(facts) for facts in (target, eagle, dflash, dflash2)] == ["model", "eagle3", "dflash", "dflash"]
    assert [facts.n_mtp_layers for facts in (target, mtp)] == [0, 1]
    assert check_pair(mtp).draft_kind == "mtp"
    assert check_pair(target).draft_kind is None
    assert check_pair(target, eagle).draft_kind == "eagle3"
    assert check_pair(target, dflash).draft_kind == check_pair(target, dflash2).draft_kind == "dflash"
    assert not mtp_problem(read_facts(write_dense_mtp(tmp_path / "dense.gguf")))


@pytest.mark.parametrize(
    ("architecture", "can"),
    [("hunyuan-dense", True), ("lfm2moe", True), ("nemotron_h_moe", True), ("gemma3n", False), ("gemma3", False)],
)
def test_only_graphs_that_output_layer_inputs_may_feed_a_head(
    target: ModelFacts, eagle: ModelFacts, architecture: str, can: bool
) -> None:
    problem = head_problem(replace(target, architecture=architecture), eagle)
    assert ("does not output the hidden rows" in (problem or "")) != can


def test_a_draft_without_a_vocabulary_is_named_as_one(target: ModelFacts, eagle: ModelFacts) -> None:
    for draft in (eagle, target):
        without = replace(draft, name="bare", vocab=replace(draft.vocab, tokens=[]))
        assert check_pair(target, without).problems == ("bare cannot be used as a draft: its file has no vocabulary.",)


def test_layers_of_gemma4_that_share_a_cache_or_have_narrow_heads_take_less(tmp_path: Path) -> None:
    whole = read_facts(write_gemma4(tmp_path / "whole.gguf"))
    narrow, shared = (
        read_facts(
            write_gemma4(tmp_path / f"{name}.gguf", **{f"gemma4__attention__{key}": n for key, n in what.items()})
        )
        for name, what in (
            ("narrow", {"key_length_swa": 8, "value_length_swa": 8}),
            ("shared", {"shared_kv_layers": 3}),
        )
    )
    head = whole.graph.query // whole.graph.heads
    assert (whole.window_share, shared.window_share) == (0.5, 1.0)
    assert shared.kv_bytes_per_token * 4 == whole.kv_bytes_per_token
    assert (whole.n_cached, shared.n_cached) == (4, 1)
    assert narrow.kv_bytes_per_token == whole.kv_bytes_per_token * (head + 8) // (2 * head)
    assert narrow.window_share == pytest.approx(8 / (head + 8))


def test_mtp_layers_in_a_file_of_their_own(tmp_path: Path, target: ModelFacts) -> None:
    gemma, sidecar = (
        read_facts(write(tmp_path / name))
        for name, write in (("gemma.gguf", write_gemma4), ("sidecar.gguf", write_gemma4_mtp))
    )
    dense, alone = (
        read_facts(write(tmp_path / name))
        for name, write in (("dense.gguf", write_dense_mtp), ("alone.gguf", write_mtp_alone))
    )
    for main, layers in ((gemma, sidecar), (dense, alone)):
        assert (kind_of(main), kind_of(layers)) == ("model", "mtp")
        assert check_pair(main, layers).draft_kind == "mtp"
        assert select_draft("mtp", main, layers) == (True, False, "")
        assert select_draft("auto", main, layers) == (True, False, "")
        assert head_problem(target, layers) == (
            f"{layers.name} cannot be used as a draft: it is an MTP layer for {main.architecture}; the architecture of "
            "target is another."
        )
        assert check_pair(layers).problems == (f"{layers.name} is an MTP layer, which drafts for a target.",)
    assert kind_of_file(tmp_path / "alone.gguf") == kind_of_file(tmp_path / "sidecar.gguf") == "mtp"
    assert draft_memory(gemma, sidecar, CONTEXT).kv == 0 < draft_memory(dense, alone, CONTEXT).kv
    two = replace(alone, n_mtp_layers=2)
    assert mtp_problem(two) == head_problem(dense, two) is not None


@pytest.mark.parametrize(
    ("write", "follows"),
    [
        (write_dflash, True),
        (write_dflash2, True),
        (write_dspark, True),
        (lambda path: write_dspark(path, d2t=[*range(2, N_VOCAB, 3)]), False),
        (write_eagle3, False),
        (write_gemma4_mtp, True),
        (write_mtp_alone, False),
    ],
)
def test_draft_layers_without_output_or_kv_cache_follow_their_target(
    tmp_path: Path, write: Callable[[Path], Path], follows: bool
) -> None:
    head = read_facts(write(tmp_path / "head.gguf")).head
    assert head is not None
    assert head.follows_target() is follows
    # Embeddings are in RAM, which every device can use, unless they are moved.
    assert head.follows_target([r"ffn_up=CUDA0", r"token_embd\.weight=CUDA0"]) is (follows or head.shares_embedding)
    assert not head.shares_embedding or EMBEDDING not in read_header(tmp_path / "head.gguf", tensors=True).tensors


def test_metadata_without_the_tensors_means_no_mtp_layer(tmp_path: Path) -> None:
    path = write_target(tmp_path / "stripped.gguf", llama__nextn_predict_layers=1)
    assert read_facts(path).n_mtp_layers == 0


@pytest.mark.parametrize("architecture", ["step35", "mimo2", "hy_v3"])
def test_several_mtp_layers_draft_together(tmp_path: Path, architecture: str) -> None:
    facts = read_facts(write_chain(tmp_path / "chain.gguf", architecture=architecture))
    assert (facts.n_mtp_layers, mtp_problem(facts), check_pair(facts).draft_kind) == (3, None, "mtp")
    # Two of five layers belong to the target.
    assert 3 * estimate_memory(facts, CONTEXT).kv == 2 * draft_memory(facts, None, CONTEXT).kv > 0


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"step35__nextn_predict_layers": 4}, "4 MTP layers of chain cannot draft: the file has only 3 of them."),
        ({"step35__nextn_predict_layers": 2**31}, "2,147,483,648 MTP layers of chain cannot draft: the file has only"),
        ({"lacks": "ffn_up"}, "3 MTP layers of chain cannot draft: one of them lacks tensors."),
        ({"architecture": "mimo2", "lacks": "attn_qkv"}, "3 MTP layers of chain cannot draft: one of them lacks"),
        ({"lacks": "nextn"}, "3 MTP layers of chain cannot draft: the file has only 2 of them."),
    ],
)
def test_damaged_mtp_layers_are_refused_in_one_sentence(tmp_path: Path, changes: dict[str, Any], fault: str) -> None:
    facts = read_facts(write_chain(tmp_path / "chain.gguf", **changes))
    assert str(mtp_problem(facts)).startswith(f"The {fault}")
    assert check_pair(facts).draft_kind is None


def test_an_unusable_draft_is_refused_in_one_sentence(target: ModelFacts, mtp: ModelFacts, eagle: ModelFacts) -> None:
    unknown = replace(mtp, architecture="newest")
    assert mtp_problem(unknown) == (
        "The MTP layer of mtp cannot draft: Tandem supports no MTP for the architecture newest."
    )
    assert mtp_problem(replace(mtp, n_mtp_layers=3)) == (
        "The 3 MTP layers of mtp cannot draft: llama.cpp computes only one for the architecture qwen35."
    )
    assert check_pair(unknown).draft_kind is None
    assert mtp_problem(unknown) in check_pair(unknown).warnings
    assert head_problem(replace(target, architecture="qwen2"), eagle) == (
        "eagle cannot be used as a draft: llama.cpp does not output the hidden rows of the architecture qwen2, "
        "which an EAGLE-3 head needs."
    )
    other = replace(target, vocab=replace(target.vocab, tokens=target.vocab.tokens[:-1]))
    assert "made for another target, with 258 tokens instead of 257" in str(head_problem(other, eagle))
    assert head_problem(target, eagle) is None


@pytest.mark.parametrize(
    ("write", "changes", "reason"),
    [
        (write_eagle3, {"eagle3__target_hidden_size": 64}, "and they have another width"),
        (write_eagle3, {"eagle3__target_layers": Array(I32, [1, 2])}, "it names 2 layers of its target, not 3"),
        (write_dflash, {"dflash__target_layers": Array(I32, [1, 9])}, "it reads layer 10, and target has only 4"),
        (write_dflash, {"tokenizer__ggml__mask_token_id": None}, "it names no mask token"),
        (write_dflash, {"dflash__block_size": 200}, "its blocks have 200 tokens"),
        (write_dspark, {"dflash__block_size": None}, "its header has no block_size"),
        (write_dspark, {"dflash__hyper_connection__count": 4}, "a DSpark block for DeepSeek-V4"),
        (write_dflash2, {"dflash__block_size": None}, "its header has no block_size"),
        (write_dflash2, {"dflash__conv_kernel_size": 0}, "its header has no conv_kernel_size"),
        (write_dflash2, {"dflash__conv_group_size": 7}, "not a multiple of conv_group_size, which is 7"),
        (write_dflash2, {"dflash__selector_rank": None}, "its header has no selector_rank"),
        (write_dflash2, {"dflash__selector_top_k": 6}, "its width is 32; 6 candidates a token need 42"),
        (write_dflash2, {"dflash__embedding_length_out": 64}, "its output has another width"),
    ],
)
def test_layers_that_do_not_match_their_target_are_refused(
    tmp_path: Path, target: ModelFacts, write: Callable[..., Path], changes: dict[str, Any], reason: str
) -> None:
    problem = str(head_problem(target, read_facts(write(tmp_path / "draft.gguf", **changes))))
    assert problem.startswith("draft cannot be used as a draft: ")
    assert reason in problem


def test_the_table_of_a_reduced_vocabulary_is_checked(tmp_path: Path) -> None:
    good = write_eagle3(tmp_path / "good.gguf", d2t=[3, 5, N_VOCAB - 1])
    assert d2t_fault(good, N_VOCAB) is None
    assert d2t_fault(good, N_VOCAB - 1) == "its table of tokens has the token 257, of 257"
    bad = write_eagle3(tmp_path / "bad.gguf", d2t=[3, -1])
    assert str(d2t_fault(bad, N_VOCAB)).startswith("its table of tokens has")
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(good.read_bytes()[:-40])
    assert "beyond the end" in str(d2t_fault(cut, N_VOCAB))
    assert d2t_fault(write_eagle3(tmp_path / "none.gguf"), N_VOCAB) is None


NO_BLOCK = "Running without this kind of draft: no DFlash block was found; eagle is an EAGLE-3 head."
NO_MODEL = "Running without this kind of draft: no draft model was found; the pair has no draft."
NO_LAYER = "Running without this draft. target has no MTP layer."


@pytest.mark.parametrize(
    ("wanted", "has_layer", "has_draft", "expected"),
    [
        ("auto", True, True, (True, False, "")),
        ("auto", True, False, (False, True, "")),
        ("auto", False, False, (False, False, "")),
        ("mtp", True, True, (False, True, "")),
        ("mtp", False, False, (False, False, NO_LAYER)),
        ("eagle3", True, True, (True, False, "")),
        ("dflash", True, True, (False, False, NO_BLOCK)),
        ("model", True, False, (False, False, NO_MODEL)),
        ("ngram", True, True, (False, False, "")),
        ("none", True, True, (False, False, "")),
    ],
)
def test_the_setting_chooses_the_draft_or_names_what_is_missing(
    target: ModelFacts,
    mtp: ModelFacts,
    eagle: ModelFacts,
    wanted: str,
    has_layer: bool,
    has_draft: bool,
    expected: tuple[bool, bool, str],
) -> None:
    assert select_draft(wanted, mtp if has_layer else target, eagle if has_draft else None) == expected


def test_the_mtp_layer_takes_memory_beside_the_target(mtp: ModelFacts, target: ModelFacts, eagle: ModelFacts) -> None:
    need = draft_memory(mtp, None, CONTEXT)
    assert need.weights == need.states == need.saved == 0
    # The target has one more layer with attention.
    assert 0 < need.kv == estimate_memory(mtp, CONTEXT).kv
    assert need.compute > 0
    assert need.host > estimate_memory(mtp, CONTEXT).host
    assert check_pair(mtp).memory_bytes(1024) > estimate_memory(mtp, CONTEXT).total
    assert draft_memory(target, eagle, CONTEXT).total > estimate_memory(eagle, CONTEXT).total


def test_mtp_layers_in_a_separate_file_have_the_kv_cache_of_one_layer(tmp_path: Path) -> None:
    dense, alone = (
        read_facts(write(tmp_path / f"{n}.gguf")) for n, write in enumerate((write_dense_mtp, write_mtp_alone))
    )
    assert (
        draft_memory(dense, alone, CONTEXT).kv
        == draft_memory(dense, None, CONTEXT).kv
        == estimate_memory(dense, ContextParams(512)).kv
    )
