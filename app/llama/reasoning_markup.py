"""The marks of each family of reasoning models, and which family a chat template is of.

What they are is written down in llama.cpp's `common/chat.cpp` and `common/parsers`, and in the templates themselves.
"""

from __future__ import annotations

from app.engine.text.reasoning import THINK, ReasoningMarkup

# GPT-OSS: messages with a channel each, the last of which is the answer.
_CHANNELS = ReasoningMarkup(
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
# Muse: messages to somebody, which are thoughts where they are to itself.
_RECIPIENTS = ReasoningMarkup(
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
# Solar Open: a message of thoughts and one of content.
_MESSAGES = ReasoningMarkup(
    open="<|think|>",
    close="<|end|>",
    answer="<|content|>",
    end="<|end|>",
    headers=("<|begin|>",),
    header_words=("assistant",),
    think="<|think|>",
    conclude="<|end|><|begin|>assistant<|content|>",
    speak="<|content|>",
)


def _sections(
    open: str,  # noqa: A002 - the same words
    close: str,
    answer: str,
    end: str,
    headers: tuple[str, ...] = (),
    header_words: tuple[str, ...] = (),
) -> ReasoningMarkup:
    """Thinking and answer in marks of their own, one behind the other."""
    return ReasoningMarkup(
        open, close, answer, end, headers, header_words, think=open, conclude=close + answer, speak=answer
    )


def _tags(open: str, close: str, think: str = "") -> ReasoningMarkup:  # noqa: A002
    """Thinking in marks, behind which the answer follows."""
    return ReasoningMarkup(open, close, think=think or open, conclude=close)


_FAMILIES: tuple[tuple[tuple[str, ...], ReasoningMarkup], ...] = (
    (("<|channel|>", "<|message|>"), _CHANNELS),
    (("<|eom|>", "to=self"), _RECIPIENTS),
    (("<|think|>", "<|content|>"), _MESSAGES),
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
    (("<|channel>", "<channel|>"), _tags("<|channel>thought", "<channel|>", "<|channel>thought\n")),
    # Magistral and Ministral, Seed-OSS, MiniMax M3, Kimi VL, EXAONE Deep, Hunyuan 3
    (("[THINK]", "[/THINK]"), _tags("[THINK]", "[/THINK]")),
    (("<seed:think>", "</seed:think>"), _tags("<seed:think>", "</seed:think>")),
    (("<mm:think>", "</mm:think>"), _tags("<mm:think>", "</mm:think>")),
    (("◁think▷", "◁/think▷"), _tags("◁think▷", "◁/think▷")),
    (("<thought>", "</thought>"), _tags("<thought>", "</thought>", "<thought>\n")),
    (("<think{}>", ":opensource"), _tags("<think:opensource>", "</think:opensource>")),
    # Apriel, which begins its thinking with a sentence
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
    # Hunyuan, but for the third
    (
        ("<answer>", "</answer>"),
        ReasoningMarkup(
            "<think>", "</think>", "<answer>", "</answer>", think="<think>\n", conclude="\n</think>\n<answer>\n"
        ),
    ),
)


def markup_of(template: str | None) -> ReasoningMarkup:
    """The marks that a model of this chat template writes: those that it names, else the most common ones."""
    source = template or ""
    return next((markup for signs, markup in _FAMILIES if all(sign in source for sign in signs)), THINK)
