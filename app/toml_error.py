"""Why a TOML file cannot be read, in words instead of Python's."""

from __future__ import annotations

import tomllib


def reason(error: Exception) -> str:
    """The middle of a sentence for what reading a file and `tomllib.loads` raise."""
    match error:
        case OSError():
            return error.strerror or str(error)
        case UnicodeDecodeError():
            return "it is not UTF-8 text"
        case tomllib.TOMLDecodeError():
            return str(error)
        case RecursionError() | ValueError():
            # Python reads neither a table in a table a thousand deep nor a number of 4,300 digits.
            return "something in it is too long"
    return "it is not what belongs there"
