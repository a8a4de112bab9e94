"""Reasoning and answers of every family of reasoning models, with marks as tokens or as text."""

from typing import Any

import pytest

from app.engine.text.reasoning import THINK, AnswerPart, ReasoningMarkup
from app.engine.text.segments import text_of
from app.engine.text.stream import TextStream
from app.llama.reasoning_markup import markup_of

CHANNELS = markup_of("<|start|>{{ role }}<|channel|>final<|message|>")
BRACKETS = markup_of("'[THINK]' + block['thinking'] + '[/THINK]'")
COMMAND = markup_of("<|START_THINKING|><|END_THINKING|><|START_RESPONSE|>{{ text }}<|END_RESPONSE|>")
APRIEL = markup_of("... [BEGIN FINAL RESPONSE] ...")
GRANITE = markup_of("between <think></think> and between <response></response>")
HUNYUAN = markup_of("'<answer>' in content and '</answer>' in content")
CHANNEL_TAGS = markup_of("<|channel>thought\n<channel|>")
SECTIONS = markup_of("<|open|><|close|><|end_of_msg|>")
RECIPIENTS = markup_of("<|start|>assistant to=self<|message|><|eom|>")


class Vocabulary:
    """A vocabulary in which letters and some marks are tokens.

    Args:
        specials: Marks that are tokens.
        shown: Whether llama.cpp returns their text, as for GPT-OSS; it returns no text for control tokens.
    """

    def __init__(self, *specials: str, shown: bool = False) -> None:
        self.ids = {text: n for n, text in enumerate(specials)}
        self._shown = shown

    def tokens(self, *parts: str) -> list[int]:
        """Return the tokens of parts; each part is a mark or text."""
        letters = len(self.ids)
        return [
            token
            for part in parts
            for token in ([self.ids[part]] if part in self.ids else (letters + byte for byte in part.encode()))
        ]

    def piece(self, token: int) -> bytes:
        names = list(self.ids)
        if token >= len(names):
            return bytes([token - len(names)])
        return names[token].encode() if self._shown else b""

    def read(self, markup: ReasoningMarkup, *parts: str, stops: tuple[str, ...] = (), **how: Any) -> tuple[str, str]:
        """Return the reasoning and the answer."""
        stream = TextStream(stops, markup=markup.with_tokens(self.ids), **how)
        segments = [s for token in self.tokens(*parts) for s in stream.push(self.piece(token), None, token)]
        segments += stream.flush()
        reasoning, text = ("".join(s.text for s in segments if s.reasoning is which) for which in (True, False))
        return reasoning, text


HARMONY = Vocabulary("<|channel|>", "<|message|>", "<|start|>", "<|end|>", shown=True)
ANALYSIS = ("<|channel|>", "analysis", "<|message|>")
FINAL = ("<|start|>", "assistant", "<|channel|>", "final", "<|message|>")
MISTRAL = Vocabulary("[THINK]", "[/THINK]")
COHERE = Vocabulary("<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>")
QWEN = Vocabulary("<think>", "</think>", shown=True)
NO_MARKS = Vocabulary()
GEMMA = Vocabulary("<|channel>", "<channel|>")
KIMI = Vocabulary("<|open|>", "<|close|>", "<|sep|>")
OPENED, CLOSED = ("<|open|>", "response", "<|sep|>"), ("<|close|>", "response", "<|sep|>")
MUSE = Vocabulary("<|start|>", "<|message|>", "<|eom|>")
XML = "Send <response>yes</response>"


@pytest.mark.parametrize(
    ("vocabulary", "markup", "parts", "reasoning", "text"),
    [
        (HARMONY, CHANNELS, (*ANALYSIS, "Hm.", "<|end|>", *FINAL, "Hi"), "Hm.", "Hi"),
        (HARMONY, CHANNELS, ("<|channel|>", "final", "<|message|>", "Hi"), "", "Hi"),
        # Several messages, and a header with another recipient.
        (
            HARMONY,
            CHANNELS,
            (*ANALYSIS, "A", "<|end|>", "<|start|>", "assistant", *ANALYSIS, "B", "<|end|>", *FINAL, "C"),
            "A\n\nB",
            "C",
        ),
        (
            HARMONY,
            CHANNELS,
            ("<|channel|>", "commentary", "<|message|>", "First", "<|end|>", *FINAL, "Hi"),
            "",
            "First\n\nHi",
        ),
        (HARMONY, CHANNELS, ("<|channel|>", "commentary to=me", *ANALYSIS, "A", "<|end|>", *FINAL, "B"), "A", "B"),
        # Stopped within a header, or before it.
        (HARMONY, CHANNELS, (*ANALYSIS, "Hm.", "<|end|>", "<|start|>", "assistant"), "Hm.", ""),
        (HARMONY, CHANNELS, ("<|channel|>",), "", ""),
        # No header, and a header that never ends.
        (HARMONY, CHANNELS, ("Hi there",), "", "Hi there"),
        (HARMONY, CHANNELS, ("<|channel|>", "x" * 300), "", "<|channel|>" + "x" * 300),
        (MISTRAL, BRACKETS, ("[THINK]", "Hm.", "[/THINK]", "Hi"), "Hm.", "Hi"),
        (MISTRAL, BRACKETS, ("Hi",), "", "Hi"),
        (
            COHERE,
            COMMAND,
            ("<|START_THINKING|>", "Hm.", "<|END_THINKING|>", "<|START_RESPONSE|>", "Hi", "<|END_RESPONSE|>"),
            "Hm.",
            "Hi",
        ),
        # The end of the reasoning is missing.
        (COHERE, COMMAND, ("<|START_THINKING|>", "Hm.", "<|START_RESPONSE|>", "Hi"), "Hm.", "Hi"),
        (NO_MARKS, HUNYUAN, ("<think>\nHm.\n</think>\n<answer>\nHi\n</answer>",), "Hm.\n", "Hi\n"),
        (NO_MARKS, HUNYUAN, ("<think>\n\n</think>\n<answer>\nHi\n</answer>",), "", "Hi\n"),
        (NO_MARKS, HUNYUAN, ("Hi",), "", "Hi"),
        # An answer without its mark, and a header alone.
        (HARMONY, CHANNELS, ("<|channel|>", "final", "The answer is 42"), "", "<|channel|>finalThe answer is 42"),
        (HARMONY, CHANNELS, ("<|channel|>", "final", "42"), "", "<|channel|>final42"),
        (HARMONY, CHANNELS, ("<|channel|>", "final", "Yes", "<|end|>", *FINAL, "No"), "", "<|channel|>finalYes\n\nNo"),
        (
            HARMONY,
            CHANNELS,
            ("<|channel|>", "final\nYes, it is", *FINAL, "No"),
            "",
            "<|channel|>final\nYes, it is\n\nNo",
        ),
        (GEMMA, CHANNEL_TAGS, ("<|channel>", "final\nHi there"), "", "final\nHi there"),
        (GEMMA, CHANNEL_TAGS, ("<|channel>", "final\nHi there", "<channel|>", "Yes"), "", "final\nHi there\n\nYes"),
        (MUSE, RECIPIENTS, (" to=user", "Hi"), "", " to=userHi"),
        (HARMONY, CHANNELS, ("<|channel|>", "commentary to=a.tool in json", "<|message|>", "{}"), "", "{}"),
        (COHERE, COMMAND, ("<|END_RESPONSE|>", "\n", "<|START_RESPONSE|>", "Hi"), "", "Hi"),
        (COHERE, COMMAND, ("<|END_RESPONSE|>", "Hi", "<|START_RESPONSE|>", "there"), "", "Hi\n\nthere"),
        (HARMONY, CHANNELS, ("<|channel|>", "final"), "", ""),
        (MUSE, RECIPIENTS, (" to=user",), "", ""),
        (GEMMA, CHANNEL_TAGS, ("<|channel>",), "", ""),
        (
            KIMI,
            SECTIONS,
            ("<|open|>", "response", "<|sep|>", "Hi", *("<|close|>", "response", "<|sep|>"), "<|close|>", "message"),
            "",
            "Hi",
        ),
        # An end mark alone, as some models write it without reasoning.
        (QWEN, THINK, ("</think>", "\n\nHi"), "", "Hi"),
        (
            Vocabulary(),
            APRIEL,
            ("Here are my reasoning steps:\nHm.\n[BEGIN FINAL RESPONSE]\nHi\n[END FINAL RESPONSE]\n",),
            "Hm.\n",
            "Hi\n",
        ),
    ],
)
def test_reasoning_and_answer_are_separated(
    vocabulary: Vocabulary, markup: ReasoningMarkup, parts: tuple[str, ...], reasoning: str, text: str
) -> None:
    assert vocabulary.read(markup, *parts) == (reasoning, text)


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
    assert NO_MARKS.read(THINK, source, **how) == (reasoning, answer)
    stream = TextStream(**how)
    segments = stream.push(source.encode()) + stream.flush()
    assert [text_of(s for s in segments if s.reasoning is which) for which in (True, False)] == [reasoning, answer]


@pytest.mark.parametrize(
    ("vocabulary", "markup", "before", "after"),
    [
        (HARMONY, CHANNELS, ANALYSIS, ("<|end|>", *FINAL)),
        (MISTRAL, BRACKETS, ("[THINK]",), ("[/THINK]",)),
        (QWEN, THINK, ("<think>",), ("</think>",)),
    ],
)
def test_marks_in_text_form_are_text(
    vocabulary: Vocabulary, markup: ReasoningMarkup, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    spelled_out = " ".join(vocabulary.ids) + "."
    shown = vocabulary.read(markup, *before, f"A {spelled_out}", *after, f"B {spelled_out}")
    assert shown == (f"A {spelled_out}", f"B {spelled_out}")


@pytest.mark.parametrize("part", [AnswerPart.START, AnswerPart.ANSWER])
@pytest.mark.parametrize("after", ["", "\n", " to me.", "\n" * 300])
def test_an_end_mark_in_text_form_counts_only_at_the_end(part: AnswerPart, after: str) -> None:
    begin = "<response>" if part is AnswerPart.START else ""
    shown = NO_MARKS.read(GRANITE, f"{begin}{XML}{after}", part=part)
    assert shown == ("", XML.removesuffix("</response>") if after in ("", "\n") else XML + after)


@pytest.mark.parametrize(
    ("parts", "reasoning", "text"),
    [
        (FINAL, "Hm.", "Hi"),
        (("<|channel|>", "final", "<|message|>"), "Hm.", "Hi"),
        (("<|start|>", "assistant", *ANALYSIS, "So.", "<|end|>", *FINAL), "Hm.\n\nSo.", "Hi"),
        # A mark within the reasoning is not a header.
        (("<|start|>", " is what begins one.", "<|end|>", *FINAL), "Hm.<|start|> is what begins one.", "Hi"),
    ],
)
def test_a_header_ends_reasoning_without_an_end_mark(parts: tuple[str, ...], reasoning: str, text: str) -> None:
    assert HARMONY.read(CHANNELS, *ANALYSIS, "Hm.", *parts, text) == (reasoning, text)
    assert HARMONY.read(CHANNELS, *ANALYSIS, "Hm.", *FINAL[:-1]) == ("Hm.", "")


def test_a_mark_in_the_answer_has_the_text_of_llama_cpp() -> None:
    assert QWEN.read(THINK, "Use ", "<think>", " and ", "</think>", ".") == ("", "Use <think> and </think>.")
    assert MISTRAL.read(BRACKETS, "Use ", "[THINK]", ".") == ("", "Use .")


def test_a_mark_ends_an_incomplete_character() -> None:
    stream = TextStream(markup=BRACKETS.with_tokens(MISTRAL.ids), part=AnswerPart.THINKING)
    shown = stream.push(b"a\xe2\x82") + stream.push(b"", None, MISTRAL.ids["[/THINK]"])
    shown += stream.push(b"b")
    assert [(s.text, s.reasoning) for s in shown] == [("a", True), ("\ufffd", True), ("b", False)]


@pytest.mark.parametrize("stop", ["\n", "END", "Hm."])
def test_a_stop_string_ends_the_answer_but_not_the_reasoning(stop: str) -> None:
    parts = ("<think>", f"\nHm. END\n{stop}", "</think>", f"\n\nYes{stop}No")
    assert QWEN.read(THINK, *parts, stops=(stop,)) == (f"Hm. END\n{stop}", "Yes")


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
