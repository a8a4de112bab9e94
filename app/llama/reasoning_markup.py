"""Marks of each family of reasoning models, from llama.cpp's `common/chat.cpp` and the chat templates."""

from __future__ import annotations

from dataclasses import replace

from app.engine.text.reasoning import THINK, ReasoningMarkup

# GPT-OSS: messages with a channel each; the last is the answer.
_GPT_OSS_MARKUP = ReasoningMarkup(
    open="analysis<|message|>",
    close="<|end|>",
    answer="<|message|>",
    end="<|end|>",
    headers=("<|channel|>", "<|start|>"),
    header_words=("assistant", "analysis", "commentary", "final"),
    think="<|channel|>analysis<|message|>",
    conclude="<|end|><|start|>assistant<|channel|>final<|message|>",
    speak="<|channel|>final<|message|>",
)
# Muse: messages with a recipient; messages to itself are reasoning.
_RECIPIENT_MARKUP = ReasoningMarkup(
    open="to=self<|message|>",
    close="<|eom|>",
    answer="<|message|>",
    end="<|eom|>",
    headers=("to=", "<|start|>"),
    header_words=("assistant", "to=self", "to=user"),
    think=" to=self<|message|>",
    conclude="<|eom|><|start|>assistant to=user<|message|>",
    speak=" to=user<|message|>",
)


def _sections(
    open: str,  # noqa: A002 - named like the field
    close: str,
    answer: str,
    end: str,
    headers: tuple[str, ...] = (),
    header_words: tuple[str, ...] = (),
) -> ReasoningMarkup:
    return ReasoningMarkup(
        open, close, answer, end, headers, header_words, think=open, conclude=close + answer, speak=answer
    )


def _tags(open: str, close: str, think: str = "", *, reopens: bool = False) -> ReasoningMarkup:  # noqa: A002
    return ReasoningMarkup(open, close, think=think or open, conclude=close, reopens=reopens)


_FAMILY_MARKUPS: tuple[tuple[tuple[str, ...], ReasoningMarkup], ...] = (
    (("<|channel|>", "<|message|>"), _GPT_OSS_MARKUP),
    (("<|eom|>", "to=self"), _RECIPIENT_MARKUP),
    # Solar Open: a reasoning message and a content message
    (
        ("<|think|>", "<|content|>"),
        replace(
            _sections("<|think|>", "<|end|>", "<|content|>", "<|end|>", ("<|begin|>",), ("assistant",)),
            conclude="<|end|><|begin|>assistant<|content|>",
        ),
    ),
    (
        ("<|open|>", "<|close|>", "<|end_of_msg|>"),
        # Kimi K3
        _sections(
            "<|open|>think<|sep|>",
            "<|close|>think<|sep|>",
            "<|open|>response<|sep|>",
            "<|close|>response<|sep|>",
            ("<|close|>",),
            ("think", "response", "message"),
        ),
    ),
    # Command A and R: two generations
    (
        ("<|START_THINKING|>", "<|START_TEXT|>"),
        _sections("<|START_THINKING|>", "<|END_THINKING|>", "<|START_TEXT|>", "<|END_TEXT|>"),
    ),
    (
        ("<|START_THINKING|>", "<|START_RESPONSE|>"),
        _sections("<|START_THINKING|>", "<|END_THINKING|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"),
    ),
    # Gemma 4
    (("<|channel>", "<channel|>"), _tags("<|channel>thought", "<channel|>", "<|channel>thought\n", reopens=True)),
    # Magistral and Ministral, Seed-OSS, MiniMax M3, Kimi VL, EXAONE Deep, Hunyuan 3
    (("[THINK]", "[/THINK]"), _tags("[THINK]", "[/THINK]")),
    (("<seed:think>", "</seed:think>"), _tags("<seed:think>", "</seed:think>")),
    (("<mm:think>", "</mm:think>"), _tags("<mm:think>", "</mm:think>")),
    (("◁think▷", "◁/think▷"), _tags("◁think▷", "◁/think▷")),
    (("<thought>", "</thought>"), _tags("<thought>", "</thought>", "<thought>\n")),
    (("<think{}>", ":opensource"), _tags("<think:opensource>", "</think:opensource>")),
    # Apriel, whose reasoning begins with a sentence
    (
        ("[BEGIN FINAL RESPONSE]",),
        ReasoningMarkup(
            "Here are my reasoning steps:",
            "[BEGIN FINAL RESPONSE]",
            end="[END FINAL RESPONSE]",
            think="Here are my reasoning steps:\n",
            conclude="\n[BEGIN FINAL RESPONSE]\n",
        ),
    ),
    # Granite 3.3
    (
        ("<think></think>", "<response></response>"),
        ReasoningMarkup(
            "<think>", "</think>", "<response>", "</response>", think="<think>", conclude="</think>\n<response>"
        ),
    ),
    # Functionary 3.2 writes an answer as a call of all.
    ((">>>all",), replace(THINK, answer="all\n")),
    # Hunyuan 1 and 2
    (
        ("<answer>", "</answer>"),
        ReasoningMarkup(
            "<think>", "</think>", "<answer>", "</answer>", think="<think>\n", conclude="\n</think>\n<answer>\n"
        ),
    ),
)


def markup_of(template: str | None) -> ReasoningMarkup:
    """Return the marks in a chat template, or the most common marks."""
    source = template or ""
    return next((markup for signs, markup in _FAMILY_MARKUPS if all(sign in source for sign in signs)), THINK)
