"""Errors between this machine and Hugging Face: one sentence and one fix for each kind."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import httpx2
from huggingface_hub import constants
from huggingface_hub.errors import (
    EntryNotFoundError,
    FileMetadataError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import parse_ratelimit_headers

from app.core.errors import HubError, UnreachableError, WaitError
from app.models.hub.cache import disk_error
from app.models.hub.environment import check_named, named_by, offline_by, without_password

LOG_IN = 'Create a token on the page "settings/tokens" of your account and set HF_TOKEN, or run: hf auth login'
_LATER = "It may be temporary; downloaded bytes are kept."
_BAD_TOKEN = "Invalid credentials"
_TLS = ("certificate", "ssl", "record layer failure", "wrong version number")
_LONGEST_ADVICE_S = 3600.0
"""A longer wait is ignored."""


@contextmanager
def translated(repo: str) -> Iterator[None]:
    """Turn exceptions of the client, the network and the disk into `HubError`s about a repository."""
    try:
        yield
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, EntryNotFoundError) as error:
        raise sentence(error, repo) from error


def sentence(error: BaseException, repo: str) -> HubError:
    """Return the sentence and fix for an exception; a `WaitError` where retrying makes sense."""
    match error:
        case LocalEntryNotFoundError(__cause__=cause) if cause is not None:
            # The client raises it for any reason that kept it from asking.
            return sentence(cause, repo)
        case OfflineModeIsEnabled():
            return HubError(f"Offline mode: {offline_by()} is set.", "Unset it, or choose a downloaded pair.")
        case GatedRepoError():
            return HubError(
                f"Gated model: {repo} requires accepting its terms.",
                f"Accept them on {_address()}/{repo}; approval may take a while. {LOG_IN}",
            )
        case RevisionNotFoundError():
            return HubError(f"{repo} has no such revision.", "Leave @revision out to use the newest.")
        case HfHubHTTPError() if error.response is not None:
            return _status(error.response, repo, is_missing=isinstance(error, RepositoryNotFoundError))
        case FileMetadataError() | httpx2.TooManyRedirects() | httpx2.UnsupportedProtocol() | httpx2.InvalidURL():
            return HubError(f"{host()} does not answer like Hugging Face: {short(error)}.", login_page())
        case httpx2.HTTPError():
            return _network(error)
        case OSError():
            return disk_error(error)
    return HubError(f"{host()} did not answer: {short(error)}.")


def _status(response: httpx2.Response, repo: str, *, is_missing: bool) -> HubError:
    status, after_s = response.status_code, wait_asked(response.headers)
    if status == 401 and _BAD_TOKEN in response.headers.get("x-error-message", ""):
        return HubError("Hugging Face does not accept your token.", f"It may have expired. {LOG_IN}")
    if status == 401 or is_missing:
        return HubError(
            f"There is no repository {repo} on {host()}, or it is private.",
            f"Check the spelling. If it is private: {LOG_IN}",
        )
    if status == 403:
        return HubError(f"Access to {repo} is denied.", f"A proxy may block it.{check_named()} {LOG_IN}")
    if status == 404:
        return HubError(f"{repo} does not hold what was asked for.", f"Check the spelling.{check_named()}")
    if status == 429:
        return WaitError("Rate limit reached.", _LATER, after_s)
    if status == 408 or (status >= 500 and status != 511):
        return WaitError(f"Server error at {host()} (status {status}).", _LATER, after_s)
    return HubError(f"{host()} refused with status {status}.", login_page())


def _network(error: httpx2.HTTPError) -> HubError:
    text = short(error)
    if isinstance(error, httpx2.ProxyError) and text.startswith("4"):
        proxies = named_by() or "HTTPS_PROXY"
        return HubError(f"The proxy refused: {text}.", f"Check {proxies}: http://user:password@host:port.")
    if isinstance(error, httpx2.ConnectError) and any(word in text.lower() for word in _TLS):
        return HubError(
            f"No secure connection to {host()}: {text}.",
            f"Check this machine's clock. If a proxy inspects connections, set SSL_CERT_FILE.{check_named()}",
        )
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
        return UnreachableError(f"{host()} cannot be reached: {text}.", f"This machine may be offline.{check_named()}")
    return WaitError(f"The connection to {host()} broke: {text}.", _LATER + check_named())


def host() -> str:
    """Return the server's name, without a password in its address."""
    return _address().partition("://")[2]


def _address() -> str:
    return without_password(str(constants.ENDPOINT))


def login_page() -> str:
    """Return the hint for an answer that is not Hugging Face's."""
    return f"A network login page may have answered: open any web page in a browser.{check_named()}"


def settings_error(error: Exception) -> HubError:
    """Return the error for a client that cannot be created, such as with an invalid proxy address."""
    names = " and ".join(filter(None, (named_by(), "SSL_CERT_FILE" if os.environ.get("SSL_CERT_FILE") else "")))
    return HubError(f"The connection cannot be set up: {short(error)}.", f"Check {names or 'the proxy settings'}.")


def wait_asked(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait by `RateLimit` or `Retry-After`; None if neither is plausible."""
    try:
        limit = parse_ratelimit_headers(headers)
        is_limited = limit is not None and limit.remaining == 0
        seconds = float(limit.reset_in_seconds if is_limited and limit is not None else headers["retry-after"])
    except (KeyError, ValueError, OverflowError):
        return None
    return seconds if 0 <= seconds <= _LONGEST_ADVICE_S else None


def short(error: BaseException) -> str:
    """Return the beginning of an error's text, for the middle of a sentence."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).rstrip(".")[:200]
