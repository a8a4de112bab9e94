"""Documents for a prompt: the text of PDF pages by pypdf; office files, e-books and web pages by Kreuzberg."""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import PurePath
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn

from app.core.errors import AppError
from app.core.fixes import fix
from app.core.units import counted

if TYPE_CHECKING:
    from pypdf import PdfReader

MAX_DOCUMENT_BYTES = 64 << 20
_OFFICE = "application/vnd.openxmlformats-officedocument."
_MEDIA_TYPES = {
    ".docx": f"{_OFFICE}wordprocessingml.document",
    ".xlsx": f"{_OFFICE}spreadsheetml.sheet",
    ".pptx": f"{_OFFICE}presentationml.presentation",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".epub": "application/epub+zip",
    ".html": "text/html",
    ".htm": "text/html",
}
_PDF = ".pdf"
_PAGES = re.compile(r"(?P<file>.+\.pdf):(?P<first>[1-9][0-9]{0,5})(?P<to>-(?P<last>[1-9][0-9]{0,5})?)?", re.IGNORECASE)
_LAST_PAGE = 999_999
_SCANNED = "(no text: this page is probably scanned)"


def is_document(path: PurePath) -> bool:
    """Return whether the text of a file must be extracted, by its suffix.

    A web page is one only where Kreuzberg is installed; elsewhere its source is included.
    """
    suffix = path.suffix.lower()
    return suffix == _PDF or (
        suffix in _MEDIA_TYPES and (_MEDIA_TYPES[suffix] != "text/html" or _kreuzberg() is not None)
    )


def split_pages(name: str) -> tuple[str, range | None]:
    """Return the file and the pages of "file.pdf:3-7", "file.pdf:3" or "file.pdf:3-"; None for another name."""
    found = _PAGES.fullmatch(name)
    if found is None:
        return name, None
    first = int(found["first"])
    last = int(found["last"]) if found["last"] else first if found["to"] is None else _LAST_PAGE
    return found["file"], range(first, last + 1)


def document_text(data: bytes, suffix: str, name: str, pages: range | None = None) -> str:
    """Return the text of a document; of a PDF, its pages under their numbers. Raises AppError with a fix.

    `suffix` is that of the file, which is called `name` in errors.
    """
    suffix = suffix.lower()
    text = _pdf_text(data, name, pages) if suffix == _PDF else _converted(data, name, suffix)
    if not text.strip():
        raise AppError(f"{name} has no text.", "Save it as text and include that file.")
    return text.strip()


def _pdf_text(data: bytes, name: str, pages: range | None) -> str:
    try:
        from pypdf import PdfReader
    except ImportError:
        _needs("pypdf", name, _PDF)
    try:
        texts, n = _page_texts(PdfReader(BytesIO(data)), name, pages)
    except AppError:
        raise
    except Exception as error:
        raise _damaged(name) from error
    if not any(texts.values()):
        raise AppError(f"{name} has no text: its pages are probably scanned.", "Include pictures of its pages instead.")
    return "\n\n".join(f"Page {number} of {n}\n\n{text or _SCANNED}" for number, text in texts.items())


def _page_texts(reader: PdfReader, name: str, pages: range | None) -> tuple[dict[int, str], int]:
    """Return the text of the chosen pages by their numbers, and the number of all pages."""
    if reader.is_encrypted and not reader.decrypt(""):
        raise AppError(f"{name} is protected by a password.", "Save a copy without one.")
    n = len(reader.pages)
    chosen = [number for number in range(1, n + 1) if pages is None or number in pages]
    if not chosen:
        raise AppError(f"{name}: the file has {counted(n, 'page')}.", f"Name some of them, such as :1-{n}.")
    return {number: reader.pages[number - 1].extract_text().strip() for number in chosen}, n


def _converted(data: bytes, name: str, suffix: str) -> str:
    kreuzberg = _kreuzberg()
    if kreuzberg is None:
        _needs("kreuzberg", name, suffix)
    config = kreuzberg.ExtractionConfig(use_cache=False, output_format="markdown")
    try:
        return str(kreuzberg.extract_bytes_sync(data, _MEDIA_TYPES[suffix], config).content)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        # A panic of its Rust code is no Exception.
        raise _damaged(name) from error


def _kreuzberg() -> ModuleType | None:
    try:
        import kreuzberg
    except ImportError:
        return None
    return kreuzberg


def _needs(package: str, name: str, suffix: str) -> NoReturn:
    raise AppError(
        f"{name} is a {suffix[1:].upper()} file, which needs the package {package}.",
        f"Install it: {fix('install', package)}",
    ) from None


def _damaged(name: str) -> AppError:
    return AppError(
        f"{name} is damaged, or not a document of this kind.", "Open it in another program and save it again."
    )
