"""Read message content: strings, text parts, text documents, pictures, and notes in place of other parts."""

from __future__ import annotations

import base64
from typing import NoReturn

from app.core.documents import document_text
from app.core.errors import AppError
from app.core.pictures import MARK, Picture, PictureData, PictureLimits, read_picture
from app.server.errors import RequestError
from app.server.fields import Fields, refuse

_TEXT_PARTS = ("text", "input_text", "output_text", "refusal")
_PICTURE_PARTS = ("image_url", "input_image", "image")
_TEXT_MEDIA = ("text/", "application/json", "application/xml", "application/x-yaml")


class RequestPictures:
    """The pictures in the content of a request.

    Args:
        limits: Those of a picture; None if the loaded models read text only.

    Attributes:
        known: All pictures by their digests.
    """

    def __init__(self, limits: PictureLimits | None = None) -> None:
        self.known: dict[str, PictureData] = {}
        self._limits = limits
        self._new: list[Picture] = []

    def read(self, part: Fields) -> str | None:
        """Return the mark of a picture; None if the part is none, or the models read none. Raises RequestError."""
        if self._limits is None or part.text("type") not in _PICTURE_PARTS:
            return None
        data, where = _picture_bytes(part)
        try:
            found = read_picture(data, None, self._limits)
        except AppError as error:
            raise RequestError(error.message, "Send a PNG or JPEG picture within the limits.", param=where) from None
        self.known[found.picture.digest] = found
        self._new.append(found.picture)
        return MARK

    def take(self) -> tuple[Picture, ...]:
        """Return the pictures since the last call, in the order of their marks."""
        new, self._new = tuple(self._new), []
        return new


def _picture_bytes(part: Fields) -> tuple[bytes, str]:
    """Return the bytes of a picture and where they are in the request."""
    if isinstance(part.raw("image_url"), str):
        owner, name = part, "image_url"
    else:
        owner = part.object("source") or part.object("image_url") or part
        name = "data" if owner.text("type") == "base64" else "url"
    text, where = owner.text(name), owner.at(name)
    if name != "data":
        if not text.startswith("data:"):
            _refuse_picture(where, "no data: URL; the server downloads nothing")
        text = text.partition(";base64,")[2]
    try:
        return base64.b64decode("".join(text.split()), validate=True), where
    except ValueError:
        _refuse_picture(where, "not base64")


def _refuse_picture(where: str, why: str) -> NoReturn:
    raise RequestError(f"{where} is {why}.", "Send the picture itself, in base64.", param=where)


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
    return "\n".join(part_text(part, RequestPictures()) for part in parts_of(fields, name))


def result_text(fields: Fields, pictures: RequestPictures, name: str = "content") -> str:
    """Return the result of a tool; a sentence stands for a part that cannot be read.

    A refusal would end the conversation, because clients send the result again with every request.
    """
    return "\n".join(_result_part(part, pictures) for part in parts_of(fields, name))


def _result_part(part: Fields, pictures: RequestPictures) -> str:
    why = "the loaded models read text only"
    try:
        text = _read(part, pictures)
    except RequestError as error:
        text, why = None, error.message.rstrip(".")
    return f"[{part.text('type')} left out: {why}]" if text is None else text


def part_text(part: Fields, pictures: RequestPictures) -> str:
    """Return the text of a part, with a mark for a picture; refuse other media."""
    if (text := _read(part, pictures)) is None:
        where, kind = part.at("type"), part.text("type")
        way = "Pictures need a projector (tandem serve --mmproj), and the role of a user or a tool."
        message = f'{where} is "{kind}"; the loaded models read text only.'
        raise RequestError(message, way if kind in _PICTURE_PARTS else "", param=where)
    return text


def _read(part: Fields, pictures: RequestPictures) -> str | None:
    """Return the text of a part, with a mark for a picture; None if it can be neither."""
    kind = part.text("type", "text")
    if (mark := pictures.read(part)) is not None:
        return mark
    if kind in _TEXT_PARTS:
        return part.text("refusal") or part.text("text")
    if kind == "tool_reference":
        return part.text("tool_name")
    if kind not in ("document", "file", "input_file", "search_result"):
        return None
    source = part.object("file") or (part if isinstance(part.raw("source"), str) else part.object("source")) or part
    text = source.text("data") if source.text("type") == "text" else _decoded(source, part.at("type"))
    if text is None and "content" in source:
        text = content_text(source)
    title = part.text("title") or source.text("filename")
    return f"{title}\n{text}" if title and text is not None else text


def _decoded(source: Fields, where: str) -> str | None:
    """Return a text or the text of a PDF in base64, with its media type beside it or in a data URL; else None."""
    media, data = source.text("media_type"), source.text("data")
    if (url := source.text("file_data")).startswith("data:"):
        media, _, data = url[len("data:") :].partition(";base64,")
    try:
        if media == "application/pdf":
            return document_text(base64.b64decode(data, validate=True), ".pdf", "The document")
        return base64.b64decode(data, validate=True).decode() if media.startswith(_TEXT_MEDIA) else None
    except ValueError:
        return None
    except AppError as error:
        raise RequestError(error.message, "Send its text.", param=where) from None
