"""Check ownership and callbacks of native handles; each fault here crashes llama.cpp."""

import gc
from collections.abc import Callable
from typing import Any

import pytest

from app.core.errors import UsageError
from app.engine.types import SamplingParams
from app.llama.cancel import CancelFlag, strlen_callback
from app.llama.checks import open_model_file
from app.llama.context import Context
from app.llama.library import native
from app.llama.model import Model
from app.llama.sampler import SamplerChain
from app.settings.model_params import ContextParams

pytestmark = pytest.mark.native


def _watch_free(monkeypatch: pytest.MonkeyPatch, name: str, told: Callable[[str], object]) -> None:
    free = getattr(native, name)

    def watch(handle: Any) -> None:
        told(name)
        free(handle)

    monkeypatch.setattr(native, name, watch)


def uses(context: Context, chain: SamplerChain) -> list[Callable[[], object]]:
    return [
        lambda: context.decode((1,), 1),
        lambda: context.logits(0),
        lambda: context.truncate(0),
        context.clear,
        lambda: chain.sample(0),
    ]


def test_a_closed_context_answers_with_an_error(context: Context) -> None:
    context.decode((1, 2), 1)
    chain = SamplerChain(context, SamplingParams(seed=1))
    context.close()
    context.close()
    for use in uses(context, chain):
        with pytest.raises(UsageError, match="was closed"):
            use()
    chain.close()
    chain.close()
    with pytest.raises(UsageError, match="sampler was closed"):
        chain.begin((1,))


def test_a_model_frees_its_contexts_first_and_then_answers_with_sentences(
    demo_draft: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    _watch_free(monkeypatch, "llama_free", order.append)
    _watch_free(monkeypatch, "llama_model_free", order.append)
    model = Model(open_model_file(demo_draft))
    contexts = [Context(model, ContextParams(64)) for _ in range(2)]
    # A context without a reference.
    Context(model, ContextParams(64))
    contexts[0].close()
    gc.collect()
    assert order == ["llama_free"]

    model.close()
    model.close()

    assert order == ["llama_free"] * 3 + ["llama_model_free"]
    for use in (
        lambda: model.tokenize("hello", parse_special=False),
        lambda: model.is_end(1),
        lambda: model.text_of(1),
        lambda: model.piece(1),
        lambda: model.vocab,
        lambda: model.info,
        lambda: model.control_tokens,
        lambda: Context(model, ContextParams(64)),
    ):
        with pytest.raises(UsageError, match="not loaded any more"):
            use()
    for context in contexts:
        context.close()


# Callbacks


@pytest.mark.parametrize("at", [0.0, 1.0])
def test_what_a_progress_callback_raises_is_raised_by_the_load(demo_draft: Any, at: float) -> None:
    def fail(share: float) -> bool:
        if share >= at:
            raise RuntimeError("the screen is gone")
        return True

    with pytest.raises(RuntimeError, match="the screen is gone"):
        Model(open_model_file(demo_draft), on_progress=fail)


def test_strlen_is_found_here() -> None:
    callback = strlen_callback(native.ggml_abort_callback)
    assert callback is not None
    flag = CancelFlag()
    assert not callback(flag.address)
    flag.set()
    assert callback(flag.address)
    flag.clear()
    assert not callback(flag.address)
