"""Read an answer with calls in pieces, and write calls as a format does."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from app.engine.text.call_format import CallFormat
from app.engine.text.call_reader import AnswerText, CallArguments, CallBegin, CallEnd, CallEvent, CallReader


@dataclass
class Reading:
    """What a reader found in an answer."""

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str]] = field(default_factory=list)
    is_cut: bool = False

    def add(self, events: Sequence[CallEvent]) -> None:
        for event in events:
            match event:
                case AnswerText(text, reasoning):
                    self.text += "" if reasoning else text
                    self.reasoning += text if reasoning else ""
                case CallBegin(name):
                    self.calls.append((name, ""))
                case CallArguments(text):
                    self.calls[-1] = (self.calls[-1][0], self.calls[-1][1] + text)
                case CallEnd(is_cut):
                    self.is_cut = is_cut

    @property
    def values(self) -> list[tuple[str, Any]]:
        """Return the names and the arguments of the calls."""
        return [(name, json.loads(arguments)) for name, arguments in self.calls]


def read(
    text: str, tools: Sequence[Mapping[str, Any]], size: int = 1, *, cut: bool = False, reasoning: bool = False
) -> Reading:
    """Return what is found in an answer that arrives in pieces of a size."""
    reader, found = CallReader(tools), Reading()
    for at in range(0, len(text), size):
        found.add(reader.push(text[at : at + size], reasoning=reasoning))
    found.add(reader.end(is_cut=cut))
    return found


def tool(name: str, properties: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return a tool."""
    parameters = {"type": "object", "properties": dict(properties), **more}
    return {"type": "function", "function": {"name": name, "description": "d", "parameters": parameters}}


def written(form: CallFormat, calls: Sequence[tuple[str, Mapping[str, Any]]]) -> str:
    """Return calls as the row of a format says."""
    texts = []
    for number, (name, arguments) in enumerate(calls):
        text = json.dumps(arguments, ensure_ascii=False)
        if form.argument is not None:
            text = form.argument.between.join(_argument(form, key, value) for key, value in arguments.items())
        call = form.call.replace("$NAME", name).replace("$JSON", json.dumps(name)).replace("$ID", f"abcdefgh{number}")
        texts.append(call.replace("$ARGUMENTS", text))
    return form.calls.replace("$CALLS", form.between.join(texts))


def _argument(form: CallFormat, key: str, value: Any) -> str:
    argument = form.argument
    assert argument is not None
    is_text = isinstance(value, str)
    begin = argument.begin.replace("$KEY", key).replace("$TYPE", "string" if is_text else "number")
    text = value if is_text else json.dumps(value)
    if is_text and argument.quotes and not argument.end:
        text = argument.quotes[0][0] + text + argument.quotes[0][1]
    return begin.replace("$TEXT", json.dumps(is_text)) + text + argument.end.replace("$KEY", key)
