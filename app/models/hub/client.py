"""Ask Hugging Face for the files of a repository, search results, and ranges of files."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any, TypeVar
from urllib.parse import quote

import httpx2
from huggingface_hub import constants, get_session, hf_hub_url
from huggingface_hub.utils import build_hf_headers, hf_raise_for_status

from app.core.errors import STRUCTURE_ERRORS, HubError, WaitError
from app.models.hub import check_environment, named_by
from app.models.hub.choose import SHA256_DIGEST, RemoteFile, safe_name
from app.models.hub.request import LOG_IN, host, login_page, short, translated
from app.models.source import FoundRepository, is_repository

T = TypeVar("T")

_REQUEST_TIMEOUT = httpx2.Timeout(20.0, connect=10.0)
_MAX_BYTES = 32 << 20
"""Longest JSON answer; a listing of ten thousand files has a few million bytes."""
_MAX_FILES = 20_000
_COMMIT_ID = re.compile(r"[0-9A-Za-z][\w.-]{0,99}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Repository:
    """Files of a repository at a commit, without unsafe names.

    Attributes:
        name: Its current name; Hugging Face forwards earlier names.
    """

    files: tuple[RemoteFile, ...]
    license: str = ""
    gated: bool = False
    name: str = ""


def session() -> httpx2.Client:
    """Return the client's HTTP session. Raises HubError for an invalid variable, such as a proxy address."""
    try:
        return get_session()
    except (ValueError, ImportError, OSError) as error:
        names = " and ".join(filter(None, (named_by(), "SSL_CERT_FILE" if os.environ.get("SSL_CERT_FILE") else "")))
        fix = f"Check {names or 'the proxy settings'}."
        raise HubError(f"The connection cannot be set up: {short(error)}.", fix) from error


def repository(name: str, revision: str) -> Repository:
    """Look up a repository. Raises HubError if it is not available, or `WaitError` if it may be available later."""
    if not is_repository(name):
        raise HubError(f'"{name}" is not a valid repository name.', "Names look like owner/repo.")
    path = f"models/{name}/revision/{quote(revision, safe='')}"
    return _ask(name, path, {"blobs": "true"}, partial(_repository, name))


def search(words: str, *, limit: int) -> list[FoundRepository]:
    """Search repositories with GGUF files by name, most downloaded first. Raises HubError."""
    asked = {"search": words, "filter": "gguf", "sort": "downloads", "limit": limit, "expand": ["downloads", "gguf"]}
    return _ask(words, "models", asked, lambda answer: [_found(info) for info in islice(answer, limit)])


def _found(info: Mapping[str, Any]) -> FoundRepository:
    gguf = info.get("gguf")
    summary = gguf if isinstance(gguf, dict) else {}
    architecture, total = summary.get("architecture"), summary.get("total")
    return FoundRepository(
        str(info["id"]), architecture if isinstance(architecture, str) else "", total if isinstance(total, int) else 0
    )


def _ask(about: str, path: str, params: Mapping[str, Any], read: Callable[[Any], T]) -> T:
    check_environment()
    url = f"{constants.ENDPOINT}/api/{path}"
    data = bytearray()
    with (
        translated(about),
        session().stream("GET", url, params=params, headers=_headers(), timeout=_REQUEST_TIMEOUT) as response,
    ):
        _raise_for_status(response)
        if response.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
            # A few compressed bytes may stand for gigabytes.
            raise HubError(f"{host()} sent a compressed answer.", login_page())
        for part in response.iter_raw():
            data += part
            if len(data) > _MAX_BYTES:
                raise HubError(f"{host()} sent too large a response.", login_page())
    try:
        return read(json.loads(data))
    except STRUCTURE_ERRORS as error:
        raise HubError(f"{host()} sent an unexpected answer about {about}.", login_page()) from error


def _headers() -> dict[str, str]:
    # A compressed answer could not be resumed or limited by its length.
    headers = build_hf_headers() | {"Accept-Encoding": "identity"}
    if not headers.get("authorization", "").isascii():
        raise HubError("The Hugging Face token has non-ASCII characters.", f"Copy it again. {LOG_IN}")
    return headers


def _raise_for_status(response: httpx2.Response) -> None:
    """Raise the client's error without reading its page, which may be endless."""
    if response.is_error:
        headers = [(name, value) for name, value in response.headers.raw if not name.lower().startswith(b"content-")]
        response = httpx2.Response(response.status_code, headers=headers, request=response.request)
    hf_raise_for_status(response)


def _repository(name: str, info: Mapping[str, Any]) -> Repository:
    commit = info["sha"]
    # It becomes the name of a folder.
    if not isinstance(commit, str) or not _COMMIT_ID.fullmatch(commit):
        raise ValueError("no commit")
    files = []
    for sibling in islice(info.get("siblings") or (), _MAX_FILES):
        path, size, lfs = sibling["rfilename"], sibling.get("size"), sibling.get("lfs")
        if isinstance(path, str) and safe_name(path) and isinstance(size, int) and size >= 0:
            sha256 = str(lfs.get("sha256")) if isinstance(lfs, dict) else ""
            files.append(RemoteFile(path, size, sha256 if SHA256_DIGEST.fullmatch(sha256) else None, name, commit))
    card = info.get("cardData")
    identifier = card.get("license") if isinstance(card, dict) else None
    now = info.get("id")
    return Repository(
        tuple(files),
        identifier if isinstance(identifier, str) else "",
        bool(info.get("gated")),
        now if isinstance(now, str) and is_repository(now) else name,
    )


def stream_from(file: RemoteFile, had: int, end: int | None = None) -> Generator[memoryview, None, None]:
    """Yield the bytes of a file from offset `had`, as they arrive.

    Args:
        had: Number of bytes received earlier. If the server sends them again, their chunks are empty.
        end: End of the range; None for the rest of the file.

    Raises:
        HubError: The answer is something else; `WaitError` if the connection breaks or the answer ends too early.
    """
    headers, url = _headers(), hf_hub_url(file.repo, file.path, revision=file.commit)
    if had or end is not None:
        headers["Range"] = f"bytes={had}-" if end is None else f"bytes={had}-{end - 1}"
    with (
        translated(file.repo),
        session().stream("GET", url, headers=headers, timeout=_REQUEST_TIMEOUT, follow_redirects=True) as response,
    ):
        _raise_for_status(response)
        _check_range(response, file, had)
        # A server without range support sends everything again.
        skip = 0 if response.status_code == 206 else had
        for chunk in response.iter_raw():
            new = memoryview(chunk)[skip:]
            skip = max(0, skip - len(chunk))
            had += len(new)
            if had > file.size:
                raise HubError(f"{file.path} is longer than listed.", "It may have changed; try again in a minute.")
            yield new
    if had < (file.size if end is None else end):
        raise WaitError(f"The connection to {host()} ended too early.", "Downloaded bytes are kept.")


def _check_range(response: httpx2.Response, file: RemoteFile, had: int) -> None:
    is_part, content_range = response.status_code == 206, response.headers.get("content-range", "")
    total = content_range.rpartition("/")[2] if is_part else response.headers.get("content-length", "")
    if total.isdigit() and total != str(file.size):
        raise HubError(
            f"{file.path} has {total[:20]} bytes now; {file.size} were listed.",
            "It changed meanwhile, or a network login page answered. Try again in a minute.",
        )
    if is_part and content_range.removeprefix("bytes ").partition("-")[0] != str(had):
        raise HubError(f"{host()} sent another part of {file.path} than requested.", "Try again later.")
