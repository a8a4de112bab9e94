"""Prompts of reasoning models: where thinking is begun, ended and left out, in the tokens of their families."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.conversations.message import Begun, Message, Role
from app.engine.text.reasoning import Place
from app.llama.prompt import PromptBuilder
from app.settings.thinking import AS_TRAINED, Heard, Thinking
from tests.llama.gguf_files import I32, STRING, Array
from tests.llama.test_continuing import text_of
from tests.llama.test_prompt import tiny
from tests.llama.tiny_model import CONTROL, NORMAL, SPECIALS, byte_letters

pytestmark = pytest.mark.native
ASKED = [Message(Role.USER, "a")]
OFF, ON = Thinking(wanted=False), Thinking(wanted=True)
CHANNELS = (
    "{% for m in messages %}<|start|>{{ m.role }}{% if m.role == 'assistant' %}<|channel|>final{% endif %}<|message|>"
    "{{ m.content }}<|end|>{% endfor %}<|start|>assistant"
)
SWITCHED = (
    "{{ messages[0].content }}>{% if enable_thinking is false %}<think>\n\n</think>\n\n{% else %}<think>\n{% endif %}"
)
MARKS = ["<|channel|>", "<|message|>", "[THINK]", "[/THINK]"]


def model(path: Path, template: str) -> PromptBuilder:
    """A vocabulary in which `MARKS` are control tokens."""
    names = [*SPECIALS, *byte_letters(), *MARKS]
    return tiny(
        path,
        template.replace("\n", "{{ '\\n' }}"),
        tokenizer__ggml__tokens=Array(STRING, names),
        tokenizer__ggml__token_type=Array(I32, [CONTROL] * 2 + [NORMAL] * 256 + [CONTROL] * len(MARKS)),
    )


@pytest.mark.parametrize(
    ("template", "thinking", "begun", "text", "place"),
    [
        (CHANNELS, AS_TRAINED, None, "", Place.START),
        (CHANNELS, OFF, None, "<|channel|>final<|message|>", Place.ANSWER),
        (CHANNELS, AS_TRAINED, Begun("b"), "<|channel|>final<|message|>b", Place.ANSWER),
        (CHANNELS, OFF, Begun("b"), "<|channel|>final<|message|>b", Place.ANSWER),
        (CHANNELS, AS_TRAINED, Begun("", "hm"), "<|channel|>analysis<|message|>hm", Place.THINKING),
        # What was thought already is gone on with, whatever is wished now.
        (CHANNELS, OFF, Begun("", "hm"), "<|channel|>analysis<|message|>hm", Place.THINKING),
        (
            CHANNELS,
            AS_TRAINED,
            Begun("b", "hm"),
            "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>b",
            Place.ANSWER,
        ),
        # A template with a switch does it by itself; one that opens the thinking in any case is helped.
        (SWITCHED, ON, None, "<think>\n", Place.THINKING),
        (SWITCHED, OFF, None, "<think>\n\n</think>\n\n", Place.START),
        (SWITCHED, OFF, Begun("", "hm"), "<think>\nhm", Place.THINKING),
        ("{{ messages[0].content }}><think>\n", OFF, None, "<think>\n\n</think>\n\n", Place.START),
        # Others are left alone: no one knows whether they think.
        ("{{ messages[0].content }}>", OFF, None, "", Place.START),
        ("{{ messages[0].content }}>{{ '[THINK]'[:0] }}{{ '[/THINK]'[:0] }}", OFF, None, "", Place.START),
    ],
)
def test_the_prompt_ends_where_it_was_asked_to(
    tmp_path: Path, template: str, thinking: Thinking, begun: Begun | None, text: str, place: Place
) -> None:
    builder = model(tmp_path, template)
    prompt = builder.build(ASKED, begun, thinking=thinking)
    shown = text_of(builder, prompt.tokens)
    begins = "<|start|>user<|message|>a<|end|><|start|>assistant" if template == CHANNELS else "a>"
    assert (shown, prompt.place) == (begins + text, place)


SPELLED = "{{ '<think></think>'[:0] }}{{ '<response></response>'[:0] }}{{ messages[0].content }}>"
"""As Granite's, whose marks are no tokens."""


@pytest.mark.parametrize(
    ("begun", "known", "marked"),
    [
        (None, "", False),
        # Of an answer that nothing else is known of, a mark is not known either.
        (Begun("b"), "", False),
        (Begun("b"), "<response>b", True),
        (Begun("b"), "b", False),
        (Begun("b", "hm"), "", True),
        (Begun("b", "hm"), "<think>hm</think>\n", True),
        (Begun("", "hm"), "", False),
    ],
)
def test_whether_the_answer_that_goes_on_has_a_mark(
    tmp_path: Path, begun: Begun | None, known: str, marked: bool
) -> None:
    builder = model(tmp_path, SPELLED)
    first = builder.build(ASKED).tokens
    prompt = builder.build(ASKED, begun, (*first, *builder._model.tokenize(known, parse_special=False)))
    assert prompt.marked is marked
    assert builder.build(ASKED, thinking=OFF).marked is False
    assert model(tmp_path, f"{SPELLED}<think>").build(ASKED, thinking=OFF).marked


@pytest.mark.parametrize(
    ("template", "heard"),
    [
        ("{{ messages[0].content }}", Heard(wanted=False, effort=False, effort_on=False)),
        (SWITCHED, Heard(wanted=True, effort=False, effort_on=False)),
        ("{{ messages[0].content }}{{ reasoning_effort }}", Heard(wanted=False, effort=True)),
        # Its answers can be begun behind its thinking.
        (CHANNELS, Heard(wanted=True, effort=False, effort_on=False)),
        # As Hunyuan 3, which takes two of them.
        (
            "{{ messages[0].content }}{{ raise_exception('no') if reasoning_effort == 'high' }}",
            Heard(wanted=False, effort=True),
        ),
        # As DeepSeek V4.
        (
            "{{ messages[0].content }}{{ 'Much.' if thinking and reasoning_effort == 'max' }}",
            Heard(wanted=False, effort=False, effort_on=True),
        ),
        ("{{ messages[0].content }}{{ raise_exception('no') if messages[0].content == 'a' }}", Heard()),
    ],
)
def test_which_wishes_are_heard_is_found_out(tmp_path: Path, template: str, heard: Heard) -> None:
    assert model(tmp_path, template).hears == heard


def test_marks_are_single_tokens_and_nobody_forges_them(tmp_path: Path) -> None:
    builder = model(tmp_path, CHANNELS)
    ids = builder._model.control_tokens
    prompt = builder.build(ASKED, Begun("<|channel|>", "<|end|>"))
    assert [prompt.tokens.count(ids[mark]) for mark in ("<|channel|>", "<|message|>", "<|end|>")] == [2, 3, 2]
    assert set(prompt.markup.marks) == {ids[text] for text in ("<|channel|>", "<|message|>", "<|end|>", "<|start|>")}


def test_what_was_thought_forges_nothing_either(tmp_path: Path) -> None:
    builder = model(tmp_path, "{% for m in messages %}{{ m.content }}{{ m.thinking }}{% endfor %}[THINK]")
    prompt = builder.build([*ASKED, Message(Role.ASSISTANT, "b", "[/THINK]<|end|>"), *ASKED])
    ids = builder._model.control_tokens
    assert text_of(builder, prompt.tokens) == "ab[/THINK]<|end|>a[THINK]"
    assert [prompt.tokens.count(ids[mark]) for mark in ("[THINK]", "[/THINK]", "<|end|>")] == [1, 0, 0]


def test_an_answer_goes_on_behind_its_own_headers(tmp_path: Path) -> None:
    builder = model(tmp_path, CHANNELS)
    first = builder.build(ASKED)
    header = "<|channel|>commentary<|channel|>analysis<|message|>"
    said = f"{header}hm<|end|><|start|>assistant<|channel|>final<|message|>b"
    known = (*first.tokens, *builder._model.tokenize(said, parse_special=True))
    again = builder.build(ASKED, Begun("by", "hm"), known).tokens
    # The model's own header, which no one else would write, is still there.
    assert again[:-1] == known
    assert text_of(builder, again) == text_of(builder, first.tokens) + f"{said}y"
