"""Pictures for a prompt: read their headers, refuse what is too large or damaged, and convert other formats.

llama.cpp decodes PNG, JPEG, GIF and BMP itself and gives any other bytes to the program `ffprobe`, so no others reach
it. Pillow, if it is installed, converts further formats, turns photos upright, and puts transparent parts on white.
"""

from __future__ import annotations

import struct
import zlib
from base64 import b64encode
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING

from app.core.errors import AppError
from app.core.fixes import fix
from app.core.printable import one_line

if TYPE_CHECKING:
    from PIL.Image import Image

MARK = "\ufffc"
"""Stands for a picture in the text of a message: U+FFFC, the object replacement character."""
_PHOTO_FORMATS = ("JPEG", "MPO", "WEBP", "AVIF")
"""Pillow's formats that mostly hold photos; as PNG they would be several times larger."""
_CONVERTED_FORMATS = (*_PHOTO_FORMATS, "PNG", "GIF", "BMP", "TIFF", "JPEG2000", "ICO", "PPM")
"""Formats that Pillow decodes by itself; for others, such as EPS, it would run a program."""
_MAGIC_BYTES = (
    (0, b"\x89PNG\r\n\x1a\n", "PNG"),
    (0, b"\xff\xd8\xff", "JPEG"),
    (0, b"GIF87a", "GIF"),
    (0, b"GIF89a", "GIF"),
    (0, b"BM", "BMP"),
    (8, b"WEBP", "WebP"),
    (0, b"II*\0", "TIFF"),
    (0, b"MM\0*", "TIFF"),
    (4, b"ftypavi", "AVIF"),
    (4, b"ftyphei", "HEIC"),
    (4, b"ftyphev", "HEIC"),
    (4, b"ftypmif1", "HEIC"),
    (4, b"jP  \r\n\x87\n", "JPEG 2000"),
    (0, b"\0\0\1\0", "ICO"),
)
"""Position and bytes that tell a format."""
_MEDIA_TYPES = {"PNG": "image/png", "JPEG": "image/jpeg", "GIF": "image/gif", "BMP": "image/bmp"}
"""Formats that llama.cpp decodes."""
_JPEG_QUALITY = 95
_UPRIGHT = 1
"""EXIF's orientation of a picture that is shown as it is stored."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture without its bytes.

    Attributes:
        digest: SHA-256 of the bytes, in hexadecimal.
        name: One line; None if it has no name.
    """

    digest: str
    media_type: str
    width: int
    height: int
    name: str | None = None


@dataclass(frozen=True, slots=True)
class PictureData:
    """A picture that llama.cpp can decode.

    Attributes:
        notice: What the model will not see as a person does, if anything.
    """

    picture: Picture
    data: bytes
    notice: str | None = None

    @property
    def data_url(self) -> str:
        """The picture as a URL that holds it."""
        return f"data:{self.picture.media_type};base64,{b64encode(self.data).decode()}"


@dataclass(frozen=True)
class PictureLimits:
    """Largest picture: millions of bytes, millions of pixels, and the longer side over the shorter one."""

    megabytes: float = 20.0
    megapixels: float = 50.0
    ratio: float = 100.0


@dataclass(frozen=True, slots=True)
class _Header:
    width: int
    height: int
    has_alpha: bool = False
    orientation: int = _UPRIGHT


def without_marks(text: str) -> str:
    """Return a text of a user, a tool or a file without characters that would stand for pictures."""
    return text.replace(MARK, "")


def picture_format(data: bytes) -> str | None:
    """Return the name of the format of a picture, by its first bytes; None for other data."""
    found = next((name for at, magic, name in _MAGIC_BYTES if data.startswith(magic, at)), None)
    # Text may begin with BM, but not with these zeros.
    return found if found != "BMP" or data.startswith(b"\0\0\0\0", 6) else None


def read_picture(
    data: bytes, name: str | None = None, limits: PictureLimits | None = None, *, convert: bool = True
) -> PictureData:
    """Return a picture that llama.cpp can decode, perhaps converted. Raises AppError with a fix."""
    limits = limits or PictureLimits()
    name = one_line(without_marks(name)) or None if name is not None else None
    shown = name or "The picture"
    if len(data) > limits.megabytes * 1e6:
        # A larger file is not read to its end, so its size is not known.
        raise AppError(
            f"{shown} is larger than {limits.megabytes:g} MB.",
            f"Make it smaller, or raise the limit ({fix('answer.picture_size')}).",
        )
    format_ = picture_format(data)
    try:
        header = _HEADERS[format_](data) if format_ in _HEADERS else None
    except (ValueError, struct.error, IndexError):
        raise _damaged(shown) from None
    except NotImplementedError:
        header = None
    if header is not None:
        _check_size(shown, header.width, header.height, limits)
        if not convert or (header.orientation == _UPRIGHT and not header.has_alpha):
            return _whole(data, _MEDIA_TYPES[format_ or ""], header.width, header.height, name)
    elif not convert:
        raise _unknown(shown, format_)
    try:
        from PIL import Image
    except ImportError:
        if header is not None:
            found = _whole(data, _MEDIA_TYPES[format_ or ""], header.width, header.height, name)
            return PictureData(found.picture, data, _notice(shown, header))
        if format_ is None or format_ == "HEIC":
            raise _unknown(shown, format_) from None
        raise AppError(
            f"{shown} is a {format_} picture, which needs the package Pillow.",
            f"Install it: {fix('install', 'pillow')}",
        ) from None
    # Its own limit would only warn; the size is checked before any pixel is decoded.
    Image.MAX_IMAGE_PIXELS = None
    try:
        Image.init()
        known = [each for each in _CONVERTED_FORMATS if each in Image.OPEN]
        with Image.open(BytesIO(data), formats=known) as opened:
            _check_size(shown, opened.width, opened.height, limits)
            return _whole(*_converted(opened), name)
    except AppError:
        raise
    except Exception as error:
        # Its decoders raise many types, even SyntaxError and zlib.error.
        raise (_damaged(shown) if format_ not in (None, "HEIC") else _unknown(shown, format_)) from error


def _whole(data: bytes, media_type: str, width: int, height: int, name: str | None) -> PictureData:
    # It loads OpenSSL, which `tandem --help` need not wait for.
    from hashlib import sha256

    return PictureData(Picture(sha256(data).hexdigest(), media_type, width, height, name), data)


def _check_size(shown: str, width: int, height: int, limits: PictureLimits) -> None:
    """Raise AppError for a picture without pixels, with too many, or of an extreme shape."""
    if not (width and height):
        raise _damaged(shown)
    pixels, size = width * height, f"{width:,} × {height:,} pixels"
    if pixels > limits.megapixels * 1e6:
        raise AppError(
            f"{shown} has {size}; the limit is {limits.megapixels:g} million pixels.",
            f"Make it smaller, or raise the limit ({fix('answer.picture_pixels')}).",
        )
    if max(width, height) > limits.ratio * min(width, height):
        raise AppError(
            f"{shown} has {size}; one side may be {limits.ratio:g} times the other at most.",
            f"Cut it into pieces, or raise the limit ({fix('answer.picture_ratio')}).",
        )


def _damaged(shown: str) -> AppError:
    return AppError(f"{shown} is damaged or incomplete.", "Copy or save it again.")


def _unknown(shown: str, format_: str | None) -> AppError:
    what = f"{shown} is a {format_} picture" if format_ is not None else f"{shown} is in a format"
    return AppError(f"{what} that Tandem cannot read.", "Save it as PNG.")


def _notice(shown: str, header: _Header) -> str:
    what = "is read without being turned upright" if header.orientation != _UPRIGHT else "may have parts read as black"
    return f"{shown} {what}. To prevent that, install Pillow: {fix('install', 'pillow')}"


def _converted(opened: Image) -> tuple[bytes, str, int, int]:
    """Return upright pixels without transparency as a file, its media type, width and height."""
    from PIL import Image, ImageOps

    is_photo = opened.format in _PHOTO_FORMATS
    image = ImageOps.exif_transpose(opened)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        white.alpha_composite(image)
        image = white
    if image.mode.startswith("I"):
        # Pillow would cut 16 bits to white instead of scaling them.
        image = image.point(lambda value: value * (1 / 256)).convert("L")
    image = image.convert("RGB")
    file = BytesIO()
    if is_photo:
        image.save(file, "JPEG", quality=_JPEG_QUALITY)
    else:
        image.save(file, "PNG", compress_level=1)
    return file.getvalue(), "image/jpeg" if is_photo else "image/png", image.width, image.height


# Headers. Each function raises ValueError, struct.error or IndexError for damaged bytes, and NotImplementedError for a
# kind of its format that llama.cpp does not decode.


def _png(data: bytes) -> _Header:
    if data[12:16] != b"IHDR":
        raise NotImplementedError
    width, height, _, color = struct.unpack_from(">IIBB", data, 16)
    has_alpha, at, kind = color in (4, 6), 8, b""
    while kind != b"IEND":
        length, kind = struct.unpack_from(">I4s", data, at)
        (checksum,) = struct.unpack_from(">I", data, at + 8 + length)
        if zlib.crc32(memoryview(data)[at + 4 : at + 8 + length]) != checksum:
            raise ValueError
        has_alpha = has_alpha or kind == b"tRNS"
        at += 12 + length
    return _Header(width, height, has_alpha)


def _jpeg(data: bytes) -> _Header:
    at, orientation, size = 2, _UPRIGHT, None
    while True:
        if data[at] != 0xFF:
            raise ValueError
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if marker == 0xD9:
            raise ValueError
        (length,) = struct.unpack_from(">H", data, at + 2)
        if marker == 0xDA:
            break
        if marker in range(0xC0, 0xD0) and marker not in (0xC4, 0xC8, 0xCC):
            precision, height, width, n_components = struct.unpack_from(">BHHB", data, at + 4)
            # Baseline and progressive with 8 bits; lossless and arithmetic coding are others.
            if marker > 0xC2 or precision != 8 or n_components not in (1, 3, 4):
                raise NotImplementedError
            size = width, height
        elif marker == 0xE1 and data.startswith(b"Exif\0\0", at + 4):
            orientation = _orientation(data[at + 10 : at + 2 + length])
        at += 2 + max(2, length)
    if size is None or data.find(b"\xff\xd9", at) < 0:
        raise ValueError
    return _Header(*size, orientation=orientation)


def _orientation(exif: bytes) -> int:
    """Return the orientation in EXIF's first directory; upright if it is absent or damaged."""
    order = "<" if exif.startswith(b"II") else ">"
    try:
        (start,) = struct.unpack_from(f"{order}I", exif, 4)
        (n_entries,) = struct.unpack_from(f"{order}H", exif, start)
        for n in range(n_entries):
            tag, _, _, value = struct.unpack_from(f"{order}HHIH", exif, start + 2 + 12 * n)
            if tag == 0x0112:
                return int(value) if 1 <= value <= 8 else _UPRIGHT
    except struct.error:
        pass
    return _UPRIGHT


def _gif(data: bytes) -> _Header:
    width, height = struct.unpack_from("<HH", data, 6)
    if not data.rstrip(b"\0").endswith(b";"):
        raise ValueError
    return _Header(width, height)


def _bmp(data: bytes) -> _Header:
    start, header = struct.unpack_from("<II", data, 10)
    if header == 12:
        width, height, _, bits = struct.unpack_from("<HHHH", data, 18)
        compression = 0
    else:
        width, height, _, bits, compression = struct.unpack_from("<iiHHI", data, 18)
    if header not in (12, 40, 56, 108, 124) or compression not in (0, 3) or bits not in (1, 4, 8, 16, 24, 32):
        raise NotImplementedError
    if width <= 0 or start + (width * bits + 31) // 32 * 4 * abs(height) > len(data):
        raise ValueError
    return _Header(width, abs(height))


_HEADERS = {"PNG": _png, "JPEG": _jpeg, "GIF": _gif, "BMP": _bmp}
