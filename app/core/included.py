"""Files that a user includes in a prompt: pictures, text, and documents, which Kreuzberg reads."""

import platform
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

from app.core.child import ChildError, ask
from app.core.errors import AppError, Interrupted
from app.core.fixes import fix
from app.core.pictures import PictureData, PictureLimits, picture_format, read_picture
from app.core.regular_file import (
    MAX_TEXT_BYTES,
    decoded_text,
    file_errors,
    is_file,
    read_bytes,
    status,
    user_text,
    with_line_feeds,
)
from app.core.units import counted

MAX_DOCUMENT_BYTES = 64 << 20
_READ_S = 30.0
_READ_MEMORY = 1 << 30
"""Memory limit for reading a document: a small file may unpack to gigabytes."""
_one_reader = Lock()
"""Held while reading a document, so that parallel requests do not multiply the memory."""
_POLL_S = 0.05
_PDF_SUFFIX, _PDF_HEAD = ".pdf", b"%PDF-"
_HTML_SUFFIXES = (".htm", ".html")
_SOURCE_SUFFIXES = (*_HTML_SUFFIXES, ".eml", ".ipynb", ".rtf")
"""Text formats that are included as source if Kreuzberg is not installed."""
_OFFICE_SUFFIXES = (".doc", ".docx", ".odp", ".ods", ".odt", ".ppt", ".pptx", ".xls", ".xlsx")
_BINARY_SUFFIXES = (*_OFFICE_SUFFIXES, ".docm", ".pptm", ".xlsm", ".epub", _PDF_SUFFIX)
_DOCUMENT_SUFFIXES = (*_SOURCE_SUFFIXES, *_BINARY_SUFFIXES)
_OLE_HEAD = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_DOCUMENT_HEADS = (_PDF_HEAD, _OLE_HEAD, b"PK\3\4", b"{\\rtf")
"""First bytes of files that may be documents, whatever their suffix."""
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")
"""Name of the content of an encrypted office file."""
_PAGES_PATTERN = re.compile(
    r"(?P<file>.+\.pdf):(?P<first>[1-9][0-9]{0,5})(?P<to>-(?P<last>[1-9][0-9]{0,5})?)?", re.IGNORECASE
)
_LAST_PAGE = 999_999
_SCANNED_NOTE = "(no text: this page is probably scanned)"
_MOST_SCANNED = 10
"""Largest number of scanned pages sent as pictures."""
_SCAN_DPI = 100
_HEIF_SUFFIXES, _JPEG_SUFFIXES = (".avif", ".heic", ".heif"), (".jfif", ".jpeg", ".jpg")
PICTURE_SUFFIXES = (*_HEIF_SUFFIXES, *_JPEG_SUFFIXES, ".bmp", ".gif", ".ico", ".png", ".tif", ".tiff", ".webp")
_SOUND_SUFFIXES = (".aac", ".flac", ".m4a", ".mp3", ".ogg", ".opus", ".wav", ".wma")
_VIDEO_SUFFIXES = (".avi", ".mkv", ".mov", ".mp4", ".webm")
SUFFIXES = PICTURE_SUFFIXES + _SOUND_SUFFIXES + _VIDEO_SUFFIXES + _DOCUMENT_SUFFIXES
"""File suffixes of pictures, sounds, videos and documents."""


def _is_document(data: bytes, suffix: str) -> bool:
    """Return whether a file is read as a document; without Kreuzberg, text formats are read as text."""
    if find_spec("kreuzberg") is None:
        return suffix in _BINARY_SUFFIXES or data.startswith(_PDF_HEAD)
    return suffix in _DOCUMENT_SUFFIXES or data.startswith(_DOCUMENT_HEADS)


def split_pages(name: str) -> tuple[str, range | None]:
    """Return the file and the pages in "file.pdf:3-7", "file.pdf:3" or "file.pdf:3-"; None for other names."""
    found = _PAGES_PATTERN.fullmatch(name)
    if found is None:
        return name, None
    first = int(found["first"])
    last = int(found["last"]) if found["last"] else first if found["to"] is None else _LAST_PAGE
    return found["file"], range(first, last + 1)


@dataclass(frozen=True, slots=True)
class _Document:
    """A document to read: its bytes, its name for errors, the pages, and when to cancel."""

    data: bytes = field(repr=False)
    suffix: str
    name: str
    pages: range | None
    is_cancelled: Callable[[], bool] = field(compare=False)


def _read_document(document: _Document) -> str | dict[int, bytes]:
    """Return the text of a document, or, of a PDF without text, PNG files of its pages by number."""
    if find_spec("kreuzberg") is None:
        raise AppError(
            f"{document.name} needs the package kreuzberg, which reads PDF and office files.",
            "It does not exist for Intel Macs; save the document as text."
            if (platform.system(), platform.machine()) == ("Darwin", "x86_64")
            else f"Install it: {fix('install', 'kreuzberg>=4.10,<5')}",
        )
    while not _one_reader.acquire(timeout=_POLL_S):
        if document.is_cancelled():
            raise Interrupted
    try:
        return _parsed(document)
    finally:
        _one_reader.release()


@lru_cache(maxsize=2)
def _parsed(document: _Document) -> str | dict[int, bytes]:
    """Return the result of the child; cached, because a prompt is counted at each typing pause and then sent."""
    name = document.name
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        file = Path(folder) / f"document{document.suffix}"
        file.write_bytes(document.data)
        try:
            # Deeply nested elements overflow Kreuzberg's stack, which ends its process.
            question = ("core.included.document_content", file, name, document.pages)
            found: str | dict[int, bytes] = ask(
                *question, seconds=_READ_S, memory=_READ_MEMORY, cancelled=document.is_cancelled
            )
        except ChildError as error:
            why, hint = f"cannot be read: the process that reads it {error}", "Save a part of it with another program."
            # Kreuzberg raises its own exceptions.
            if error.status is not None and error.status.code == 1:
                why, hint = "is damaged, or not a document of this kind", "Save it again with another program."
                if "password" in error.status.output:
                    why, hint = "is protected by a password", "Save a copy without one."
            raise AppError(f"{name} {why}.", hint) from error
    if isinstance(found, str) and len(found) > MAX_TEXT_BYTES:
        raise AppError(f"{name} has more than {MAX_TEXT_BYTES >> 20} MB of text.", "Include a part of it.")
    return found


def document_content(file: Path, name: str, pages: range | None) -> str | dict[int, bytes]:
    """Return the content of a document, in the child. Raises AppError with a fix."""
    # Kreuzberg's type hints lack options.
    kreuzberg: Any = import_module("kreuzberg")
    data = file.read_bytes()
    if data.startswith(_OLE_HEAD) and _ENCRYPTED in data:
        raise ValueError("It has a password.")
    with suppress(RuntimeError, StopIteration):
        # The suffix may be wrong, or missing.
        known = kreuzberg.get_extensions_for_mime(kreuzberg.detect_mime_type(data))
        file = file.rename(file.with_suffix(next(f".{each}" for each in known if f".{each}" in _DOCUMENT_SUFFIXES)))
    if file.suffix not in _DOCUMENT_SUFFIXES:
        return user_text(data, name)
    if file.suffix in _HTML_SUFFIXES:
        # Kreuzberg assumes UTF-8 for every web page.
        file.write_bytes(decoded_text(data).encode())
    is_pdf = file.suffix == _PDF_SUFFIX
    config = kreuzberg.ExtractionConfig(
        use_cache=False,
        disable_ocr=True,
        output_format="plain" if is_pdf else "markdown",
        pages=kreuzberg.PageConfig(extract_pages=is_pdf),
    )
    found = kreuzberg.extract_file_sync(file, config=config)
    if not is_pdf:
        if not found.content.strip():
            raise AppError(f"{name} has no text.", "Save it as text and include that file.")
        return str(found.content).strip()
    n = len(found.pages or [])
    chosen = [page for page in found.pages or [] if pages is None or page["page_number"] in pages]
    if not chosen:
        hint = f"Name some of them, such as :1-{n}." if n else "Open it in another program."
        raise AppError(f"{name}: the file has {counted(n, 'page')}.", hint)
    texts = {page["page_number"]: with_line_feeds(page["content"]).replace("\0", "").strip() for page in chosen}
    if any(texts.values()):
        return "\n\n".join(f"Page {number} of {n}\n\n{text or _SCANNED_NOTE}" for number, text in texts.items())
    if len(texts) > _MOST_SCANNED:
        raise AppError(
            f"{name} has {len(texts)} pages without text; {_MOST_SCANNED} can be sent as pictures.",
            f"Name some of them, such as :1-{_MOST_SCANNED}.",
        )
    return {number: kreuzberg.render_pdf_page(file, number - 1, dpi=_SCAN_DPI) for number in texts}


def located(path: Path) -> tuple[Path, range | None]:
    """Return the file that a path names, and the pages of a PDF after a colon."""
    name, pages = split_pages(path.name)
    return (path, None) if pages is None or is_file(path) else (path.with_name(name), pages)


def check_included(path: Path, name: str) -> None:
    """Raise AppError unless a path names a regular file, called `name` in errors; do not open it."""
    with file_errors(name):
        status(located(path)[0])


def read_included(
    path: Path, name: str, limits: PictureLimits, is_cancelled: Callable[[], bool] = lambda: False
) -> str | list[PictureData]:
    """Return the text of a file, called `name` in errors, or its pictures.

    Raises:
        AppError: The file cannot be included.
        Interrupted: `is_cancelled`, which is polled while a document is read, returned True.
    """
    path, pages = located(path)
    with file_errors(name):
        data = read_bytes(path, max(MAX_DOCUMENT_BYTES, int(limits.megabytes * 1e6)) + 1)
        return included(data, path, name, limits, pages, is_cancelled)


def included(
    data: bytes,
    file: PurePath,
    name: str,
    limits: PictureLimits,
    pages: range | None = None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> str | list[PictureData]:
    """Return the text or pictures in the bytes of a file; see `read_included`."""
    if picture_format(data) is not None:
        return [read_picture(data, name, limits)]
    suffix = file.suffix.lower()
    if suffix in PICTURE_SUFFIXES:
        what = "not a picture despite its name" if data else "empty"
        raise AppError(f"{name} is {what}.", "Save it again as PNG; if it is text, rename it.")
    if suffix in _SOUND_SUFFIXES + _VIDEO_SUFFIXES:
        what = "sound" if suffix in _SOUND_SUFFIXES else "video"
        raise AppError(f"{name} is {what}, which Tandem cannot read.", "Include a transcript instead.")
    if not _is_document(data, suffix):
        return user_text(data, name)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise AppError(f"{name} is larger than {MAX_DOCUMENT_BYTES >> 20} MB.", "Include a part of it.")
    found = _read_document(_Document(data, suffix * (suffix in _DOCUMENT_SUFFIXES), name, pages, is_cancelled))
    if isinstance(found, str):
        return found
    base, _ = split_pages(name)
    return [read_picture(page, f"{base}:{number}", limits) for number, page in found.items()]
