"""What can go wrong between here and the hub, in sentences with a way out."""

from __future__ import annotations

import errno
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
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

from app.core.errors import CacheError, HubError, UnreachableError, WaitError
from app.models.hub.environment import check_named, is_proxied, named_by, offline_by, without_password
from app.models.hub.tls_errors import certificate_sentence, certificates_unreadable, unencrypted

LOG_IN = 'Make a token on the page "settings/tokens" of your account and set HF_TOKEN to it, or run: hf auth login'
_LATER = "It may pass by itself; what is downloaded already is kept."
_BAD_TOKEN = "Invalid credentials"
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_OS_ERROR = re.compile(r"\(os error (\d{1,6})\)")
"""How Rust ends the text of what the system refused."""
_SOCKS = "Proxy Server could not connect: "
_AWAY = re.compile(
    rf"50[0234]\b|{_SOCKS}(General SOCKS server failure|(Network|Host) unreachable|Connection refused|TTL expired)"
)
"""What proxies say where the hub cannot be reached from them, for whatever reason that may pass."""
_NO_TLS = ("wrong_version_number", "record layer failure", "wrong version number")
_LONGEST_HOST = 100
_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_LONGEST_ADVICE_S = 3600.0
"""Whoever asks to wait for longer, or until a moment that a wrong clock puts there, is asked again as if nothing had
been said, and given up soon."""
_IN_USE = (32, 33)
"""Windows' ERROR_SHARING_VIOLATION and ERROR_LOCK_VIOLATION, which Python calls a lack of permission."""


@contextmanager
def translated(repo: str) -> Iterator[None]:
    """Turn what the client and the network raise about a repository into `HubError`s."""
    try:
        yield
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, HFValidationError, EntryNotFoundError) as error:
        raise sentence(error, repo) from error


def sentence(error: Exception, repo: str) -> HubError:
    """The same failure as a sentence; a `WaitError` where trying again makes sense."""
    match error:
        case GatedRepoError():
            return _gated(error, repo)
        case RevisionNotFoundError():
            return HubError(f"{repo} has no such revision.", "Leave the @revision out to take the newest.")
        case RepositoryNotFoundError():
            return _no_repository(repo, error.response)
        case LocalEntryNotFoundError():
            # The client calls so whatever kept it from asking.
            cause = error.__cause__
            return sentence(cause, repo) if isinstance(cause, Exception) else _unreachable()
        case EntryNotFoundError():
            return HubError(f"{repo} does not hold that file any more.", "Ask again; its files may have been renamed.")
        case HFValidationError():
            return HubError(f'"{repo}" cannot be the name of a repository.', "Names look like owner/repo.")
        case OfflineModeIsEnabled():
            return HubError(
                f"{offline_by()} forbids to ask the hub.", "Unset it, or choose a pair that is here already."
            )
        case HfHubHTTPError() if error.response is not None:
            return _status(error.response, repo)
        case FileMetadataError():
            return HubError(f"{host()} does not answer like a hub.", login_page())
        case httpx2.ProxyError():
            return _proxy(error)
        case httpx2.TooManyRedirects():
            return HubError(f"{host()} sends in circles.", login_page())
        case httpx2.UnsupportedProtocol():
            return HubError(f"{host()} sends to an address that is none of the web.", login_page())
        case httpx2.HTTPError() | httpx2.InvalidURL():
            return _network(error)
        case ssl.SSLError():
            # Raised by the client's own beginnings; of a connection it is a `ConnectError`.
            return certificates_unreadable()
        case OSError():
            return _disk(error)
    return HubError(f"{host()} did not answer: {short(error)}.")


def host() -> str:
    """The hub, as people know it; without the password that its address may hold."""
    return _address().partition("://")[2]


def _address() -> str:
    return without_password(str(constants.ENDPOINT))


def login_page() -> str:
    """What to think where something answers that is no hub."""
    return f"A network login page may answer in its place: open any web page in a browser.{check_named()}"


def _no_repository(repo: str, response: httpx2.Response) -> HubError:
    if response.status_code == 401 and "authorization" in response.request.headers:
        # The client tells an expired token from a missing repository by one wording of the hub, which has several.
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
        return HubError(f"{repo} wants its terms accepted before it is downloaded.", f"Accept them on {page}. {LOG_IN}")
    return HubError(
        f"Your account may not download {repo} yet.", f"Accept its terms on {page}; the authors may take a while."
    )


def _status(response: httpx2.Response, repo: str) -> HubError:
    status = response.status_code
    if status == 401 and _BAD_TOKEN not in response.headers.get("x-error-message", ""):
        return _no_repository(repo, response)
    if status == 401:
        return HubError("The hub does not accept your token.", f"It may have expired. {LOG_IN}")
    if status == 403 and "authorization" not in response.request.headers:
        return HubError(
            f"{host()} refuses access to {repo}.",
            f"Something on the way may block it, such as a proxy.{check_named()} If it is private: {LOG_IN}",
        )
    if status == 403:
        return HubError(f"The hub refuses access to {repo}.", f"The token may lack the right to read it. {LOG_IN}")
    if status == 404:
        return HubError(f"{repo} does not hold what was asked for.", f"Check the spelling.{check_named()}")
    if status == 407:
        return _no_password()
    if status == 451:
        return HubError(f"{host()} may not give {repo} to this place, by law.", "Choose another repository.")
    if status == 511:
        return HubError("The network wants a login.", "Open any web page in a browser, and ask again.")
    if status == 429:
        return WaitError("The hub asks to slow down.", _LATER, wait_asked(response.headers))
    if status == 408 or status >= 500:
        return WaitError(f"The hub has trouble of its own (status {status}).", _LATER, wait_asked(response.headers))
    return HubError(f"The hub refused with status {status}.", "Try again later; what is downloaded already is kept.")


def _proxy(error: httpx2.ProxyError) -> HubError:
    """What a proxy answers in the place of the hub, by the wording of the client."""
    said = short(error)
    if said.startswith("407"):
        return _no_password()
    if _AWAY.match(said):
        return UnreachableError(
            f"The proxy does not reach {host()}: {said.removeprefix(_SOCKS)}.",
            f"The network behind it may be away.{check_named()}",
        )
    return HubError(f"The proxy refused: {said}.", f"Check {named_by() or 'HTTPS_PROXY and HTTP_PROXY'}.")


def _no_password() -> HubError:
    return HubError("The proxy wants a password.", "Write it into HTTPS_PROXY: http://user:password@host:port.")


def _network(error: Exception) -> HubError:
    if _has_cause(error, socket.gaierror):
        return UnreachableError(
            f"{_reached(error)} cannot be found.",
            f"This machine seems to be offline, or its name service does not answer.{check_named()}",
        )
    if isinstance(error, httpx2.TimeoutException):
        # A proxy whose own network is away waits for that longer than it is waited for.
        is_away = isinstance(error, httpx2.ConnectTimeout) or is_proxied()
        kind = UnreachableError if is_away else WaitError
        who = _reached(error) if isinstance(error, httpx2.ConnectTimeout) else _answerer(error)
        return kind(f"{who} takes too long to answer.", _LATER + check_named())
    if isinstance(error, httpx2.ConnectError):
        said = str(error).lower()
        if "certificate" in said:
            return certificate_sentence(said, _answerer(error), login_page())
        if any(words in said for words in _NO_TLS):
            return unencrypted(_answerer(error), check_named())
        return _unreachable(_reached(error))
    return WaitError(f"The connection to {_answerer(error).removesuffix(',')} broke.", _LATER + check_named())


def _reached(error: Exception) -> str:
    """To whom no connection could be made: through a proxy, all of them are made to that."""
    url = _url(error)
    proxied = is_proxied(url.host, url.scheme) if url else is_proxied()
    return f"The proxy on the way to {host()}" if proxied else _answerer(error)


def _answerer(error: Exception) -> str:
    """Who does not answer as is meant: the hub, or another host to which it sends."""
    url, own = _url(error), urlsplit(_address()).hostname
    if url is None or not own or url.host in ("", own):
        return host()
    return f"{url.raw_host.decode('ascii', 'replace')[:_LONGEST_HOST]}, to which {host()} sends,"


def _url(error: Exception) -> httpx2.URL | None:
    try:
        return error.request.url if isinstance(error, httpx2.RequestError) else None
    except RuntimeError:
        # Made by hand, for no request.
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


def _disk(error: OSError) -> HubError:
    place = error.filename or constants.HF_HUB_CACHE
    if error.errno in _DISK_FULL:
        return CacheError(
            f"The disk with {place} is full.",
            "Make room and ask again: what is downloaded is kept. Or set HF_HUB_CACHE to a folder on another disk.",
        )
    if getattr(error, "winerror", None) in _IN_USE:
        return CacheError(f"{place} is in use.", "End the program that uses it, perhaps another Tandem, and ask again.")
    if error.errno in _DENIED:
        return CacheError(
            f"{place} may not be written.", "Set HF_HUB_CACHE to a folder of your own, or mend its permissions."
        )
    return CacheError(f"{place} cannot be used: {error.strerror or error}.", "Check the disk, or set HF_HUB_CACHE.")


def raise_if_full(error: Exception, place: Path) -> None:
    """Raise what the system says of a full disk, where a library has made a text of it.

    Args:
        error: What the library raised.
        place: The folder that it was to write into.

    Raises:
        OSError: The disk is full.
    """
    if found := _OS_ERROR.search(str(error)):
        code = int(found[1])
        # On Windows, where the codes are others, the last one decides.
        told = OSError(code, "the disk is full", str(place), code)
        if told.errno in _DISK_FULL:
            raise told from error


def wait_asked(headers: Mapping[str, str]) -> float | None:
    """Seconds that an answer asks to wait, by `RateLimit` or `Retry-After`; None if none that can be meant."""
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
    """The beginning of what an error says, for the middle of a sentence."""
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__).rstrip(".")[:200]
