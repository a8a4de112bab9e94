"""Files in a prompt: told apart by their bytes or suffix; the text of documents."""

import sys
from contextlib import nullcontext
from pathlib import Path, PurePath
from unittest.mock import Mock
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from app.core import included as core_included
from app.core.errors import AppError, Interrupted
from app.core.included import included, located, read_included
from app.core.pictures import PictureData, PictureLimits
from tests.core.test_pictures import png


def read(file: Path, name: str = "it") -> str | list[PictureData]:
    return read_included(file, name, PictureLimits())


def pdf(*pages: str) -> bytes:
    """Return a PDF file with one line on each page."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>"]
    objects.append("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for n, text in enumerate(pages):
        drawn = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET" if text else ""
        resources = "/Resources << /Font << /F1 3 0 R >> >>"
        objects.append(f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] {resources} /Contents {5 + 2 * n} 0 R >>")
        objects.append(f"<< /Length {len(drawn)} >>\nstream\n{drawn}\nendstream")
    out, offsets = "%PDF-1.4\n", []
    for number, each in enumerate(objects, start=1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{each}\nendobj\n"
    table = "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    size = len(objects) + 1
    end = f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF\n"
    return f"{out}xref\n0 {size}\n0000000000 65535 f \n{table}{end}".encode()


def test_a_picture_is_told_by_its_bytes(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(png(4, 3))
    found = read(tmp_path / "a.txt", "a.txt")
    assert isinstance(found, list)
    assert [(each.width, each.name) for each in found] == [(4, "a.txt")]


@pytest.mark.parametrize("data", [b"", b"<!DOCTYPE html><p>Not found", b"%PDF-1.7"])
def test_a_file_with_the_name_of_a_picture_is_not_sent_as_text(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.PNG").write_bytes(data)
    with pytest.raises(AppError, match=r"a\.PNG is (empty|not a picture despite its name)\."):
        read_included(tmp_path / "a.PNG", "a.PNG", PictureLimits())


@pytest.mark.parametrize(
    ("name", "numbers"), [("a.pdf", (1, 2, 3)), ("a.pdf:2-", (2, 3)), ("a.pdf:1-2", (1, 2)), ("A.PDF:3", (3,))]
)
def test_the_pages_of_a_pdf_file_have_their_numbers(tmp_path: Path, name: str, numbers: tuple[int, ...]) -> None:
    pytest.importorskip("kreuzberg")
    (tmp_path / name.partition(":")[0]).write_bytes(pdf("first", "", "third"))
    texts = {1: "first", 2: "(no text: this page is probably scanned)", 3: "third"}
    assert read(tmp_path / name) == "\n\n".join(f"Page {n} of 3\n\n{texts[n]}" for n in numbers)


@pytest.mark.parametrize(
    ("data", "name", "words"),
    [
        (pdf("one", "two"), "a.pdf:3-4", "a.pdf:3-4: the file has 2 pages"),
        (pdf("one")[:200], "a.pdf", "damaged"),
        (pdf(*[""] * 11), "a.pdf", "a.pdf has 11 pages without text; 10 can be sent as pictures"),
        (b"%PDF-1.7 \xff\xfe", "a.pdf", "damaged"),
        (b"", "a.pdf", "damaged"),
    ],
)
def test_a_pdf_file_that_cannot_be_read_is_refused(tmp_path: Path, data: bytes, name: str, words: str) -> None:
    pytest.importorskip("kreuzberg")
    (tmp_path / "a.pdf").write_bytes(data)
    with pytest.raises(AppError, match=words):
        read(tmp_path / name, name)


@pytest.mark.parametrize(("name", "shown"), [("a.pdf", ["a.pdf:1", "a.pdf:2"]), ("a.pdf:2", ["a.pdf:2"])])
def test_pages_without_text_are_pictures(tmp_path: Path, name: str, shown: list[str]) -> None:
    pytest.importorskip("kreuzberg")
    (tmp_path / "a.pdf").write_bytes(pdf("", ""))
    found = read(tmp_path / name, name)
    assert [each.name for each in found if isinstance(each, PictureData)] == shown


def test_a_file_with_a_colon_in_its_name_is_that_file(tmp_path: Path) -> None:
    if sys.platform == "win32":
        pytest.skip("names on Windows have no colons")
    (tmp_path / "a.pdf:3").write_text("text")
    assert located(tmp_path / "a.pdf:3") == (tmp_path / "a.pdf:3", None)


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        ("a.HTML", "<h1>Grüße</h1><script>x()</script><p>Some <b>text</b>", "# Grüße\n\nSome **text**"),
        ("a.rtf", r"{\rtf1\ansi\ansicpg1252 {\b Bold} \'fc \u8364?}", "**Bold** ü €"),
        ("a.eml", "Subject: =?utf-8?b?R3LDvMOfZQ==?=\n\nHello", "**Subject**: Grüße\n\nHello"),
        (
            "a.ipynb",
            '{"nbformat": 4, "cells": [{"cell_type": "code", "source": ["print(1)"], "outputs": []}]}',
            "```\nprint(1)\n```",
        ),
        ("a.doc", "<html><p>It is HTML", "It is HTML"),
        ("a.csv", "a,b\n1,2\n", "a,b\n1,2\n"),
    ],
)
def test_documents_become_markdown(tmp_path: Path, name: str, data: str, text: str) -> None:
    pytest.importorskip("kreuzberg")
    (tmp_path / name).write_bytes(data.encode("latin-1"))
    assert read(tmp_path / name) == text


@pytest.mark.parametrize("name", ["a.docx", "a.doc", "a"])
def test_an_office_file_becomes_markdown_whatever_its_name(tmp_path: Path, name: str) -> None:
    pytest.importorskip("kreuzberg")
    with ZipFile(tmp_path / name, "w") as archive:
        space = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
        body = "<w:body><w:p><w:r><w:t>Hello</w:t></w:r></w:p></w:body>"
        archive.writestr("word/document.xml", f'<w:document xmlns:w="{space}">{body}</w:document>')
    assert read(tmp_path / name) == "Hello"


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.xlsx", b"PK\3\4 damaged", "is damaged, or not a document"),
        ("a.zip", b"PK\5\6" + bytes(18), "is not text"),
        ("a\n", b"PK\3\4\0", "is not text"),
        ("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), "by a password"),
    ],
)
def test_an_office_file_that_cannot_be_read_is_refused(name: str, data: bytes, words: str) -> None:
    pytest.importorskip("kreuzberg")
    with pytest.raises(AppError, match=words):
        included(data, PurePath(name), name, PictureLimits())


@pytest.mark.parametrize("element", ["text:section", "text:span"])
def test_a_document_that_ends_its_reader_is_refused(tmp_path: Path, element: str) -> None:
    pytest.importorskip("kreuzberg")
    spaces = "".join(f' xmlns:{each}="urn:oasis:names:tc:opendocument:xmlns:{each}:1.0"' for each in ("office", "text"))
    body = f"<{element}>" * 100_000 + f"</{element}>" * 100_000
    content = f"<office:body><office:text>{body}</office:text></office:body>"
    with ZipFile(tmp_path / "a.odt", "w", ZIP_DEFLATED) as archive:
        archive.writestr("content.xml", f"<office:document-content{spaces}>{content}</office:document-content>")
    with pytest.raises(AppError, match=r"a\.odt cannot be read: the process that reads it crashed"):
        read(tmp_path / "a.odt", "a.odt")


def test_a_document_that_takes_too_much_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("kreuzberg")
    monkeypatch.setattr(core_included, "_READ_MEMORY", 1)
    (tmp_path / "a.pdf").write_bytes(pdf("text"))
    with pytest.raises(AppError, match=r"a\.pdf cannot be read: .* took more than 0 GB of memory"):
        read(tmp_path / "a.pdf", "a.pdf")


def test_documents_are_read_one_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("kreuzberg")
    monkeypatch.setattr(core_included, "ask", lambda *_, **__: str(core_included._one_reader.locked()))
    (tmp_path / "a.pdf").write_bytes(pdf("text"))
    assert (read(tmp_path / "a.pdf"), core_included._one_reader.locked()) == ("True", False)


def test_an_unchanged_document_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("kreuzberg")
    asked = Mock(return_value="text")
    monkeypatch.setattr(core_included, "ask", asked)
    for words in ("before a change", "before a change", "after it"):
        (tmp_path / "a.pdf").write_bytes(pdf(words))
        assert read(tmp_path / "a.pdf") == "text"
    assert asked.call_count == 2


@pytest.mark.parametrize("is_busy", [False, True])
def test_a_document_that_is_no_longer_wanted_is_not_read(tmp_path: Path, is_busy: bool) -> None:
    pytest.importorskip("kreuzberg")
    (tmp_path / "a.pdf").write_bytes(pdf("never read"))
    with core_included._one_reader if is_busy else nullcontext(), pytest.raises(Interrupted):
        read_included(tmp_path / "a.pdf", "a.pdf", PictureLimits(), lambda: True)
    assert not core_included._one_reader.locked()


def test_more_text_than_a_text_file_may_have_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("kreuzberg")
    monkeypatch.setattr(core_included, "MAX_TEXT_BYTES", 3)
    (tmp_path / "a.html").write_text("<p>text")
    with pytest.raises(AppError, match=r"it has more than 0 MB of text"):
        read(tmp_path / "a.html")


def test_a_package_that_a_system_lacks_is_not_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kreuzberg", None)
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    (tmp_path / "a.pdf").write_bytes(pdf("text"))
    with pytest.raises(AppError) as refused:
        read(tmp_path / "a.pdf")
    assert refused.value.hint == "It does not exist for Intel Macs; save the document as text."


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kreuzberg", None)
    for name, data in (("a.pdf", b"x"), ("a.docx", b"x"), ("b.pdf", b"%PDF-1.7")):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(AppError, match=f"{name} needs the package kreuzberg"):
            read(tmp_path / name, name)
    (tmp_path / "a.html").write_text("<p>source")
    assert read(tmp_path / "a.html") == "<p>source"


def test_sound_and_video_are_refused(tmp_path: Path) -> None:
    for name, what in (("a.mp3", "sound"), ("a.MP4", "video")):
        (tmp_path / name).write_bytes(b"\0")
        with pytest.raises(AppError, match=f"{name} is {what}, which Tandem cannot read"):
            read(tmp_path / name, name)
