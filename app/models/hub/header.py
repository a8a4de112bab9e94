"""The header of a model on Hugging Face, read without downloading the model."""

from __future__ import annotations

from contextlib import closing, suppress

from huggingface_hub import hf_hub_url

from app.core.errors import HubError, ModelFileError, WaitError
from app.models.gguf import GgufHeader, HeaderError, HeaderIncompleteError, parse_header, read_header
from app.models.hub import cache
from app.models.hub.choose import RemoteFile
from app.models.hub.client import bytes_behind
from app.models.hub.errors import translated
from app.models.hub.request import HEADER_S, RetryPolicy, look_up
from app.models.progress import Watcher

_LARGEST = 1 << 28
"""Bytes; headers have up to 16 MB."""
_FIRST_PARSE = 1 << 16


def read_remote_header(
    repo: str, commit: str, file: RemoteFile, retry: RetryPolicy, watcher: Watcher | None = None
) -> GgufHeader:
    """Read a header, from the disk if the file is here, otherwise by range requests of a few megabytes.

    Args:
        repo: Its repository.
        commit: The revision.
        file: The file.
        retry: How to wait, and whether to stop.
        watcher: Receives the progress.

    Raises:
        HubError: It is not available, or the file is not a GGUF model; `HubTimeoutError` at the deadline.
        Interrupted: Canceled.
    """
    if (here := cache.cached(repo, commit, file.path, file.size)) is not None:
        # A damaged file is downloaded again, and Hugging Face has the true bytes.
        with suppress(ModelFileError):
            return read_header(here, tensors=True)
    watcher = watcher or Watcher()
    url, end = hf_hub_url(repo, file.path, revision=commit), min(file.size, _LARGEST)
    data = bytearray()
    n_reported = 0

    def report() -> None:
        nonlocal n_reported
        if len(data) > n_reported:
            watcher.received(len(data) - n_reported)
            n_reported = len(data)

    def request() -> GgufHeader:
        """Request the missing bytes; hang up once the header is complete."""
        # Every parse begins at the first byte, so the next one waits for twice as many.
        next_parse = _FIRST_PARSE
        with translated(repo), closing(bytes_behind(url, file, len(data), end)) as pieces:
            for piece in pieces:
                retry.stop_if_cancelled()
                data.extend(piece)
                if len(data) >= min(next_parse, end):
                    next_parse = 2 * len(data)
                    if (header := _parsed(data)) is not None:
                        return header
        if len(data) < end:
            raise WaitError(f"The connection broke while {file.path} was read.")
        raise HubError(f"{file.path} of {repo} is damaged: it ends inside its header.", "Choose another file.")

    try:
        return look_up(request, retry, watcher, HEADER_S, report)
    except HeaderError as error:
        raise HubError(f"{file.path} of {repo} is not a GGUF model: {error}.", "Choose another file.") from None


def _parsed(data: bytearray) -> GgufHeader | None:
    """Return the header, or None if it is incomplete."""
    try:
        return parse_header(bytes(data), tensors=True)
    except HeaderIncompleteError:
        return None
