"""Pictures for a prompt: refuse large or damaged pictures, and decode the others with Pillow.

llama.cpp gets pixels: it would not rotate photos upright, would show transparent parts as black, and would start
`ffprobe` for bytes that it cannot decode.
"""

from __future__ import annotations

import warnings
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from typing import TYPE_CHECKING

from app.core.errors import AppError, PictureError
from app.core.fixes import fix
from app.core.printable import one_line

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFile import ImageFile

MARK = "\ufffc"
"""Placeholder of a picture in a message: U+FFFC, the object replacement character."""
_DECODED_FORMATS = ("PNG", "JPEG", "MPO", "GIF", "BMP", "WEBP", "TIFF", "AVIF", "HEIF", "JPEG2000", "ICO")
"""Formats that Pillow decodes itself; for others, such as EPS, it would start a program."""
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
"""Position and magic bytes of each format."""
_MOST_PIXELS = 250_000_000
"""Upper bound of the pixel limit in the settings."""
_QUARTER_TURNS = (5, 6, 7, 8)
"""EXIF orientations with width and height exchanged."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture without its bytes.

    Attributes:
        digest: SHA-256 of the bytes, in hexadecimal.
        width: Width of the upright picture in pixels.
        name: One line, if it has a name.
    """

    digest: str
    media_type: str
    width: int
    height: int
    name: str | None = None

    @property
    def shown(self) -> str:
        """The name on the screen and in errors."""
        return self.name or "The picture"


@dataclass(frozen=True, slots=True)
class PictureData(Picture):
    """A picture with the bytes of its file."""

    data: bytes = field(kw_only=True, repr=False, compare=False)

    @property
    def data_url(self) -> str:
        """The picture as a data URL."""
        return f"data:{self.media_type};base64,{b64encode(self.data).decode()}"


@dataclass(frozen=True)
class PictureLimits:
    """Limits for pictures: millions of bytes, millions of pixels, and longer side over shorter side."""

    megabytes: float = 20.0
    megapixels: float = 50.0
    ratio: float = 100.0


def without_marks(text: str) -> str:
    """Remove placeholders of pictures from the text of a user, tool or file."""
    return text.replace(MARK, "")


def picture_format(data: bytes) -> str | None:
    """Return a picture's format by its first bytes; None for other data."""
    found = next((name for at, magic, name in _MAGIC_BYTES if data.startswith(magic, at)), None)
    # Text may begin with BM, but not with these zeros.
    return found if found != "BMP" or data.startswith(b"\0\0\0\0", 6) else None


def read_picture(data: bytes, name: str | None = None, limits: PictureLimits | None = None) -> PictureData:
    """Return a picture that `pixels` can decode. Raises AppError with a fix."""
    # This import loads OpenSSL, which would slow down `tandem --help`.
    from hashlib import sha256

    limits = limits or PictureLimits()
    name = one_line(without_marks(name)) or None if name is not None else None
    shown = name or "The picture"
    if len(data) > limits.megabytes * 1e6:
        # A larger file is not read to its end, so its size is unknown.
        raise AppError(
            f"{shown} is larger than {limits.megabytes:g} MB.",
            f"Make it smaller, or raise the limit ({fix('answer.picture_size')}).",
        )
    with _opened(data, shown) as opened:
        from PIL.ExifTags import Base

        _check_size(shown, opened.width, opened.height, limits)
        width, height = opened.size
        # The smallest scale of the format, if it has several, is enough to find truncated files.
        opened.draft(None, (1, 1))
        opened.load()
        if opened.getexif().get(Base.Orientation) in _QUARTER_TURNS:
            width, height = height, width
        media_type = opened.get_format_mimetype() or "image/png"
    return PictureData(sha256(data).hexdigest(), media_type, width, height, name, data=data)


def pixels(picture: PictureData, least: tuple[int, int] | None = None) -> Image:
    """Return an upright RGB picture, with white for transparent parts.

    Args:
        least: Size above which decoding may reduce the picture, which is faster.

    Raises:
        PictureError: The picture cannot be decoded.
    """
    with _opened(picture.data, picture.shown) as opened:
        from PIL import Image, ImageOps

        if least is not None:
            opened.draft(None, least)
        image: Image.Image = ImageOps.exif_transpose(opened)
        if image.has_transparency_data:
            image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
        if image.mode.startswith("I"):
            # Pillow would clip 16 bits to white instead of scaling them.
            image = image.point(lambda value: value * (1 / 256)).convert("L")
        return image.convert("RGB")


@contextmanager
def _opened(data: bytes, shown: str) -> Iterator[ImageFile]:
    """Open a picture with Pillow, and name it in errors. Raises AppError, `PictureError` if it is damaged."""
    # Importing Pillow takes 30 ms, which prompts without pictures need not pay.
    from PIL import Image

    format_ = picture_format(data)
    if format_ is None:
        what = "in a format that Tandem cannot read" if data else "empty"
        raise PictureError(f"{shown} is {what}.", "Save it as PNG.")
    Image.init()
    if format_ == "HEIC":
        _add_heic(shown)
    # Pillow raises an error above twice this number, also for the pictures in an icon.
    Image.MAX_IMAGE_PIXELS = _MOST_PIXELS // 2
    known = [each for each in _DECODED_FORMATS if each in Image.OPEN]
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(BytesIO(data), formats=known) as opened:
            yield opened
    except AppError:
        raise
    except Image.DecompressionBombError:
        raise AppError(f"{shown} has more than {_MOST_PIXELS:,} pixels.", "Make it smaller.") from None
    except Exception as error:
        # Pillow's decoders raise many types, even SyntaxError and zlib.error.
        raise PictureError(f"{shown} is damaged or incomplete.", "Save it again, as PNG.") from error


def _add_heic(shown: str) -> None:
    try:
        from pillow_heif import register_heif_opener
    except ImportError:
        raise PictureError(
            f"{shown} is a HEIC picture, which needs the package pillow-heif.",
            f"Install it: {fix('install', 'pillow-heif')}",
        ) from None
    register_heif_opener()


def _check_size(shown: str, width: int, height: int, limits: PictureLimits) -> None:
    size = f"{width:,} × {height:,} pixels"
    if width * height > limits.megapixels * 1e6:
        raise AppError(
            f"{shown} has {size}; the limit is {limits.megapixels:g} million pixels.",
            f"Make it smaller, or raise the limit ({fix('answer.picture_pixels')}).",
        )
    if max(width, height) > limits.ratio * min(width, height):
        raise AppError(
            f"{shown} has {size}; one side may be {limits.ratio:g} times the other at most.",
            f"Cut it into pieces, or raise the limit ({fix('answer.picture_ratio')}).",
        )
