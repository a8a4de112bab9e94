"""Pictures: headers are read and checked without any decoder; Pillow, where it is installed, converts what it can."""

from __future__ import annotations

import random
import struct
import sys
import zlib
from io import BytesIO

import pytest

from app.core.errors import AppError
from app.core.pictures import PictureLimits, picture_format, read_picture, without_marks


def png(width: int, height: int, *, color: int = 2, extra: bytes = b"") -> bytes:
    """Return a PNG file; `color` 6 has an alpha channel."""
    samples = {2: 3, 6: 4}[color]
    rows = (b"\0" + b"\x80" * (samples * width)) * height
    header = struct.pack(">IIBBBBB", width, height, 8, color, 0, 0, 0)
    chunks = _chunk(b"IHDR", header) + extra + _chunk(b"IDAT", zlib.compress(rows)) + _chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def jpeg_head(width: int, height: int, *, orientation: int | None = None, sof: int = 0xC0) -> bytes:
    """Return the segments of a JPEG file, without pixels."""
    frame = struct.pack(">BHHB", 8, height, width, 3) + b"\1\x22\0\2\x11\1\3\x11\1"
    exif = b""
    if orientation is not None:
        directory = struct.pack(">H", 1) + struct.pack(">HHIHH", 0x0112, 3, 1, orientation, 0)
        exif = _segment(0xE1, b"Exif\0\0MM\0*" + struct.pack(">I", 8) + directory)
    scan = _segment(0xDA, b"\3\1\0\2\x11\3\x11\0\x3f\0")
    return b"\xff\xd8" + exif + _segment(sof, frame) + scan + b"\x12\x34\xff\xd9"


def _segment(marker: int, data: bytes) -> bytes:
    return bytes((0xFF, marker)) + struct.pack(">H", len(data) + 2) + data


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + b"\0\0\0;"


def bmp(width: int, height: int) -> bytes:
    size = (abs(width) * 24 + 31) // 32 * 4 * abs(height)
    head = struct.pack("<2sIHHI", b"BM", 54 + size, 0, 0, 54)
    return head + struct.pack("<IiiHHIIiiII", 40, width, height, 1, 24, 0, size, 0, 0, 0, 0) + bytes(size)


@pytest.fixture
def no_pillow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)


@pytest.mark.usefixtures("no_pillow")
@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        (png(40, 30), "image/png"),
        (jpeg_head(40, 30), "image/jpeg"),
        (jpeg_head(40, 30, sof=0xC2), "image/jpeg"),
        (gif(40, 30), "image/gif"),
        (bmp(40, 30), "image/bmp"),
        (bmp(40, -30), "image/bmp"),
    ],
)
def test_formats_of_llama_cpp_stay_as_they_are(data: bytes, media_type: str) -> None:
    found = read_picture(data, "a\ufffc\nb.png")
    assert (found.data, found.picture.media_type, found.notice) == (data, media_type, None)
    assert (found.picture.width, found.picture.height, found.picture.name) == (40, 30, "a b.png")
    assert read_picture(data).picture.digest == found.picture.digest


@pytest.mark.usefixtures("no_pillow")
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (png(40, 30)[:-20], "damaged"),
        (png(40, 30).replace(b"IDAT", b"IDAU"), "damaged"),
        (png(0, 30), "damaged"),
        (jpeg_head(40, 30)[:-2], "damaged"),
        (jpeg_head(40, 0), "damaged"),
        (gif(40, 30)[:-1], "damaged"),
        (bmp(40, 30)[:-1], "damaged"),
        (bmp(-40, 30), "damaged"),
        (jpeg_head(8000, 7000), "the limit is 50 million pixels"),
        (png(4, 404), "100 times"),
        (jpeg_head(40, 30, sof=0xC9), "JPEG picture, which needs the package Pillow"),
        (b"RIFF\x10\0\0\0WEBPVP8 ", "WebP picture, which needs the package Pillow"),
        (b"\0\0\0\x18ftypheic", "HEIC picture that Tandem cannot read"),
        (b"%PDF-1.7", "is in a format that Tandem cannot read"),
        (b"BMW is a company", "is in a format that Tandem cannot read"),
        (b"", "is in a format that Tandem cannot read"),
    ],
)
def test_what_cannot_be_decoded_is_refused_with_a_fix(data: bytes, words: str) -> None:
    with pytest.raises(AppError, match=words) as refused:
        read_picture(data, "cat")
    assert refused.value.message.startswith("cat ")
    assert refused.value.hint


def test_limits_are_settings() -> None:
    assert read_picture(png(4, 404), limits=PictureLimits(ratio=101)).picture.height == 404
    with pytest.raises(AppError, match=r"The picture is larger than 5e-05 MB"):
        read_picture(png(4, 4), limits=PictureLimits(megabytes=0.00005))


@pytest.mark.usefixtures("no_pillow")
@pytest.mark.parametrize(
    ("data", "words"),
    [
        (png(4, 4, color=6), "parts read as black"),
        (png(4, 4, extra=_chunk(b"tRNS", b"\0\0\0\0\0\0")), "parts read as black"),
        (jpeg_head(40, 30, orientation=6), "without being turned upright"),
    ],
)
def test_without_pillow_a_notice_names_what_the_model_does_not_see(data: bytes, words: str) -> None:
    assert words in (read_picture(data).notice or "")


@pytest.mark.usefixtures("no_pillow")
def test_changed_bytes_are_read_or_refused() -> None:
    rng = random.Random(1)
    samples = [png(9, 7), png(3, 3, color=6), jpeg_head(40, 30, orientation=3), gif(40, 30), bmp(5, 5)]
    for _ in range(4000):
        data = bytearray(rng.choice(samples))
        for _ in range(rng.randint(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            found = read_picture(bytes(data[: rng.choice((None, rng.randrange(len(data))))]))
        except AppError:
            continue
        assert 0 < found.picture.width * found.picture.height <= 50e6


def test_characters_that_would_stand_for_pictures_are_removed() -> None:
    assert without_marks("a\ufffcb") == "ab"


def _saved(mode: str, color: object, format_: str, size: tuple[int, int] = (6, 4), **how: object) -> bytes:
    image = pytest.importorskip("PIL.Image").new(mode, size, color)
    file = BytesIO()
    image.save(file, format_, **how)
    return file.getvalue()


def _pixel(data: bytes) -> object:
    with pytest.importorskip("PIL.Image").open(BytesIO(data)) as image:
        return image.convert("RGB").getpixel((0, 0))


@pytest.mark.parametrize(
    ("data", "media_type", "size", "pixel"),
    [
        pytest.param(("RGBA", (0, 0, 0, 0), "PNG"), "image/png", (6, 4), (255, 255, 255), id="transparent on white"),
        pytest.param(("RGB", (9, 8, 7), "TIFF"), "image/png", (6, 4), (9, 8, 7), id="another format"),
        pytest.param(("I;16", 0x8000, "TIFF"), "image/png", (6, 4), (128, 128, 128), id="16 bits"),
        pytest.param(("RGB", (255, 255, 255), "WEBP"), "image/jpeg", (6, 4), (255, 255, 255), id="a photo"),
    ],
)
def test_pillow_converts(
    data: tuple[str, object, str], media_type: str, size: tuple[int, int], pixel: tuple[int, int, int]
) -> None:
    found = read_picture(_saved(*data))
    assert (found.picture.media_type, found.notice) == (media_type, None)
    assert (found.picture.width, found.picture.height) == size
    assert _pixel(found.data) == pixel


def test_pillow_turns_a_photo_upright() -> None:
    exif = pytest.importorskip("PIL.Image").Exif()
    exif[0x0112] = 6
    found = read_picture(_saved("RGB", "red", "JPEG", exif=exif))
    assert (found.picture.width, found.picture.height) == (4, 6)


@pytest.mark.parametrize(
    "data", [png(3, 3, color=6)[:60], b"RIFF\x10\0\0\0WEBPVP8 damaged", b"%!PS-Adobe-3.0 EPSF-3.0"]
)
def test_what_pillow_cannot_decode_is_refused(data: bytes) -> None:
    pytest.importorskip("PIL")
    with pytest.raises(AppError):
        read_picture(data)


def test_pixels_are_counted_before_pillow_decodes_them() -> None:
    with pytest.raises(AppError, match="million pixels"):
        read_picture(_saved("1", 0, "TIFF", (9000, 9000), compression="group4"))


def test_formats_are_told_by_their_first_bytes() -> None:
    assert [picture_format(data) for data in (png(1, 1), gif(1, 1), b"text", b"<svg/>")] == ["PNG", "GIF", None, None]
