"""Networks that promise IPv6 and carry none of it.

Python tries the addresses of a host one after the other, each for as long as a connection may take, and those of IPv6
come first: a hub with eight of them would be silent for minutes, and so would each host that it sends to.
"""

from __future__ import annotations

import socket
import threading
from urllib.parse import urlsplit

import httpx2
from huggingface_hub import constants, get_session, set_client_factory

from app.models.hub.environment import is_proxied, offline_by

_PATIENCE_S = 2.0
"""No network is so slow; and if one is, the other family is no loss."""
_ANY_IPV4 = "0.0.0.0"
"""As where a connection comes from: addresses of the other family are left out without a try."""
_PORTS = {"http": 80, "https": 443}

_lock = threading.Lock()
_asked: set[str] = set()


def leave_out_silent() -> None:
    """Look once whether IPv6 leads to the hub, and do without where neither a yes nor a no comes back.

    Raises:
        ConnectError: There is no such host, which would take as long to find out a second time.
    """
    address = urlsplit(str(constants.ENDPOINT))
    host = address.hostname or ""
    # Nobody else may take a connection that is about to be closed.
    with _lock:
        if host in _asked or is_proxied(host, address.scheme) or offline_by():
            return
        try:
            silent = is_silent(host, address.port or _PORTS.get(address.scheme, 0))
        except UnicodeError:
            # A name that is none; the client has a sentence for that.
            return
        except socket.gaierror as error:
            raise httpx2.ConnectError(str(error)) from error
        _asked.add(host)
        if silent:
            hooks = get_session().event_hooks
            set_client_factory(
                lambda: httpx2.Client(
                    transport=httpx2.HTTPTransport(local_address=_ANY_IPV4),
                    event_hooks=hooks,
                    follow_redirects=True,
                    timeout=None,
                )
            )


def is_silent(host: str, port: int) -> bool:
    """Whether the first address of a host is of IPv6 and says nothing, where it has others too.

    Args:
        host: Its name.
        port: To which a connection is tried.

    Raises:
        gaierror: There is no such host.
    """
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    families = [family for family, *_ in found]
    if socket.AF_INET not in families or families[0] != socket.AF_INET6:
        return False
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as probe:
            probe.settimeout(_PATIENCE_S)
            probe.connect(found[0][4])
    except TimeoutError:
        return True
    except OSError:
        # It says so at once, and the next address is tried at once.
        return False
    return False
