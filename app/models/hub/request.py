"""Requests to Hugging Face: a sentence and a fix for each error, retries, and a deadline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import wait
from contextlib import contextmanager
from time import monotonic
from typing import TypeVar

import httpx2
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import parse_ratelimit_headers

from app.core.errors import (
    HubError,
    HubTimeoutError,
    NoRepositoryError,
    NoRevisionError,
    UnreachableError,
    WaitError,
)
from app.core.program import in_background
from app.models.hub import check_named, hub_address, named_by, offline_by
from app.models.hub.cache import disk_error
from app.models.progress import Watcher, duration

T = TypeVar("T")

LOOKUP_S = 30.0
"""Time limit for a listing or a search."""
HEADER_S = 180.0
"""Time limit for a header: 16 MB at 100 kB/s."""
CACHED_S = 10.0
"""Time limit for a listing if a downloaded file can be used without it."""
_POLL_S = 0.1
_LONGEST_WAIT_S = 60.0
_TICK_S = 1.0
_MAX_ATTEMPTS = 8
"""Number of attempts: two minutes of waiting."""
_LOOKUP_ATTEMPTS = 3
_OFFLINE_S = 12 * 3600.0
"""A download waits for the network overnight."""
LOG_IN = 'Create a token on the page "settings/tokens" of your account and set HF_TOKEN, or run: hf auth login'
_RETRY_LATER_FIX = "It may be temporary; downloaded bytes are kept."
_BAD_TOKEN = "Invalid credentials"
_TLS_ERROR_WORDS = ("certificate", "ssl")
_LONGEST_ADVICE_S = 3600.0
"""Longer waits are ignored."""


class Retries:
    """Consecutive failures of a download or request.

    Args:
        watcher: Called every second of a wait.
        deadline: Time at which a request must end, by `monotonic`; None for a download.
    """

    def __init__(self, watcher: Watcher, deadline: float | None = None) -> None:
        self._watcher = watcher
        self._deadline = deadline
        self.reset()

    def reset(self) -> None:
        """Forget earlier failures, after new bytes arrived."""
        self._failures = 0
        self._answers = 0
        self._waited_s = 0.0

    def wait(self, error: WaitError) -> None:
        """Wait as long as the server asks, or twice as long each time.

        Raises:
            HubError: There were too many failures, or the wait is too long.
            Interrupted: Canceled.
        """
        self._failures += 1
        self._answers += not isinstance(error, UnreachableError)
        left_s, attempts = _OFFLINE_S - self._waited_s, _MAX_ATTEMPTS
        if self._deadline is not None:
            left_s, attempts = self._deadline - monotonic(), _LOOKUP_ATTEMPTS
        seconds = error.after_s if error.after_s is not None else min(_LONGEST_WAIT_S, 2.0 ** (self._failures - 1))
        if self._answers >= attempts or seconds > left_s:
            when = f" in {duration(error.after_s)}" if error.after_s is not None and error.after_s >= 1 else ""
            raise HubError(error.message, f"{error.hint} Try again{when} to continue.".strip()) from error
        self._waited_s += seconds
        while seconds > 0:
            self._watcher.waiting(error.message, seconds)
            self._watcher.pause(min(_TICK_S, seconds))
            seconds -= _TICK_S
        self._watcher.waiting(None, 0)


def interruptible_lookup(ask: Callable[[], T], watcher: Watcher, seconds: float) -> T:
    """Return the answer to a request; retry temporary failures before one deadline.

    The request runs on a daemon thread, abandoned at the deadline or at Ctrl+C, because a name lookup cannot be
    interrupted. An unreachable server is an error immediately.

    Args:
        watcher: Receives the status text, and cancels the request.

    Raises:
        HubError: There is no answer; `HubTimeoutError` at the deadline.
        Interrupted: Canceled.
    """
    deadline = monotonic() + seconds
    retries = Retries(watcher, deadline)
    while True:
        watcher.waiting(f"Waiting for {host()}", 0)
        future = in_background(ask, "hub request")
        while not wait([future], _POLL_S).done:
            watcher.check_cancelled()
            if monotonic() >= deadline:
                raise HubTimeoutError(
                    f"{host()} took longer than {seconds:.0f} s to answer.",
                    f"Check the network connection, or try again later.{check_named()}",
                )
        try:
            return future.result()
        except UnreachableError:
            raise
        except WaitError as error:
            retries.wait(error)


# Errors


@contextmanager
def translated(repo: str) -> Iterator[None]:
    """Convert exceptions of the client, the network and the disk to `HubError`s about a repository."""
    try:
        yield
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError) as error:
        raise sentence(error, repo) from error


def sentence(error: httpx2.HTTPError | httpx2.InvalidURL | OSError, repo: str) -> HubError:
    """Return the sentence and fix for an exception, as a `WaitError` if retrying makes sense."""
    match error:
        case OfflineModeIsEnabled():
            return HubError(f"Offline mode: {offline_by()} is set.", "Unset it, or choose a downloaded pair.")
        case GatedRepoError():
            return HubError(
                f"Gated model: {repo} requires accepting its terms.",
                f"Accept them on {hub_address()}/{repo}; approval may take a while. {LOG_IN}",
            )
        case RevisionNotFoundError():
            return NoRevisionError(f"{repo} has no such revision.", "Leave @revision out to use the newest.")
        case HfHubHTTPError() if error.response is not None:
            return _status(error.response, repo, is_missing=isinstance(error, RepositoryNotFoundError))
        case httpx2.TooManyRedirects() | httpx2.UnsupportedProtocol() | httpx2.InvalidURL():
            return HubError(f"{host()} does not answer like Hugging Face: {short(error)}.", login_page())
        case httpx2.HTTPError():
            return _network(error)
    return disk_error(error)


def _status(response: httpx2.Response, repo: str, *, is_missing: bool) -> HubError:
    status, after_s = response.status_code, wait_asked(response.headers)
    if status == 401 and _BAD_TOKEN in response.headers.get("x-error-message", ""):
        return HubError("Hugging Face does not accept your token.", f"It may have expired. {LOG_IN}")
    if status == 401 or is_missing:
        return NoRepositoryError(
            f"There is no repository {repo} on {host()}, or it is private.",
            f"Check the spelling. If it is private: {LOG_IN}",
        )
    if status == 403:
        return HubError(f"Access to {repo} is denied.", f"A proxy may block it.{check_named()} {LOG_IN}")
    if status == 404:
        return HubError(f"{repo} does not have the requested file or folder.", f"Check the spelling.{check_named()}")
    if status == 429:
        return WaitError("Rate limit reached.", _RETRY_LATER_FIX, after_s)
    if status == 408 or (status >= 500 and status != 511):
        return WaitError(f"Server error at {host()} (status {status}).", _RETRY_LATER_FIX, after_s)
    return HubError(f"{host()} refused with status {status}.", login_page())


def _network(error: httpx2.HTTPError) -> HubError:
    text = short(error)
    if isinstance(error, httpx2.ProxyError) and text.startswith("4"):
        proxies = named_by() or "HTTPS_PROXY"
        return HubError(f"The proxy refused: {text}.", f"Check {proxies}: http://user:password@host:port.")
    if isinstance(error, httpx2.ConnectError) and any(word in text.lower() for word in _TLS_ERROR_WORDS):
        return HubError(
            f"No secure connection to {host()}: {text}.",
            f"Check this machine's clock. If a proxy inspects connections, set SSL_CERT_FILE.{check_named()}",
        )
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout | httpx2.ProxyError):
        return UnreachableError(f"{host()} cannot be reached: {text}.", f"This machine may be offline.{check_named()}")
    return WaitError(f"The connection to {host()} broke: {text}.", _RETRY_LATER_FIX + check_named())


def host() -> str:
    """Return the server's name, without a password in its address."""
    return hub_address().partition("://")[2]


def login_page() -> str:
    """Return the hint for an answer that is not from Hugging Face."""
    return f"A network login page may have answered: open any web page in a browser.{check_named()}"


def wait_asked(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait from `RateLimit` or `Retry-After`, if plausible."""
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
