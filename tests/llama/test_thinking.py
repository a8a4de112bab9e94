"""Prompts of reasoning models: where thinking is prefilled, ended and left out, in the tokens of their families."""

from pathlib import Path

import pytest

from app.conversations.message import Message, Prefill, Role
from app.engine.text.reasoning import AnswerPart
from app.llama.prompt import PromptBuilder
from app.settings.layers import AS_TRAINED, Thinking, ThinkingSupport
from tests.llama.gguf_files import I32, STRING, Array
from tests.llama.test_prompt import text_of, tiny
from tests.llama.tiny_model import CONTROL, NORMAL, SPECIALS, byte_letters

pytestmark = pytest.mark.native
ASKED = [Message(Role.USER, "a")]
OFF, ON = Thinking(enabled=False), Thinking(enabled=True)
CHANNELS = (
    "{% for m in messages %}<|start|>{{ m.role }}{% if m.role == 'assistant' %}<|channel|>final{% endif %}<|message|>"
    "{{ m.content }}<|end|>{% endfor %}<|start|>assistant"
)
SWITCHED = (
    "{{ messages[0].content }}>{% if enable_thinking is false %}<think>\n\n</think>\n\n{% else %}<think>\n{% endif %}"
)
PLAIN = "{{ messages[0].content }}>"
OPENED = f"{PLAIN}<think>\n"
MARKS = ["<|channel|>", "<|message|>", "[THINK]", "[/THINK]"]


def model(path: Path, template: str) -> PromptBuilder:
    """Return a vocabulary in which `MARKS` are control tokens."""
    names = [*SPECIALS, *byte_letters(), *MARKS]
    return tiny(
        path,
        template.replace("\n", "{{ '\\n' }}"),
        tokenizer__ggml__tokens=Array(STRING, names),
        tokenizer__ggml__token_type=Array(I32, [CONTROL] * 2 + [NORMAL] * 256 + [CONTROL] * len(MARKS)),
    )


@pytest.mark.parametrize(
    ("template", "thinking", "prefill", "text", "part"),
    [
        (CHANNELS, AS_TRAINED, None, "", AnswerPart.START),
        (CHANNELS, OFF, None, "<|channel|>final<|message|>", AnswerPart.ANSWER),
        (CHANNELS, AS_TRAINED, Prefill("b"), "<|channel|>final<|message|>b", AnswerPart.ANSWER),
        (CHANNELS, OFF, Prefill("b"), "<|channel|>final<|message|>b", AnswerPart.ANSWER),
        (CHANNELS, AS_TRAINED, Prefill("", "hm"), "<|channel|>analysis<|message|>hm", AnswerPart.THINKING),
        # Reasoning that began earlier continues with any setting.
        (CHANNELS, OFF, Prefill("", "hm"), "<|channel|>analysis<|message|>hm", AnswerPart.THINKING),
        (
            CHANNELS,
            AS_TRAINED,
            Prefill("b", "hm"),
            "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>b",
            AnswerPart.ANSWER,
        ),
        # A template with a switch renders it; if a template always opens the reasoning, Tandem closes it.
        (SWITCHED, ON, None, "<think>\n", AnswerPart.THINKING),
        (SWITCHED, OFF, None, "<think>\n\n</think>\n\n", AnswerPart.START),
        (SWITCHED, OFF, Prefill("", "hm"), "<think>\nhm", AnswerPart.THINKING),
        (OPENED, OFF, None, "<think>\n\n</think>\n\n", AnswerPart.START),
        (OPENED, AS_TRAINED, Prefill("b", "hm"), "<think>\nhm\n</think>\n\nb", AnswerPart.ANSWER),
        (OPENED, AS_TRAINED, Prefill("", "hm"), "<think>\nhm", AnswerPart.THINKING),
        (OPENED, AS_TRAINED, Prefill("b"), "<think>\n\n</think>\n\nb", AnswerPart.ANSWER),
        # Other templates are not changed, because their models may not reason.
        (PLAIN, OFF, None, "", AnswerPart.START),
        (PLAIN, AS_TRAINED, Prefill("b", "hm"), "<think>\nhm\n</think>\n\nb", AnswerPart.ANSWER),
        (PLAIN, AS_TRAINED, Prefill("", "hm "), "<think>\nhm ", AnswerPart.THINKING),
        ("{{ messages[0].content }}>{{ '[THINK]'[:0] }}{{ '[/THINK]'[:0] }}", OFF, None, "", AnswerPart.START),
    ],
)
def test_the_prompt_ends_where_it_was_asked_to(
    tmp_path: Path, template: str, thinking: Thinking, prefill: Prefill | None, text: str, part: AnswerPart
) -> None:
    builder = model(tmp_path, template)
    prompt = builder.build(ASKED, prefill, thinking=thinking)
    shown = text_of(builder._model, prompt.tokens)
    begins = "<|start|>user<|message|>a<|end|><|start|>assistant" if template == CHANNELS else "a>"
    assert (shown, prompt.part) == (begins + text, part)


@pytest.mark.parametrize(
    ("template", "heard"),
    [
        ("{{ messages[0].content }}", ThinkingSupport(switchable=False, effort=False, effort_on=False)),
        (SWITCHED, ThinkingSupport(switchable=True, effort=False, effort_on=False)),
        ("{{ messages[0].content }}{{ reasoning_effort }}", ThinkingSupport(switchable=False, effort=True)),
        # Its answers can be prefilled after its thinking.
        (CHANNELS, ThinkingSupport(switchable=True, effort=False, effort_on=False)),
        # Hunyuan 3 accepts two of them.
        (
            "{{ messages[0].content }}{{ raise_exception('no') if reasoning_effort == 'high' }}",
            ThinkingSupport(switchable=False, effort=True),
        ),
        # DeepSeek V4
        (
            "{{ messages[0].content }}{{ 'Much.' if thinking and reasoning_effort == 'max' }}",
            ThinkingSupport(switchable=False, effort=False, effort_on=True),
        ),
        ("{{ messages[0].content }}{{ raise_exception('no') if messages[0].content == 'a' }}", ThinkingSupport()),
    ],
)
def test_supported_thinking_settings_are_detected(tmp_path: Path, template: str, heard: ThinkingSupport) -> None:
    assert model(tmp_path, template).thinking_support == heard


def test_a_call_may_have_a_channel_of_its_own(tmp_path: Path) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    builder = model(tmp_path, CHANNELS)
    assert builder.build(ASKED, None, OFF, [tool]).tokens == builder.build(ASKED, None, AS_TRAINED, [tool]).tokens


def test_marks_are_single_tokens_and_cannot_be_forged(tmp_path: Path) -> None:
    builder = model(tmp_path, CHANNELS)
    ids = builder._model.control_tokens
    prompt = builder.build(ASKED, Prefill("<|channel|>", "<|end|>"))
    assert [prompt.tokens.count(ids[mark]) for mark in ("<|channel|>", "<|message|>", "<|end|>")] == [2, 3, 2]
    assert set(prompt.markup.marks) == {ids[text] for text in ("<|channel|>", "<|message|>", "<|end|>", "<|start|>")}
