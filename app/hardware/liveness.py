"""Whether a server of remote devices can still be there, heard while it works for somebody."""

from __future__ import annotations

import socket
import time
from contextlib import suppress

from app.core.errors import RemoteError
from app.hardware.rpc import Endpoint, resolve

_SECONDS = 4.0
_ALIVE = (("TCP_KEEPIDLE", 5), ("TCP_KEEPALIVE", 5), ("TCP_KEEPINTVL", 3), ("TCP_KEEPCNT", 3))
"""Seconds and tries after which a system takes a peer that acknowledges nothing for gone; macOS has another name."""


class LivenessProbe:
    """A connection to a server that says nothing, only there to break.

    A server serves one connection at a time, and its system takes others for it even while it is stopped: so a
    connection that holds proves nothing, and one that breaks, or is refused, proves that nobody is there any more.
    llama.cpp's own connection need not break then: a machine that lost its power sends no farewell. There is never
    more than one, since closed ones wait in the server's short queue, and where that is full nobody is let in.

    Args:
        endpoint: Where the server listens.
        seconds: Longest wait for a connection.
    """

    def __init__(self, endpoint: Endpoint, seconds: float = _SECONDS) -> None:
        self._endpoint = endpoint
        self._seconds = seconds
        self._connection: socket.socket | None = None

    def trouble(self) -> str:
        """What proves that nobody is there, such as "cannot be reached: No route to host"; "" if nothing does."""
        try:
            if self._connection is None:
                self._connection = self._connect()
            elif not self._connection.recv(1, socket.MSG_PEEK):
                return self._broken("closed the connection")
        except (BlockingIOError, TimeoutError, RemoteError):
            # Quiet, or a full queue, or a name server that does not answer.
            return ""
        except OSError as error:
            return self._broken(f"cannot be reached: {error.strerror or error}")
        return ""

    def close(self) -> None:
        """Let go of the server, which would serve this connection next."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _connect(self) -> socket.socket:
        deadline = time.monotonic() + self._seconds
        connection = socket.create_connection(resolve(self._endpoint, deadline), timeout=self._seconds)
        connection.setblocking(False)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _ALIVE:
            with suppress(AttributeError, OSError):
                connection.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        return connection

    def _broken(self, how: str) -> str:
        self.close()
        return f"{self._endpoint} {how}"
