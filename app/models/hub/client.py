"""Ask Hugging Face: the files of a repository, searches, and ranges of files."""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import quote

import httpx2
from huggingface_hub import constants, get_session
from huggingface_hub.utils import build_hf_headers, hf_raise_for_status

from app.core.atomic import is_valid_name
from app.core.errors import HubError
from app.models.hub.choose import RemoteFile
from app.models.hub.environment import check_environment, check_named
from app.models.hub.errors import LOG_IN, host, login_page, settings_error, translated
from app.models.source import is_repository

_TIMEOUT = httpx2.Timeout(20.0, connect=10.0)
_MAX_BYTES = 32 << 20
"""Longest JSON answer; a listing of ten thousand files has a few million bytes."""
_MAX_ERROR_BYTES = 1 << 16
_MAX_FILES = 20_000
_LONGEST_NAME, _LONGEST_PATH = 200, 1_000
"""Bytes; file systems allow 255 and a few thousand."""
_COMMIT = re.compile(r"[0-9A-Za-z][\w.-]{0,99}", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ETAG = re.compile(r"[0-9A-Za-z]{1,64}")
_UNEXPECTED = (TypeError, KeyError, AttributeError, ValueError, RecursionError)
"""Raised by reading JSON that has another shape."""
_MAX_DIGITS = 20


@dataclass(frozen=True, slots=True)
class Repository:
    """Files of a repository.

    Attributes:
        commit: The revision asked for, as a commit.
        files: Its files, without impossible names.
        licence: Its identifier, or "".
        gated: Its terms must be accepted first.
    """

    commit: str
    files: tuple[RemoteFile, ...]
    licence: str = ""
    gated: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """Search result.

    Attributes:
        name: `owner/name`.
        downloads: Downloads in the last month.
        architecture: Architecture of its GGUF files, or "".
        n_params: Number of parameters, or 0.
    """

    name: str
    downloads: int
    architecture: str = ""
    n_params: int = 0


def session() -> httpx2.Client:
    """Return the client's HTTP session.

    Raises:
        HubError: An environment variable is invalid, such as a proxy address.
    """
    try:
        return get_session()
    except (ValueError, ImportError, OSError) as error:
        raise settings_error(error) from error


def repository(name: str, revision: str) -> Repository:
    """Look up a repository.

    Raises:
        HubError: It is not available; a `WaitError` if perhaps later.
    """
    if not is_repository(name):
        raise HubError(f'"{name}" is not a valid repository name.', "Names look like owner/repo.")
    answer = _get_json(name, f"models/{name}/revision/{quote(revision, safe='')}", {"blobs": "true"})
    try:
        return _repository(name, answer)
    except _UNEXPECTED as error:
        raise HubError(f"{host()} sent an unexpected answer about {name}.", login_page()) from error


def search(words: str, *, limit: int) -> list[Found]:
    """Search repositories with GGUF files by name, most downloaded first.

    Raises:
        HubError: Hugging Face cannot be asked.
    """
    asked = {"search": words, "filter": "gguf", "sort": "downloads", "limit": limit, "expand": ["downloads", "gguf"]}
    answer = _get_json(words, "models", asked)
    try:
        return [_found(info) for info in islice(answer, limit)]
    except _UNEXPECTED as error:
        raise HubError(f"{host()} sent an unexpected answer to a search.", login_page()) from error


def _found(info: Mapping[str, Any]) -> Found:
    gguf = info.get("gguf")
    summary = gguf if isinstance(gguf, dict) else {}
    downloads, architecture, total = info.get("downloads"), summary.get("architecture"), summary.get("total")
    return Found(
        str(info["id"]),
        downloads if isinstance(downloads, int) else 0,
        architecture if isinstance(architecture, str) else "",
        total if isinstance(total, int) else 0,
    )


def _get_json(about: str, path: str, params: Mapping[str, Any]) -> Any:
    """Return a JSON answer of bounded length; anything else is an error."""
    check_environment()
    url = f"{constants.ENDPOINT}/api/{path}"
    data = bytearray()
    with (
        translated(about),
        session().stream("GET", url, params=params, headers=_headers(), timeout=_TIMEOUT) as response,
    ):
        _raise_for_status(response)
        if response.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
            # A few packed bytes may stand for gigabytes.
            raise HubError(f"{host()} sent a compressed answer.", login_page())
        for part in response.iter_raw():
            data += part
            if len(data) > _MAX_BYTES:
                raise HubError(f"{host()} sent too large a response.", login_page())
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise HubError(f"{host()} sent an unexpected answer.", login_page()) from error


def _headers() -> dict[str, str]:
    # A compressed answer could not be continued or bounded by its length.
    headers = build_hf_headers() | {"Accept-Encoding": "identity"}
    if not headers.get("authorization", "").isascii():
        raise HubError("The Hugging Face token has non-ASCII characters.", f"Copy it again. {LOG_IN}")
    return headers


def _raise_for_status(response: httpx2.Response) -> None:
    """Raise the client's error, with a bounded part of the page as its text."""
    if not response.is_error:
        hf_raise_for_status(response)
        return
    page = bytearray()
    for part in response.iter_raw():
        page += part
        if len(page) > _MAX_ERROR_BYTES:
            break
    headers = [(name, value) for name, value in response.headers.raw if not name.lower().startswith(b"content-")]
    content = bytes(page[:_MAX_ERROR_BYTES])
    hf_raise_for_status(
        httpx2.Response(response.status_code, headers=headers, content=content, request=response.request)
    )


def _repository(name: str, info: Mapping[str, Any]) -> Repository:
    commit = info["sha"]
    # It becomes the name of a folder.
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise ValueError("no commit")
    files, has_unsized = [], False
    for sibling in islice(info.get("siblings") or (), _MAX_FILES):
        path, size, lfs = sibling["rfilename"], sibling.get("size"), sibling.get("lfs")
        if not isinstance(path, str) or not safe_name(path):
            continue
        if not isinstance(size, int) or size < 0:
            has_unsized = True
            continue
        sha256 = _matched(_SHA256, lfs.get("sha256")) if isinstance(lfs, dict) else None
        files.append(RemoteFile(path, size, sha256, sha256 or _matched(_ETAG, sibling.get("blobId"))))
    if has_unsized and not files:
        raise HubError(
            f"{host()} does not send the file sizes of {name}.",
            f"It may not be a Hugging Face server.{check_named()}",
        )
    card = info.get("cardData")
    licence = card.get("license") if isinstance(card, dict) else None
    return Repository(commit, tuple(files), licence if isinstance(licence, str) else "", bool(info.get("gated")))


def safe_name(path: str) -> bool:
    """Return True if a file of that name stays inside its folder and can exist."""
    parts = path.split("/")
    return (
        path.isprintable()
        and "\\" not in path
        and ":" not in path
        and len(path.encode()) <= _LONGEST_PATH
        and not any(part in ("..", ".", "") or len(part.encode()) > _LONGEST_NAME for part in parts)
        and all(map(is_valid_name, parts))
    )


def _matched(pattern: re.Pattern[str], value: object) -> str | None:
    return value if isinstance(value, str) and pattern.fullmatch(value) else None


def bytes_behind(url: str, file: RemoteFile, had: int, end: int | None = None) -> Generator[memoryview, None, None]:
    """Yield the bytes of a file behind those that are here, as they arrive; the answer may end too early.

    Args:
        url: Address of the file.
        file: The file.
        had: Bytes that are here. If the server sends those too, the pieces for them are empty.
        end: End of the range; None for the rest of the file.

    Raises:
        HubError: The answer is something else.
    """
    headers = _headers()
    if had or end is not None:
        headers["Range"] = f"bytes={had}-" if end is None else f"bytes={had}-{end - 1}"
    with session().stream("GET", url, headers=headers, timeout=_TIMEOUT, follow_redirects=True) as response:
        _raise_for_status(response)
        _check_range(response, file, had)
        # A server without ranges sends everything again.
        skip = 0 if response.status_code == 206 else had
        for chunk in response.iter_raw():
            new = memoryview(chunk)[skip:]
            skip = max(0, skip - len(chunk))
            had += len(new)
            if had > file.size:
                raise HubError(f"{file.path} is longer than listed.", "It may have changed; try again in a minute.")
            yield new


def _check_range(response: httpx2.Response, file: RemoteFile, had: int) -> None:
    """Check that the answer is this file, from this byte."""
    is_part, content_range = response.status_code == 206, response.headers.get("content-range", "")
    total = content_range.rpartition("/")[2] if is_part else response.headers.get("content-length", "")
    is_number = total.isascii() and total.isdigit() and len(total) <= _MAX_DIGITS
    if is_number and int(total) != file.size:
        raise HubError(
            f"{file.path} has {int(total):,} bytes now; {file.size:,} were listed.",
            "It changed meanwhile, or a network login page answered. Try again in a minute.",
        )
    if is_part and content_range.removeprefix("bytes ").partition("-")[0] != str(had):
        raise HubError(f"{host()} sent another part of {file.path} than requested.", "Try again later.")
