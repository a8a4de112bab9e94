"""Pictures in a prompt: the same text with and without drafts, nothing encoded twice, and correct caches."""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from app.conversations.message import Message, Role
from app.core.errors import ContextOverflowError, DecodeError, Interrupted, ModelLoadError, PictureError
from app.core.pictures import MARK, PictureData
from app.engine import prompt_cache
from app.engine.cache import TokenCache
from app.engine.draft_source import DraftSource
from app.engine.events import DraftLost, PromptProgress, Step
from app.engine.fixed import FixedDrafting, NoDrafting
from app.engine.prompt_cache import PromptCache
from app.engine.types import AutoDraft, DraftParams, SamplingParams
from app.llama import draft_slot, projector, projector_loading
from app.llama.library import native
from app.llama.pair import NativePair
from app.llama.picture_chunks import mtmd
from app.llama.state_files import StateFiles
from app.settings.model_params import ModelParams
from app.worker import responder
from app.worker.events import Finished
from app.worker.jobs import prompt_text
from app.worker.request import AnswerRequest
from tests.llama import tiny_heads
from tests.llama.conftest import OpenPair
from tests.llama.generation import GREEDY, events_of
from tests.llama.tiny_projector import KINDS, picture, write_projector
from tests.sampled_distribution import check_sampled

pytestmark = pytest.mark.native
FIXED = DraftParams(5, 0, 0.0)
N_TOKENS = 40
EVERY_TURN = "{% for message in messages %}<|start|>{{ message.content }}<|end|>{% endfor %}"
QUESTION = f"one two three {MARK} one two three"
DRAFTS: dict[str, tuple[str, Callable[..., Path] | None]] = {
    "causal-model": ("causal", KINDS["causal"].write_target),
    "causal-ngram": ("causal", None),
    "causal-eagle3": ("causal", tiny_heads.write_eagle3),
    "causal-dflash": ("causal", tiny_heads.write_dflash),
    "slices-model": ("slices", KINDS["slices"].write_target),
    "non-causal-model": ("non-causal", KINDS["causal"].write_target),
    "non-causal-eagle3": ("non-causal", tiny_heads.write_eagle3),
    "m-rope-model": ("m-rope", KINDS["m-rope"].write_target),
    "m-rope-ngram": ("m-rope", None),
    "hybrid-mtp": ("hybrid", None),
    "hybrid-model": ("hybrid", tiny_heads.write_target),
    "gemma4-mtp": ("gemma4", tiny_heads.write_gemma4_mtp),
}
"""The kind of target and the file of a draft; without one, the MTP layer of a hybrid or n-grams."""
NewPair = Callable[..., NativePair]


@pytest.fixture
def new_pair(tmp_path: Path, open_pair: OpenPair, monkeypatch: pytest.MonkeyPatch) -> NewPair:
    """Return a function that loads a target of a kind with its projector, and perhaps a draft."""
    # The files are intact, and a child process for each would take most of the time.
    monkeypatch.setattr(draft_slot, "try_file", lambda *_, **__: None)
    monkeypatch.setattr(projector_loading, "projector_bytes", lambda *_: (0, 0))

    def make(
        name: str,
        write_draft: Callable[..., Path] | None = None,
        *,
        mtp: bool = False,
        n_ctx: int = 1024,
        sees: bool = True,
    ) -> NativePair:
        kind, target, encoder = KINDS[name], tmp_path / f"{name}.gguf", tmp_path / f"mmproj-{name}.gguf"
        if not target.is_file():
            kind.write_target(target, tokenizer__chat_template=EVERY_TURN)
            write_projector(encoder, kind.projector)
        draft = write_draft(tmp_path / "draft.gguf") if write_draft is not None else None
        model = ModelParams(load_mtp=mtp)
        settings = {"model.kv_type": "f32", "draft.kv_type": "f32"}
        pair = open_pair(
            target, draft, n_ctx=n_ctx, model=model, settings=settings, projector=encoder if sees else None
        )
        assert not pair.notices
        return pair

    return make


@pytest.fixture
def encodes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the list of the rows of each slice that was encoded."""
    done: list[int] = []
    encode = mtmd.mtmd_encode_chunk

    def counted(handle: Any, chunk: Any) -> int:
        done.append(mtmd.mtmd_input_chunk_get_n_tokens(chunk))
        return int(encode(handle, chunk))

    monkeypatch.setattr(mtmd, "mtmd_encode_chunk", counted)
    return done


@dataclass(frozen=True)
class Answer:
    tokens: list[int]
    n_cached: int
    steps: list[Step]
    progress: list[PromptProgress]


def prompt_of(pair: NativePair, *texts: str, pictures: Sequence[PictureData] = ()) -> tuple[int, ...]:
    roles = (Role.USER, Role.ASSISTANT)
    first, *more = (Message(roles[i % 2], text) for i, text in enumerate(texts))
    return pair.prompts.build([replace(first, pictures=tuple(pictures)), *more]).tokens


def answer(pair: NativePair, prompt: Sequence[int], drafter: DraftSource | None = None, n: int = N_TOKENS) -> Answer:
    if pair.drafter is not None:
        pair.drafter.prepare(prompt, drafts=drafter is not None)
    strategy = FixedDrafting(drafter, FIXED) if drafter is not None else NoDrafting()
    events, generator = events_of(pair, strategy, prompt, n)
    assert not [event for event in events if isinstance(event, DraftLost)]
    steps = [event for event in events if isinstance(event, Step)]
    progress = [event for event in events if isinstance(event, PromptProgress)]
    return Answer([token for step in steps for token in step.tokens], generator.stats.cache_n, steps, progress)


def a_picture(name: str, seed: int = 0) -> PictureData:
    return picture(*KINDS[name].size, seed)


@pytest.mark.parametrize("draft", DRAFTS)
def test_greedy_text_after_a_picture_equals_no_draft(draft: str, new_pair: NewPair) -> None:
    name, write_draft = DRAFTS[draft]
    pair = new_pair(name, write_draft, mtp=draft == "hybrid-mtp")
    prompt = prompt_of(pair, QUESTION, pictures=[a_picture(name)])
    drafter = pair.drafter or pair.free_sources[0]
    plain = answer(pair, prompt)
    pair.target.rollback(0)

    drafted = answer(pair, prompt, drafter)

    assert drafted.tokens == plain.tokens
    assert sum(len(step.draft) for step in drafted.steps)
    # Another picture in its place must not be answered from the first picture's cache.
    other = prompt_of(pair, QUESTION, pictures=[a_picture(name, seed=1)])
    assert answer(pair, prompt, drafter).tokens == plain.tokens
    changed = answer(pair, other, drafter)
    assert changed.n_cached < len(other) - len([token for token in other if token < 0])
    pair.target.rollback(0)
    assert changed.tokens == answer(pair, other).tokens


def logits_after(pair: NativePair, prompt: Sequence[int]) -> Any:
    pair.target.reuse(prompt)
    list(pair.target.read(prompt, lambda: False))
    return pair.target.logits(0).copy()


@pytest.mark.parametrize("name", KINDS)
def test_logits_equal_those_of_libmtmds_own_decoding(name: str, new_pair: NewPair) -> None:
    pair = new_pair(name)
    question, shown = f"{QUESTION} four {MARK} five", [a_picture(name), a_picture(name, seed=2)]
    prompt = prompt_of(pair, question, pictures=shown)
    logits = logits_after(pair, prompt)
    assert pair.pictures is not None
    handle, context = pair.pictures._handle, pair._context
    pair.target.rollback(0)

    chunks = mtmd.mtmd_input_chunks_init()
    text = b"<|start|>" + question.encode().replace(MARK.encode(), b"<__media__>") + b"<|end|>"
    options = mtmd.mtmd_helper_init_opt_default()
    buffers = [(ctypes.c_uint8 * len(each.data)).from_buffer_copy(each.data) for each in shown]
    first, second = (mtmd.mtmd_helper_bitmap_init_from_buf(handle, each, len(each), False, options) for each in buffers)
    whole = mtmd.mtmd_input_text(text, len(text), False, True)
    assert not mtmd.mtmd_tokenize(handle, chunks, whole, (mtmd.mtmd_bitmap_p_ctypes * 2)(first, second), 2)
    mtmd.mtmd_bitmap_free(first)
    mtmd.mtmd_bitmap_free(second)
    assert mtmd.mtmd_helper_get_n_tokens(chunks) == len(prompt)
    end = native.llama_pos()
    assert not mtmd.mtmd_helper_eval_chunks(handle, context._handle, chunks, 0, 0, context.n_batch, True, end)
    mtmd.mtmd_input_chunks_free(chunks)
    context.n_past, context._outputs = len(prompt), (len(prompt) - 1, len(prompt))
    last = native.llama_get_logits_ith(context._handle, -1)
    np.testing.assert_allclose(logits, np.ctypeslib.as_array(last, logits.shape), atol=1e-4)

    context.clear()
    other = logits_after(pair, prompt_of(pair, question, pictures=[a_picture(name, seed=1), shown[1]]))
    assert np.abs(other - logits).max() > 1e-3


@pytest.mark.parametrize("name", KINDS)
def test_another_question_about_a_picture_encodes_and_reads_it_no_more(
    name: str, new_pair: NewPair, encodes: list[int]
) -> None:
    pair = new_pair(name)
    shown, long = a_picture(name), "four five six seven eight nine ten eleven"
    first = prompt_of(pair, f"one {MARK} {long}", pictures=[shown])
    answer(pair, first)
    n_encodes = len(encodes)
    edited = prompt_of(pair, f"one {MARK} {long[::-1]}", pictures=[shown])
    assert answer(pair, edited, n=4).n_cached > max(at for at, token in enumerate(edited) if token < 0)
    further = prompt_of(pair, f"one {MARK} {long[::-1]}", "six", "seven", pictures=[shown])
    assert answer(pair, further, n=4).n_cached >= len(edited) - 17
    # The text before it changed, so it is read again, but its rows are reused.
    again = answer(pair, prompt_of(pair, f"two {MARK} {long}", pictures=[shown]))
    assert again.n_cached < 9
    assert len(encodes) == n_encodes
    pair.target.rollback(0)
    assert answer(pair, prompt_of(pair, f"two {MARK} {long}", pictures=[shown])).tokens == again.tokens


@pytest.mark.parametrize(("name", "mtp"), [("m-rope", False), ("hybrid", True)])
def test_a_picture_of_several_batches(name: str, mtp: bool, new_pair: NewPair) -> None:
    pair = new_pair(name, KINDS[name].write_target if not mtp else None, mtp=mtp)
    prompt = prompt_of(pair, QUESTION, pictures=[picture(900, 700)])
    assert len([token for token in prompt if token < 0]) > pair.target.n_batch
    plain = answer(pair, prompt)
    pair.target.rollback(0)
    assert answer(pair, prompt, pair.drafter).tokens == plain.tokens


def test_two_pictures_side_by_side_are_two(new_pair: NewPair, encodes: list[int]) -> None:
    pair = new_pair("causal")
    a, b = a_picture("causal"), a_picture("causal", seed=1)
    found = answer(pair, prompt_of(pair, f"{MARK}{MARK}{MARK}", pictures=[a, b]), n=1)
    assert encodes == [16, 16]
    assert [event.picture for event in found.progress if event.picture] == [(1, 2), (2, 2)]
    assert "reading picture 2 of 2" in {event.line() for event in found.progress}
    # A mark without a picture is dropped; the first picture stays in the cache.
    assert answer(pair, prompt_of(pair, f"{MARK}{MARK}", pictures=[a, a]), n=1).n_cached == 17
    assert encodes == [16, 16]


def test_a_prompt_may_end_with_a_picture(new_pair: NewPair) -> None:
    pair = new_pair("m-rope")
    prompt = prompt_of(pair, QUESTION, pictures=[a_picture("m-rope")])
    prompt = prompt[: max(at for at, token in enumerate(prompt) if token < 0) + 1]
    first = answer(pair, prompt)
    assert answer(pair, prompt).tokens == first.tokens


@pytest.mark.parametrize(("name", "mtp"), [("m-rope", False), ("hybrid", False), ("hybrid", True)])
def test_a_conversation_with_a_picture_is_restored_from_memory_and_disk(
    name: str, mtp: bool, new_pair: NewPair, encodes: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("app.conversations.state_folder", "app.llama.state_files"):
        monkeypatch.setattr(f"{module}.states_dir", lambda: tmp_path / "states")
    monkeypatch.setattr(prompt_cache, "_STORED_S", 0.0)
    before = "some text that is long enough to be saved. " * 4
    first = Message(Role.USER, f"{before}{MARK} what is it?", pictures=(a_picture(name),))

    def load() -> tuple[NativePair, PromptCache, tuple[int, ...]]:
        pair = new_pair(name, mtp=mtp)
        return (
            pair,
            PromptCache(pair.target, lambda: None, 1 << 30, StateFiles(tmp_path / "states/pair", 1 << 30)),
            build(pair),
        )

    def build(pair: NativePair, *more: Message) -> tuple[int, ...]:
        return pair.prompts.build([first, *more]).tokens

    def turn(pair: NativePair, states: PromptCache, prompt: Sequence[int], conversation: str) -> Answer:
        states.prepare(prompt, conversation)
        return answer(pair, prompt, pair.drafter if mtp else None, 8)

    pair, states, prompt = load()
    other = prompt_of(pair, f"{before[::-1]}{MARK}", pictures=[a_picture(name, seed=1)])
    expected = turn(pair, states, prompt, "a").tokens
    longer = build(pair, Message(Role.ASSISTANT, "x"), Message(Role.USER, "and?"))
    second = turn(pair, states, longer, "a").tokens
    turn(pair, states, other, "b")
    n_encodes = len(encodes)
    # The other conversation took the cache.
    back = turn(pair, states, longer, "a")
    assert (back.tokens, len(encodes)) == (second, n_encodes)
    assert back.n_cached >= len(prompt) - 17
    states.close()

    pair, states, prompt = load()
    longer = build(pair, Message(Role.ASSISTANT, "x"), Message(Role.USER, "and?"))
    back = turn(pair, states, longer, "a")
    assert (back.tokens, len(encodes)) == (second, n_encodes)
    assert back.n_cached >= len(prompt) - 17
    assert turn(pair, states, prompt, "a").tokens == expected
    states.close()


def test_a_saved_picture_leaves_the_text_before_it_to_a_draft_model_without_a_projector(new_pair: NewPair) -> None:
    def with_draft(*, sees: bool) -> tuple[NativePair, TokenCache]:
        pair = new_pair("m-rope", KINDS["m-rope"].write_target, sees=sees)
        assert pair.drafter is not None
        assert pair.drafter.cache is not None
        return pair, pair.drafter.cache

    pair, cache = with_draft(sees=True)
    prompt = prompt_of(pair, QUESTION, pictures=[a_picture("m-rope")])
    list(cache.process(prompt, lambda: False))
    saved = cache.save()
    assert saved is not None
    _, cache = with_draft(sees=False)
    cache.restore(saved)
    assert tuple(cache.tokens) == prompt


class Stopping(projector.Projector):
    """Stop at the chosen moment: while a picture is encoded, or before its rows are decoded."""

    stops = "encode"

    def _goes_on(self, *arguments: Any) -> bool:
        if self.stops == "encode":
            self._cancelled.set()  # type: ignore[attr-defined]
        return super()._goes_on(*arguments)

    def encoded(self, ids: Sequence[int]) -> Any:
        found = super().encoded(ids)
        if self.stops == "decode":
            self._cancelled.set()  # type: ignore[attr-defined]
        return found


@pytest.mark.parametrize("stops", ["encode", "decode"])
@pytest.mark.parametrize("name", ["m-rope", "hybrid"])
def test_a_stop_leaves_nothing_of_a_picture(
    name: str, stops: str, new_pair: NewPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = new_pair(name)
    expected = answer(whole, prompt_of(whole, QUESTION, pictures=[picture(512, 512)])).tokens
    monkeypatch.setattr(projector, "Projector", Stopping)
    monkeypatch.setattr(projector, "_NODES_PER_CHECK", 2)
    pair = new_pair(name)
    prompt = prompt_of(pair, QUESTION, pictures=[picture(512, 512)])
    assert isinstance(pair.pictures, Stopping)
    pair.pictures.stops = stops
    with pytest.raises(Interrupted):
        list(pair.target.read(prompt, lambda: False))
    n_before = next(at for at, token in enumerate(prompt) if token < 0)
    assert len(pair.target) == pair._context.n_past in (0, n_before)
    pair.pictures._cancelled.clear()  # type: ignore[attr-defined]
    pair.pictures.stops = "never"
    assert answer(pair, prompt).tokens == expected


def test_a_failure_in_a_later_batch_leaves_nothing_of_a_picture(
    new_pair: NewPair, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = new_pair("m-rope")
    prompt = prompt_of(pair, QUESTION, pictures=[picture(900, 700)])
    expected = answer(pair, prompt).tokens
    pair.target.rollback(0)
    n_left = 3

    def fails(handle: Any, batch: Any) -> int:
        nonlocal n_left
        n_left -= 1
        code = int(decode(handle, batch))
        return code if n_left else -2

    decode = native.llama_decode
    monkeypatch.setattr(native, "llama_decode", fails)
    with pytest.raises(DecodeError):
        list(pair.target.read(prompt, lambda: False))
    assert len(pair.target) == next(at for at, token in enumerate(prompt) if token < 0)
    assert answer(pair, prompt).tokens == expected


def test_failed_text_after_a_picture_leaves_the_picture(new_pair: NewPair, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = new_pair("m-rope")
    prompt = prompt_of(pair, QUESTION, pictures=[a_picture("m-rope")])
    expected = answer(pair, prompt).tokens
    end = max(at for at, token in enumerate(prompt) if token < 0) + 1
    pair.target.rollback(end)
    monkeypatch.setattr(native, "llama_decode", lambda *_: -2)
    with pytest.raises(DecodeError):
        pair.target.evaluate(prompt[end:], 1)
    monkeypatch.undo()
    assert len(pair.target) == end
    assert answer(pair, prompt).tokens == expected


def test_sampled_text_after_a_picture_has_one_distribution_with_and_without_drafts(new_pair: NewPair) -> None:
    pair = new_pair("m-rope", partial(KINDS["m-rope"].write_target, seed=1))
    shown = picture(56, 56)
    message = Message(Role.USER, MARK, pictures=(shown,))
    sampling = SamplingParams(temperature=1.0, top_k=4, top_p=1.0, min_p=0.0)
    request = AnswerRequest((message,), sampling, None, 3)
    found = check_sampled(pair, request)
    assert found.drafted
    assert found.degrees_of_freedom > 8
    assert found.holds, found


# Files and pictures that cannot be used


def load_projector(pair: NativePair, path: Path, n_batch: int = 512) -> projector.Projector:
    return projector.Projector(
        path, pair.model.handle, pair.model.name, projector.ProjectorParams(None, 1, "auto", n_batch)
    )


def test_a_projector_of_another_target_is_refused(new_pair: NewPair, tmp_path: Path) -> None:
    pair = new_pair("causal")
    wide = write_projector(tmp_path / "wide.gguf", "llava", 64)
    with pytest.raises(ModelLoadError, match=r"wide\.gguf cannot read pictures for .*n_embd"):
        load_projector(pair, wide)
    sliced = write_projector(tmp_path / "sliced.gguf", "idefics3")
    with pytest.raises(ModelLoadError, match="lacks the marks around a picture"):
        load_projector(pair, sliced)
    with pytest.raises(ModelLoadError, match=r"makes \d+ rows of a picture, and one batch here has 8"):
        load_projector(pair, write_projector(tmp_path / "gemma.gguf", "gemma3"), n_batch=8)


def test_pictures_of_gemma_4_fit_one_batch(new_pair: NewPair) -> None:
    pair = new_pair("gemma4")
    assert pair.pictures is not None
    assert pair.info.projector == "mmproj-gemma4.gguf"
    assert pair.pictures.n_picture_tokens(2048, 2048) <= pair.target.n_batch + 16


def test_a_damaged_picture_leaves_the_cache_as_it_is(new_pair: NewPair) -> None:
    pair = new_pair("causal")
    shown = a_picture("causal")
    for data in (shown.data[:60], b"%PDF-1.7", shown.data.replace(b"IDAT", b"XXXX")):
        broken = replace(shown, data=data, digest=str(len(data)), name="cat.png")
        prompt = prompt_of(pair, QUESTION, pictures=[broken])
        with pytest.raises(PictureError, match=r"cat\.png is (damaged or incomplete|in a format)"):
            answer(pair, prompt)
        assert pair._context.n_past == len(pair.target)


def test_rows_that_are_not_numbers_are_refused(new_pair: NewPair, tmp_path: Path) -> None:
    pair = new_pair("causal")
    path = write_projector(tmp_path / "nan.gguf", "llava")
    data = path.read_bytes()
    path.write_bytes(data[:-4000] + b"\xff" * 4000)
    pair.prompts._encoder = broken = load_projector(pair, path)
    pair._context.encode_picture = broken.encoded
    prompt = prompt_of(pair, QUESTION, pictures=[a_picture("causal")])
    with pytest.raises(DecodeError, match=r"nan\.gguf computed values that are not numbers"):
        answer(pair, prompt)
    broken.close()


def test_a_conversation_that_is_too_long_counts_pictures(new_pair: NewPair) -> None:
    pair = new_pair("m-rope", n_ctx=256)
    small, large = picture(280, 140), picture(560, 560)

    def conversation(first: PictureData, last: PictureData, text: str = "b") -> AnswerRequest:
        before = Message(Role.USER, MARK, pictures=(first,))
        asked = Message(Role.USER, f"{MARK}{text}", pictures=(last,))
        return AnswerRequest((before, Message(Role.ASSISTANT, "a"), asked))

    with pytest.raises(ContextOverflowError, match=r"The prompt has 4\d\d tokens") as error:
        list(responder.answer(pair, 1, conversation(small, large)))
    assert error.value.hint.startswith("Use smaller or fewer pictures")
    with pytest.raises(ContextOverflowError, match="The prompt has") as error:
        list(responder.answer(pair, 1, conversation(small, small, "long " * 100)))
    assert error.value.hint.startswith("Shorten it")
    with pytest.raises(ContextOverflowError, match="the conversation has"):
        list(responder.answer(pair, 1, conversation(large, small)))


@pytest.mark.parametrize("text", [MARK, f"{MARK} and a question after it, which is longer than the probes"])
def test_an_answer_reports_the_picture_that_is_read(text: str, new_pair: NewPair) -> None:
    pair = new_pair("causal", KINDS["causal"].write_target)
    question = Message(Role.USER, text, pictures=(a_picture("causal"),))
    request = AnswerRequest((question,), GREEDY, AutoDraft(), 8)
    events = list(responder.answer(pair, 1, request))
    assert isinstance(events[-1], Finished)
    assert events[-1].stats.predicted_n == 8
    assert {event.picture for event in events if isinstance(event, PromptProgress)} == {None, (1, 1)}
    assert prompt_text(request, pair) == text.replace(MARK, "<__media__>").join(("<|start|>", "<|end|>"))
