"""What the environment says of the way to the hub, looked at before the hub is asked: the client fails late or crashes.

Nothing heavy is imported: `app.models.hub` looks at the address before the client is imported, which some cannot be
with.
"""

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
"""What names the cache, the strongest first."""
_NOWHERE = "http://hf-endpoint.invalid"
"""In place of an address that is none: nobody has it (RFC 2606), so nobody is asked who was not meant."""
_TOKENS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")
_SCHEMES = ("http", "https")
_PROXIES = ("https", "http", "all")
_SOCKS = ("socks5", "socks5h")

_OFFLINE = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
"""What forbids to ask the hub, the stronger first."""
_TELEMETRY = ("HF_HUB_DISABLE_TELEMETRY", "DISABLE_TELEMETRY", "DO_NOT_TRACK")
_TRUE = ("1", "ON", "YES", "TRUE")

_wrong_address: HubError | None = None


def take_address(environ: MutableMapping[str, str] = os.environ) -> None:
    """Keep an address that is none from the client; `check_way` tells of it. An empty one is as good as unset."""
    global _wrong_address
    value = environ.get(ADDRESS)
    if value is None:
        return
    if not value.strip():
        del environ[ADDRESS]
    elif not _is_address(value):
        _wrong_address = HubError(
            f'{ADDRESS} is "{printable(value)}", which is not the address of a hub.',
            f"Unset it, or write an address such as {USUAL}.",
        )
        environ[ADDRESS] = _NOWHERE


def take_folders(environ: MutableMapping[str, str] = os.environ) -> None:
    """Make the variables that name the cache mean one folder, for the client and wherever one is by then.

    To the client an empty one is the folder one is in, and so is where a relative one begins: what was downloaded there
    would be remembered by a way that leads nowhere from another folder.
    """
    for name in FOLDERS:
        value = environ.get(name)
        if value is None:
            continue
        if not value.strip():
            del environ[name]
        elif not (path := home_expanded(os.path.expandvars(value))).is_absolute():
            # The folder that one is in may have been deleted.
            with suppress(OSError):
                environ[name] = str(path.absolute())


def disable_telemetry(environ: MutableMapping[str, str] = os.environ) -> None:
    """Turn off the client's telemetry, unless the user has decided about it.

    Before its first request of the day, the client downloads a list of AI agents to name one in its User-Agent header.
    """
    if not any(name in environ for name in _TELEMETRY):
        environ[_TELEMETRY[0]] = "1"


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
        known = parts.scheme in _SCHEMES and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return known and text.isprintable() and " " not in text and not parts.query and not parts.fragment


def check_way() -> None:
    """Look at what the client takes from the environment.

    Raises:
        HubError: With a variable as it is the hub cannot be asked.
    """
    if _wrong_address is not None:
        raise _wrong_address
    proxies = _proxies()
    for kind in _PROXIES:
        _check_proxy(f"{kind.upper()}_PROXY", proxies.get(kind, ""))
    for name in _TOKENS:
        if not os.environ.get(name, "").strip().isascii():
            raise HubError(f"{name} is no token: it holds letters that none has.", "Copy it again, or unset it.")
    certificates = os.environ.get("SSL_CERT_FILE")
    if certificates and not os.path.isfile(certificates):  # noqa: PTH113 - a Path raises where it may not look
        raise HubError(
            f"SSL_CERT_FILE names {printable(certificates)}, and there is no such file, or it may not be read.",
            "Unset it, or correct it.",
        )


def _proxies() -> dict[str, str]:
    """The proxies that the client goes through."""
    found = getproxies()
    direct = "*" in (host.strip() for host in found.get("no", "").split(","))
    return {} if direct else found


def _check_proxy(name: str, address: str) -> None:
    scheme = address.partition("://")[0].lower() if "://" in address else "http"
    if scheme in _SOCKS and find_spec("socksio") is None:
        raise HubError(f"{name} names a SOCKS proxy, which needs the package socksio.", "Run: pip install socksio")
    if scheme not in (*_SCHEMES, *_SOCKS):
        raise HubError(
            f"{name} is no address of a proxy: it begins with {printable(scheme)}://.",
            "Write it like http://host:port or socks5://host:port, or unset it.",
        )


def offline_by() -> str:
    """The variable by which the client asks nobody; "" without one."""
    name = next((name for name in _OFFLINE if os.environ.get(name)), "")
    return name if os.environ.get(name, "").upper() in _TRUE else ""


def is_proxied(host: str = "", scheme: str = "") -> bool:
    """Whether the client asks a proxy in the place of the hub.

    Args:
        host: Of another host, if it is that which is asked.
        scheme: Of the address that is asked; any, if that is not known.
    """
    proxies = _proxies()
    kinds = (scheme, "all") if scheme else _PROXIES
    return any(proxies.get(kind) for kind in kinds) and not (host and proxy_bypass(host))


def named_by() -> str:
    """The variables that decide whom the client talks to, such as "HF_ENDPOINT and HTTPS_PROXY"; "" without any."""
    proxies = _proxies()
    names = [ADDRESS] if os.environ.get(ADDRESS, USUAL).rstrip("/") != USUAL else []
    return " and ".join(names + [f"{kind.upper()}_PROXY" for kind in _PROXIES if proxies.get(kind)])


def check_named() -> str:
    """The same as a sentence behind a hint, with a space in front."""
    named = named_by()
    return f" Check {named} too, which {'are' if ' and ' in named else 'is'} set." if named else ""


def hub_address() -> str:
    """Where the client looks for the hub."""
    return without_password(os.environ.get(ADDRESS, USUAL).rstrip("/"))


def without_password(address: str) -> str:
    """An address as it can be shown: it may hold a name and a password."""
    scheme, _, rest = address.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2]}"
