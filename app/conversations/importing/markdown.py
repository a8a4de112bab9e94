"""Markdown: Tandem's own with comments, logs of `llm`, and headings that name who speaks."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any

from app.conversations.export import MARKER, NO_TITLE, unescape_markers, unescape_title
from app.conversations.importing import checks
from app.conversations.importing.checks import refuse
from app.conversations.importing.json_exports import chain, from_llm
from app.core.printable import printable

_CODE_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_TITLE_LINE = re.compile(r"#\s+(\S.*)$")
_SPEAKER_HEADING = re.compile(r"(#{1,6})\s++\W*+(\w++)(?:\W*+|\s*+[(\[:\-\u2013\u2014\u00b7@|,].*)$")
"""A heading of a known name, perhaps followed by a time or a model."""
_SPEAKER_ROLES = {
    **dict.fromkeys(("you", "user", "human", "me", "prompt", "question"), "user"),
    **dict.fromkeys(("answer", "assistant", "response", "reply", "ai", "bot", "model", "agent", "tandem"), "assistant"),
    **dict.fromkeys(("chatgpt", "claude", "gemini", "copilot", "cursor", "codex", "grok", "deepseek"), "assistant"),
    "system": "system",
}
_EMBEDDED_IMAGE = re.compile(r"!\[[^\]]*\]\(data:image/[a-z]+;base64,([A-Za-z0-9+/=]+)\)")
_LLM_ROW = re.compile(r"# (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?: {4}conversation: (\S+) id: \S+)?$")
_LLM_MODEL = re.compile(r"Model: \*\*(.+?)\*\*")
_LLM_SECTIONS: tuple[str, ...] = (
    *("## Prompt", "## Options", "## System", "## Schema", "### Tools", "### Tool results", "### Attachments"),
    *("## Reasoning", "## Response", "## Token usage"),
)
"""Section headings in order; the heading of an earlier section is text in a later section."""


def read(text: str) -> list[Any]:
    """Return the conversations of a Markdown file, in the shape of Tandem's JSON and unchecked."""
    # Split only at line feeds: messages may contain rarer line separators.
    lines = text.replace("\r\n", "\n").split("\n")
    if any(map(MARKER.match, lines)):
        return _from_marked(lines)
    return _from_llm(lines) if any(map(_LLM_ROW.match, lines)) else [_from_headings(lines)]


def _parts(lines: Iterable[str], mark: re.Pattern[str]) -> list[tuple[int, re.Match[str], list[str]]]:
    """Return the number and match of each line that matches, with the lines up to the next."""
    found: list[tuple[int, re.Match[str], list[str]]] = []
    for number, line in enumerate(lines, start=1):
        if match := mark.match(line):
            found.append((number, match, []))
        elif found:
            found[-1][2].append(line)
    return found


def _from_marked(lines: Iterable[str]) -> list[Any]:
    found: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    for number, marker, body in _parts(lines, MARKER):
        kind, fields = marker[1], _fields(marker[2], number)
        if kind == "conversation":
            found.append((fields | _edited_title(fields.get("title"), body), []))
            continue
        if not found or (kind not in ("message", "system") and not found[-1][1]):
            refuse("a text comes before its message")
        about, messages = found[-1]
        if kind == "message":
            messages.append(fields)
        owner = about if kind == "system" else messages[-1]
        if kind == "pictures":
            owner[kind] = [image[1] for line in body if (image := _EMBEDDED_IMAGE.fullmatch(line))]
        elif kind == "reasoning":
            owner[kind] = unescape_markers("\n".join(body).strip("\n"))
        else:
            # Drop the heading or the end of the reasoning, and the blank lines around a text.
            text = "\n".join(body[1:]).removeprefix("\n").removesuffix("\n")
            owner["text" if kind == "message" else kind] = unescape_markers(text)
    for about, messages in found:
        about["pictures"] = [one for each in messages for one in checks.list_of(each.pop("pictures", []), "pictures")]
        if "system" in about:
            settings = checks.document(about.get("settings"), "settings")
            answer = checks.document(settings.get("answer"), "settings")
            about["settings"] = {**settings, "answer": {**answer, "system": about.pop("system")}}
    return [chain(messages, **about) for about, messages in found]


def _edited_title(title: Any, body: Iterable[str]) -> dict[str, Any]:
    """Return the fields of a title that the user edited, so that it differs from the comment."""
    heading = next((unescape_title(found[1]) for line in body if (found := _TITLE_LINE.match(line))), "").strip()
    is_same = not heading or (isinstance(title, str) and heading == (printable(title).strip() or NO_TITLE))
    return {} if is_same else {"title": heading, "named": True, "retitled": True}


def _fields(given: str, line: int) -> dict[str, Any]:
    fields: object = None
    with suppress(ValueError):
        fields = json.loads(given or "{}")
    if not isinstance(fields, dict):
        refuse(f"the comment in line {line:,}, which describes the text below it, is damaged")
    return fields


def _from_llm(lines: Sequence[str]) -> list[Any]:
    """Read the output of `llm logs`: a row for each answer, with a section for each text."""
    entries: list[dict[str, Any]] = []
    conversation = ""
    for _, row, body in _parts(lines, _LLM_ROW):
        conversation, texts = row[2] or conversation, _sections(body)
        entry = {
            "conversation_id": conversation,
            "datetime_utc": f"{row[1]}+00:00",
            "model": next((match[1] for line in body[:3] if (match := _LLM_MODEL.match(line))), None),
            "system": texts.get("## System"),
            "prompt": texts.get("## Prompt"),
            "reasoning": re.sub(r"</?details>|<summary>.*</summary>", "", texts.get("## Reasoning", "")).strip(),
            "response": texts.get("## Response"),
        }
        entries.append(entry)
    return from_llm(entries)


def _sections(body: Iterable[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    current, later = "", _LLM_SECTIONS
    for line in body:
        if line in later:
            current, later = line, later[later.index(line) + 1 :]
            found[current] = []
        elif current:
            found[current].append(line)
    return {name: "\n".join(text).strip() for name, text in found.items()}


def _from_headings(lines: Sequence[str]) -> dict[str, Any]:
    headings = _chosen(list(_headings(lines)))
    if all(role != "user" for _, role, _ in headings):
        refuse('no heading such as "## You" names the speaker')
    if all(role != "assistant" for _, role, _ in headings):
        refuse('no heading such as "## Answer" begins an answer')
    title = next((found[1] for line in lines[: headings[0][0]] if (found := _TITLE_LINE.match(line))), "")
    ends = [at for at, _, _ in headings[1:]] + [len(lines)]
    texts = (
        {"role": role, "text": "\n".join(lines[at + 1 : end]).strip("\n")}
        for (at, role, _), end in zip(headings, ends, strict=True)
    )
    return chain(texts, title=title)


def _headings(lines: Sequence[str]) -> Iterable[tuple[int, str, str]]:
    fence = ""
    for at, line in enumerate(lines):
        mark = _CODE_FENCE.match(line)
        if mark is not None and (not fence or mark[1].startswith(fence)):
            fence = "" if fence else mark[1]
        heading = None if fence else _SPEAKER_HEADING.match(line)
        if heading is not None and (role := _SPEAKER_ROLES.get(heading[2].lower())):
            yield at, role, f"{heading[1]} {heading[2].lower()}"


def _chosen(headings: Sequence[tuple[int, str, str]]) -> list[tuple[int, str, str]]:
    """Return the headings that name a speaker; a text may have a heading such as "## Model" too.

    The first user label is the user's name. An answer has the most frequent label, or the first label after a prompt
    without an answer. A system prompt comes before the first prompt.
    """
    user = next((label for _, role, label in headings if role == "user"), "")
    counts = Counter(label for _, role, label in headings if role == "assistant")
    answer = max(counts, key=lambda label: counts[label], default="")
    out: list[tuple[int, str, str]] = []
    turns: list[list[tuple[int, str, str]]] = [[]]
    for heading in headings:
        if heading[2] == user:
            turns.append([])
        turns[-1].append(heading)
    for turn in turns:
        answers = [one for one in turn if one[1] == "assistant"]
        usual = [one for one in answers if one[2] == answer] or answers[: turn is not turns[0]]
        system = [one for one in turn if one[1] == "system" and turn is turns[0]]
        out += sorted({*system, *usual, *(one for one in turn if one[2] == user)})
    return out
