"""Render a model's own chat template: Jinja from an untrusted file, in a sandbox."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import product
from typing import Any, NoReturn

from app.conversations.message import Message, Role
from app.core.errors import TemplateError
from app.core.printable import one_line
from app.llama.sandbox import BudgetError, Sandbox
from app.settings.thinking import AS_TRAINED, Thinking

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""For models without a template; llama.cpp assumes the same."""
CHATML_MARKS = ("<|im_end|>", "<|im_start|>")
"""Marks that end or begin a turn."""
_RWKV_WORLD = (
    "{% for message in messages %}{{ message.role|capitalize }}: {{ message.content|trim }}{{ '\n\n' }}{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)
_NAMED = {"chatml": CHATML, "rwkv-world": _RWKV_WORLD}
"""Files of earlier conversions hold llama.cpp's name of a template in its place."""

_BLOCKS = re.compile(r"""\[\s*['"]type['"]\s*\]\s*==\s*['"]thinking['"]""")
_THOUGHTS = ("reasoning_content", "reasoning", "thinking")
"""Fields in which templates look for the reasoning of a message."""
_EFFORTS = ("reasoning_effort", "reasoning_strength", "thinking_effort")
_ON = {"enable_thinking": True, "thinking": True, "reasoning": True, "thinking_mode": "enabled"}
_OFF = {
    "enable_thinking": False,
    "thinking": False,
    "reasoning": False,
    "thinking_mode": "disabled",
    "thinking_budget": 0,
}
_LONGEST_LAYOUT = 200
"""Python gives what a date becomes 256 times as much room, and a layout can fill it."""
_SYSTEM, _USER = "8120394756", "4975038621"
"""Probe texts that no template contains: digits stay what they are where a template writes in capitals, or as JSON."""


class TemplateBudgetError(TemplateError):
    """The template spent its budget of time, steps or memory."""


class _TemplateRefusal(Exception):  # noqa: N818 - a template's own raise_exception, told apart from ours
    pass


@dataclass(frozen=True, slots=True)
class _Manner:
    """Format in which a template shows a whole conversation.

    Attributes:
        parts: Whether the content of a message is a list of parts, as with models that also see.
        says_none: Whether tools and documents that are not there are None, as in the library that most templates are
            written for. Templates for tools alone loop over them unasked, which the undefined allows.
        system: Whether it has a place for system messages.
    """

    parts: bool = False
    says_none: bool = True
    system: bool = True


class ChatTemplate:
    """Renders conversations the way a model was trained on them.

    A template that leaves out what it is told is told it in another manner: what a manner loses is found out with
    words that cannot come from anywhere else.

    Args:
        source: Jinja source from the model file, or llama.cpp's name of a template; None for ChatML.
        bos: Text of the token that begins a sequence, "" without one.
        eos: Text of the token that ends one.

    Attributes:
        is_chatml: Whether it is ours, written for models whose file holds none.
        leaves_out: Whether the user's words are lost whatever the manner.

    Raises:
        TemplateError: It is no valid Jinja, or it spent its budget.
    """

    def __init__(self, source: str | None, bos: str = "", eos: str = "") -> None:
        source = CHATML if source is None else _NAMED.get(source.strip(), source)
        self.is_chatml = source is CHATML
        self._specials = {"bos_token": bos, "eos_token": eos}
        self._in_blocks = _takes_blocks(source or "")
        self._sandbox = Sandbox(raise_exception=_refuse, strftime_now=_now)
        # Jinja's own tojson escapes for HTML, which would put \u003c into prompts.
        self._sandbox.add_filter("tojson", _to_json)
        try:
            self._template = self._sandbox.within_time(lambda: self._sandbox.from_string(source))
        except Exception as error:
            # Python's own compiler has limits too, with exceptions of its own.
            raise _failure(error) from error
        self.leaves_out = False
        # Python compiles a long template for longer than any template is rendered.
        self.renew_budget()
        self._manner = self._suited()

    def renew_budget(self) -> None:
        """Reset the time, steps and memory that all renderings share until the next reset."""
        self._sandbox.renew_budget()

    def render(self, messages: Sequence[Message], thinking: Thinking = AS_TRAINED) -> str:
        """The conversation as one prompt that ends where the assistant is to speak.

        A template that refuses a system message, or leaves it out, gets it in front of the first user message instead.

        Args:
            messages: The conversation.
            thinking: Whether the model is to think, where the template can say so.

        Raises:
            TemplateError: The template failed, refused the conversation, or asked for too much.
        """
        try:
            return self._rendered(messages, thinking)
        except _TemplateRefusal as refusal:
            if thinking.effort is None or self._refuses(messages, replace(thinking, effort=None)):
                raise _refusal(refusal) from None
            raise TemplateError(
                f"The model's chat template refuses this effort of thinking{_reason(refusal)}",
                "Choose another reasoning effort, or auto.",
            ) from None

    def _rendered(self, messages: Sequence[Message], thinking: Thinking) -> str:
        try:
            return self._render(messages, self._manner, thinking)
        except _TemplateRefusal as refusal:
            if not self._manner.system or all(m.role is not Role.SYSTEM for m in messages):
                raise
            try:
                return self._render(messages, replace(self._manner, system=False), thinking)
            except _TemplateRefusal:
                raise refusal from None

    def _refuses(self, messages: Sequence[Message], thinking: Thinking) -> bool:
        try:
            self._rendered(messages, thinking)
        except (_TemplateRefusal, TemplateError):
            return True
        return False

    def _suited(self) -> _Manner:
        """The first manner in which the user's words are in the prompt; the ordinary one if there is none."""
        answered = False
        for parts, says_none in product((False, True), (True, False)):
            manner = _Manner(parts, says_none)
            said = self._tried([Message(Role.USER, _USER)], manner)
            if said is not None and _USER in said:
                both = self._tried([Message(Role.SYSTEM, _SYSTEM), Message(Role.USER, _USER)], manner)
                return replace(manner, system=both is None or _SYSTEM in both)
            answered = answered or said is not None
        # One that fails with every manner says why when it is asked for a prompt.
        self.leaves_out = answered
        return _Manner()

    def _tried(self, messages: Sequence[Message], manner: _Manner) -> str | None:
        try:
            return self._render(messages, manner, AS_TRAINED)
        except TemplateBudgetError:
            raise
        except (_TemplateRefusal, TemplateError):
            return None

    def _render(self, messages: Sequence[Message], manner: _Manner, thinking: Thinking) -> str:
        said = messages if manner.system else _without_system(messages)
        values = {
            "messages": [_told(message, in_blocks=self._in_blocks, in_parts=manner.parts) for message in said],
            "add_generation_prompt": True,
            **({"tools": None, "documents": None} if manner.says_none else {}),
            **self._specials,
            **_switches(thinking),
        }
        try:
            return self._sandbox.within_time(lambda: self._template.render(values))
        except _TemplateRefusal:
            raise
        except Exception as error:
            # A template is a program of its own: there is nothing that it cannot raise.
            raise _failure(error) from error


def _failure(error: Exception) -> TemplateError:
    reason = one_line(str(error)) or type(error).__name__
    kind = TemplateBudgetError if isinstance(error, BudgetError) else TemplateError
    return kind(f"The model's chat template fails: {reason}.", "The model file may be faulty; try another.")


def _refusal(refusal: _TemplateRefusal) -> TemplateError:
    return TemplateError(
        f"The model's chat template refuses this conversation{_reason(refusal)}",
        "Start a new conversation, or try another model.",
    )


def _reason(refusal: _TemplateRefusal) -> str:
    """Return the reason as the end of a sentence."""
    return f": {one_line(str(refusal)).rstrip('.') or 'no reason was given'}."


def _without_system(messages: Sequence[Message]) -> list[Message]:
    """Return the conversation with system text in front of the first user message."""
    system = "\n\n".join(m.content for m in messages if m.role is Role.SYSTEM)
    rest = [m for m in messages if m.role is not Role.SYSTEM]
    first = next((i for i, m in enumerate(rest) if m.role is Role.USER), None)
    if system and first is not None:
        rest[first] = Message(Role.USER, f"{system}\n\n{rest[first].content}")
    return rest


def _refuse(message: object = "") -> NoReturn:
    raise _TemplateRefusal(str(message))


def _now(layout: str) -> str:
    if len(layout) > _LONGEST_LAYOUT:
        raise ValueError("a layout of a date is too long")
    return datetime.now().astimezone().strftime(layout)


def _to_json(
    value: object,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """With the arguments that templates know from the library which most of them are written for."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _takes_blocks(source: str) -> bool:
    """Return whether a template takes reasoning as one part of a message, as those of Mistral do."""
    return _BLOCKS.search(source) is not None


def _told(message: Message, *, in_blocks: bool, in_parts: bool = False) -> dict[str, Any]:
    """Return a message as a template reads it.

    Args:
        message: The message.
        in_blocks: Whether its thinking is a part of its content.
        in_parts: Whether all content is a list of parts, as with models that also see.
    """
    role = message.role.value
    text = {"type": "text", "text": message.content}
    content: str | list[dict[str, str]] = [text] if in_parts else message.content
    if message.role is not Role.ASSISTANT or not message.reasoning:
        return {"role": role, "content": content}
    if in_blocks:
        return {"role": role, "content": [{"type": "thinking", "thinking": message.reasoning}, text]}
    return {"role": role, "content": content, **dict.fromkeys(_THOUGHTS, message.reasoning)}


def _switches(thinking: Thinking) -> dict[str, Any]:
    """Return the variables that request reasoning, under every name that templates use."""
    wanted: dict[str, Any] = {} if thinking.wanted is None else _ON if thinking.wanted else _OFF
    effort = thinking.effort
    return wanted if effort is None or thinking.wanted is False else {**wanted, **dict.fromkeys(_EFFORTS, effort)}
