"""Files that a user includes in a prompt: pictures, text, and documents, which Kreuzberg reads."""

import platform
import re
from collections.abc import Callable
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
_PDF_SUFFIX = ".pdf"
_HTML_SUFFIXES = (".htm", ".html")
_SOURCE_SUFFIXES = (*_HTML_SUFFIXES, ".eml", ".ipynb", ".rtf")
"""Text formats that are included as source if Kreuzberg is not installed."""
_OFFICE_SUFFIXES = (".doc", ".docx", ".odp", ".ods", ".odt", ".ppt", ".pptx", ".xls", ".xlsx")
DOCUMENT_SUFFIXES = (*_SOURCE_SUFFIXES, *_OFFICE_SUFFIXES, ".epub", _PDF_SUFFIX)
_PAGES_PATTERN = re.compile(
    r"(?P<file>.+\.pdf):(?P<first>[1-9][0-9]{0,5})(?P<to>-(?P<last>[1-9][0-9]{0,5})?)?", re.IGNORECASE
)
_LAST_PAGE = 999_999
_SCANNED_NOTE = "(no text: this page is probably scanned)"
_MOST_SCANNED = 10
"""Largest number of scanned pages sent as pictures."""
_SCAN_DPI = 100
_PICTURE_SUFFIXES = (".avif", ".bmp", ".gif", ".heic", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
_SOUND_SUFFIXES = (".aac", ".flac", ".m4a", ".mp3", ".ogg", ".opus", ".wav", ".wma")
_VIDEO_SUFFIXES = (".avi", ".mkv", ".mov", ".mp4", ".webm")
SUFFIXES = _PICTURE_SUFFIXES + _SOUND_SUFFIXES + _VIDEO_SUFFIXES + DOCUMENT_SUFFIXES
"""File suffixes of pictures, sounds, videos and documents."""
_HEAD_BYTES = 32
"""Bytes that identify a file format."""


def document_suffix(head: bytes, suffix: str) -> str | None:
    """Return the document type of a file as a suffix, from its first bytes or its own suffix; None for other files."""
    suffix = _PDF_SUFFIX if head.startswith(b"%PDF-") else suffix.lower()
    if suffix not in DOCUMENT_SUFFIXES or (suffix in _SOURCE_SUFFIXES and find_spec("kreuzberg") is None):
        return None
    return suffix


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
    name, suffix = document.name, document.suffix
    if find_spec("kreuzberg") is None:
        raise AppError(
            f"{name} needs the package kreuzberg, which reads {suffix[1:].upper()} files.",
            "There is none for a Mac with Intel; save the document as text."
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
    data, name = document.data, document.name
    if document.suffix in _HTML_SUFFIXES:
        # Kreuzberg assumes UTF-8 for every web page.
        data = decoded_text(data).encode()
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        file = Path(folder) / f"document{document.suffix}"
        file.write_bytes(data)
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


def is_named_picture(name: str) -> bool:
    """Return whether a file name ends like that of a picture."""
    return name.lower().endswith(_PICTURE_SUFFIXES)


def located(path: Path) -> tuple[Path, range | None]:
    """Return the file that a path names, and the pages of a PDF after a colon."""
    if is_file(path):
        return path, None
    name, pages = split_pages(path.name)
    return path.with_name(name), pages


def _never() -> bool:
    return False


def read_included(
    path: Path, name: str, limits: PictureLimits, is_cancelled: Callable[[], bool] = _never
) -> str | list[PictureData]:
    """Return the text of a file, called `name` in errors, or its pictures.

    Raises:
        AppError: The file cannot be included.
        Interrupted: `is_cancelled`, which is polled while a document is read, returned True.
    """
    path, pages = located(path)
    with file_errors(name):
        head = read_bytes(path, _HEAD_BYTES)
        data = read_bytes(path, _most_bytes(head, path, limits) + 1)
        return included(data, path, name, limits, pages, is_cancelled)


def _most_bytes(head: bytes, file: PurePath, limits: PictureLimits) -> int:
    if picture_format(head) is not None:
        return int(limits.megabytes * 1e6)
    return MAX_DOCUMENT_BYTES if document_suffix(head, file.suffix) is not None else MAX_TEXT_BYTES


def included(
    data: bytes,
    file: PurePath,
    name: str,
    limits: PictureLimits,
    pages: range | None = None,
    is_cancelled: Callable[[], bool] = _never,
) -> str | list[PictureData]:
    """Return the text or pictures in the bytes of a file; see `read_included`."""
    if picture_format(data) is not None:
        return [read_picture(data, name, limits)]
    suffix = file.suffix.lower()
    if suffix in _PICTURE_SUFFIXES:
        what = "not a picture despite its name" if data else "empty"
        raise AppError(f"{name} is {what}.", "Save it again as PNG; if it is text, rename it.")
    if suffix in _SOUND_SUFFIXES + _VIDEO_SUFFIXES:
        what = "sound" if suffix in _SOUND_SUFFIXES else "video"
        raise AppError(f"{name} is {what}, which Tandem cannot read.", "Include a transcript instead.")
    if (kind := document_suffix(data, suffix)) is None:
        return user_text(data, name)
    if len(data) > MAX_DOCUMENT_BYTES:
        raise AppError(f"{name} is larger than {MAX_DOCUMENT_BYTES >> 20} MB.", "Include a part of it.")
    found = _read_document(_Document(data, kind, name, pages, is_cancelled))
    if isinstance(found, str):
        return found
    base, _ = split_pages(name)
    return [read_picture(page, f"{base}:{number}", limits) for number, page in found.items()]
