"""The application behind a socket, served by uvicorn."""

from __future__ import annotations

import logging
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from app.core.errors import UsageError
from app.server.app import make_app
from app.server.service import Service

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8087
_SHUTDOWN_S = 2
_KEEP_ALIVE_S = 60
_ALL_ADDRESSES = ("0.0.0.0", "::")


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket bound to the address, before the models are loaded."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Without the protocol, asyncio leaves Nagle's algorithm on, and small writes wait for acknowledgments.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    if sys.platform != "win32":
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        reason = error.strerror or str(error)
        raise UsageError(f"{host}:{port} cannot be used: {reason}.", "Choose another --port or --host.") from error
    return listener


def address_of(host: str, listener: socket.socket) -> str:
    shown, port = "127.0.0.1" if host in _ALL_ADDRESSES else host, listener.getsockname()[1]
    return f"http://[{shown}]:{port}" if ":" in shown else f"http://{shown}:{port}"


class HttpServer:
    """uvicorn with the server's application; clients connect to `listener`."""

    def __init__(self, service: Service, listener: socket.socket) -> None:
        config = uvicorn.Config(
            make_app(service),
            log_config=None,
            log_level=logging.CRITICAL,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_SHUTDOWN_S,
            timeout_keep_alive=_KEEP_ALIVE_S,
        )
        self._native = _Uvicorn(config)
        self._listener = listener

    async def run(self) -> None:
        """Answer requests until `stop`."""
        with self._listener:
            await self._native.serve([self._listener])

    def stop(self) -> None:
        """End the server soon; safe on any thread."""
        self._native.should_exit = True


class _Uvicorn(uvicorn.Server):
    """A server without signal handlers: the command frees the models after it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
