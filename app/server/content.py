"""Read message content: strings, text parts, documents, pictures, and notes instead of other parts."""

from __future__ import annotations

import base64
import re
from pathlib import PurePath
from typing import NoReturn
from urllib.parse import unquote_to_bytes

from app.core.errors import AppError
from app.core.included import included
from app.core.pictures import MARK, PictureData, PictureLimits, read_picture
from app.server.errors import RequestError
from app.server.fields import Fields, refuse
from app.settings.layers import Resolved, picture_limits

_TEXT_PARTS = ("text", "input_text", "output_text", "refusal")
_PICTURE_PARTS = {"image_url": "image_url.url", "input_image": "image_url", "image": "source.data"}
_FILE_PARTS = {
    "document": "source.data",
    "file": "file.file_data",
    "input_file": "file_data",
    "search_result": "content",
}
_DATA_PATHS = _PICTURE_PARTS | _FILE_PARTS
"""The field with the data of each type of part."""
_DATA_FIELDS = ("data", "file_data", "url", "image_url", "file_url", "file_id")
_DATA_URL = re.compile(r'\s*data:(?:"[^"]*"|[^",])*?(?P<base64>;\s*base64\s*)?,', re.IGNORECASE)
"""The head of a data: URL (RFC 2397); a comma in quotation marks does not end it."""
_URL_SAFE = bytes.maketrans(b"-_", b"+/")


class RequestPictures:
    """The pictures in the content of a request.

    Args:
        limits: Limits of a picture; None if pictures are refused.
        reader: Subject of the refusal, if pictures are refused.
    """

    def __init__(self, limits: PictureLimits | None = None, reader: str = "the loaded models read") -> None:
        self.reader = reader
        self._limits = limits
        self._new: list[PictureData] = []

    @classmethod
    def of(cls, settings: Resolved) -> RequestPictures:
        """Return the pictures that the settings let a request have."""
        return cls(picture_limits(settings) if settings["model.mmproj"] != "none" else None)

    def read(self, part: Fields) -> str | None:
        """Return the marks of the pictures in a part, or its text; None if the models can read neither."""
        kind = part.text("type", "text")
        if kind in _TEXT_PARTS:
            return part.text("refusal") or part.text("text")
        if kind == "tool_reference":
            return part.text("tool_name")
        if kind in _PICTURE_PARTS:
            return self._picture(part) if self._limits is not None else None
        return self._file(part) if kind in _FILE_PARTS else None

    def _picture(self, part: Fields) -> str:
        is_text = isinstance(part.raw("image_url"), str)
        owner = part if is_text else part.object("source") or part.object("image_url") or part
        data, where = _data(part, owner)
        try:
            return self._marks([read_picture(data, None, self._limits)])
        except AppError as error:
            raise RequestError(error.message, "Send a PNG or JPEG picture within the limits.", param=where) from None

    def _file(self, part: Fields) -> str | None:
        nested = part.object("file") or (None if isinstance(part.raw("source"), str) else part.object("source"))
        source = nested or part
        title = part.text("title") or source.text("filename")
        found: str | list[PictureData]
        if source.text("type") == "text":
            found = source.text("data")
        elif "content" in source:
            found = result_text(source, self)
        else:
            data, where = _data(part, source)
            try:
                found = included(data, PurePath(title), "The document", self._limits or PictureLimits())
            except AppError as error:
                raise RequestError(error.message, "Send its text.", param=where) from None
        if isinstance(found, list):
            if self._limits is None:
                return None
            found = self._marks(found)
        return f"{title}\n{found}" if title else found

    def _marks(self, pictures: list[PictureData]) -> str:
        self._new += pictures
        return "\n".join([MARK] * len(pictures))

    def take(self) -> tuple[PictureData, ...]:
        """Return the pictures since the last call, in the order of their marks."""
        new, self._new = tuple(self._new), []
        return new


def _data(part: Fields, owner: Fields) -> tuple[bytes, str]:
    name = next((name for name in _DATA_FIELDS if name in owner), None)
    if name is None:
        _refuse_data(part.at(_DATA_PATHS[part.text("type")]), "missing")
    text, where = owner.text(name), owner.at(name)
    if name == "file_id":
        _refuse_data(where, "the id of a stored file, and the server stores none")
    head = _DATA_URL.match(text)
    if head is None and name not in ("data", "file_data"):
        _refuse_data(where, "no data: URL; the server downloads nothing")
    data = unquote_to_bytes(text[head.end() :]) if head is not None else text.encode()
    if head is not None and head["base64"] is None:
        return data, where
    # Some clients use the URL alphabet, break lines or leave the padding out.
    data = b"".join(data.split()).translate(_URL_SAFE).rstrip(b"=")
    try:
        return base64.b64decode(data + b"=" * (-len(data) % 4), validate=True), where
    except ValueError:
        _refuse_data(where, "not base64")


def _refuse_data(where: str, why: str) -> NoReturn:
    raise RequestError(f"{where} is {why}.", "Send the file itself, in base64.", param=where)


def parts_of(fields: Fields, name: str = "content") -> list[Fields]:
    """Return the parts of content that is a string, null, or an array of parts."""
    value = fields.raw(name)
    if not (value is None or isinstance(value, (str, list))):
        refuse(fields.at(name), value, "a string or an array of parts")
    return [Fields({"text": value})] if isinstance(value, str) else fields.objects(name)


def result_text(fields: Fields, pictures: RequestPictures, name: str = "content") -> str:
    """Return the result of a tool; a sentence replaces an unreadable part.

    A refusal would end the conversation, because clients send the result again with every request.
    """
    return "\n".join(_result_part(part, pictures) for part in parts_of(fields, name))


def _result_part(part: Fields, pictures: RequestPictures) -> str:
    kind = part.text("type")
    try:
        if (text := pictures.read(part)) is not None:
            return text
        why = _why_unread(kind, pictures)
    except RequestError as error:
        why = error.message
    return f"[{kind} left out: {why.rstrip('.')}]"


def part_text(part: Fields, pictures: RequestPictures) -> str:
    """Return the text of a part, with marks for pictures; refuse other media."""
    if (text := pictures.read(part)) is not None:
        return text
    where, kind = part.at("type"), part.text("type")
    way = "Pictures need a projector (tandem serve --mmproj), and the role of a user or a tool."
    way = way if kind in _DATA_PATHS else ""
    raise RequestError(f'{where} is "{kind}"; {_why_unread(kind, pictures)}', way, param=where)


def _why_unread(kind: str, pictures: RequestPictures) -> str:
    if kind in _DATA_PATHS:
        return f"{pictures.reader} text only."
    return "Tandem reads text, pictures and documents."
