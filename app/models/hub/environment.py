"""Environment variables of Hugging Face's client, checked before it is imported: it fails late, or crashes."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from contextlib import suppress
from importlib.util import find_spec
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from app.core.errors import HubError
from app.core.printable import printable
from app.models.source import home_expanded

ADDRESS = "HF_ENDPOINT"
USUAL = "https://huggingface.co"
FOLDERS = ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME")
_NOWHERE = "http://hf-endpoint.invalid"
"""Replaces an invalid address: no one owns it (RFC 2606)."""
_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_SCHEMES = ("http", "https")
_PROXIES = ("https", "http", "all")
_SOCKS = ("socks5", "socks5h")
_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_TELEMETRY = ("HF_HUB_DISABLE_TELEMETRY", "DISABLE_TELEMETRY", "DO_NOT_TRACK")
_TRUE = ("1", "ON", "YES", "TRUE")

_wrong_address: HubError | None = None


def take_address(environ: MutableMapping[str, str] = os.environ) -> None:
    """Replace an invalid server address, which `check_environment` reports; ignore an empty one."""
    global _wrong_address
    value = environ.get(ADDRESS)
    if value is None:
        return
    if not value.strip():
        del environ[ADDRESS]
    elif not _is_address(value):
        _wrong_address = HubError(
            f'{ADDRESS} is "{printable(value)}", which is not a server address.',
            f"Unset it, or write an address such as {USUAL}.",
        )
        environ[ADDRESS] = _NOWHERE


def take_folders(environ: MutableMapping[str, str] = os.environ) -> None:
    """Make the cache's variables absolute, and unset empty ones: both would depend on the working directory."""
    for name in FOLDERS:
        value = environ.get(name)
        if value is None:
            continue
        if not value.strip():
            del environ[name]
        elif not (path := home_expanded(os.path.expandvars(value))).is_absolute():
            # The working directory may have been deleted.
            with suppress(OSError):
                environ[name] = str(path.absolute())


def disable_telemetry(environ: MutableMapping[str, str] = os.environ) -> None:
    """Turn off the client's telemetry, unless the user has decided about it."""
    if not any(name in environ for name in _TELEMETRY):
        environ[_TELEMETRY[0]] = "1"


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        known = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return known and text.isprintable() and " " not in text and not parts.query and not parts.fragment


def check_environment() -> None:
    """Check the variables that the client reads.

    Raises:
        HubError: One of them is invalid.
    """
    if _wrong_address is not None:
        raise _wrong_address
    proxies = _proxies()
    for kind in _PROXIES:
        _check_proxy(f"{kind.upper()}_PROXY", proxies.get(kind, ""))
    for name in _TOKENS:
        if not os.environ.get(name, "").strip().isascii():
            raise HubError(f"{name} is not a token: it has non-ASCII characters.", "Copy it again, or unset it.")
    certificates = os.environ.get("SSL_CERT_FILE")
    if certificates and not os.path.isfile(certificates):  # noqa: PTH113 - a Path raises where access is denied
        raise HubError(f"SSL_CERT_FILE: no readable file {printable(certificates)}.", "Unset it, or correct it.")


def _proxies() -> dict[str, str]:
    found = getproxies()
    direct = "*" in (host.strip() for host in found.get("no", "").split(","))
    return {} if direct else found


def _check_proxy(name: str, address: str) -> None:
    scheme = address.partition("://")[0].lower() if "://" in address else "http"
    if scheme in _SOCKS and find_spec("socksio") is None:
        raise HubError(f"{name} is a SOCKS proxy, which needs the package socksio.", "Run: pip install socksio")
    if scheme not in (*_SCHEMES, *_SOCKS):
        raise HubError(
            f"{name} is not a proxy address: it begins with {printable(scheme)}://.",
            "Write it like http://host:port or socks5://host:port, or unset it.",
        )


def offline_by() -> str:
    """Return the variable that sets offline mode; "" without one."""
    name = next((name for name in _OFFLINE if os.environ.get(name)), "")
    return name if os.environ.get(name, "").upper() in _TRUE else ""


def is_proxied(host: str = "", scheme: str = "") -> bool:
    """Return True if requests go through a proxy.

    Args:
        host: Host that is asked; any if empty.
        scheme: Scheme of its address; any if empty.
    """
    proxies = _proxies()
    kinds = (scheme, "all") if scheme else _PROXIES
    return any(proxies.get(kind) for kind in kinds) and not (host and proxy_bypass(host))


def named_by() -> str:
    """Return the variables that change the server or the route, such as "HF_ENDPOINT and HTTPS_PROXY"."""
    proxies = _proxies()
    names = [ADDRESS] if os.environ.get(ADDRESS, USUAL).rstrip("/") != USUAL else []
    return " and ".join(names + [f"{kind.upper()}_PROXY" for kind in _PROXIES if proxies.get(kind)])


def check_named() -> str:
    """Return a hint to check those variables, with a leading space; "" without any."""
    named = named_by()
    return f" Also check {named}." if named else ""


def hub_address() -> str:
    """Return the server's address without a password."""
    return without_password(os.environ.get(ADDRESS, USUAL).rstrip("/"))


def without_password(address: str) -> str:
    """Return an address without user name and password."""
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
