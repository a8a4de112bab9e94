"""Render a model's chat template: Jinja from an untrusted file, in a sandbox."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import product
from typing import Any, NoReturn

from app.conversations.message import Message, Role
from app.core.errors import TemplateError
from app.core.printable import one_line
from app.engine.text.call_formats import format_of
from app.engine.text.tool_calls import ToolCall, argument_object
from app.llama.sandbox import BudgetError, Sandbox
from app.llama.turns import rearranged, with_calls_as_text, with_marks, with_tools_as_text
from app.settings.layers import AS_TRAINED, Thinking

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""Template of models without their own, as in llama.cpp."""
CHATML_MARKS = ("<|im_end|>", "<|im_start|>")
"""Marks that end or begin a turn."""
_THINKING_BLOCK_TEST = re.compile(r"""\[\s*['"]type['"]\s*\]\s*==\s*['"]thinking['"]""")
_REASONING_FIELDS = ("reasoning_content", "reasoning", "thinking")
"""Fields in which templates read the reasoning of a message."""
_EFFORT_FIELDS = ("reasoning_effort", "reasoning_strength", "thinking_effort")
_THINKING_ON = {"enable_thinking": True, "thinking": True, "reasoning": True, "thinking_mode": "enabled"}
_THINKING_OFF = {
    "enable_thinking": False,
    "thinking": False,
    "reasoning": False,
    "thinking_mode": "disabled",
    "thinking_budget": 0,
}
_LONGEST_LAYOUT = 200
"""Longest date layout; Python allows a date 256 times as long."""
_NO_TOOLS: dict[str, Any] = {"tools": None, "documents": None}
_NO_FUNCTIONS: dict[str, Any] = {"functions": "", "datetime": ""}
_IN_SYSTEM = "system"
_TOOL_VARIABLES = ("tools", "xml_tools", "functions", _IN_SYSTEM)
"""Variables with tools in templates; some read them from the system message."""
_SYSTEM_PROBE, _USER_PROBE, _TOOL_PROBE = "8120394756", "4975038621", "7305918246"
"""Probe texts that no template contains; capitals or JSON do not change digits."""
_PROBE_SCHEMA = {"type": "object", "properties": {"a": {"type": "string", "description": "a"}}, "required": ["a"]}
_PROBE_TOOL = {"type": "function", "function": {"name": _TOOL_PROBE, "description": "a", "parameters": _PROBE_SCHEMA}}
_Tools = Sequence[Mapping[str, Any]]


class RenderingError(TemplateError):
    """The template refuses a conversation or fails; unlike after a spent budget, another form of it may work."""


class ChatTemplate:
    """Renders conversations in the form that a model was trained on.

    Content is a text or a list of parts; missing tools are None, as in Hugging Face's library, or undefined, as in
    llama.cpp; and some templates ignore system messages. Renderings of probe texts show which.

    Args:
        source: Jinja source from the model file; None for ChatML.
        bos: Text of the token that begins a sequence.
        eos: Text of the token that ends a sequence.

    Attributes:
        is_chatml: Whether it is the built-in template, for models whose file has none.
        leaves_out: Whether the user's words are always lost.

    Raises:
        TemplateError: It is no valid Jinja, or it exceeded its budget.
    """

    def __init__(self, source: str | None, bos: str = "", eos: str = "") -> None:
        self.is_chatml = source is None
        source = CHATML if source is None else source
        self._specials = {"bos_token": bos, "eos_token": eos}
        self._in_blocks = _THINKING_BLOCK_TEST.search(source) is not None
        self._sandbox = Sandbox(raise_exception=_refuse, strftime_now=_now)
        # Jinja's own tojson escapes for HTML, which would put \u003c into prompts.
        self._sandbox.add_filter("tojson", _to_json)
        try:
            self._template = self._sandbox.within_time(lambda: self._sandbox.from_string(source))
        except Exception as error:
            # Python's compiler has limits too, with other exceptions.
            raise _failure(error) from error
        # Python takes longer to compile a long template than to render any template.
        self.renew_budget()
        self.leaves_out = False
        self.shows_tools = False
        self._find_manner(source)
        self.call_format = format_of(source, shows_tools=self.shows_tools)

    def _find_manner(self, source: str) -> None:
        asked = Message(Role.USER, _USER_PROBE)
        self._has_system, self._tools_in = True, ""
        for self._in_parts, self._no_tools in product((False, True), (_NO_TOOLS, {}, _NO_FUNCTIONS)):
            rendered = self._tried([asked])
            if rendered is not None and _USER_PROBE in rendered:
                both = self._tried([Message(Role.SYSTEM, _SYSTEM_PROBE), asked])
                self._has_system = both is None or _SYSTEM_PROBE in both
                self.leaves_out = False
                self._find_tools(source, asked)
                return
            # A template that always fails reports the reason when it is used.
            self.leaves_out = self.leaves_out or rendered is not None
        self._in_parts, self._no_tools = False, _NO_TOOLS

    def _find_tools(self, source: str, asked: Message) -> None:
        for self._tools_in in _TOOL_VARIABLES if "tools" in source or "functions" in source else ():
            if _TOOL_PROBE in (self._tried([asked], [_PROBE_TOOL]) or ""):
                self.shows_tools = True
                return

    def renew_budget(self) -> None:
        """Reset the time and memory that all renderings share."""
        self._sandbox.renew_budget()

    def render(self, messages: Sequence[Message], thinking: Thinking = AS_TRAINED, tools: _Tools = ()) -> str:
        """Return the conversation as one prompt that ends with the beginning of an answer.

        If the template refuses or ignores system messages, their text precedes the first user message.

        Raises:
            TemplateError: The template failed, refused the conversation, or exceeded a limit.
        """
        refusal: RenderingError | None = None
        for form, offered in self._forms(messages, tools):
            try:
                if self._shows_all(form, thinking, offered):
                    return self._render(form, thinking, offered)
            except RenderingError as error:
                # If all forms are refused, the last reason is reported.
                refusal = error
        assert refusal is not None
        raise refusal

    def _forms(self, messages: Sequence[Message], tools: _Tools) -> Iterator[tuple[list[Message], _Tools]]:
        """Yield a conversation and its tools in the forms to try, those that change the least first."""
        has_calls = any(message.tool_calls or message.tool_call_id for message in messages)

        def orders(form: Sequence[Message], offered: _Tools) -> Iterator[tuple[list[Message], _Tools]]:
            return ((turns, offered) for turns in rearranged(form, has_system=self._has_system))

        if self.shows_tools or not tools:
            yield from orders(messages, tools)
        if has_calls and self.shows_tools:
            # Some templates show tools and results, but leave the calls to the text of an answer.
            yield from orders(with_calls_as_text(messages, self.call_format), tools)
        if has_calls or tools:
            # Some templates know no calls, or fail with schemas that they do not know.
            yield from orders(with_tools_as_text(messages, tools), ())

    def _shows_all(self, messages: Sequence[Message], thinking: Thinking, tools: _Tools) -> bool:
        """Return whether a prompt has all calls of tools, their results, and the system messages beside them.

        Some templates show one call of several, or a result only after a call, or a system message only beside a
        question. Texts that are nowhere else in a prompt tell.
        """
        probe, marks = with_marks(messages)
        rendered = self._render(probe, thinking, tools[:1]) if marks else ""
        return all(one in rendered for one in marks)

    def _tried(self, messages: Sequence[Message], tools: _Tools = ()) -> str | None:
        try:
            return self._render(messages, AS_TRAINED, tools)
        except RenderingError:
            return None

    def _render(self, messages: Sequence[Message], thinking: Thinking, tools: _Tools, *, as_text: bool = False) -> str:
        names = {call.id: call.name for message in messages for call in message.tool_calls}
        values = {
            "messages": [self._value_of(message, names, as_text=as_text) for message in messages],
            "add_generation_prompt": True,
            **self._no_tools,
            **self._specials,
            **_switches(thinking),
        }
        if tools:
            self._add_tools(values, list(map(_with_properties, tools)))
        try:
            return self._sandbox.within_time(lambda: self._template.render(values))
        except TemplateError:
            raise
        except Exception as error:
            # A template is a program that can raise anything.
            if names and not as_text and not isinstance(error, BudgetError):
                # Some templates append the arguments of a call to a text.
                return self._render(messages, thinking, tools, as_text=True)
            raise _failure(error) from error

    def _value_of(self, message: Message, names: Mapping[str, str], *, as_text: bool) -> dict[str, Any]:
        """Return a message as a template reads it; `names` are those of the called tools by call id."""
        text = {"type": "text", "text": message.content}
        value: dict[str, Any] = {"role": message.role.value, "content": [text] if self._in_parts else message.content}
        if message.tool_call_id:
            value |= {"tool_call_id": message.tool_call_id, "name": names.get(message.tool_call_id, "")}
        if message.role is not Role.ASSISTANT:
            return value
        if message.reasoning and self._in_blocks:
            value["content"] = [{"type": "thinking", "thinking": message.reasoning}, text]
        elif message.reasoning:
            value |= dict.fromkeys(_REASONING_FIELDS, message.reasoning)
        if message.tool_calls:
            value["tool_calls"] = [_as_call(call, as_text=as_text) for call in message.tool_calls]
        return value

    def _add_tools(self, values: dict[str, Any], tools: list[Mapping[str, Any]]) -> None:
        messages = values["messages"]
        if self._tools_in == _IN_SYSTEM and (not messages or messages[0]["role"] != Role.SYSTEM.value):
            messages.insert(0, {"role": Role.SYSTEM.value, "content": ""})
        if self._tools_in == "functions":
            values |= {"functions": _to_json(tools, indent=4), "datetime": _now("%b %d %Y %H:%M:%S")}
        elif self._tools_in == _IN_SYSTEM:
            messages[0]["tools"] = _to_json(tools)
        else:
            values[self._tools_in] = tools


def _with_properties(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a tool that names its properties, also if it has none."""
    parameters = tool["function"].get("parameters") or {"type": "object"}
    if "properties" in parameters:
        return tool
    return {**tool, "function": {**tool["function"], "parameters": {**parameters, "properties": {}}}}


def _failure(error: Exception) -> TemplateError:
    reason = one_line(str(error)) or type(error).__name__
    kind = TemplateError if isinstance(error, BudgetError) else RenderingError
    return kind(f"The model's chat template fails: {reason}.", "The model file may be faulty; try another.")


def _refuse(message: object = "") -> NoReturn:
    reason = one_line(str(message)).rstrip(".") or "no reason was given"
    raise RenderingError(
        f"The model's chat template refuses this conversation: {reason}.",
        "Start a new conversation, choose another reasoning effort, or try another model.",
    )


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
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys, default=_as_list
    )


def _as_list(value: object) -> list[Any]:
    """Return the list from a filter such as `map`; llama.cpp serializes it too."""
    if isinstance(value, Iterator):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def _as_call(call: ToolCall, *, as_text: bool) -> dict[str, Any]:
    arguments = call.arguments or "{}" if as_text else argument_object(call)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _switches(thinking: Thinking) -> dict[str, Any]:
    """Return the variables that request reasoning, under every name that templates use."""
    enabled: dict[str, Any] = {} if thinking.enabled is None else _THINKING_ON if thinking.enabled else _THINKING_OFF
    effort = thinking.effort
    return (
        enabled if effort is None or thinking.enabled is False else {**enabled, **dict.fromkeys(_EFFORT_FIELDS, effort)}
    )
