"""A target with its draft: a draft that does not match is reported, and the chat works without it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.cli.options import read_pair
from app.conversations.message import Message, Role
from app.core.errors import Interrupted, ModelFileError, UsageError
from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.types import AutoDraft, DraftParams, SamplingParams
from app.hardware.devices import Device
from app.hardware.rpc import RpcServer
from app.llama.cancel import CancelFlag
from app.llama.draft_slot import beside_target
from app.llama.fitting import fit_pair
from app.llama.fitting.machine_room import memory_rooms
from app.llama.library import native
from app.llama.pair import NativePair
from app.settings.table import MAX_CONTEXT
from app.worker import loading
from app.worker.events import Finished
from app.worker.request import AnswerRequest
from app.worker.responder import answer
from tests.llama.gguf_files import I32, STRING, Array
from tests.llama.params import pair_params
from tests.llama.tiny_heads import write_dflash, write_target
from tests.llama.tiny_model import vocabulary

pytestmark = pytest.mark.native


def load(target: Path, draft: Path | None, **params: Any) -> NativePair:
    return NativePair(pair_params(target, draft, n_threads=1, **params), CancelFlag(), lambda *_: True)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Native objects created minus those freed."""
    alive = {"models": 0, "contexts": 0}

    def count(name: str, kind: str, change: int) -> None:
        call = getattr(native, name)

        def wrapped(*arguments: Any) -> Any:
            result = call(*arguments)
            alive[kind] += change if change < 0 or result else 0
            return result

        monkeypatch.setattr(native, name, wrapped)

    count("llama_model_load_from_file", "models", 1)
    count("llama_init_from_model", "contexts", 1)
    count("llama_model_free", "models", -1)
    count("llama_free", "contexts", -1)
    return alive


NO_NATIVE_OBJECTS = {"models": 0, "contexts": 0}


def test_the_demo_pair_loads_and_is_freed(demo_target: Path, demo_draft: Path, counted: dict[str, int]) -> None:
    shares: list[float] = []

    def watch(share: float) -> bool:
        shares.append(share)
        return True

    pair = NativePair(pair_params(demo_target, demo_draft, n_threads=1, n_ctx=512), CancelFlag(), watch)
    assert counted == {"models": 2, "contexts": 2}
    assert pair.notices == []
    assert pair.drafter is not None
    assert pair.info.n_ctx == 512
    assert pair.info.draft is not None
    assert pair.info.target.n_vocab == pair.info.draft.n_vocab == 49_152
    assert shares == sorted(shares)
    assert shares[-1] == 1.0
    n_target, n_draft = demo_target.stat().st_size, demo_draft.stat().st_size
    assert pytest.approx(n_target / (n_target + n_draft)) in shares, "the target is loaded, the draft is not"
    assert pair.model.piece(2) == b""
    assert pair.model.is_end(2)

    pair.close()
    pair.close()
    assert counted == NO_NATIVE_OBJECTS
    with pytest.raises(UsageError):
        pair.target.evaluate((1,), 1)


def test_a_dropped_draft_is_freed_and_the_target_answers(
    tiny: Callable[..., Path], tmp_path: Path, counted: dict[str, int]
) -> None:
    pair = load(tiny(), tiny(), memory_dir=tmp_path / "memory", n_ctx=256)
    pair.memory = PairStatistics(CostModel(CostProfile({1: 1e6}, draft_ns=1e5)))
    n_notices = len(pair.notices)
    pair.drop_draft()
    pair.drop_draft()

    assert [getattr(pair, name) for name in ("drafter", "memory")] == [None, None], "what was measured was of both"
    assert pair.info.draft is None
    assert pair.info.draft_failed
    assert len(pair.notices) == n_notices + 1
    assert "failed and is left out until the models are loaded again." in pair.notices[-1]
    assert counted == {"models": 1, "contexts": 1}
    asked = AnswerRequest((Message(Role.USER, "abc"),), SamplingParams(temperature=0), AutoDraft(), max_tokens=4)
    *_, finished = answer(pair, 1, asked)
    assert isinstance(finished, Finished)
    assert finished.stats.drafter == "none"
    pair.close()
    assert counted == NO_NATIVE_OBJECTS


@pytest.mark.parametrize("wrong", ["missing", "text"])
@pytest.mark.parametrize("which", ["target", "draft"])
def test_a_wrong_file_is_reported_before_anything_is_loaded(
    tiny: Callable[..., Path], tmp_path: Path, counted: dict[str, int], wrong: str, which: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    bad = tmp_path / "bad.gguf"
    if wrong == "text":
        bad.write_text("hello")
    right = tiny()
    monkeypatch.setattr(native, "llama_model_load_from_file", lambda *_: pytest.fail("something was loaded"))
    with pytest.raises(ModelFileError, match=r"bad\.gguf"):
        load(*((bad, right) if which == "target" else (right, bad)))
    assert counted == NO_NATIVE_OBJECTS


def test_draft_layers_are_no_target(tmp_path: Path, counted: dict[str, int]) -> None:
    with pytest.raises(ModelFileError, match=r"block\.gguf is a DFlash block, which drafts for a target"):
        load(write_dflash(tmp_path / "block.gguf"), None)
    assert counted == NO_NATIVE_OBJECTS


@pytest.mark.usefixtures("trial_loads")
def test_a_draft_that_is_damaged_is_reported_and_the_target_answers_alone(
    tiny: Callable[..., Path], counted: dict[str, int]
) -> None:
    cut, odd = tiny(), tiny(llama__block_count=100_000)
    cut.write_bytes(cut.read_bytes()[:300])
    for draft, why in ((cut, "is cut short: it ends inside its header."), (odd, "cannot be run: ")):
        pair = load(tiny(), draft)
        assert (pair.drafter, pair.info.draft) == (None, None)
        (notice,) = pair.notices
        assert notice.startswith(f"Running without this draft. {draft} {why}")
        assert counted == {"models": 1, "contexts": 1}
        pair.close()
    with pytest.raises(ModelFileError, match="is cut short"):
        load(cut, tiny())
    assert counted == NO_NATIVE_OBJECTS


@pytest.mark.parametrize("most", [0.0, 0.9], ids=["target", "draft"])
def test_a_cancelled_load_frees_everything(
    demo_target: Path, demo_draft: Path, counted: dict[str, int], most: float
) -> None:
    with pytest.raises(Interrupted):
        NativePair(pair_params(demo_target, demo_draft, 1, 256), CancelFlag(), lambda share: share <= most)
    assert counted == NO_NATIVE_OBJECTS


def test_another_vocabulary_is_reported_with_the_first_token_that_differs(
    tiny: Callable[..., Path], counted: dict[str, int]
) -> None:
    names = vocabulary()
    names[70] = "other"
    pair = load(tiny(), tiny(tokenizer__ggml__tokens=Array(STRING, names)))
    assert pair.drafter is None
    assert pair.info.draft is None
    (notice,) = pair.notices
    assert notice.startswith("Running without this draft. The vocabularies differ: token 70 is ")
    assert '"other" in the draft' in notice
    assert counted == {"models": 1, "contexts": 1}
    pair.target.evaluate((5,), 1)
    pair.close()
    assert counted == NO_NATIVE_OBJECTS


def test_a_draft_that_gets_no_context_is_reported(
    tiny: Callable[..., Path], counted: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    make = native.llama_init_from_model
    made: list[object] = []

    def only_one(*arguments: Any) -> Any:
        made.append(arguments)
        return make(*arguments) if len(made) == 1 else None

    monkeypatch.setattr(native, "llama_init_from_model", only_one)
    pair = load(tiny(), tiny())
    assert pair.drafter is None
    assert "could not create a context" in pair.notices[0]
    assert counted == {"models": 1, "contexts": 1}
    pair.close()


def test_without_a_chat_template_it_is_shown_what_is_used_and_its_marks_end_the_answer(
    tiny: Callable[..., Path],
) -> None:
    pair = load(tiny(tokenizer__chat_template=None), None)
    (notice,) = pair.notices
    assert notice.startswith("0 has no chat template, so Tandem uses ChatML")
    assert pair.prompts.build([Message(Role.USER, "a")]).stops == ("<|im_end|>", "<|im_start|>")
    pair.close()
    pair = load(tiny(), None)
    assert pair.prompts.build([Message(Role.USER, "a")]).stops == ()
    pair.close()


def test_a_draft_replaces_tokens_that_only_the_target_knows(tiny: Callable[..., Path]) -> None:
    """The target has control tokens behind the vocabulary that both share."""
    names, n_known = [*vocabulary(), "<|im_start|>", "<|im_end|>"], len(vocabulary())
    template = "{% for m in messages %}<|im_start|>{{ m.content }}<|im_end|>{% endfor %}"
    target = tiny(
        tokenizer__ggml__tokens=Array(STRING, names),
        tokenizer__ggml__token_type=Array(I32, [3, 3, *[1] * 256, 3, 3]),
        tokenizer__chat_template=template,
    )
    pair = load(target, tiny())
    request = AnswerRequest(
        (Message(Role.USER, "abc"),), SamplingParams(temperature=0), DraftParams(3, 0, 0.0), max_tokens=9
    )

    assert set(pair.prompts.build(request.messages).tokens) >= {n_known, n_known + 1}
    last = list(answer(pair, 1, request))[-1]
    pair.close()

    assert isinstance(last, Finished)
    assert last.lost is None
    assert last.stats.draft_n_model > 0


def test_more_context_than_the_model_was_trained_for_is_reported(tiny: Callable[..., Path]) -> None:
    pair = load(tiny(llama__context_length=512), tiny(), n_ctx=4096)
    assert pair.info.n_ctx == 512
    assert pair.notices == ["0 was trained for 512 tokens of context: 512 are used instead of 4,096."]
    pair.close()


def test_a_trained_context_beyond_31_bits_is_capped_before_anything_is_allocated(tiny: Callable[..., Path]) -> None:
    path = tiny(llama__context_length=4_000_000_000)
    pair = load(path, None, n_ctx=1024)
    assert (pair.info.n_ctx, pair.info.target.n_ctx_train) == (1024, MAX_CONTEXT)
    pair.close()


GB = 1_000_000_000
GPUS = tuple(Device(f"CUDA{i}", "gpu", "CUDA", 24 * GB, "A card", 24 * GB) for i in range(2))


@pytest.mark.parametrize(
    ("flags", "noticed"),
    [
        ({}, False),
        ({"draft_device": ("cpu",)}, True),
        ({"draft_gpu_layers": 0}, True),
        ({"device": ("CUDA1",), "draft_device": ("cuda1",)}, False),
        ({"device": ("CUDA1",)}, False),
        ({"device": ("cpu",), "draft_device": ("cpu",)}, False),
    ],
)
def test_layers_that_share_tensors_get_the_devices_of_their_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: dict[str, object], noticed: bool
) -> None:
    target, draft = write_target(tmp_path / "target.gguf"), write_dflash(tmp_path / "draft.gguf")
    loader = read_pair({"target": str(target), "draft": str(draft), **flags})
    asked = loading.asked_here(loader, lambda: memory_rooms(GPUS), use_tuned=False)
    monkeypatch.setattr(loading, "query_servers", lambda _: (RpcServer("host:1", (GB,)),))
    remote = loading.asked_here(loader, lambda: memory_rooms(GPUS), use_tuned=False)

    found, far = (fit_pair.fitting_of(one, memory_rooms(GPUS), certain=9.0).params for one in (asked, remote))
    assert found.draft_model.devices == found.model.devices
    assert far.draft_model.devices == far.model.devices
    notices: list[str] = []
    assert beside_target(found, "draft.gguf", notices).draft_model == found.draft_model
    told = ["draft.gguf shares tensors with its target, so it runs on the target's devices."]
    assert notices == (told if noticed else [])
