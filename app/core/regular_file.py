"""Read regular files; refuse pipes, devices and folders, on which a read could block."""

import errno
import os
import re
import stat
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from app.core.errors import AppError
from app.core.printable import printable

MAX_BYTES = 16 << 20
"""Limit that no file of Tandem reaches; an endless file would fill the RAM."""
_LONG_KEY = re.compile(r"(?<![\w.-])(?:[\w-]++\.){1001}")
"""Parsing a dotted key takes time and memory cubic in its parts."""
MAX_TEXT_BYTES = 8 << 20
"""Limit for a text file that the user includes."""
_DETECTED_BYTES = 1 << 18
"""Bytes used to detect the encoding."""
_OTHER_ENCODINGS = ["cp1250", "cp1251", "cp1253", "cp1254", "cp1256", "cp866", "cp874"]
_OTHER_ENCODINGS += ["cp932", "euc_jp", "gb18030", "big5", "cp949", "koi8_r"]
"""Possible encodings if text is neither UTF-8 nor Windows-1252."""
_SUPERSETS = {"ascii": "cp1252", "latin_1": "cp1252", "gb2312": "gb18030", "shift_jis": "cp932", "euc_kr": "cp949"}
"""Larger encodings that browsers use instead of a declared encoding."""


class PipeOrDeviceError(OSError):
    """A pipe or device instead of a file."""


class MissingFile(AppError):  # noqa: N818 - what is missing is the file
    """The file does not exist."""


class FolderNamed(AppError):  # noqa: N818 - what it names is a folder
    """The path is a folder."""


# `Path` methods raise if access is denied; `os.path` functions do not.


def is_file(path: Path) -> bool:
    """Return whether a file exists; False on any error."""
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: Path) -> bool:
    """Return whether a folder exists; False on any error."""
    return os.path.isdir(path)  # noqa: PTH112


def exists(path: Path) -> bool:
    """Return whether the path exists; False on any error."""
    return os.path.exists(path)  # noqa: PTH110


def is_gone(path: Path) -> bool:
    """Return whether nothing of that name exists, not even a broken link; False if access is denied."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError):
        pass
    return False


def resolved(path: Path) -> Path:
    """Resolve links; return the path unchanged on failure."""
    try:
        return path.resolve()
    except (OSError, ValueError, RuntimeError):
        return path


def home_expanded(text: str) -> Path:
    """Expand `~`; an unknown user stays the name of a folder."""
    try:
        return Path(text).expanduser()
    except (RuntimeError, ValueError):
        return Path(text)


def status(path: Path) -> os.stat_result:
    """Return the status of a regular file without opening it.

    Raises OSError if it does not exist; PipeOrDeviceError or IsADirectoryError if it is no regular file.
    """
    found = path.stat()
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder, not a regular file", str(path))
    if not stat.S_ISREG(found.st_mode):
        raise PipeOrDeviceError(errno.EINVAL, "it is a pipe or a device, not a regular file", str(path))
    return found


def read_bytes(path: Path, most: int = -1) -> bytes:
    """Read a file or its first bytes. Raises OSError, see `status`."""
    status(path)
    with path.open("rb") as file:
        return file.read(most)


def read_text(path: Path, encoding: str = "utf-8") -> str:
    """Read a text file with normalized line ends. Raises OSError, also above `MAX_BYTES`, or UnicodeDecodeError."""
    data = read_bytes(path, MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise OSError(errno.EFBIG, f"it is larger than {MAX_BYTES >> 20} MiB", str(path))
    return with_line_feeds(data.decode(encoding))


def with_line_feeds(text: str) -> str:
    """Normalize line ends to line feeds."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def read_toml(path: Path, failure: type[AppError], fix: str, *, missing_ok: bool = False) -> dict[str, Any]:
    """Read a TOML file that the user may have edited. Raises `failure` with a fix if it is unreadable."""
    try:
        text = read_text(path, "utf-8-sig")
        if not _LONG_KEY.search(text):
            return tomllib.loads(text)
        reason = "a key has too many parts"
    except (OSError, ValueError, RecursionError) as error:
        if missing_ok and isinstance(error, FileNotFoundError | NotADirectoryError):
            return {}
        reason = _reason(error)
    raise failure(f"{path} cannot be read: {printable(reason).rstrip('.')}.", fix)


def _reason(error: Exception) -> str:
    match error:
        case OSError():
            return error.strerror or str(error)
        case UnicodeDecodeError():
            return "it is not UTF-8 text"
        case tomllib.TOMLDecodeError():
            return str(error)
    # Python fails for tables a thousand levels deep and for numbers of 4,300 digits.
    return "something in it is too long"


# Text files that the user names


def read_user_text(path: Path, name: str) -> str:
    """Return the text of a file, called `name` in errors, with normalized line ends. Raises AppError."""
    with file_errors(name):
        return user_text(read_bytes(path, MAX_TEXT_BYTES + 1), name)


def user_text(data: bytes, name: str) -> str:
    """Return the text in the bytes of a file; see `read_user_text`."""
    if len(data) > MAX_TEXT_BYTES:
        raise AppError(f"{name} is larger than {MAX_TEXT_BYTES >> 20} MB.", "Include a part of it.")
    text = decoded_text(data)
    if "\0" in text:
        raise AppError(f"{name} is not text.", "Save it as text, or a picture as PNG.")
    return with_line_feeds(text)


def decoded_text(data: bytes) -> str:
    """Decode text in the encoding that it declares, as UTF-8, or in its most likely encoding."""
    for encoding in _strict_encodings(data):
        with suppress(ValueError, LookupError):
            return data.decode(encoding)
    text = data.decode(errors="replace")
    # A log may be cut within a character. Text in other encodings has few valid UTF-8 sequences.
    if len(text) - len(text.encode("ascii", "ignore").decode()) > 2 * text.count("\ufffd"):
        return text
    return data.decode(_detected_encoding(data), "replace")


def _strict_encodings(data: bytes) -> Iterator[str]:
    """Yield encodings that are right if the whole text can be decoded."""
    yield marked_encoding(data) or _unmarked_utf_16(data) or "utf-8"
    from charset_normalizer.utils import any_specified_encoding

    # As in <meta charset="...">, <?xml encoding="..."?> and Python's # coding: ...
    declared = any_specified_encoding(data) or "utf-8"
    yield _SUPERSETS.get(declared, declared)


def _unmarked_utf_16(data: bytes) -> str | None:
    """Return the encoding of UTF-16 without a byte order mark: printable, with an ASCII character such as a space."""
    for encoding in ("utf-16-le", "utf-16-be") if b"\0" in data else ():
        with suppress(UnicodeDecodeError):
            text = data.decode(encoding)
            if "".join(text.split()).isprintable() and min(text) < "\x7f":
                return encoding
    return None


def _detected_encoding(data: bytes) -> str:
    """Return the encoding of text that is not UTF-8; prefer Windows-1252 if its letters make sense."""
    from charset_normalizer import from_bytes

    beginning = data[: data.rfind(b"\n", 0, _DETECTED_BYTES) + 1 or _DETECTED_BYTES]
    for names in (["cp1252"], _OTHER_ENCODINGS):
        if (found := from_bytes(beginning, cp_isolation=names).best()) is not None:
            return found.encoding
    return "cp1252"


def marked_encoding(data: bytes) -> str | None:
    """Return the encoding of a byte order mark, if there is one."""
    # Importing charset_normalizer takes 20 ms, which plain text such as mcp.json need not pay before the first frame.
    if data[:1].isascii() and data[:1] != b"\0":
        return None
    from charset_normalizer.utils import identify_sig_or_bom

    name, _ = identify_sig_or_bom(data)
    return "utf-8-sig" if name == "utf_8" else name


@contextmanager
def file_errors(name: str) -> Iterator[None]:
    """Convert errors of reading a file to `AppError`."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise MissingFile(f"There is no file {name}.") from None
    except IsADirectoryError:
        raise FolderNamed(f"{name} is a folder.", "Name a file in it.") from None
    except PipeOrDeviceError:
        raise AppError(f"{name} is a device or a pipe, not a file.", "Name a regular file.") from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise AppError(f"{name} cannot be read: {reason}.", "Check the path and its permissions.") from error
