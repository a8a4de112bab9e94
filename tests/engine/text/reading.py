"""Read an answer in pieces or in tokens, and write calls in a format."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from app.engine.text.call_format import Argument, CallFormat, Values
from app.engine.text.call_formats import TRIGGERS, is_call_mark
from app.engine.text.call_reader import AnswerText, CallArguments, CallBegin, CallEnd, CallEvent, CallReader
from app.engine.text.reasoning import ReasoningMarkup
from app.engine.text.segments import Segment
from app.engine.text.stream import TextStream

_MARK_WITH_BARS = re.compile(r"<\|[^<>]*\|?>|<[a-z_]+\|>")
SPELLED_MARKS = "\0"
"""Character that stands for the text of all marks, in tokens of letters."""


@dataclass
class Reading:
    """Text, reasoning and calls that a reader found in an answer."""

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
    """Return the result of an answer that arrives in pieces of a size."""
    reader, found = CallReader(tools), Reading()
    for at in range(0, len(text), size):
        found.add(reader.push(text[at : at + size], reasoning=reasoning))
    found.add(reader.end(is_cut=cut))
    return found


def read_tokens(
    markup: ReasoningMarkup,
    text: str,
    marks: Sequence[str] | None = None,
    *,
    tools: Sequence[Mapping[str, Any]] = (),
    shown: bool = False,
    stops: Sequence[str] = (),
    **how: Any,
) -> Reading:
    """Return the result of an answer in which marks are tokens, and every other byte is a token too.

    Args:
        marks: The marks that are tokens; None for all with bars.
        shown: Whether llama.cpp returns the text of these tokens, as for GPT-OSS.
    """
    marks = _MARK_WITH_BARS.findall(text) if marks is None else marks
    ids = {mark: 1000 + n for n, mark in enumerate(dict.fromkeys(marks))}
    parts = re.split(f"({'|'.join(map(re.escape, ids))})", text) if ids else [text]
    markup = replace(markup, calls=TRIGGERS) if tools else markup
    stream, reader, found = TextStream(stops, markup=markup.with_tokens(ids), **how), CallReader(tools), Reading()

    def add(segments: Sequence[Segment]) -> None:
        for one in segments:
            plain = [AnswerText(one.text, one.reasoning)]
            found.add(reader.push(one.text, reasoning=one.reasoning) if tools else plain)

    for part in parts:
        if part in ids:
            add(stream.push(part.encode() if shown or is_call_mark(part) else b"", None, ids[part]))
            continue
        for byte in part.replace(SPELLED_MARKS, " ".join(ids)).encode():
            add(stream.push(bytes([byte]), None, byte))
    add(stream.flush())
    found.add(reader.end())
    return found


def tool(name: str, properties: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """Return a tool."""
    parameters = {"type": "object", "properties": dict(properties), **more}
    return {"type": "function", "function": {"name": name, "description": "d", "parameters": parameters}}


def written(
    form: CallFormat, calls: Sequence[tuple[str, Mapping[str, Any]]], *, escapes: bool = False, marks: bool = False
) -> str:
    """Return calls in a format.

    Args:
        escapes: Whether Python's strings are escaped.
        marks: Whether tagged strings have quotation marks, if the format has any.
    """
    texts = []
    for number, (name, arguments) in enumerate(calls):
        text, argument = json.dumps(arguments, ensure_ascii=False), form.argument
        if argument is not None:
            text = argument.between.join(
                f"{argument.begin}{_value(argument, one, escapes, marks)}{argument.end}".replace("$KEY", key)
                .replace("$TYPE", _KINDS[type(one)])
                .replace("$TEXT", json.dumps(isinstance(one, str)))
                for key, one in arguments.items()
            )
        call = form.call.replace("$NAME", name).replace("$JSON", json.dumps(name)).replace("$ID", f"abcdefgh{number}")
        texts.append(call.replace("$ARGUMENTS", text))
    return form.calls.replace("$CALLS", form.between.join(texts))


_KINDS = {str: "string", bool: "boolean", int: "number", dict: "object", list: "array"}


def _value(argument: Argument, one: Any, escapes: bool, marks: bool) -> str:
    is_bare = argument.values is Values.BARE
    if isinstance(one, str):
        if escapes and argument.values is Values.PYTHON and not argument.end:
            one = one.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
        has_quotes = argument.quotes and (marks or not argument.end)
        begin, end = argument.quotes[0] if has_quotes else ("", "")
        return f"{begin}{one}{end}"
    if is_bare and isinstance(one, dict):
        return f"{{{','.join(f'{key}:{_value(argument, inner, escapes, marks)}' for key, inner in one.items())}}}"
    if is_bare and isinstance(one, list):
        return f"[{','.join(_value(argument, inner, escapes, marks) for inner in one)}]"
    return json.dumps(one)
