"""Read conversations from a file of Tandem or another program, and check everything in it.

markdown       Tandem's Markdown, logs of `llm`, and headings that name who speaks
json_exports   Tandem's JSON and the exports of other programs: one table
checks         the check of every value
"""

from __future__ import annotations

import json
import time
from pathlib import Path

from app.conversations.importing import checks, json_exports, markdown
from app.conversations.tree import StoredConversation
from app.core.errors import AppError
from app.core.printable import printable
from app.core.regular_file import file_errors, is_file, is_folder, marked_encoding, read_bytes

_MARKDOWN_SUFFIXES = (".md", ".markdown", ".txt")
_IMPORTED_SUFFIXES = (*_MARKDOWN_SUFFIXES, ".json", ".jsonl")
"""Suffixes of the files to import from a folder."""


def importable(path: Path) -> list[Path]:
    """Return a file itself, or the files of a folder that may hold conversations. Raises AppError if there are none."""
    if not is_folder(path):
        return [path]
    found = sorted(file for file in path.rglob("*") if file.suffix.lower() in _IMPORTED_SUFFIXES and is_file(file))
    if not found:
        raise AppError(f"{path} has no files with conversations.", f"They end in {', '.join(_IMPORTED_SUFFIXES)}.")
    return found


def read_file(file: Path, now: float | None = None) -> tuple[StoredConversation, ...]:
    """Read a Markdown or JSON file, recognized by its name or its beginning. Raises AppError.

    `now` is the time of messages without a time, in seconds since 1970.
    """
    suffix = file.suffix.lower()
    try:
        with file_errors(str(file)):
            data = read_bytes(file)
        text = data.decode(marked_encoding(data) or "utf-8")
        is_markdown = suffix in _MARKDOWN_SUFFIXES or (suffix not in _IMPORTED_SUFFIXES and text[:1] not in ("[", "{"))
        read = markdown.read if is_markdown else json_exports.read
        raw = read(json_exports.as_list(text) if suffix == ".jsonl" else text)
        found = [checks.typed(each, dict, "a conversation is not an object") for each in raw]
        # Other programs export conversations without messages; Tandem exports them only with unsent text.
        filled = [each for each in found if each.get("messages") or "draft" in each]
        if filled:
            return tuple(checks.conversation(each, time.time() if now is None else now) for each in filled)
        reason = "there is no conversation in it"
    except UnicodeDecodeError as error:
        reason = f"it is not {error.encoding.upper()} text"
    except json.JSONDecodeError as error:
        reason = f"it is not JSON, from line {error.lineno} on"
    except (MemoryError, RecursionError):
        reason = "it is too large or nested too deeply"
    except ValueError as error:
        reason = printable(str(error))
    raise AppError(
        f"{file} was not imported: {reason}.",
        f"Tandem reads its own exports, Markdown with headings, and exports of {json_exports.PROGRAMS}.",
    )
