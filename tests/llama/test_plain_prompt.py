"""Prompts of text, of token ids and with a gap become the tokens that llama-server makes of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from app.core.errors import UsageError
from app.engine.text.prompts import Infill, TextPrompt
from app.llama.checks import open_model_file
from app.llama.model import Model
from app.llama.plain_prompt import plain_tokens
from tests.llama.gguf_files import I32, STRING, Array
from tests.llama.tiny_model import CONTROL, NORMAL, SPECIALS, byte_letters

pytestmark = pytest.mark.native

MARKS = ("pre", "suf", "mid", "rep", "sep")


@pytest.fixture
def coder(tiny: Callable[..., Path]) -> Callable[[int], Model]:
    """Return a function that loads a model whose vocabulary has the first of the tokens for code with a gap."""

    def load(n_marks: int) -> Model:
        tokens = [*SPECIALS, *byte_letters(), *(f"<|fim_{name}|>" for name in MARKS)]
        ids = {f"tokenizer__ggml__fim_{name}_token_id": 258 + n for n, name in enumerate(MARKS[:n_marks])}
        types = [CONTROL] * 2 + [NORMAL] * 256 + [CONTROL] * 5
        # llama.cpp finds tokens by their text too.
        tokens[258 + n_marks :] = [f"<|other_{n}|>" for n in range(5 - n_marks)]
        lists = {"tokens": Array(STRING, tokens), "token_type": Array(I32, types)}
        return Model(open_model_file(tiny(**ids, **{f"tokenizer__ggml__{key}": value for key, value in lists.items()})))

    return load


def shown(model: Model, tokens: tuple[int, ...]) -> str:
    return "".join(model.piece(t).decode() or model.text_of(t) for t in tokens)


def test_other_files_stand_before_the_code_with_the_gap(coder: Callable[[int], Model]) -> None:
    model = coder(5)
    gap = Infill("def f(", "return x", "a", (("b.py", "x = 1\n"),))
    assert shown(model, plain_tokens(model, gap, 4096)) == (
        "<|fim_rep|>myproject\n<|fim_sep|>b.py\nx = 1\n<|fim_sep|>filename\n"
        "<|fim_pre|>def f(a<|fim_suf|>return x<|fim_mid|>"
    )
    model.close()


def test_without_a_token_for_files_their_text_stands_in_front(coder: Callable[[int], Model]) -> None:
    model = coder(3)
    text = shown(model, plain_tokens(model, Infill("p", "s", "", (("b.py", "x = 1\n"),)), 4096))
    assert text == "\n\n--- snippet ---\n\nx = 1\n<|fim_pre|>p<|fim_suf|>s<|fim_mid|>"
    model.close()


def test_code_around_the_gap_is_cut_far_from_it(coder: Callable[[int], Model]) -> None:
    model = coder(5)
    text = shown(model, plain_tokens(model, Infill("a" * 500 + "p", "s" + "b" * 500), 200))
    before, after = text.removesuffix("<|fim_mid|>").split("<|fim_suf|>")
    assert before.endswith("<|fim_pre|>" + "a" * 74 + "p")
    assert after == "s" + "b" * 22
    model.close()


def test_marks_in_code_are_text(coder: Callable[[int], Model]) -> None:
    model = coder(5)
    tokens = plain_tokens(model, Infill("<|fim_mid|>", ""), 4096)
    assert tokens.count(260) == 1
    model.close()


def test_a_vocabulary_without_such_tokens_is_refused(model: Model) -> None:
    with pytest.raises(UsageError, match="cannot fill in code"):
        plain_tokens(model, Infill("a", "b"), 512)


def test_texts_and_ids_are_joined_and_bos_precedes_a_text_only(tiny: Callable[..., Path]) -> None:
    loaded = Model(open_model_file(tiny(tokenizer__ggml__add_bos_token=True)))
    letter = loaded.tokenize("a", parse_special=False)
    assert plain_tokens(loaded, TextPrompt(("a", 5, "<|end|>")), 512) == (1, *letter, 5, 0)
    assert plain_tokens(loaded, TextPrompt((5, "a")), 512) == (5, *letter)
    with pytest.raises(UsageError, match="not in the vocabulary"):
        plain_tokens(loaded, TextPrompt((9999,)), 512)
    loaded.close()


def test_tokens_become_the_text_they_came_from(model: Model) -> None:
    for text in ("Hello, world", "<|im_start|>user\nnaïve 東京<|im_end|>", "  x = 1\n\n"):
        assert model.detokenize(model.tokenize(text, parse_special=True)) == text
