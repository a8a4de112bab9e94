"""Find calls of tools in the text of a model; every model family writes them in its own way.

Formats are those of the families' chat templates, as llama.cpp's `common/chat.cpp` lists them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from app.engine.text.segments import held_back


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A call of a tool with arguments, a JSON object as text, and its id in a conversation, "" as a model writes it."""

    name: str
    arguments: str
    id: str = ""


_JSON = json.JSONDecoder(strict=False)
_NAMES, _ARGUMENTS = ("name", "function", "tool_name"), ("arguments", "parameters", "args", "input")
# Qwen3-Coder and Nemotron 3
_FUNCTION = re.compile(r"<function=([^>\n]+)>(.*?)(?:</function>|\Z)", re.DOTALL)
_PARAMETER = re.compile(r"<parameter=([^>\n]+)>\n?(.*?)\n?(?:</parameter>|(?=<parameter=)|\Z)", re.DOTALL)
# GLM 4.5 and later
_GLM_NAME = re.compile(r"\s*([\w.\-]+)\s*(?=<arg_key>|\Z)")
_GLM_ARGUMENT = re.compile(r"<arg_key>(.*?)</arg_key>\s*<arg_value>(.*?)</arg_value>", re.DOTALL)
# Mistral from 2025 on: a name before its arguments
_MISTRAL = re.compile(r"([\w.\-]+)(?:\[CALL_ID\]\w+)?(?:\[ARGS\])?\s*(?=\{)")
# DeepSeek V3 and R1 write a type, a name and a fenced object; V3.1 writes a name and an object
_DEEPSEEK = re.compile(
    r"<｜tool▁call▁begin｜>(?:function<｜tool▁sep｜>)?([^<\n]+?)\s*(?:<｜tool▁sep｜>|\n)\s*(?:```json\s*)?(?=\{)"
)
_KIMI = re.compile(r"<\|tool_call_begin\|>\s*(?:functions\.)?([^:<\s]+)(?::\d+)?\s*<\|tool_call_argument_begin\|>\s*")
_GPT_OSS = re.compile(r"to=functions\.([\w.\-]+)[^{]*")
# Gemma 4 and FunctionGemma: keys without quotes, texts between marks
_GEMMA = re.compile(r"call:([\w.\-]+)(?=\{)")
_GEMMA_TEXT = re.compile(r'(?:<escape>|<\|"\|>)(.*?)(?:<escape>|<\|"\|>)', re.DOTALL)
_GEMMA_KEY = re.compile(r"([{,]\s*)([\w.\-]+)(\s*:)")

_FENCE_BEGIN = "```json"
_FENCE = re.compile(r"\s*```json\s(.*)\s```\s*", re.DOTALL)
"""Some models write a call as a code block of JSON."""

Found = Iterator[ToolCall]


def _objects(text: str) -> Found:
    """Yield the calls in JSON objects, or in arrays of them."""
    at = 0
    while (start := min((n for n in (text.find("{", at), text.find("[", at)) if n >= 0), default=-1)) >= 0:
        try:
            value, at = _JSON.raw_decode(text, start)
        except ValueError:
            at = start + 1
            continue
        for one in value if isinstance(value, list) else [value]:
            if (call := _call(one)) is not None:
                yield call


def _call(value: object) -> ToolCall | None:
    if not isinstance(value, dict):
        return None
    inner = value.get("function")
    value = inner if isinstance(inner, dict) else value
    name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), "")
    arguments: object = next((value[key] for key in _ARGUMENTS if key in value), {})
    return ToolCall(name, _as_text(arguments)) if name else None


def _as_text(arguments: object) -> str:
    """Return arguments as the text of an object; some models write that text itself."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except ValueError:
            return json.dumps({"input": arguments}, ensure_ascii=False)
    return json.dumps(arguments if isinstance(arguments, dict) else {"input": arguments}, ensure_ascii=False)


def _value(text: str) -> object:
    """Return an argument that is written without quotes: JSON, or else a text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _named(pattern: re.Pattern[str]) -> Callable[[str], Found]:
    """Return a parser of calls whose name stands before an object of arguments."""

    def parse(text: str) -> Found:
        for found in pattern.finditer(text):
            try:
                arguments, _ = _JSON.raw_decode(text, found.end())
            except ValueError:
                continue
            yield ToolCall(found[1].strip(), _as_text(arguments))

    return parse


def _tagged(text: str) -> Found:
    """Yield the calls after `<tool_call>`: JSON (Hermes, Qwen), XML (Qwen3-Coder) or keys and values (GLM)."""
    for body in text.split("<tool_call>")[1:] or [text]:
        body = body.split("</tool_call>")[0]
        if functions := _FUNCTION.findall(body):
            for name, parameters in functions:
                pairs = {key: _value(value) for key, value in _PARAMETER.findall(parameters)}
                yield ToolCall(name.strip(), json.dumps(pairs, ensure_ascii=False))
        elif found := _GLM_NAME.match(body):
            pairs = {key.strip(): _value(value) for key, value in _GLM_ARGUMENT.findall(body)}
            yield ToolCall(found[1], json.dumps(pairs, ensure_ascii=False))
        else:
            yield from _objects(body)


def _mistral(text: str) -> Found:
    yield from _named(_MISTRAL)(text) if _MISTRAL.match(text.removeprefix("[TOOL_CALLS]").lstrip()) else _objects(text)


def _gemma(text: str) -> Found:
    texts: list[str] = []

    def keep(found: re.Match[str]) -> str:
        texts.append(found[1])
        return f'"\0{len(texts) - 1}\0"'

    plain = _GEMMA_KEY.sub(r'\1"\2"\3', _GEMMA_TEXT.sub(keep, text))
    for call in _named(_GEMMA)(plain):
        yield ToolCall(
            call.name, re.sub(r"\\u0000(\d+)\\u0000", lambda n: json.dumps(texts[int(n[1])])[1:-1], call.arguments)
        )


_FORMATS: Mapping[str, Callable[[str], Found]] = {
    "<tool_call>": _tagged,
    "<function=": _tagged,
    "[TOOL_CALLS]": _mistral,
    "<|python_tag|>": _objects,
    "<|tool_call|>": _objects,
    "<｜tool▁calls▁begin｜>": _named(_DEEPSEEK),
    "<｜tool▁call▁begin｜>": _named(_DEEPSEEK),
    "<|tool_calls_section_begin|>": _named(_KIMI),
    "to=functions.": _named(_GPT_OSS),
    "<|tool_call>": _gemma,
    "<start_function_call>": _gemma,
}
"""How each family writes calls: the text that begins them, and a parser of what follows, that text included."""
_MORE_MARKS = """
    </tool_call> [ARGS] [CALL_ID] <｜tool▁sep｜> <｜tool▁call▁end｜> <｜tool▁calls▁end｜> <tool_call|>
    <|tool_call_begin|> <|tool_call_argument_begin|> <|tool_call_end|> <|tool_calls_section_end|>
    <arg_key> </arg_key> <arg_value> </arg_value> <|"|> <escape> <end_function_call>
"""
_BEGINNINGS = tuple(_FORMATS)
MARKS = frozenset((*_BEGINNINGS, *_MORE_MARKS.split()))
"""Texts of tokens that belong to calls; without tools such control tokens are not shown."""


class ToolCallScanner:
    """Separate calls of tools from the text of an answer.

    An answer that is only a JSON object with the name of a tool is a call too, as Llama 3 writes it.
    """

    def __init__(self, tools: Sequence[str]) -> None:
        self._tools = frozenset(tools)
        self._held = ""
        self._parse: Callable[[str], Found] | None = None
        self._has_text = False

    def push(self, text: str) -> str:
        """Add text; return what can be shown now."""
        self._held += text
        if self._parse is not None:
            return ""
        bare = self._held.lstrip()
        is_json = bare.startswith(("{", "[")) or _FENCE_BEGIN.startswith(bare[: len(_FENCE_BEGIN)])
        if bare and is_json and not self._has_text and not bare.startswith(_BEGINNINGS):
            # Until it is complete, nothing tells a call from JSON as an answer.
            return ""
        found = [(at, parse) for begin, parse in _FORMATS.items() if (at := self._held.find(begin)) >= 0]
        if found:
            at, self._parse = min(found, key=itemgetter(0))
        else:
            at = len(self._held) - held_back(self._held, _BEGINNINGS)
        shown, self._held = self._held[:at], self._held[at:]
        self._has_text = self._has_text or bool(shown.strip())
        return shown

    def end(self) -> tuple[str, tuple[ToolCall, ...]]:
        """Return the rest of the text and the calls; text that cannot be parsed is text."""
        held, self._held = self._held, ""
        calls = tuple(self._parse(held)) if self._parse is not None else self._bare(held)
        return ("", calls) if calls else (held, ())

    def _bare(self, text: str) -> tuple[ToolCall, ...]:
        fenced = _FENCE.fullmatch(text)
        try:
            json.loads(fenced[1] if fenced is not None else text)
        except ValueError:
            return ()
        calls = tuple(_objects(text))
        return calls if calls and all(call.name in self._tools for call in calls) else ()


def instructions(tools: Sequence[Any]) -> str:
    """Return a system prompt with tools, in Hermes' format, for templates that know no tools."""
    listed = "\n".join(json.dumps(tool, ensure_ascii=False) for tool in tools)
    return (
        "# Tools\n\nYou may call one or more functions to assist with the user query. Their signatures are within "
        f"<tools></tools>:\n<tools>\n{listed}\n</tools>\n\nFor each function call, return a JSON object with its name "
        'and arguments within <tool_call></tool_call>:\n<tool_call>\n{"name": "...", "arguments": {...}}\n</tool_call>'
    )


def written(calls: Sequence[ToolCall]) -> str:
    """Return calls as a model writes them after `instructions`."""
    parts = (
        f'\n<tool_call>\n{{"name": {json.dumps(c.name)}, "arguments": {c.arguments}}}\n</tool_call>' for c in calls
    )
    return "".join(parts)
