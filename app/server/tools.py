"""Read the tools of a request and the choice among them, in every API.

A tool becomes a function of OpenAI's chat API. Besides "type" and "function" it may have:

strict     true if a keyword of its schema that cannot be enforced is an error
custom     the grammar of a custom tool's text, by its syntax; {} for any text
namespace  the tool's namespace and its own name
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from app.core.printable import storable
from app.server.errors import RequestError
from app.server.fields import FieldNames, Fields, refuse

_TOOL_CHOICES = {
    "auto": "auto",
    "none": "none",
    **dict.fromkeys(("any", "required", "function", "tool", "custom"), "required"),
}
"""Types of `tool_choice` in the APIs of OpenAI and Anthropic."""
_ANCHOR_PATTERN = re.compile(r"\A\^|(?<!\\)\$\Z")
_INPUT = "input"
"""Parameter that holds the text for a custom tool."""
_INPUT_BEGIN = re.compile(rf'\s*\{{\s*"{_INPUT}"\s*:\s*"')
_STRING_TEXT = re.compile(
    r'(?:[^"\\]|\\(?:["\\/bfnrt]|u(?![dD][89abAB])[0-9a-fA-F]{4}|u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4}))+'
)
"""Text of a JSON string up to its end, or to an incomplete escape."""


def read_tools(fields: Fields, names: FieldNames) -> list[dict[str, Any]]:
    """Return the tools of a request in OpenAI's APIs, except those that run on OpenAI's servers."""
    tools = []
    for shown, space, one in _listed(fields):
        kind = one.text("type", "function")
        if kind not in ("function", "custom"):
            continue
        nested = one.object(kind)
        if nested is None and "name" not in one:
            refuse(one.at(names.of_type(kind, "name")), None, "the name of a tool")
        tool = (_read_custom_tool if kind == "custom" else read_tool)(nested or one)
        if space:
            tool["namespace"] = (space, tool["function"]["name"])
            tool["function"]["name"] = shown
        tools.append(tool)
    return tools


def _listed(fields: Fields) -> Iterator[tuple[str, str | None, Fields]]:
    """Yield each tool with its name for the model and its namespace, if any.

    A tool of a namespace keeps its name; if that is taken, the namespace precedes it.
    """
    taken: set[str] = set()
    tools = fields.objects("tools")
    spaces = [(one.text("name"), one.objects("tools")) for one in tools if one.text("type") == "namespace"]
    for space, members in ((None, [one for one in tools if one.text("type") != "namespace"]), *spaces):
        for one in members:
            name = one.text("name")
            shown = f"{space}__{name}" if space and name in taken else name
            taken.add(shown)
            yield shown, space, one


def read_tool(fields: Fields, schema: str = "parameters") -> dict[str, Any]:
    """Return a tool that is a function; `schema` names the field with its parameters' schema."""
    if not (name := fields.text("name")):
        refuse(fields.at("name"), fields.raw("name"), "the name of a tool")
    parameters = fields.raw(schema) if fields.object(schema) is not None else {"type": "object", "properties": {}}
    function = {"name": name, "description": fields.text("description"), "parameters": parameters}
    return {"type": "function", "function": function, **({"strict": True} if fields.flag("strict") else {})}


def _read_custom_tool(fields: Fields) -> dict[str, Any]:
    form = fields.object("format") or Fields({})
    # OpenAI's chat API nests the grammar once more.
    form = form.object("grammar") or form
    syntax, definition = form.text("syntax", "lark"), form.text("definition")
    if syntax not in ("lark", "regex"):
        refuse(form.at("syntax"), syntax, "lark or regex")
    value = {"type": "string"}
    if definition:
        value["description"] = f"It must match this {syntax} grammar: {definition}"
    if definition and syntax == "regex":
        value["pattern"] = f"^(?:{_ANCHOR_PATTERN.sub('', definition)})$"
    tool = read_tool(Fields({name: fields.raw(name) for name in ("name", "description")}, fields.at("")))
    tool["function"]["parameters"] = {"type": "object", "properties": {_INPUT: value}, "required": [_INPUT]}
    return {**tool, "custom": {syntax: definition} if definition else {}}


def chosen(
    tools: Sequence[Mapping[str, Any]], fields: Fields, field_names: FieldNames
) -> tuple[tuple[Mapping[str, Any], ...], bool, bool]:
    """Read `tool_choice` in OpenAI's or Anthropic's format.

    Returns the tools that an answer may call, whether it must call one, and whether at most once.
    """
    choice, names = fields.raw("tool_choice"), [""]
    # Anthropic's clients send this word in an object.
    must_call_word = "any" if isinstance(choice, dict) and choice.get("type") == "any" else "required"
    one_call = "parallel_tool_calls" in fields and not fields.flag("parallel_tool_calls")
    if isinstance(choice, dict):
        wanted = Fields.of(choice, "tool_choice")
        one_call = one_call or wanted.flag("disable_parallel_tool_use")
        kind = wanted.text("type", "function")
        # Other types of tools run on their providers' servers.
        choice = _TOOL_CHOICES.get(kind, "auto")
        names = [_named(wanted)] if choice == "required" else [""]
        if kind in ("function", "tool", "custom") and not names[0]:
            path = field_names.of_type("custom" if kind == "custom" else "function", "name")
            refuse(wanted.at(path), None, "the name of a tool")
        # A tool chosen by name is called once.
        one_call = one_call or bool(names[0])
        if kind == "allowed_tools":
            allowed = wanted.object(kind) or wanted
            choice = allowed.text("mode", "auto")
            if choice not in ("auto", "none", "required"):
                refuse(allowed.at("mode"), choice, "auto or required")
            names = [name for one in allowed.objects("tools") if (name := _named(one))]
    if choice not in (None, "auto", "none", "required"):
        refuse("tool_choice", choice, f"auto, none, {must_call_word} or a function")
    known = {one["function"]["name"]: one for one in tools}
    for name in filter(None, names):
        if name not in known:
            raise RequestError(f'tool_choice names "{name}", which is not one of the tools.', param="tool_choice")
    if choice == "none" or "" not in names:
        tools = [] if choice == "none" else [known[name] for name in dict.fromkeys(names)]
    if choice == "required" and not tools:
        raise RequestError(f"tool_choice is {must_call_word}, but there are no tools.", param="tool_choice")
    return tuple(tools), choice == "required", one_call


def _named(tool: Fields) -> str:
    return (tool.object("function") or tool.object("custom") or tool).text("name")


def arguments_of(fields: Fields, name: str) -> str:
    """Return the arguments of a call as text; a client returns what the model wrote, even if it is no JSON."""
    value = fields.raw(name)
    if isinstance(value, str):
        return value or "{}"
    return json.dumps(value if isinstance(value, dict) else {}, ensure_ascii=False)


def custom_arguments(text: str) -> str:
    """Return the arguments of a custom tool's call, whose input is a text."""
    return json.dumps({_INPUT: text}, ensure_ascii=False)


class InputReader:
    """Converts a custom tool's arguments to its input while they are written."""

    def __init__(self) -> None:
        self.text = ""
        self._arguments = ""
        self._at = 0

    def push(self, arguments: str) -> str:
        """Return the new text in more arguments."""
        self._arguments += arguments
        if not self._at and (begin := _INPUT_BEGIN.match(self._arguments)) is not None:
            self._at = begin.end()
        if not self._at or (found := _STRING_TEXT.match(self._arguments, self._at)) is None:
            return ""
        self._at = found.end()
        return self._add(json.loads(f'"{found[0]}"', strict=False))

    def end(self) -> str:
        """Return the rest of the text; unreadable arguments are returned unchanged."""
        with suppress(ValueError, KeyError, TypeError):
            value = json.loads(self._arguments, strict=False)[_INPUT]
            whole = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            return self._add(whole[len(self.text) :])
        return self._add(self._arguments[self._at :])

    def _add(self, text: str) -> str:
        # An escape may be half a surrogate pair, which no answer can hold.
        text = storable(text)
        self.text += text
        return text
