"""Hugging Face: search, headers and downloads, everything checked.

The only importer of huggingface_hub and its HTTP client; it sets their environment variables right before the import.
"""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from urllib.parse import urlsplit

from app.core.errors import HubError

ADDRESS = "HF_ENDPOINT"
USUAL = "https://huggingface.co"
_INVALID_ENDPOINT = "http://hf-endpoint.invalid"
"""Replaces an invalid address; RFC 2606 reserves the domain."""
_PROXY_SCHEMES = ("https", "http", "all")
_OFFLINE_VARIABLES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_TELEMETRY_VARIABLES = ("HF_HUB_DISABLE_TELEMETRY", "DISABLE_TELEMETRY", "DO_NOT_TRACK")
_TRUE_VALUES = ("1", "ON", "YES", "TRUE")


def prepare_environment(environ: MutableMapping[str, str] = os.environ) -> None:
    """Replace an address that crashes the client; turn off its telemetry and warnings."""
    address = environ.get(ADDRESS, USUAL)
    if not address.strip():
        del environ[ADDRESS]
    elif not _is_address(address):
        environ[ADDRESS] = _INVALID_ENDPOINT
    if not any(name in environ for name in _TELEMETRY_VARIABLES):
        environ[_TELEMETRY_VARIABLES[0]] = "1"
    # Warnings would appear on top of the screen.
    environ.setdefault("HF_HUB_DISABLE_SYMLINKS_WARNING", "1")
    environ.setdefault("HF_HUB_VERBOSITY", "error")


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return is_web and text.isprintable() and " " not in text and not parts.query and not parts.fragment


def check_environment() -> None:
    """Raise HubError if the server address is invalid."""
    if os.environ.get(ADDRESS) == _INVALID_ENDPOINT:
        raise HubError(f"{ADDRESS} is not a server address.", f"Unset it, or write an address such as {USUAL}.")


def offline_by() -> str | None:
    """Return the variable that sets offline mode, if any."""
    name = next((name for name in _OFFLINE_VARIABLES if os.environ.get(name)), None)
    return name if name is not None and os.environ[name].upper() in _TRUE_VALUES else None


def named_by() -> str | None:
    """Return the variables that change the server or the route, such as "HF_ENDPOINT and HTTPS_PROXY", if any."""
    # The first frame does not need this import.
    from urllib.request import getproxies

    proxies = getproxies()
    names = [ADDRESS] if os.environ.get(ADDRESS, USUAL).rstrip("/") != USUAL else []
    return " and ".join(names + [f"{kind.upper()}_PROXY" for kind in _PROXY_SCHEMES if proxies.get(kind)]) or None


def check_named() -> str:
    """Return the end of a hint that names these variables."""
    named = named_by()
    return f" Also check {named}." if named else ""


def hub_address() -> str:
    """Return the server's address without a password."""
    scheme, _, rest = os.environ.get(ADDRESS, USUAL).rstrip("/").partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"


prepare_environment()
