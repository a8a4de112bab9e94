"""Reasoning and answers of every family of reasoning models, with marks as tokens or as text."""

from typing import Any

import pytest

from app.engine.text.reasoning import THINK, AnswerPart, ReasoningMarkup
from app.engine.text.segments import text_of
from app.engine.text.stream import TextStream
from app.llama.reasoning_markup import markup_of
from tests.engine.text.reading import SPELLED_MARKS, read_tokens


class Family:
    """A family of models, whose marks are tokens or, without tokens, text."""

    def __init__(self, markup: ReasoningMarkup, *marks: str, shown: bool = False) -> None:
        self.markup, self.marks, self._shown = markup, marks, shown

    def read(self, text: str, **how: Any) -> tuple[str, str]:
        """Return the reasoning and the answer."""
        found = read_tokens(self.markup, text, self.marks, shown=self._shown, **how)
        return found.reasoning, found.text


HARMONY = Family(
    markup_of("<|start|>{{ role }}<|channel|>final<|message|>"),
    *("<|channel|>", "<|message|>", "<|start|>", "<|end|>"),
    shown=True,
)
ANALYSIS, FINAL = "<|channel|>analysis<|message|>", "<|start|>assistant<|channel|>final<|message|>"
MISTRAL = Family(markup_of("'[THINK]' + block['thinking'] + '[/THINK]'"), "[THINK]", "[/THINK]")
COHERE = Family(
    markup_of("<|START_THINKING|><|END_THINKING|><|START_RESPONSE|>{{ text }}<|END_RESPONSE|>"),
    *("<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"),
)
APRIEL = Family(markup_of("... [BEGIN FINAL RESPONSE] ..."))
GRANITE = Family(markup_of("between <think></think> and between <response></response>"))
HUNYUAN = Family(markup_of("'<answer>' in content and '</answer>' in content"))
GEMMA = Family(markup_of("<|channel>thought\n<channel|>"), "<|channel>", "<channel|>")
KIMI = Family(markup_of("<|open|><|close|><|end_of_msg|>"), "<|open|>", "<|close|>", "<|sep|>")
MUSE = Family(markup_of("<|start|>assistant to=self<|message|><|eom|>"), "<|start|>", "<|message|>", "<|eom|>")
QWEN = Family(THINK, "<think>", "</think>", shown=True)
SPELLED = Family(THINK)
XML = "Send <response>yes</response>"


@pytest.mark.parametrize(
    ("family", "answer", "reasoning", "text"),
    [
        (HARMONY, f"{ANALYSIS}Hm.<|end|>{FINAL}Hi", "Hm.", "Hi"),
        (HARMONY, "<|channel|>final<|message|>Hi", "", "Hi"),
        # Several messages, and a header with another recipient.
        (HARMONY, f"{ANALYSIS}A<|end|><|start|>assistant{ANALYSIS}B<|end|>{FINAL}C", "A\n\nB", "C"),
        (HARMONY, f"<|channel|>commentary<|message|>First<|end|>{FINAL}Hi", "", "First\n\nHi"),
        (HARMONY, f"<|channel|>commentary to=me{ANALYSIS}A<|end|>{FINAL}B", "A", "B"),
        # Stopped within a header, or before it.
        (HARMONY, f"{ANALYSIS}Hm.<|end|><|start|>assistant", "Hm.", ""),
        (HARMONY, "<|channel|>", "", ""),
        # No header, and a header that never ends.
        (HARMONY, "Hi there", "", "Hi there"),
        (HARMONY, "<|channel|>" + "x" * 300, "", "<|channel|>" + "x" * 300),
        (MISTRAL, "[THINK]Hm.[/THINK]Hi", "Hm.", "Hi"),
        (MISTRAL, "Hi", "", "Hi"),
        (COHERE, "<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>Hi<|END_RESPONSE|>", "Hm.", "Hi"),
        # The end of the reasoning is missing.
        (COHERE, "<|START_THINKING|>Hm.<|START_RESPONSE|>Hi", "Hm.", "Hi"),
        (HUNYUAN, "<think>\nHm.\n</think>\n<answer>\nHi\n</answer>", "Hm.\n", "Hi\n"),
        (HUNYUAN, "<think>\n\n</think>\n<answer>\nHi\n</answer>", "", "Hi\n"),
        (HUNYUAN, "Hi", "", "Hi"),
        # An answer without its mark, and a header alone.
        (HARMONY, "<|channel|>finalThe answer is 42", "", "<|channel|>finalThe answer is 42"),
        (HARMONY, "<|channel|>final42", "", "<|channel|>final42"),
        (HARMONY, f"<|channel|>finalYes<|end|>{FINAL}No", "", "<|channel|>finalYes\n\nNo"),
        (HARMONY, f"<|channel|>final\nYes, it is{FINAL}No", "", "<|channel|>final\nYes, it is\n\nNo"),
        (GEMMA, "<|channel>final\nHi there", "", "final\nHi there"),
        (GEMMA, "<|channel>final\nHi there<channel|>Yes", "", "final\nHi there\n\nYes"),
        (MUSE, " to=userHi", "", " to=userHi"),
        (HARMONY, "<|channel|>commentary to=a.tool in json<|message|>{}", "", "{}"),
        (COHERE, "<|END_RESPONSE|>\n<|START_RESPONSE|>Hi", "", "Hi"),
        (COHERE, "<|END_RESPONSE|>Hi<|START_RESPONSE|>there", "", "Hi\n\nthere"),
        (HARMONY, "<|channel|>final", "", ""),
        (MUSE, " to=user", "", ""),
        (GEMMA, "<|channel>", "", ""),
        (KIMI, "<|open|>response<|sep|>Hi<|close|>response<|sep|><|close|>message", "", "Hi"),
        # An end mark alone, as some models write it without reasoning.
        (QWEN, "</think>\n\nHi", "", "Hi"),
        (
            APRIEL,
            "Here are my reasoning steps:\nHm.\n[BEGIN FINAL RESPONSE]\nHi\n[END FINAL RESPONSE]\n",
            "Hm.\n",
            "Hi\n",
        ),
    ],
)
def test_reasoning_and_answer_are_separated(family: Family, answer: str, reasoning: str, text: str) -> None:
    assert family.read(answer) == (reasoning, text)


@pytest.mark.parametrize(
    ("how", "source", "reasoning", "answer"),
    [
        pytest.param({}, "<think>\nSee < 5.\n</think>\n\nThe answer <b>.", "See < 5.\n", "The answer <b>.", id="both"),
        pytest.param({"part": AnswerPart.THINKING}, "Hmm.</think>Yes.", "Hmm.", "Yes.", id="begun in the prompt"),
        pytest.param({}, "Write <think> tags.", "", "Write <think> tags.", id="mark in the answer"),
        pytest.param({}, "\n<think>x</think>y", "x", "y", id="space before the reasoning"),
        pytest.param({}, "<think>a</think>b<think>c", "a", "b<think>c", id="second mark"),
        pytest.param({"part": AnswerPart.ANSWER}, "\n\n<think>x", "", "\n\n<think>x", id="continued answer"),
        pytest.param(
            {"part": AnswerPart.THINKING, "begun": True}, " a</think>\n\nYes", " a", "Yes", id="continued reasoning"
        ),
        pytest.param({}, "\n" * 200 + "<think>a</think>b", "a", "b", id="long space"),
        pytest.param({}, "\n" * 201 + "<think>a", "", "\n" * 201 + "<think>a", id="too long a space"),
    ],
)
def test_marks_that_are_text_are_found_at_any_token_borders(
    how: dict[str, Any], source: str, reasoning: str, answer: str
) -> None:
    assert SPELLED.read(source, **how) == (reasoning, answer)
    stream = TextStream(**how)
    segments = stream.push(source.encode()) + stream.flush()
    assert [text_of(s for s in segments if s.reasoning is which) for which in (True, False)] == [reasoning, answer]


@pytest.mark.parametrize(
    ("family", "before", "after"),
    [
        (HARMONY, ANALYSIS, f"<|end|>{FINAL}"),
        (MISTRAL, "[THINK]", "[/THINK]"),
        (QWEN, "<think>", "</think>"),
    ],
)
def test_marks_in_text_form_are_text(family: Family, before: str, after: str) -> None:
    spelled_out = " ".join(family.marks)
    shown = family.read(f"{before}A {SPELLED_MARKS}.{after}B {SPELLED_MARKS}.")
    assert shown == (f"A {spelled_out}.", f"B {spelled_out}.")


@pytest.mark.parametrize("part", [AnswerPart.START, AnswerPart.ANSWER])
@pytest.mark.parametrize("after", ["", "\n", " to me.", "\n" * 300])
def test_an_end_mark_in_text_form_counts_only_at_the_end(part: AnswerPart, after: str) -> None:
    begin = "<response>" if part is AnswerPart.START else ""
    shown = GRANITE.read(f"{begin}{XML}{after}", part=part)
    assert shown == ("", XML.removesuffix("</response>") if after in ("", "\n") else XML + after)


@pytest.mark.parametrize(
    ("header", "reasoning"),
    [
        (FINAL, "Hm."),
        ("<|channel|>final<|message|>", "Hm."),
        (f"<|start|>assistant{ANALYSIS}So.<|end|>{FINAL}", "Hm.\n\nSo."),
        # A mark within the reasoning is not a header.
        (f"<|start|> is what begins one.<|end|>{FINAL}", "Hm.<|start|> is what begins one."),
    ],
)
def test_a_header_ends_reasoning_without_an_end_mark(header: str, reasoning: str) -> None:
    assert HARMONY.read(f"{ANALYSIS}Hm.{header}Hi") == (reasoning, "Hi")


def test_a_header_that_is_cut_is_not_shown() -> None:
    assert HARMONY.read(f"{ANALYSIS}Hm.{FINAL.removesuffix('<|message|>')}") == ("Hm.", "")


def test_a_mark_in_the_answer_has_the_text_of_llama_cpp() -> None:
    assert QWEN.read("Use <think> and </think>.") == ("", "Use <think> and </think>.")
    assert MISTRAL.read("Use [THINK].") == ("", "Use .")


def test_a_mark_ends_an_incomplete_character() -> None:
    stream = TextStream(markup=MISTRAL.markup.with_tokens({"[THINK]": 1, "[/THINK]": 2}), part=AnswerPart.THINKING)
    shown = stream.push(b"a\xe2\x82") + stream.push(b"", None, 2)
    shown += stream.push(b"b")
    assert [(s.text, s.reasoning) for s in shown] == [("a", True), ("\ufffd", True), ("b", False)]


@pytest.mark.parametrize("stop", ["\n", "END", "Hm."])
def test_a_stop_string_ends_the_answer_but_not_the_reasoning(stop: str) -> None:
    answer = f"<think>\nHm. END\n{stop}</think>\n\nYes{stop}No"
    assert QWEN.read(answer, stops=(stop,)) == (f"Hm. END\n{stop}", "Yes")


def test_an_end_of_turn_mark_in_text_form_ends_the_reasoning() -> None:
    stream = TextStream(ends=["<|im_end|>"], part=AnswerPart.THINKING)
    shown = stream.push(b"Hm.<|im_end|>")
    assert [(s.text, s.reasoning) for s in shown] == [("Hm.", True)]
    assert stream.stopped


# Model families


@pytest.mark.parametrize(
    ("template", "opens"),
    [
        (None, "<think>"),
        ("{{ content.split('</think>')[-1] }}", "<think>"),
        ("<|start|>assistant<|channel|>final<|message|>", "analysis<|message|>"),
        ("<|start|>assistant to=self<|message|>{{ thought }}<|eom|>", "to=self<|message|>"),
        ("<|begin|>assistant<|think|>{{ thought }}<|end|><|content|>", "<|think|>"),
        ("{{ '<|open|>' }}{{ '<|close|>' }}<|end_of_msg|>", "<|open|>think<|sep|>"),
        ("<|channel>thought\n<channel|>", "<|channel>thought"),
        ("{%- set think_begin_token = '<seed:think>' %}{%- set e = '</seed:think>' %}", "<seed:think>"),
        ("{%- set b = '<mm:think>' %}{%- set e = '</mm:think>' %}<response>", "<mm:think>"),
        ("between <think></think> and between <response></response>", "<think>"),
        ("{% set content = content.split('<answer>')[-1].split('</answer>')[0] %}", "<think>"),
    ],
)
def test_the_family_is_found_by_the_marks_in_the_template(template: str | None, opens: str) -> None:
    assert markup_of(template).open == opens
