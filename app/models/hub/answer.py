"""One answer of the hub with what is missing of a file: another part, or another file, is not taken for it."""

from __future__ import annotations

from collections.abc import Generator

import httpx2
from huggingface_hub.utils import build_hf_headers, hf_raise_for_status

from app.core.errors import HubError, WaitError
from app.models.hub.bounded import session
from app.models.hub.choose import RemoteFile
from app.models.hub.errors import host

_MOST_DIGITS = 20
_TIMEOUT = httpx2.Timeout(20.0, connect=10.0)


class RestUnknownError(WaitError):
    """The hub sends nothing behind what is here; only from its beginning can the file be had."""


def bytes_behind(url: str, file: RemoteFile, had: int, end: int | None = None) -> Generator[memoryview, None, None]:
    """The bytes of a file behind those that are here, as they come; it ends with the answer, which may be too early.

    What is collected for larger chunks would be lost with the connection, and whoever sends a few bytes now and then
    could not be stopped before one is whole. Of what is here already, where the hub sends that too, come empty pieces.

    Args:
        url: Where the file lies.
        file: The file.
        had: Bytes that are here.
        end: Behind the last byte that is wanted; None for all of them.

    Raises:
        RestUnknownError: It must be begun anew.
        HubError: The hub answers with something else.
    """
    # A compressed answer could not be continued by its length.
    headers = build_hf_headers() | {"Accept-Encoding": "identity"}
    if had or end is not None:
        headers["Range"] = f"bytes={had}-" if end is None else f"bytes={had}-{end - 1}"
    with session().stream("GET", url, headers=headers, timeout=_TIMEOUT, follow_redirects=True) as response:
        if response.status_code == 416:
            raise RestUnknownError("The hub no longer knows the rest of the file.", "It is read from its beginning.")
        hf_raise_for_status(response)
        _check(response, file, had)
        # A server that cannot continue sends all again; what is here stays, in case it is cut short again.
        skip = 0 if response.status_code == 206 else had
        for chunk in response.iter_raw():
            new = memoryview(chunk)[skip:]
            skip = max(0, skip - len(chunk))
            had += len(new)
            if had > file.size:
                raise HubError(
                    f"{file.path} is longer than the hub said.", "It may have changed; ask again in a minute."
                )
            yield new


def _check(response: httpx2.Response, file: RemoteFile, had: int) -> None:
    """Whether these are bytes of the file asked for, and from the place asked for."""
    total = _length(response)
    if total is not None and total != file.size:
        raise HubError(
            f"{file.path} has {total:,} bytes now; the hub said {file.size:,}.",
            "It changed in between, or a network login page answered. Ask again in a minute.",
        )
    if response.status_code == 206:
        start = response.headers.get("content-range", "").removeprefix("bytes ").partition("-")[0]
        if start != str(had):
            raise HubError(f"{host()} sends another part of {file.path} than asked for.", "Ask again later.")


def _length(response: httpx2.Response) -> int | None:
    """Length of the whole file, as an answer tells it."""
    if response.status_code == 206:
        text = response.headers.get("content-range", "").rpartition("/")[2]
    else:
        text = response.headers.get("content-length", "")
    # Python's digits are not only those of a number, and it refuses to read very many of them.
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS else None
