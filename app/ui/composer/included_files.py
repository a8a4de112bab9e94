"""`@path` in a prompt: the referenced file, and the message with it."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from threading import Event

from app.conversations.attached import Attachment, compose, file_reference, quoted_reference, replace_references, split
from app.core.errors import AppError, Interrupted
from app.core.included import SUFFIXES, check_included, located, read_included
from app.core.pictures import PictureData, PictureLimits
from app.core.regular_file import FolderNamed, MissingFile, exists, home_expanded, is_file, is_folder

# After a space, a bracket or a quotation mark: an address such as me@example.org is no reference.
_REFERENCE_START = r"""(?<![^\s('"])@"""
_FILE_REFERENCE = re.compile(rf"""{_REFERENCE_START}(?:"(?P<quoted>(?:[^"\n]|"")*)"?|(?P<bare>[^\s"@][^\s"]*))""")
_OPEN_REFERENCE = re.compile(rf"""{_REFERENCE_START}(?:"(?P<quoted>(?:[^"\n]|"")*)|(?P<bare>(?:[^\s"@][^\s"]*)?))\Z""")
"""An unfinished reference."""
_SENTENCE_PUNCTUATION = ".,;:!?)]}'"
"""Punctuation that ends a sentence around a path rather than the path."""
_DROPPED_FILE = re.compile(rf"(?:{'|'.join(map(re.escape, SUFFIXES))})[\"']?$", re.IGNORECASE)
_FILE_ENDING = re.compile(
    r"\.pdf:[0-9]|\.(?:c|cc|cfg|cpp|cs|css|csv|go|h|hpp|ini|java|js|json|jsonl|log|md|php|py|rb|rs|rst|sh|sql|svg"
    rf"|tex|toml|ts|tsx|txt|xml|ya?ml)$|{_DROPPED_FILE.pattern}",
    re.IGNORECASE,
)
_PATH_SEPARATOR = re.compile(r"[/\\~]")
_LONGEST_DROP = 4000
"""Limit for dropped paths in characters."""
_AS_TEXT = "To send it as text, put a space after the @."
_MAX_PATH_WORDS = 12
_MAX_NAMED = 3
"""Number of references without a file in an error."""


@dataclass(frozen=True, slots=True)
class Reference:
    """An `@path`; `path` is without surrounding quotes."""

    path: str
    quoted: bool = False

    @property
    def readings(self) -> tuple[str, ...]:
        """Return the possible paths, most likely first: punctuation may end the path, or the sentence."""
        trimmed = self.path.rstrip(_SENTENCE_PUNCTUATION)
        return (self.path,) if self.quoted or trimmed in ("", self.path) else (self.path, trimmed)

    @property
    def must_exist(self) -> bool:
        """Return whether it can only mean a file; `@property` may be text."""
        return self.quoted or self.has_file_ending or bool(_PATH_SEPARATOR.search(self.path))

    @property
    def has_file_ending(self) -> bool:
        return bool(_FILE_ENDING.search(self.readings[-1]))


def without_file(message: str) -> list[str]:
    """Return the first few references of a message that name no file."""
    question, attachments = split(message)
    names = {each.name for each in attachments}
    found = dict.fromkeys(f"@{each.readings[-1]}" for each in references(question) if names.isdisjoint(each.readings))
    return list(found)[:_MAX_NAMED]


def references(text: str) -> Iterator[Reference]:
    """Yield every `@path`, in order."""
    for found in _FILE_REFERENCE.finditer(text):
        if path := _path(found):
            yield Reference(path, found["bare"] is None)


def reference_at(text: str, cursor: int) -> tuple[int, str] | None:
    """Return the start and the path of the unfinished `@path` before a cursor, perhaps still empty."""
    found = _OPEN_REFERENCE.search(text[:cursor])
    return (found.start(), _path(found)) if found is not None else None


def dropped_files(text: str) -> str | None:
    """Return references if a paste consists only of paths of pictures and documents, else None.

    Terminals paste the path of a dropped file quoted, with backslashes, or as a URL.
    """
    line = text.strip()
    if len(line) > _LONGEST_DROP or _DROPPED_FILE.search(line) is None:
        return None
    try:
        words = shlex.split(line, posix=sys.platform != "win32")
    except ValueError:
        words = []
    for written in (line.splitlines(), words):
        try:
            paths = [_path_of(each) for each in written if each]
        except OSError:
            # On Windows, some URLs name no path.
            continue
        if paths and all(_DROPPED_FILE.search(path) and is_file(home_expanded(path)) for path in paths):
            return "".join(map(completed, paths))
    return None


def _path_of(word: str) -> str:
    if not word.startswith("file://"):
        return word.strip('"')
    # Importing it takes a third of the time to the first frame.
    from urllib.request import url2pathname

    return url2pathname(f"/{word.removeprefix('file://').partition('/')[2]}")


def completed(path: str) -> str:
    """Return the inserted text for a chosen path; a folder stays open for more."""
    written = file_reference(path)
    return written.rstrip('"') if path.endswith("/") else written + " "


def chosen_file(path: str) -> str:
    """Return a file for insertion; see `completed`. Raises AppError if it cannot be read."""
    try:
        check_included(home_expanded(path), path)
    except FolderNamed:
        return completed(f"{path.rstrip('/')}/")
    return completed(path)


def _path(found: re.Match[str]) -> str:
    bare: str | None = found["bare"]
    return str(found["quoted"]).replace('""', '"') if bare is None else bare


def include_files(
    question: str,
    pastes: Sequence[Attachment],
    base: Path,
    limits: PictureLimits | None = None,
    stop: Event | None = None,
    show: Callable[[str], object] = lambda _: None,
) -> tuple[str, list[PictureData]]:
    """Return the message for a typed question, after its files and pastes, and the pictures among the files.

    Relative paths start from `base`; `show` receives the name of each file, and `stop` ends the reading when it is set.

    Raises:
        AppError: A file cannot be included, or a path that can only mean a file does not exist.
        Interrupted: The reading was stopped.
    """
    stop = stop or Event()
    question = _quote_paths(question, base)
    files = dict(filter(None, (find_file(reference, base) for reference in references(question))))
    attachments: dict[Attachment, None] = {}
    pictures: list[PictureData] = []
    words: dict[str, str] = {}
    for name, path in files.items():
        if stop.is_set():
            raise Interrupted
        show(name)
        found = read_included(path, name, limits or PictureLimits(), stop.is_set)
        if isinstance(found, str):
            shown = [Attachment(name, found)]
        else:
            # The pages of a scanned document have their own names.
            shown = [Attachment.of(each, each.name or name) for each in found]
            pictures += found
        is_named = [each.name for each in shown] == [name]
        pages = " ".join(each.reference for each in shown)
        words |= {written: written if is_named else pages for written in Attachment(name, "").references}
        attachments |= dict.fromkeys(shown)
    return compose(replace_references(question, words), [*attachments, *pastes]), pictures


def _quote_paths(question: str, base: Path) -> str:
    at, parts = 0, []
    for found in _FILE_REFERENCE.finditer(question):
        if found["bare"] is None or found.start() < at:
            continue
        line = question[found.start("bare") :].partition("\n")[0]
        ends = [word.end() for word in islice(re.finditer(r"\S+", line), _MAX_PATH_WORDS)]
        longer = [line[:end] for end in ends if end > len(found["bare"])]
        readings = [name for path in reversed(longer) for name in Reference(path).readings]
        name = next((name for name in readings if _is_file(name, base)), None)
        if name is not None and " " in name:
            parts += [question[at : found.start()], quoted_reference(name)]
            at = found.start("bare") + len(name)
        elif longer and not any(_is_file(name, base) for name in Reference(found["bare"]).readings):
            _refuse_missing(longer, base)
    return "".join(parts) + question[at:]


def _refuse_missing(longer: Sequence[str], base: Path) -> None:
    """Raise MissingFile if a path has an existing folder with spaces, or is two words with a file suffix."""
    for name in longer:
        folder, slash, _ = name.rpartition("/")
        if slash and " " in folder and is_folder(base / home_expanded(folder)):
            raise MissingFile(f"There is no such file in {folder}.", _AS_TEXT)
    two_words = Reference(longer[0])
    first, _, second = two_words.path.partition(" ")
    is_one_path = first.endswith(tuple(_SENTENCE_PUNCTUATION)) or Reference(first).has_file_ending
    if not is_one_path and "/" not in second and two_words.has_file_ending:
        raise MissingFile(f"There is no file {two_words.readings[-1]}.", _AS_TEXT)


def _is_file(name: str, base: Path) -> bool:
    return is_file(located(base / home_expanded(name))[0])


def find_file(reference: Reference, base: Path) -> tuple[str, Path] | None:
    """Return the name and path of the referenced file; None for text. See `include_files` for errors."""
    for name in reference.readings:
        path = base / home_expanded(name)
        try:
            check_included(path, name)
        except MissingFile:
            continue
        except AppError as error:
            if reference.must_exist or exists(located(path)[0]):
                raise AppError(error.message, f"{error.hint} {_AS_TEXT}".lstrip()) from error
            return None
        return name, path
    if reference.must_exist:
        raise MissingFile(f"There is no file {reference.readings[-1]}.", _AS_TEXT)
    return None
