"""Errors between here and Hugging Face, each as a sentence and a fix."""

from __future__ import annotations

import errno
import os
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
from huggingface_hub import constants
from huggingface_hub.errors import (
    EntryNotFoundError,
    FileMetadataError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import parse_ratelimit_headers

from app.core.errors import HubError, UnreachableError, WaitError
from app.core.printable import printable
from app.models.hub.cache import disk_error
from app.models.hub.environment import check_named, is_proxied, named_by, offline_by, without_password

LOG_IN = 'Create a token on the page "settings/tokens" of your account and set HF_TOKEN, or run: hf auth login'
_LATER = "It may be temporary; downloaded bytes are kept."
_BAD_TOKEN = "Invalid credentials"
_CERTIFICATES = "SSL_CERT_FILE"
_OTHER_CERTIFICATES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Variables of other programs, which the client ignores."""
_OS_ERROR = re.compile(r"\(os error (\d{1,6})\)")
"""How Rust ends the text of a system error."""
_SOCKS = "Proxy Server could not connect: "
_PROXY_OFFLINE = re.compile(
    rf"50[0234]\b|{_SOCKS}(General SOCKS server failure|(Network|Host) unreachable|Connection refused|TTL expired)"
)
_NO_TLS = ("wrong_version_number", "record layer failure", "wrong version number")
_LONGEST_HOST = 100
_LONGEST_ADVICE_S = 3600.0
"""A longer wait, or a moment that a wrong clock puts there, is ignored."""


@contextmanager
def translated(repo: str) -> Iterator[None]:
    """Turn exceptions of the client, the network and the disk into `HubError`s about a repository."""
    try:
        yield
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, HFValidationError, EntryNotFoundError) as error:
        raise sentence(error, repo) from error


def sentence(error: Exception, repo: str) -> HubError:
    """Return the sentence and fix for an exception; a `WaitError` where retrying makes sense."""
    if isinstance(error, LocalEntryNotFoundError):
        # The client raises it for any reason that kept it from asking.
        cause = error.__cause__
        return sentence(cause, repo) if isinstance(cause, Exception) else _unreachable()
    for kind, make in _TABLE:
        if isinstance(error, kind):
            return make(error, repo)
    return HubError(f"{host()} did not answer: {short(error)}.")


def host() -> str:
    """Return the server's name, without a password in its address."""
    return _address().partition("://")[2]


def _address() -> str:
    return without_password(str(constants.ENDPOINT))


def login_page() -> str:
    """Return the hint for an answer that is not Hugging Face's."""
    return f"A network login page may have answered: open any web page in a browser.{check_named()}"


def _no_repository(repo: str, response: httpx2.Response) -> HubError:
    if response.status_code == 401 and "authorization" in response.request.headers:
        return HubError(
            f"There is no repository {repo} on {host()}, it is private, or your token is not accepted.",
            f"Check the spelling, and whether the token has expired. {LOG_IN}",
        )
    return HubError(
        f"There is no repository {repo} on {host()}, or it is private.",
        f"Check the spelling. If it is private: {LOG_IN}",
    )


def _gated(error: GatedRepoError, repo: str) -> HubError:
    page = f"{_address()}/{repo}"
    if error.response is not None and error.response.status_code == 401:
        return HubError(f"Gated model: {repo} requires accepting its terms.", f"Accept them on {page}. {LOG_IN}")
    return HubError(
        f"Gated model: your account has no access to {repo}.",
        f"Accept its terms on {page}; approval may take a while.",
    )


def _status(error: HfHubHTTPError, repo: str) -> HubError:
    response = error.response
    if response is None:
        return HubError(f"{host()} did not answer: {short(error)}.")
    status, private = response.status_code, f"If it is private: {LOG_IN}"
    has_token = "authorization" in response.request.headers
    match status:
        case 401 if _BAD_TOKEN in response.headers.get("x-error-message", ""):
            return HubError("Hugging Face does not accept your token.", f"It may have expired. {LOG_IN}")
        case 401:
            return _no_repository(repo, response)
        case 403 if has_token:
            return HubError(f"Access to {repo} is denied.", f"The token may not have the right to read it. {LOG_IN}")
        case 403:
            return HubError(f"Access to {repo} is denied.", f"A proxy may block it.{check_named()} {private}")
        case 404:
            return HubError(f"{repo} does not hold what was asked for.", f"Check the spelling.{check_named()}")
        case 407:
            return _no_password()
        case 429:
            return WaitError("Rate limit reached.", _LATER, wait_asked(response.headers))
        case 451:
            return HubError(f"{repo} is not available here for legal reasons.", "Choose another repository.")
        case 511:
            return HubError("The network requires a login.", "Open any web page in a browser, then try again.")
        case _ if status == 408 or status >= 500:
            return WaitError(f"Server error at {host()} (status {status}).", _LATER, wait_asked(response.headers))
    return HubError(f"{host()} refused with status {status}.", "Try again later; downloaded bytes are kept.")


def _proxy(error: httpx2.ProxyError) -> HubError:
    said = short(error)
    if said.startswith("407"):
        return _no_password()
    if _PROXY_OFFLINE.match(said):
        return UnreachableError(
            f"The proxy cannot reach {host()}: {said.removeprefix(_SOCKS)}.",
            f"Its network may be offline.{check_named()}",
        )
    return HubError(f"The proxy refused: {said}.", f"Check {named_by() or 'HTTPS_PROXY and HTTP_PROXY'}.")


def _no_password() -> HubError:
    return HubError("The proxy requires a password.", "Write it into HTTPS_PROXY: http://user:password@host:port.")


def _network(error: Exception) -> HubError:
    if _has_cause(error, socket.gaierror):
        return UnreachableError(
            f"{_connected_host(error)} cannot be found.",
            f"This machine seems to be offline, or its DNS server does not answer.{check_named()}",
        )
    if isinstance(error, httpx2.TimeoutException):
        connecting = isinstance(error, httpx2.ConnectTimeout)
        kind = UnreachableError if connecting or is_proxied() else WaitError
        who = _connected_host(error) if connecting else _answering_host(error)
        return kind(f"{who} takes too long to answer.", _LATER + check_named())
    if isinstance(error, httpx2.ConnectError):
        said = str(error).lower()
        if "certificate" in said:
            return _certificate(said, _answering_host(error))
        if any(words in said for words in _NO_TLS):
            return HubError(
                f"{_answering_host(error)} does not speak TLS.",
                f"If it or a proxy has none, its address begins with http://, not https://.{check_named()}",
            )
        return _unreachable(_connected_host(error))
    return WaitError(f"The connection to {_answering_host(error)} broke.", _LATER + check_named())


def _certificate(said: str, who: str) -> HubError:
    if "certificate has expired" in said or "certificate is not yet valid" in said:
        return HubError(f"The certificate of {who} is not valid at this time.", "Check this machine's clock and date.")
    if "hostname mismatch" in said or "ip address mismatch" in said:
        return HubError(f"The certificate of {who} is for another host.", login_page())
    other = next((name for name in _OTHER_CERTIFICATES if os.environ.get(name)), "")
    ignored = f" {other} is set, but not read for this." if other and not os.environ.get(_CERTIFICATES) else ""
    return HubError(
        f"The certificate of {who} is not trusted.",
        f"If a proxy inspects the connection, set {_CERTIFICATES} to its certificate.{ignored}",
    )


def _no_certificates(error: Exception, repo: str) -> HubError:
    """The client could not load certificates; a failed handshake is a `ConnectError`."""
    if named := os.environ.get(_CERTIFICATES):
        return HubError(
            f"{_CERTIFICATES} names {printable(named)}, which holds no certificates.",
            "Unset it, or name a file in PEM format.",
        )
    return HubError("The certificates of this system cannot be read.", f"Set {_CERTIFICATES} to a PEM file.")


def _connected_host(error: Exception) -> str:
    """Return whom a connection was made to: the proxy, if there is one."""
    url = _url(error)
    proxied = is_proxied(url.host, url.scheme) if url else is_proxied()
    return f"The proxy for {host()}" if proxied else _answering_host(error)


def _answering_host(error: Exception) -> str:
    """Return who answers: the server, or a host that it redirects to."""
    url, own = _url(error), urlsplit(_address()).hostname
    if url is None or not own or url.host in ("", own):
        return host()
    return f"{url.raw_host.decode('ascii', 'replace')[:_LONGEST_HOST]} (redirected from {host()})"


def _url(error: Exception) -> httpx2.URL | None:
    try:
        return error.request.url if isinstance(error, httpx2.RequestError) else None
    except RuntimeError:
        return None


def _has_cause(error: BaseException, kind: type[BaseException]) -> bool:
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, kind):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _unreachable(who: str = "") -> HubError:
    return UnreachableError(f"{who or host()} cannot be reached.", f"Check the network connection.{check_named()}")


_TABLE: tuple[tuple[type[Exception] | tuple[type[Exception], ...], Callable[..., HubError]], ...] = (
    (GatedRepoError, _gated),
    (
        RevisionNotFoundError,
        lambda error, repo: HubError(f"{repo} has no such revision.", "Leave @revision out to use the newest."),
    ),
    (RepositoryNotFoundError, lambda error, repo: _no_repository(repo, error.response)),
    (
        EntryNotFoundError,
        lambda error, repo: HubError(f"{repo} no longer holds that file.", "Try again; it may have been renamed."),
    ),
    (
        HFValidationError,
        lambda error, repo: HubError(f'"{repo}" is not a valid repository name.', "Names look like owner/repo."),
    ),
    (
        OfflineModeIsEnabled,
        lambda error, repo: HubError(f"Offline mode: {offline_by()} is set.", "Unset it, or choose a downloaded pair."),
    ),
    (HfHubHTTPError, _status),
    (FileMetadataError, lambda error, repo: HubError(f"{host()} is not a Hugging Face server.", login_page())),
    (httpx2.ProxyError, lambda error, repo: _proxy(error)),
    (httpx2.TooManyRedirects, lambda error, repo: HubError(f"Redirect loop at {host()}.", login_page())),
    (
        httpx2.UnsupportedProtocol,
        lambda error, repo: HubError(f"Redirect to an invalid URL at {host()}.", login_page()),
    ),
    ((httpx2.HTTPError, httpx2.InvalidURL), lambda error, repo: _network(error)),
    (ssl.SSLError, _no_certificates),
    (OSError, lambda error, repo: disk_error(error)),
)
"""From exception to sentence and fix, the most specific first."""


def raise_if_full(error: Exception, place: Path) -> None:
    """Raise OSError if the text of a library's error reports a full disk.

    Args:
        error: What the library raised.
        place: The folder that it wrote into.
    """
    if found := _OS_ERROR.search(str(error)):
        code = int(found[1])
        # On Windows, where the codes are others, the last one decides.
        told = OSError(code, "the disk is full", str(place), code)
        if told.errno in (errno.ENOSPC, errno.EDQUOT):
            raise told from error


def wait_asked(headers: Mapping[str, str]) -> float | None:
    """Return the seconds to wait by `RateLimit` or `Retry-After`; None if neither is plausible."""
    try:
        seconds = _asked(headers)
    except (ValueError, OverflowError):
        return None
    return seconds if seconds is None or seconds <= _LONGEST_ADVICE_S else None


def _asked(headers: Mapping[str, str]) -> float | None:
    limit = parse_ratelimit_headers(headers)
    if limit is not None and limit.remaining == 0:
        return float(limit.reset_in_seconds)
    asked = headers.get("retry-after", "").strip()
    if asked.isdigit():
        return float(asked)
    until = parsedate_to_datetime(asked)
    return max(0.0, (until - datetime.now(UTC)).total_seconds()) if until.tzinfo else None


def short(error: Exception) -> str:
    """Return the beginning of an error's text, for the middle of a sentence."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).rstrip(".")[:200]
