"""Read the text of message content: strings, text parts, text documents, and notes in place of other parts."""

from __future__ import annotations

import base64

from app.server.errors import RequestError
from app.server.fields import Fields, refuse

_TEXT_PARTS = ("text", "input_text", "output_text", "refusal")
_TEXT_MEDIA = ("text/", "application/json", "application/xml", "application/x-yaml")


def parts_of(fields: Fields, name: str = "content") -> list[Fields]:
    """Return the parts of content that is a string, null, or an array of parts."""
    value = fields.raw(name)
    if not (value is None or isinstance(value, (str, list))):
        refuse(fields.at(name), value, "a string or an array of parts")
    return [Fields({"text": value})] if isinstance(value, str) else fields.objects(name)


def content_text(fields: Fields, name: str = "content") -> str:
    """Return the text of content; parts are joined with line breaks.

    Raises:
        RequestError: A part is not text, such as an image.
    """
    return "\n".join(map(part_text, parts_of(fields, name)))


def result_text(fields: Fields, name: str = "content") -> str:
    """Return the result of a tool; a sentence stands for a part that is not text.

    A refusal would end the conversation, because clients send the result again with every request.
    """
    parts = ((part, _read(part)) for part in parts_of(fields, name))
    left_out = "[{} left out: the loaded models read text only]"
    return "\n".join(left_out.format(part.text("type")) if text is None else text for part, text in parts)


def part_text(part: Fields) -> str:
    """Return the text of a part; refuse images and other media."""
    if (text := _read(part)) is None:
        where = part.at("type")
        raise RequestError(f'{where} is "{part.text("type")}"; the loaded models read text only.', param=where)
    return text


def _read(part: Fields) -> str | None:
    """Return the text of a part; None if it is not text."""
    kind = part.text("type", "text")
    if kind in _TEXT_PARTS:
        return part.text("refusal") or part.text("text")
    if kind == "tool_reference":
        return part.text("tool_name")
    if kind not in ("document", "file", "input_file", "search_result"):
        return None
    source = part.object("file") or (part if isinstance(part.raw("source"), str) else part.object("source")) or part
    text = source.text("data") if source.text("type") == "text" else _decoded(source)
    if text is None and "content" in source:
        text = content_text(source)
    title = part.text("title") or source.text("filename")
    return f"{title}\n{text}" if title and text is not None else text


def _decoded(source: Fields) -> str | None:
    """Return a text in base64, with its media type beside it or in a data URL; None if it is not text."""
    media, data = source.text("media_type"), source.text("data")
    if (url := source.text("file_data")).startswith("data:"):
        media, _, data = url[len("data:") :].partition(";base64,")
    try:
        return base64.b64decode(data, validate=True).decode() if media.startswith(_TEXT_MEDIA) else None
    except ValueError:
        return None
