"""A model's own chat template: Jinja from an untrusted file, rendered in a sandbox."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import nodes
from jinja2.exceptions import SecurityError, TemplateSyntaxError
from jinja2.exceptions import TemplateError as JinjaError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from app.chat.message import Message, Role
from app.errors import TemplateError

MAX_ITERATIONS = 1_000_000
"""Loop passes and macro calls in one rendering; a conversation of 1,000 messages needs a few thousand."""
MAX_CHARACTERS = 64_000_000
"""Longest rendered prompt, and longest string a template may build by multiplication."""

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""For models without a template; llama.cpp assumes the same."""

_TICK = "_tick"


class _TemplateRefusal(Exception):  # noqa: N818 - a template's own raise_exception, told apart from ours
    pass


class _Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's sandbox with a budget: no endless loops, no strings of gigabytes."""

    intercepted_binops = frozenset({"*", "**"})

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
        self.globals.update(raise_exception=_refuse, strftime_now=_now)
        # Jinja's own tojson escapes for HTML, which would put \u003c into prompts.
        self.filters["tojson"] = _to_json

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        """Count every pass of a loop and every macro call."""
        tree = super()._parse(source, name, filename)
        for kind in (nodes.For, nodes.Macro, nodes.CallBlock):
            for node in tree.find_all(kind):
                call = nodes.Call(nodes.Name(_TICK, "load"), [], [], None, None)
                # An empty {% if %} evaluates without printing.
                node.body.insert(0, nodes.If(call, [], [], [], lineno=node.lineno).set_environment(self))
        return tree

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        if operator == "**" and not (abs(left) < 1e6 and abs(right) < 64):
            raise SecurityError("a power is too large")
        if operator == "*":
            size = max((len(x) for x in (left, right) if isinstance(x, str | list | tuple)), default=0)
            count = max((x for x in (left, right) if isinstance(x, int)), default=0)
            if size * count > MAX_CHARACTERS:
                raise SecurityError("a repeated string is too long")
        return super().call_binop(context, operator, left, right)


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
        try:
            self._template = _Sandbox().from_string(source if source is not None else CHATML)
        except (TemplateSyntaxError, RecursionError, MemoryError) as error:
            raise _failure(error) from error

    def render(self, messages: Sequence[Message]) -> str:
        """The conversation as one prompt that ends where the assistant is to speak.

        A template that refuses a system message gets it in front of the first user message instead.

        Raises:
            TemplateError: The template failed, refused the conversation, or asked for too much.
        """
        try:
            return self._render(messages)
        except _TemplateRefusal as refusal:
            merged = _without_system(messages)
            if merged == list(messages):
                raise TemplateError(f"The model's chat template refuses this conversation: {refusal}.") from None
            try:
                return self._render(merged)
            except _TemplateRefusal:
                raise TemplateError(f"The model's chat template refuses this conversation: {refusal}.") from None

    def _render(self, messages: Sequence[Message]) -> str:
        passes = 0

        def tick() -> bool:
            nonlocal passes
            passes += 1
            if passes > MAX_ITERATIONS:
                raise SecurityError("it loops without end")
            return False

        try:
            pieces = self._template.generate(
                messages=[{"role": m.role.value, "content": m.content} for m in messages],
                add_generation_prompt=True,
                tools=None,
                documents=None,
                **self._specials,
                **{_TICK: tick},
            )
            out: list[str] = []
            length = 0
            for piece in pieces:
                length += len(piece)
                if length > MAX_CHARACTERS:
                    raise SecurityError("its output is too long")
                out.append(piece)
        except _TemplateRefusal:
            raise
        except (JinjaError, ArithmeticError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
            raise _failure(error) from error
        except AttributeError as error:
            raise _failure(error) from error
        return "".join(out)


def _failure(error: Exception) -> TemplateError:
    reason = str(error) or type(error).__name__
    return TemplateError(f"The model's chat template fails: {reason}.", "The model file may be faulty; try another.")


def _without_system(messages: Sequence[Message]) -> list[Message]:
    """The same conversation with system text in front of the first user message."""
    system = "\n\n".join(m.content for m in messages if m.role is Role.SYSTEM)
    rest = [m for m in messages if m.role is not Role.SYSTEM]
    if not system or not rest or rest[0].role is not Role.USER:
        return rest
    return [Message(Role.USER, f"{system}\n\n{rest[0].content}"), *rest[1:]]


def _refuse(message: str) -> NoReturn:
    raise _TemplateRefusal(str(message)[:500])


def _now(layout: str) -> str:
    return datetime.now().astimezone().strftime(layout)


def _to_json(value: object, indent: int | None = None, **_: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
