"""A model's own chat template: Jinja from an untrusted file, rendered in a sandbox."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import NoReturn

from app.chat.message import Message, Role
from app.errors import TemplateError
from app.llama.plain import plain
from app.llama.sandbox import Sandbox
from app.llama.template_values import switches, takes_blocks, told
from app.thinking import AS_TRAINED, Thinking

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""For models without a template; llama.cpp assumes the same."""
CHATML_MARKS = ("<|im_end|>", "<|im_start|>")
"""What ends a turn in it, or begins another one."""

_LONGEST_LAYOUT = 200
"""Python gives what a date becomes 256 times as much room, and a layout can fill it."""


class _TemplateRefusal(Exception):  # noqa: N818 - a template's own raise_exception, told apart from ours
    pass


class ChatTemplate:
    """Renders conversations the way a model was trained on them.

    Args:
        source: Jinja source from the model file; None for ChatML.
        bos: Text of the token that begins a sequence, "" without one.
        eos: Text of the token that ends one.

    Raises:
        TemplateError: It is no valid Jinja.
    """

    def __init__(self, source: str | None, bos: str = "", eos: str = "") -> None:
        self._specials = {"bos_token": bos, "eos_token": eos}
        self._in_blocks = takes_blocks(source or "")
        self._sandbox = Sandbox(raise_exception=_refuse, strftime_now=_now)
        # Jinja's own tojson escapes for HTML, which would put \u003c into prompts.
        self._sandbox.add_filter("tojson", _to_json)
        try:
            self._template = self._sandbox.from_string(source if source is not None else CHATML)
        except Exception as error:
            # Python's own compiler has limits too, with exceptions of its own.
            raise _failure(error) from error

    def render(self, messages: Sequence[Message], thinking: Thinking = AS_TRAINED) -> str:
        """The conversation as one prompt that ends where the assistant is to speak.

        A template that refuses a system message gets it in front of the first user message instead.

        Args:
            messages: The conversation.
            thinking: Whether the model is to think, where the template can say so.

        Raises:
            TemplateError: The template failed, refused the conversation, or asked for too much.
        """
        try:
            return self._render(messages, thinking)
        except _TemplateRefusal as refusal:
            merged = _without_system(messages)
            if merged == list(messages):
                raise _refusal(refusal) from None
            try:
                return self._render(merged, thinking)
            except _TemplateRefusal:
                raise _refusal(refusal) from None

    def _render(self, messages: Sequence[Message], thinking: Thinking) -> str:
        self._sandbox.begin()
        try:
            return self._template.render(
                messages=[told(message, in_blocks=self._in_blocks) for message in messages],
                add_generation_prompt=True,
                tools=None,
                documents=None,
                **self._specials,
                **switches(thinking),
            )
        except _TemplateRefusal:
            raise
        except Exception as error:
            # A template is a program of its own: there is nothing that it cannot raise.
            raise _failure(error) from error


def _failure(error: Exception) -> TemplateError:
    reason = plain(str(error)) or type(error).__name__
    return TemplateError(f"The model's chat template fails: {reason}.", "The model file may be faulty; try another.")


def _refusal(refusal: _TemplateRefusal) -> TemplateError:
    return TemplateError(
        f"The model's chat template refuses this conversation: {plain(str(refusal)) or 'no reason was given'}.",
        "Start a new conversation, or try another model.",
    )


def _without_system(messages: Sequence[Message]) -> list[Message]:
    """The same conversation with system text in front of the first user message."""
    system = "\n\n".join(m.content for m in messages if m.role is Role.SYSTEM)
    rest = [m for m in messages if m.role is not Role.SYSTEM]
    if not system or not rest or rest[0].role is not Role.USER:
        return rest
    return [Message(Role.USER, f"{system}\n\n{rest[0].content}"), *rest[1:]]


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
