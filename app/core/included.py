"""Files that a user includes in a prompt: pictures, documents and text."""

from __future__ import annotations

from pathlib import Path, PurePath

from app.core.documents import DOCUMENT_SUFFIXES, MAX_DOCUMENT_BYTES, document_suffix, read_document, split_pages
from app.core.errors import AppError
from app.core.pictures import PictureData, PictureLimits, picture_format, read_picture
from app.core.regular_file import MAX_TEXT_BYTES, file_errors, is_file, read_bytes, user_text

_PICTURE_SUFFIXES = (".avif", ".bmp", ".gif", ".heic", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
_SOUND_SUFFIXES = (".aac", ".flac", ".m4a", ".mp3", ".ogg", ".opus", ".wav", ".wma")
_VIDEO_SUFFIXES = (".avi", ".mkv", ".mov", ".mp4", ".webm")
SUFFIXES = _PICTURE_SUFFIXES + _SOUND_SUFFIXES + _VIDEO_SUFFIXES + DOCUMENT_SUFFIXES
"""Endings of the names of pictures, sounds, videos and documents."""
_HEAD_BYTES = 32
"""Bytes that tell what a file is."""


def is_named_picture(name: str) -> bool:
    """Return whether a file name ends like that of a picture."""
    return name.lower().endswith(_PICTURE_SUFFIXES)


def located(path: Path) -> tuple[Path, range | None]:
    """Return the file that a path means, and the pages of a PDF behind a colon."""
    if is_file(path):
        return path, None
    name, pages = split_pages(path.name)
    return path.with_name(name), pages


def read_included(path: Path, name: str, limits: PictureLimits) -> str | list[PictureData]:
    """Return the text of a file, called `name` in errors, or the pictures in it. Raises AppError with a fix."""
    path, pages = located(path)
    with file_errors(name):
        head = read_bytes(path, _HEAD_BYTES)
        return included(read_bytes(path, _most_bytes(head, path, limits) + 1), path, name, limits, pages)


def _most_bytes(head: bytes, file: PurePath, limits: PictureLimits) -> int:
    if picture_format(head) is not None:
        return int(limits.megabytes * 1e6)
    return MAX_DOCUMENT_BYTES if document_suffix(head, file.suffix) is not None else MAX_TEXT_BYTES


def included(
    data: bytes, file: PurePath, name: str, limits: PictureLimits, pages: range | None = None
) -> str | list[PictureData]:
    """Return the text or the pictures in the bytes of a file; see `read_included`."""
    if picture_format(data) is not None:
        return [read_picture(data, name, limits)]
    suffix = file.suffix.lower()
    if suffix in _PICTURE_SUFFIXES:
        what = "not a picture despite its name" if data else "empty"
        raise AppError(f"{name} is {what}.", "Save it again as PNG; if it is text, rename it.")
    if suffix in _SOUND_SUFFIXES + _VIDEO_SUFFIXES:
        what = "sound" if suffix in _SOUND_SUFFIXES else "video"
        raise AppError(f"{name} is {what}, which Tandem cannot read.", "Include a text of what is said in it.")
    if (kind := document_suffix(data, suffix)) is None:
        return user_text(data, name)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise AppError(f"{name} is larger than {MAX_DOCUMENT_BYTES >> 20} MB.", "Include a part of it.")
    found = read_document(data, kind, name, pages)
    if isinstance(found, str):
        return found
    base, _ = split_pages(name)
    return [read_picture(page, f"{base}:{number}", limits) for number, page in found.items()]
