"""Calls, thoughts and answers in the tokens of families that mark everything with tokens."""

import pytest

from app.engine.text.reasoning import ReasoningMarkup
from app.llama.reasoning_markup import markup_of
from tests.engine.text.reading import Reading, read_tokens, tool

CHANNELS = markup_of("<|start|>{{ role }}<|channel|>final<|message|>")
SECTIONS = markup_of("<|open|><|close|><|end_of_msg|>")
RECIPIENTS = markup_of("<|start|>assistant to=self<|message|><|eom|>")
MESSAGES = markup_of("<|think|><|content|>")
CHANNEL_TAGS = markup_of("<|channel>thought\n<channel|>")
THINK = markup_of("<think>")
F = tool("f", {"a": {"type": "string"}})


def read(markup: ReasoningMarkup, text: str) -> Reading:
    return read_tokens(markup, text, tools=[F])


ANALYSIS = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
OBJECT = '{"a": "x"}'
CALL = [("f", {"a": "x"})]
HERMES = f'<tool_call>\n{{"name": "f", "arguments": {OBJECT}}}\n</tool_call>'
ATEM = (
    '<atem:function_calls>\n<atem:invoke name="f">\n<atem:parameter name="a">x</atem:parameter>\n</atem:invoke>\n'
    "</atem:function_calls>"
)


@pytest.mark.parametrize(
    ("markup", "text", "n_calls"),
    [
        (CHANNELS, f"{ANALYSIS}<|channel|>commentary to=functions.f <|constrain|>json<|message|>{OBJECT}", 1),
        (CHANNELS, f"{ANALYSIS} to=functions.f<|channel|>commentary json<|message|>{OBJECT}", 1),
        (CHANNELS, f"{ANALYSIS} to=functions.f<|channel|>analysis<|message|>{OBJECT}<|call|>", 1),
        (CHANNELS, f"{ANALYSIS}<|channel|>analysis to=functions.f<|message|>{OBJECT}<|call|>", 1),
        (
            SECTIONS,
            (
                "<|open|>think<|sep|>Hm.<|close|>think<|sep|><|open|>response<|sep|><|close|>response<|sep|>"
                '<|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|>'
                '<|open|>argument key="a" type="string"<|sep|>x'
                "<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>"
            ),
            1,
        ),
        (
            RECIPIENTS,
            (
                f" to=self<|message|>Hm.<|eom|><|start|>assistant to=f<|message|>{ATEM}<|eom|><|start|>assistant to=f"
                f"<|message|>{ATEM}"
            ),
            2,
        ),
        (
            MESSAGES,
            (
                "<|think|>Hm.<|end|><|begin|>assistant<|tool_calls|><|tool_call:begin|>abc<|tool_call:name|>f"
                f"<|tool_call:args|>{OBJECT}<|tool_call:end|><|calls|>"
            ),
            1,
        ),
        (CHANNEL_TAGS, '<|channel>thought\nHm.<channel|><|tool_call>call:f{a:<|"|>x<|"|>}<tool_call|>', 1),
        # Reasoning that is not closed before a call
        (THINK, f"<think>Hm.{HERMES}", 1),
        (THINK, f"<think>Hm.{HERMES}\n{HERMES}", 2),
    ],
)
def test_calls_follow_reasoning(markup: ReasoningMarkup, text: str, n_calls: int) -> None:
    found = read(markup, text)
    assert (found.reasoning, found.text, found.values) == ("Hm.", "", CALL * n_calls)


@pytest.mark.parametrize(
    ("text", "reasoning", "answer"),
    [
        ("Hello.<|channel>thought\n<channel|>", "", "Hello."),
        ("Hello.<|channel>thought\nHm.<channel|>", "Hm.", "Hello."),
        ("<|channel>thought\nA<channel|>B<|channel>thought\nC<channel|>D", "A\n\nC", "B\n\nD"),
        ("<|channel>thought\n<channel|>Hello.<channel|>", "", "Hello."),
        ("<|channel><|channel>thought\n<channel|>Hello.", "", "Hello."),
    ],
)
def test_later_thoughts_are_reasoning(text: str, reasoning: str, answer: str) -> None:
    found = read(CHANNEL_TAGS, text)
    assert (found.reasoning, found.text) == (reasoning, answer)


def test_an_answer_of_functionary_loses_its_recipient() -> None:
    markup = markup_of("'>>>all\n' + message.content")
    assert read(markup, "all\nHello.").text == "Hello."
    assert read(markup, f"f\n{OBJECT}").values == CALL
    assert read(markup, f"all\nI look.>>>f\n{OBJECT}").values == CALL
