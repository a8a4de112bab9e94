"""Pictures: each format that Pillow writes is read upright and on white, or refused with a sentence."""

import random
import sys
from io import BytesIO
from typing import Any

import pytest
from PIL import Image
from PIL.ExifTags import Base

from app.core.errors import AppError
from app.core.pictures import PictureLimits, picture_format, pixels, read_picture, without_marks

GRAY = (128, 128, 128)


def saved(format_: str, size: tuple[int, int] = (6, 4), mode: str = "RGB", color: Any = GRAY, **how: Any) -> bytes:
    """Return a picture file of one color."""
    Image.new(mode, size, color).save(file := BytesIO(), format_, **how)
    return file.getvalue()


def png(width: int, height: int) -> bytes:
    return saved("PNG", (width, height))


def gif(width: int, height: int) -> bytes:
    return saved("GIF", (width, height))


def heic(size: tuple[int, int]) -> bytes:
    pytest.importorskip("pillow_heif").register_heif_opener()
    return saved("HEIF", size)


def _turned(format_: str, orientation: int) -> bytes:
    """Return a picture of 60 × 40 pixels whose left half is red when shown upright."""
    upright = Image.new("RGB", (60, 40))
    upright.paste("red", (0, 0, 30, 40))
    back = {2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}
    stored = upright.transpose(Image.Transpose(back[orientation])) if orientation > 1 else upright
    exif = Image.Exif()
    exif[Base.Orientation] = orientation
    stored.save(file := BytesIO(), format_, exif=exif)
    return file.getvalue()


FORMATS = ["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "AVIF", "JPEG2000", "ICO", "MPO"]


@pytest.mark.parametrize("format_", FORMATS)
def test_formats_of_pictures_are_read_as_they_are(format_: str) -> None:
    data = saved(format_, (32, 32))
    assert picture_format(data[:32]) is not None
    found = read_picture(data, "a\ufffc\nb.png")
    assert found.data == data
    assert found.media_type.startswith("image/")
    assert (found.width, found.height, found.name) == (32, 32, "a b.png")
    assert pixels(found).size == (32, 32)
    assert read_picture(data).digest == found.digest


@pytest.mark.parametrize("format_", ["PNG", "JPEG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_photos_are_turned_upright(format_: str, orientation: int) -> None:
    found = read_picture(_turned(format_, orientation))
    shown = pixels(found)
    assert (found.width, found.height) == shown.size == (60, 40)
    left, right = shown.getpixel((10, 20)), shown.getpixel((50, 20))
    assert isinstance(left, tuple)
    assert isinstance(right, tuple)
    assert left[0] > 200 > 50 > right[0]


@pytest.mark.parametrize(
    ("data", "pixel"),
    [
        pytest.param(saved("PNG", mode="RGBA", color=(0, 0, 0, 0)), (255, 255, 255), id="transparent"),
        pytest.param(saved("PNG", mode="LA", color=(0, 0)), (255, 255, 255), id="transparent gray"),
        pytest.param(saved("PNG", mode="P", color=0, transparency=0), (255, 255, 255), id="transparent palette"),
        pytest.param(saved("PNG", color=(1, 2, 3), transparency=(1, 2, 3)), (255, 255, 255), id="transparent color"),
        pytest.param(saved("PNG", mode="I;16", color=0x8000), GRAY, id="PNG of 16 bits"),
        pytest.param(saved("TIFF", mode="I;16", color=0x8000), GRAY, id="TIFF of 16 bits"),
        pytest.param(saved("PNG", mode="1", color=1), (255, 255, 255), id="one bit"),
        pytest.param(saved("JPEG", mode="CMYK", color=(0, 0, 0, 255)), (0, 0, 0), id="CMYK"),
        pytest.param(saved("JPEG", progressive=True), GRAY, id="progressive"),
        pytest.param(
            saved("GIF", save_all=True, append_images=[Image.new("RGB", (6, 4), "red")]), GRAY, id="animated GIF"
        ),
        pytest.param(
            saved("WEBP", save_all=True, append_images=[Image.new("RGB", (6, 4), "red")]), GRAY, id="animated WebP"
        ),
    ],
)
def test_a_model_sees_what_a_person_does(data: bytes, pixel: tuple[int, int, int]) -> None:
    seen = pixels(read_picture(data)).getpixel((0, 0))
    assert isinstance(seen, tuple)
    assert all(abs(a - b) <= 2 for a, b in zip(seen, pixel, strict=True))


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("share", [0.2, 0.6, 0.9])
def test_a_truncated_picture_is_refused(format_: str, share: float) -> None:
    noise = Image.frombytes("RGB", (64, 48), random.Random(1).randbytes(64 * 48 * 3))
    noise.save(file := BytesIO(), format_)
    with pytest.raises(AppError, match=r"^cat is damaged or incomplete"):
        read_picture(file.getvalue()[: int(share * len(file.getvalue()))], "cat")


def _with_size(width: int, height: int) -> bytes:
    """Return a BMP file that claims a size."""
    data = saved("BMP")
    return data[:18] + width.to_bytes(4, "little") + height.to_bytes(4, "little") + data[26:]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (png(40, 30).replace(b"IDAT", b"IDAU"), "damaged"),
        (_with_size(0, 30), "damaged"),
        (_with_size(1 << 30, 1 << 20), "more than 250,000,000 pixels"),
        (saved("TIFF", (9000, 9000), "1", 0, compression="group4"), "the limit is 50 million pixels"),
        (png(4, 404), "100 times"),
        (b"RIFF\x10\0\0\0WEBPVP8 damaged", "damaged"),
        (b"%PDF-1.7", "is in a format that Tandem cannot read"),
        (b"%!PS-Adobe-3.0 EPSF-3.0", "is in a format that Tandem cannot read"),
        (b"<svg/>", "is in a format that Tandem cannot read"),
        (b"BMW is a company", "is in a format that Tandem cannot read"),
        (b"", "is empty"),
    ],
)
def test_an_undecodable_picture_is_refused_with_a_fix(data: bytes, words: str) -> None:
    with pytest.raises(AppError, match=words) as refused:
        read_picture(data, "cat")
    assert refused.value.message.startswith("cat ")
    assert refused.value.hint


def test_a_photo_of_a_phone_needs_a_package(monkeypatch: pytest.MonkeyPatch) -> None:
    data = heic((64, 48))
    assert pixels(read_picture(data)).size == (64, 48)
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(AppError, match="HEIC picture, which needs the package pillow-heif"):
        read_picture(data)


def test_limits_are_settings() -> None:
    assert read_picture(png(4, 404), limits=PictureLimits(ratio=101)).height == 404
    with pytest.raises(AppError, match=r"The picture is larger than 5e-05 MB"):
        read_picture(png(4, 4), limits=PictureLimits(megabytes=0.00005))


def test_changed_bytes_are_read_or_refused() -> None:
    rng = random.Random(1)
    samples = [saved(format_, (16, 12)) for format_ in FORMATS] + [_turned("JPEG", 3), _turned("TIFF", 6)]
    for _ in range(600):
        data = bytearray(rng.choice(samples))
        for _ in range(rng.randint(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        try:
            found = read_picture(bytes(data[: rng.choice((None, rng.randrange(len(data))))]))
            assert 0 < found.width * found.height <= 50e6
            pixels(found)
        except AppError:
            continue


def test_characters_that_would_stand_for_pictures_are_removed() -> None:
    assert without_marks("a\ufffcb") == "ab"
