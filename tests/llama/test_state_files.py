"""Saved caches on disk: found again, checked, limited, and never wrong text."""

import os
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from app.conversations.message import Message, Role
from app.conversations.state_folder import remove_orphans, state_files
from app.engine import prompt_cache
from app.engine.cache import TokenCache
from app.engine.prompt_cache import FEWEST, PromptCache
from app.llama.context import Context
from app.llama.pair import NativePair
from app.llama.state_files import StateFiles
from app.llama.stored_measurements import states_identity
from app.worker.events import Finished
from app.worker.request import AnswerRequest
from app.worker.responder import answer
from tests.fakes import FakeModel, mixing
from tests.llama.conftest import NewContext, OpenModel, OpenPair
from tests.llama.generation import GREEDY
from tests.llama.params import pair_params
from tests.llama.tiny_hybrid import WINDOW, write_gemma3, write_mamba2, write_qwen35, write_windowed_lfm2
from tests.llama.tiny_model import write_model

A, B, C = (list(islice(cycle(part), 2 * FEWEST)) for part in ((1, 2, 3), (4, 5), (6, 7, 8, 9)))
_CAP = 1 << 20
_BUDGET = 150_000
"""Bytes of a few states of a tiny model."""


@pytest.fixture(autouse=True)
def states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the test's own folder of states; every state is stored, however quickly it was read."""
    folder = tmp_path / "states"
    for module in ("app.conversations.state_folder", "app.llama.state_files"):
        monkeypatch.setattr(f"{module}.states_dir", lambda: folder)
    monkeypatch.setattr(prompt_cache, "_STORED_S", 0.0)
    return folder


class Process:
    """A run of a program with a fake model or a context; its states are on disk."""

    def __init__(
        self,
        states: Path,
        cap_bytes: int = _CAP,
        *,
        folder: str = "pair",
        budget_bytes: int = 0,
        can_truncate: bool = True,
        context: Context | None = None,
    ) -> None:
        self.model = FakeModel(mixing(7), n_ctx=4096)
        self.model.can_truncate = can_truncate
        self.context = context
        self.cache = TokenCache(context or self.model)
        self.budget_bytes = budget_bytes
        self.prompts = PromptCache(self.cache, lambda: None, budget_bytes, StateFiles(states / folder, cap_bytes))

    def read(self, prompt: Sequence[int], name: str = "") -> int:
        """Read a prompt; return how many of its tokens needed no reading."""
        self.prompts.prepare(prompt, name)
        n_cached = self.cache.reuse(prompt)
        list(self.cache.read(prompt, lambda: False))
        return n_cached

    def end(self) -> None:
        self.prompts.close()


def stored(states: Path, name: str, prompt: Sequence[int]) -> Path:
    """Store the state of a conversation; return its file."""
    process = Process(states)
    process.read(prompt, name)
    process.end()
    return states / "pair" / f"{name}.state"


def test_a_conversation_is_not_read_again_after_a_restart(states: Path) -> None:
    file = stored(states, "1", A)
    assert Process(states).read([*A, 9], "1") == len(A)
    assert os.name == "nt" or file.stat().st_mode & 0o077 == 0


def test_states_are_written_after_the_answer(states: Path) -> None:
    process = Process(states)
    process.read(A, "1")
    process.read(B, "2")
    assert not list(states.rglob("*.*")), "writing would slow down the answer"
    process.prompts.write_soon()
    process.end()
    assert {path.stem for path in state_files()} == {"1", "2"}


def test_questions_about_one_document_share_a_state(states: Path) -> None:
    stored(states, "", [*A, 10, 11])
    assert Process(states).read([*A, 12, 13]) == len(A)
    stored(states, "", [*A, 12, 13])
    assert len(list(state_files())) == 1


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "garbage", "older"])
def test_a_damaged_state_is_deleted_and_read_again(damage: str, states: Path) -> None:
    file = stored(states, "1", A)
    data = bytearray(file.read_bytes())
    if damage == "flipped":
        data[data.index(b"\x01\x00\x00\x00\x02\x00\x00\x00")] ^= 1
    file.write_bytes(
        {
            "cut": bytes(data[:-1]),
            "flipped": bytes(data),
            "empty": b"",
            "garbage": b"\x00" * 4096,
            "older": b'{"format": 1}\n' + bytes(4096),
        }[damage]
    )
    assert Process(states).read([*A, 9], "1") == 0
    assert not file.exists()


def test_the_least_recently_used_state_is_deleted(states: Path) -> None:
    size = stored(states, "1", A).stat().st_size
    stored(states, "2", B)
    os.utime(states / "pair" / "1.state", (1, 1))
    process = Process(states, cap_bytes=2 * size)
    process.read(C, "3")
    process.end()
    assert {path.stem for path in state_files()} == {"2", "3"}


def test_a_state_larger_than_the_cap_is_not_stored(states: Path) -> None:
    process = Process(states, cap_bytes=100)
    process.read(A, "1")
    process.end()
    assert not list(state_files())


def test_a_full_disk_loses_nothing_but_the_state(monkeypatch: pytest.MonkeyPatch, states: Path) -> None:
    monkeypatch.setattr(np, "savez", _refuse)
    process = Process(states)
    process.read(A, "1")
    process.end()
    assert not list(states.rglob("*.*"))


def _refuse(*_: Any, **__: Any) -> str:
    raise OSError(28, "No space left on device")


def test_states_of_deleted_conversations_are_deleted(states: Path) -> None:
    for name, prompt in (("1", A), ("2", B), ("", C)):
        stored(states, name, prompt)
    remove_orphans({2})
    assert {path.stem.partition("-")[0] for path in state_files()} == {"2", "prompt"}


def write_attention(path: Path, seed: int) -> Path:
    return write_model(path, seed=seed, llama__attention__head_count=1)


def operate(n: int, start: Callable[[bool], Process], check: Callable[[Process, list[int]], None]) -> None:
    """Switch, edit, branch, quit, kill, damage files and change the model file at random; check each prompt."""
    random = Random(3)
    texts = {str(n): list(random.choices(range(2, 60), k=200)) for n in range(4)}
    is_other, process = False, start(False)
    for _ in range(n):
        name = random.choice(list(texts))
        match random.randrange(9):
            case 0:
                process.end()
                process = start(is_other)
            case 1:
                process = start(is_other)
            case 2 if files := list(state_files()):
                path = random.choice(files)
                data = bytearray(path.read_bytes())
                data[random.randrange(len(data))] ^= 1 << random.randrange(8)
                path.write_bytes(data[: random.choice([len(data), len(data) // 2])])
            case 3:
                texts[name] = [*texts[name][: random.randrange(100, 200)], *random.choices(range(2, 60), k=100)]
            case 4:
                process.end()
                is_other = not is_other
                process = start(is_other)
            case 5:
                texts[name] = [*texts[random.choice(list(texts))][:150], *random.choices(range(2, 60), k=60)]
            case _:
                texts[name] += random.choices(range(2, 60), k=random.randrange(1, 40))
        process.read(texts[name], name)
        assert process.prompts.n_bytes <= process.budget_bytes
        check(process, texts[name])
    process.end()


@pytest.mark.parametrize("can_truncate", [True, False], ids=["attention", "recurrent"])
def test_random_operations_never_change_the_cache(can_truncate: bool, states: Path) -> None:
    def start(is_other: bool) -> Process:
        return Process(states, folder=str(is_other), budget_bytes=500, can_truncate=can_truncate)

    def check(process: Process, prompt: Sequence[int]) -> None:
        assert process.model.cells == prompt

    operate(500, start, check)


@pytest.mark.native
@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
@pytest.mark.parametrize(
    ("write", "swa_full"),
    [(write_attention, True), (write_gemma3, True), (write_gemma3, False), (write_qwen35, True), (write_mamba2, True)],
)
def test_random_operations_never_change_the_text(
    open_model: OpenModel,
    write: Callable[[Path, int], Path],
    swa_full: bool,
    kv_type: str,
    new_context: NewContext,
    states: Path,
    tmp_path: Path,
) -> None:
    models = [open_model(write(tmp_path / f"{seed}.gguf", seed)) for seed in range(2)]
    fresh = [TokenCache(new_context(1024, of=model, kv_type=kv_type)) for model in models]

    def start(is_other: bool) -> Process:
        # A sliding-window cache has 256 cells if batches have 32 tokens.
        context = new_context(1024, of=models[is_other], kv_type=kv_type, n_batch=32, swa_full=swa_full)
        folder = states_identity(pair_params(models[is_other].path, None, settings={"model.kv_type": kv_type}))
        return Process(states, folder=folder, budget_bytes=_BUDGET, context=context)

    def check(process: Process, prompt: Sequence[int]) -> None:
        assert process.context is not None
        expected = fresh[models.index(process.context.model)]
        expected.rollback(0)
        assert_same_text(process.cache, expected, prompt)

    operate(60, start, check)


@pytest.mark.native
@pytest.mark.parametrize("kv_type", ["f16", "q8_0"])
def test_a_cache_of_the_window_alone_gives_the_text_of_a_fresh_read(
    open_model: OpenModel, kv_type: str, new_context: NewContext, tmp_path: Path
) -> None:
    model, random = open_model(write_gemma3(tmp_path / "model.gguf")), Random(5)
    cache = TokenCache(new_context(2048, of=model, kv_type=kv_type, n_batch=64, swa_full=False))
    fresh = TokenCache(new_context(2048, of=model, kv_type=kv_type))
    prompt, saved, n_cached = random.choices(range(2, 250), k=900), None, []
    for step in range(40):
        match random.randrange(5):
            case 0 if step:
                prompt = [*prompt[: random.randrange(1, len(prompt))], *random.choices(range(2, 250), k=99)]
            case 1:
                # Rejected drafts, and tokens read separately and rolled back.
                n = random.randrange(1, 30)
                for size in (n, 1, 1, 1):
                    cache.evaluate(random.choices(range(2, 250), k=size), min(size, 8))
                    cache.rollback(len(cache) - size + random.randrange(2) * (size > 1))
            case 2:
                saved = cache.save()
            case 3 if saved is not None:
                cache.restore(saved)
            case _:
                prompt = [*prompt, *random.choices(range(2, 250), k=random.randrange(1, 200))][:1900]
        n_cached.append(cache.reuse(prompt))
        fresh.rollback(0)
        for one in (cache, fresh):
            list(one.read(prompt, lambda: False))
        # Without a token of the window they differ by at least 0.2.
        np.testing.assert_allclose(cache.logits(0), fresh.logits(0), atol=0.05)
    assert n_cached.count(0) < 12, "most prompts continue what is cached, or a kept state"


def greedy(pair: NativePair, prompt: str, conversation: str) -> Finished:
    request = AnswerRequest((Message(Role.USER, prompt),), GREEDY, max_tokens=12, conversation=conversation)
    *_, last = answer(pair, 1, request)
    assert isinstance(last, Finished)
    return last


@pytest.mark.native
def test_greedy_text_after_a_restart_equals_the_text_before_it(
    open_pair: OpenPair, demo_target: Path, demo_draft: Path, tmp_path: Path
) -> None:
    prompts = {"1": "The sea is calm today. " * 26 + "Describe it.", "2": "Red, green, blue. " * 30 + "Say it again."}
    params = pair_params(
        demo_target,
        demo_draft,
        n_ctx=1024,
        memory_dir=tmp_path,
        settings={"model.kv_type": "q8_0", "draft.kv_type": "q8_0"},
    )
    pair = open_pair(params)
    for name, prompt in prompts.items():
        greedy(pair, prompt, name)
    before = [greedy(pair, prompt, name) for name, prompt in prompts.items()]
    pair.close()
    pair = open_pair(params)
    restored = [greedy(pair, prompt, name) for name, prompt in prompts.items()]
    assert [finished.stats.prompt_n for finished in (*before, *restored)] == [1] * 4
    assert [finished.text for finished in restored] == [finished.text for finished in before]


def test_a_folder_that_cannot_be_read_has_no_states(monkeypatch: pytest.MonkeyPatch, states: Path) -> None:
    stored(states, "1", A)
    monkeypatch.setattr(Path, "glob", lambda *_: _refuse())
    assert not state_files()
    remove_orphans(())
    assert Process(states).read([*A, 9], "1") == 0


@pytest.mark.native
@pytest.mark.parametrize(
    ("write", "reused"), [(write_gemma3, (0, 160, 0, 60, 0)), (write_windowed_lfm2, (0, 160, 0, 0, 0))]
)
def test_a_restored_sliding_window_can_be_cut_anywhere(
    open_model: OpenModel,
    write: Callable[[Path], Path],
    reused: tuple[int, ...],
    new_context: NewContext,
    tmp_path: Path,
) -> None:
    model = open_model(write(tmp_path / "model.gguf"))
    cache = TokenCache(new_context(of=model))
    first = [2 + 37 * i % 250 for i in range(5 * WINDOW)]
    list(cache.read(first, lambda: False))
    saved = cache.save()
    assert saved is not None
    # The third and the fifth prompt find new tokens in the cells before the window.
    steps = ((0, 9, False), (len(first), 40, True), (20, 9, False), (60, 99, True), (9, 9, False))
    for (n_shared, n_more, restored), n_reused in zip(steps, reused, strict=True):
        prompt = [*first[:n_shared], *(3 + 41 * i % 250 for i in range(n_more))]
        if restored:
            cache.restore(saved)
        assert cache.reuse(prompt) == n_reused
        assert_same_text(cache, TokenCache(new_context(of=model)), prompt)


def assert_same_text(cache: TokenCache, fresh: TokenCache, prompt: Sequence[int]) -> None:
    """Check that greedy text equals that of a fresh read; rounding may decide a near-tie."""
    for one in (cache, fresh):
        list(one.read(prompt, lambda: False))
    for _ in range(4):
        row = fresh.logits(0)
        best = int(row.argmax())
        assert row[int(cache.logits(0).argmax())] >= row[best] - 0.05
        for one in (cache, fresh):
            one.evaluate([best], 1)
