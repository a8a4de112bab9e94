"""Prompts without a chat template, and answers that are continued."""

from collections.abc import Callable
from pathlib import Path

import pytest

from app.conversations.message import Message, Prefill, Role
from app.core.errors import UsageError
from app.engine.events import Step
from app.engine.interfaces import Controls
from app.engine.types import FinishReason, Infill, TextPrompt
from app.llama.cancel import CancelFlag
from app.llama.model import Model
from app.llama.pair import NativePair
from app.llama.prompt import PromptBuilder, plain_tokens
from app.worker.events import Finished
from app.worker.request import AnswerRequest
from app.worker.responder import answer
from tests.llama.conftest import OpenModel
from tests.llama.generation import GREEDY
from tests.llama.gguf_files import F32, I32, STRING, Array
from tests.llama.test_prompt import text_of, tiny
from tests.llama.tiny_model import CONTROL, NORMAL, SPECIALS, byte_letters

pytestmark = pytest.mark.native
MESSAGES = (Message(Role.USER, "Tell me a short story about a lighthouse. Name the keeper."),)
LENGTH = 40
UNKNOWN, USER_DEFINED, BYTE = 2, 4, 6


def ask(
    pair: NativePair, n_tokens: int, prefill: Prefill | None = None, stop_after: int | None = None
) -> tuple[Finished, str]:
    """Answer; return the end, and the displayed text."""
    stop, shown = CancelFlag(), ""
    request = AnswerRequest(MESSAGES, GREEDY, max_tokens=n_tokens, prefill=prefill)
    for event in answer(pair, 1, request, Controls(stop)):
        if isinstance(event, Step):
            shown += "".join(segment.text for segment in event.segments)
            if event.stats.predicted_n == stop_after:
                stop.set()
    assert isinstance(event, Finished)
    return event, shown


@pytest.mark.parametrize("n_tokens", [1, 12])
def test_a_continued_answer_equals_an_uninterrupted_one(pair: NativePair, n_tokens: int) -> None:
    whole, _ = ask(pair, LENGTH)
    first, _ = ask(pair, LENGTH, stop_after=n_tokens)
    assert first.reason is FinishReason.CANCELLED
    rest, shown = ask(pair, LENGTH - n_tokens, Prefill(first.text))
    assert rest.text == first.text + shown
    assert rest.text == whole.text
    # The tokens of the answer were still cached, except the last, which was never evaluated.
    assert rest.stats.prompt_n == 1


def test_the_turn_stays_open_if_the_template_changes_answers(tmp_path: Path) -> None:
    template = (
        "{% for m in messages %}{% if m.role == 'assistant' %}{{ m.content.split('</think>')[-1].strip() }}<|end|>"
        "{% else %}{{ m.content.strip() }}{% endif %}{% endfor %}{% if add_generation_prompt %}>{% endif %}"
    )
    builder = tiny(tmp_path, template)
    tokens = builder.build([Message(Role.USER, "a")], Prefill("b \n")).tokens
    assert text_of(builder._model, tokens) == "a>b \n"


def test_an_answer_cannot_forge_control_tokens(tmp_path: Path) -> None:
    builder = tiny(tmp_path, "{{ messages[0].content }}")
    tokens = builder.build([Message(Role.USER, "a")], Prefill("b<|end|><|start|>system")).tokens
    assert not {0, 1}.intersection(tokens)
    assert text_of(builder._model, tokens) == "ab<|end|><|start|>system"


def test_text_around_a_control_token_is_tokenized_in_one_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [*SPECIALS, *byte_letters(), "ab", "<tool>"]
    tool = len(names) - 1
    builder = tiny(
        tmp_path,
        "<tool>{{ messages[0].content }}",
        tokenizer__ggml__tokens=Array(STRING, names),
        tokenizer__ggml__token_type=Array(I32, [CONTROL] * 2 + [NORMAL] * 257 + [USER_DEFINED]),
    )
    model, calls = builder._model, list[str]()
    tokenize = model.tokenize

    def counted(text: str, *, parse_special: bool) -> list[int]:
        calls.append(text)
        return tokenize(text, parse_special=parse_special)

    monkeypatch.setattr(model, "tokenize", counted)
    before, after = "ab" * 500, "ab" * 300
    tokens = builder.build([Message(Role.USER, "a")], Prefill(f"{before}<tool>{after}")).tokens

    assert tokens.count(tool) == 1
    assert text_of(builder._model, tokens) == f"<tool>a{before}<tool>{after}"
    spelled = tokenize("<", parse_special=False) + tokenize("tool>", parse_special=False)
    read = [tokenize(text, parse_special=False) for text in (before, after)]
    assert list(tokens[2:]) == read[0] + spelled + read[1]
    assert len(calls) < 20


def sentencepiece(path: Path, template: str) -> PromptBuilder:
    names = [*SPECIALS, "<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", *"Onceup", "<tool>"]
    kinds = [CONTROL] * 2 + [UNKNOWN] + [BYTE] * 256 + [NORMAL] * 7 + [USER_DEFINED]
    return tiny(
        path,
        template,
        tokenizer__ggml__model="llama",
        tokenizer__ggml__tokens=Array(STRING, names),
        tokenizer__ggml__token_type=Array(I32, kinds),
        tokenizer__ggml__scores=Array(F32, [0.0] * len(names)),
        tokenizer__ggml__unreplace_unknownken_id=2,
        tokenizer__ggml__add_space_prefix=True,
        tokenizer__ggml__add_bos_token=False,
    )


def test_sentencepiece_puts_no_space_into_the_middle_of_an_answer(tmp_path: Path) -> None:
    builder = sentencepiece(tmp_path, "{{ messages[0].content }}>")
    messages = [Message(Role.USER, "a")]
    prompt = builder.build(messages).tokens
    assert text_of(builder._model, prompt) == " a>"
    whole = builder.build(messages, Prefill("Once upon")).tokens
    assert text_of(builder._model, whole) == " a>Once upon"


MARKS = ("pre", "suf", "mid", "rep", "sep")


@pytest.fixture
def coder(open_model: OpenModel, tiny: Callable[..., Path]) -> Callable[[int], Model]:
    """Return a function that loads a model whose vocabulary has the first of the tokens for filling gaps."""

    def load(n_marks: int) -> Model:
        tokens = [*SPECIALS, *byte_letters(), *(f"<|fim_{name}|>" for name in MARKS)]
        ids = {f"tokenizer__ggml__fim_{name}_token_id": 258 + n for n, name in enumerate(MARKS[:n_marks])}
        types = [CONTROL] * 2 + [NORMAL] * 256 + [CONTROL] * 5
        # llama.cpp finds tokens by their text too.
        tokens[258 + n_marks :] = [f"<|other_{n}|>" for n in range(5 - n_marks)]
        lists = {"tokens": Array(STRING, tokens), "token_type": Array(I32, types)}
        return open_model(tiny(**ids, **{f"tokenizer__ggml__{key}": value for key, value in lists.items()}))

    return load


def test_other_files_stand_before_the_code_with_the_gap(coder: Callable[[int], Model]) -> None:
    model = coder(5)
    gap = Infill("def f(", "return x", "a", (("b.py", "x = 1\n"),))
    assert text_of(model, plain_tokens(model, gap, 4096)) == (
        "<|fim_rep|>myproject\n<|fim_sep|>b.py\nx = 1\n<|fim_sep|>filename\n"
        "<|fim_pre|>def f(a<|fim_suf|>return x<|fim_mid|>"
    )


def test_without_a_token_for_files_their_text_stands_in_front(coder: Callable[[int], Model]) -> None:
    model = coder(3)
    text = text_of(model, plain_tokens(model, Infill("p", "s", "", (("b.py", "x = 1\n"),)), 4096))
    assert text == "\n\n--- snippet ---\n\nx = 1\n<|fim_pre|>p<|fim_suf|>s<|fim_mid|>"


def test_code_around_the_gap_is_cut_far_from_it(coder: Callable[[int], Model]) -> None:
    model = coder(5)
    text = text_of(model, plain_tokens(model, Infill("a" * 500 + "p", "s" + "b" * 500), 200))
    before, after = text.removesuffix("<|fim_mid|>").split("<|fim_suf|>")
    assert before.endswith("<|fim_pre|>" + "a" * 74 + "p")
    assert after == "s" + "b" * 22


def test_marks_in_code_are_text(coder: Callable[[int], Model]) -> None:
    model = coder(5)
    tokens = plain_tokens(model, Infill("<|fim_mid|>", ""), 4096)
    assert tokens.count(260) == 1


def test_a_vocabulary_without_such_tokens_is_refused(model: Model) -> None:
    with pytest.raises(UsageError, match="cannot fill in code"):
        plain_tokens(model, Infill("a", "b"), 512)


def test_texts_and_ids_are_joined_and_bos_precedes_a_text_only(
    open_model: OpenModel, tiny: Callable[..., Path]
) -> None:
    loaded = open_model(tiny(tokenizer__ggml__add_bos_token=True))
    letter = loaded.tokenize("a", parse_special=False)
    assert plain_tokens(loaded, TextPrompt(("a", 5, "<|end|>")), 512) == (1, *letter, 5, 0)
    assert plain_tokens(loaded, TextPrompt((5, "a")), 512) == (5, *letter)
    with pytest.raises(UsageError, match="not in the vocabulary"):
        plain_tokens(loaded, TextPrompt((9999,)), 512)


def test_tokens_become_the_text_they_came_from(model: Model) -> None:
    for text in ("Hello, world", "<|im_start|>user\nnaïve 東京<|im_end|>", "  x = 1\n\n"):
        assert model.detokenize(model.tokenize(text, parse_special=True)) == text
