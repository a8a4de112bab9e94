"""Files that a user includes in a prompt: pictures, the text of documents, and text."""

from __future__ import annotations

from pathlib import Path

from app.core.documents import MAX_DOCUMENT_BYTES, document_text, is_document, split_pages
from app.core.errors import AppError
from app.core.pictures import PictureData, PictureLimits, picture_format, read_picture
from app.core.regular_file import file_errors, is_file, read_bytes, read_user_text

_PICTURE_SUFFIXES = (".avif", ".bmp", ".gif", ".heic", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
_HEAD_BYTES = 32
"""Bytes that tell the format of a picture."""


def located(path: Path) -> tuple[Path, range | None]:
    """Return the file that a path means, and the pages of a PDF behind a colon."""
    if is_file(path):
        return path, None
    name, pages = split_pages(path.name)
    return path.with_name(name), pages


def read_included(path: Path, name: str, limits: PictureLimits) -> str | PictureData:
    """Return the picture or the text in a file, called `name` in errors. Raises AppError with a fix."""
    path, pages = located(path)
    with file_errors(name):
        head = read_bytes(path, _HEAD_BYTES)
    if picture_format(head) is not None:
        return read_picture(_read(path, name, int(limits.megabytes * 1e6)), name, limits)
    if path.suffix.lower() in _PICTURE_SUFFIXES:
        what = "not a picture despite its name" if head else "empty"
        raise AppError(f"{name} is {what}.", "Save it again as PNG; if it is text, rename it.")
    if is_document(path):
        data = _read(path, name, MAX_DOCUMENT_BYTES)
        if len(data) > MAX_DOCUMENT_BYTES:
            raise AppError(f"{name} is larger than {MAX_DOCUMENT_BYTES >> 20} MB.", "Include a part of it.")
        return document_text(data, path.suffix, name, pages)
    return read_user_text(path, name)


def _read(path: Path, name: str, most: int) -> bytes:
    """Read a file up to one byte more than the limit."""
    with file_errors(name):
        return read_bytes(path, most + 1)
