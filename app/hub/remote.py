"""The header of a model on the hub, read without downloading the model."""

from __future__ import annotations

from collections.abc import Callable

import httpx2
from huggingface_hub import hf_hub_url
from huggingface_hub.utils import build_hf_headers, hf_raise_for_status

from app.errors import HubError, Interrupted, WaitError
from app.gguf import GgufHeader, HeaderError, HeaderIncompleteError, parse_header, read_header
from app.hub import store
from app.hub.bounded import session
from app.hub.choose import RemoteFile
from app.hub.errors import translated
from app.hub.retry import RetryPolicy

_FIRST_LOOK = 1 << 20
_LARGEST = 1 << 28
_TIMEOUT = httpx2.Timeout(20.0, connect=10.0)
_ATTEMPTS = 3


def read_remote_header(
    repo: str, commit: str, file: RemoteFile, cancelled: Callable[[], bool], retry: RetryPolicy
) -> GgufHeader:
    """Read a header through the network, a few megabytes; from the disk if the file is here.

    Raises:
        HubError: It cannot be had, or the file is no GGUF model; a `ModelFileError` if it is here and is none.
        Interrupted: Cancelled.
    """
    if (here := store.cached(repo, commit, file.path, file.size)) is not None:
        return read_header(here, tensors=True)
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            with translated(repo):
                return _stream(repo, commit, file, cancelled)
        except WaitError as error:
            if attempt == _ATTEMPTS:
                raise
            if retry.pause(error.after_s if error.after_s is not None else float(attempt)):
                raise Interrupted from error
    raise AssertionError


def _stream(repo: str, commit: str, file: RemoteFile, cancelled: Callable[[], bool]) -> GgufHeader:
    """Read on in one answer until the header is whole, then hang up; also where ranges are not served."""
    headers = build_hf_headers()
    headers["Range"] = f"bytes=0-{min(_LARGEST, file.size) - 1}"
    headers["Accept-Encoding"] = "identity"
    url = hf_hub_url(repo, file.path, revision=commit)
    data = bytearray()
    wanted = _FIRST_LOOK
    with session().stream("GET", url, headers=headers, timeout=_TIMEOUT, follow_redirects=True) as response:
        hf_raise_for_status(response)
        # As they come: whoever sends a few bytes now and then could not be stopped before a larger chunk is whole.
        for chunk in response.iter_bytes():
            if cancelled():
                raise Interrupted
            data += chunk
            if len(data) >= wanted and (header := _parse(repo, file, bytes(data))) is not None:
                return header
            # Every look begins at the first byte, so they must become rare.
            wanted = wanted if len(data) < wanted else 2 * len(data)
    if len(data) < min(file.size, _LARGEST):
        raise WaitError(f"The connection broke while {file.path} was looked at.", "Ask again.")
    return _parse_whole(repo, file, bytes(data))


def _parse(repo: str, file: RemoteFile, data: bytes) -> GgufHeader | None:
    try:
        return parse_header(data, tensors=True)
    except HeaderIncompleteError:
        return None
    except HeaderError as error:
        raise HubError(f"{file.path} of {repo} is not a GGUF model: {error}.", "Choose another file.") from None


def _parse_whole(repo: str, file: RemoteFile, data: bytes) -> GgufHeader:
    header = _parse(repo, file, data)
    if header is None:
        raise HubError(f"{file.path} of {repo} is damaged: it ends inside its header.", "Choose another file.")
    return header
