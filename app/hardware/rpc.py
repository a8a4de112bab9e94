"""Query a ggml-rpc-server with a time limit, before llama.cpp connects to it.

llama.cpp waits for a silent server for ever, and ends the process over one that is not there or speaks otherwise. The
protocol is that of ggml's ggml-rpc.cpp: a command is one byte, the length of its argument and the argument; an answer
is its length and itself; all numbers are little-endian.
"""

from __future__ import annotations

import ipaddress
import re
import socket
import struct
import threading
import time
from dataclasses import dataclass

from app.core.errors import AppError, RemoteError, UsageError
from app.core.printable import printable

SPOKEN = (7, 0)
"""RPC_PROTO_MAJOR_VERSION and RPC_PROTO_MINOR_VERSION of the llama.cpp that Tandem is made for: the major version of a
server must be the same, and its minor one not newer."""
_SECONDS = 4.0
_MOST_DEVICES = 16
"""GGML_RPC_MAX_SERVERS, and the most devices that a model can be split over."""
_HELLO, _DEVICE_COUNT, _DEVICE_MEMORY = 14, 15, 11
_CAPABILITIES = 24
_TRUSTED = "It must be a ggml-rpc-server, at an address such as 192.168.1.20:50052."
_BUSY = "A server serves one program at a time: another one may be using it."
_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_.])?")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Host and port of a server."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class RemoteDevice:
    """Memory of a device, in bytes."""

    free_bytes: int
    total_bytes: int


@dataclass(frozen=True, slots=True)
class RpcServer:
    """A server that answers.

    Attributes:
        endpoint: As it was named.
        address: The same as llama.cpp takes it: numbers only, so that it cannot come to mean another machine.
        version: Of its protocol.
        devices: What it has, in its order.
    """

    endpoint: Endpoint
    address: str
    version: tuple[int, int, int]
    devices: tuple[RemoteDevice, ...]


def parse_endpoint(text: str) -> Endpoint:
    """A server as people write it: a name or an address, and a port; IPv6 in brackets.

    Raises:
        UsageError: It is neither.
    """
    found = re.fullmatch(r"(?:\[(?P<six>[^\]]*)\]|(?P<host>[^\[\]:]*)):(?P<port>[0-9]{1,5})", text.strip())
    if found is None or not 0 < int(found["port"]) < 1 << 16 or not _is_host(found["six"], found["host"]):
        raise UsageError(
            f'--rpc is "{printable(text)}"; it must be a host and a port.',
            "For example: --rpc 192.168.1.20:50052 or --rpc workstation:50052",
        )
    return Endpoint(found["six"] or found["host"], int(found["port"]))


def ask(endpoint: Endpoint, seconds: float = _SECONDS) -> RpcServer:
    """Ask a server for its version, its devices and their memory; the connection is closed again.

    Args:
        endpoint: Where it listens.
        seconds: Longest wait, for everything together.

    Raises:
        RemoteError: It is not there, does not answer in time, is not such a server or speaks another version.
    """
    deadline = time.monotonic() + seconds
    try:
        address = resolve(endpoint, deadline)
        with socket.create_connection(address, timeout=_left(deadline)) as connection:
            talk = _Talk(endpoint, connection, deadline)
            version = talk.hello()
            return RpcServer(endpoint, f"{address[0]}:{address[1]}", version, talk.devices())
    except TimeoutError:
        raise _trouble(endpoint, f"does not answer within {seconds:g} seconds", _BUSY) from None
    except ConnectionResetError:
        raise _trouble(endpoint, "closed the connection", _TRUSTED) from None
    except OSError as error:
        reason = error.strerror or str(error)
        raise _trouble(endpoint, f"cannot be reached: {reason}", "Is ggml-rpc-server running there?") from None


class _Talk:
    """Commands and answers on one connection."""

    def __init__(self, endpoint: Endpoint, connection: socket.socket, deadline: float) -> None:
        self._endpoint = endpoint
        self._connection = connection
        self._deadline = deadline

    def hello(self) -> tuple[int, int, int]:
        major, minor, patch = struct.unpack_from("<BBB", self._ask(_HELLO, bytes(_CAPABILITIES), 4 + _CAPABILITIES))
        if major != SPOKEN[0] or minor > SPOKEN[1]:
            raise _trouble(
                self._endpoint,
                f"speaks version {major}.{minor}.{patch} of the protocol, this llama.cpp {SPOKEN[0]}.{SPOKEN[1]}",
                "Run the ggml-rpc-server of the same llama.cpp on both machines.",
            )
        return major, minor, patch

    def devices(self) -> tuple[RemoteDevice, ...]:
        (count,) = struct.unpack("<I", self._ask(_DEVICE_COUNT, b"", 4))
        if not 0 < count <= _MOST_DEVICES:
            raise _trouble(self._endpoint, f"claims {count} devices", _TRUSTED)
        memory = [struct.unpack("<QQ", self._ask(_DEVICE_MEMORY, struct.pack("<I", i), 16)) for i in range(count)]
        return tuple(RemoteDevice(free, total) for free, total in memory)

    def _ask(self, command: int, argument: bytes, size: int) -> bytes:
        self._connection.settimeout(_left(self._deadline))
        self._connection.sendall(struct.pack("<BQ", command, len(argument)) + argument)
        (claimed,) = struct.unpack("<Q", self._take(8))
        if claimed != size:
            raise _trouble(self._endpoint, "answers what no ggml-rpc-server of this version does", _TRUSTED)
        return self._take(size)

    def _take(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            self._connection.settimeout(_left(self._deadline))
            part = self._connection.recv(size - len(data))
            if not part:
                raise _trouble(
                    self._endpoint,
                    "closed the connection in the middle of the greeting",
                    "It may be the server of another llama.cpp, or no such server at all.",
                )
            data += part
        return data


def _is_host(six: str | None, host: str | None) -> bool:
    if six is None:
        return host is not None and _NAME.fullmatch(host) is not None
    try:
        return bool(ipaddress.IPv6Address(six))
    except ValueError:
        return False


def resolve(endpoint: Endpoint, deadline: float) -> tuple[str, int]:
    """The first IPv4 address of a server, since llama.cpp knows no other, and its port.

    Args:
        endpoint: Where it listens.
        deadline: By the monotonic clock.

    Raises:
        RemoteError: There is none.
        TimeoutError: The deadline has passed.
    """
    found: list[str] = []
    failed: list[OSError] = []

    def look() -> None:
        try:
            infos = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            failed.append(error if isinstance(error, OSError) else OSError(str(error)))
        else:
            found.extend(str(info[4][0]) for info in infos)

    # Looking a name up has no time limit of its own.
    thread = threading.Thread(target=look, daemon=True, name="name n-gram drafting")
    thread.start()
    thread.join(_left(deadline))
    if thread.is_alive() or failed:
        reason = failed[0].strerror or str(failed[0]) if failed else "the network's name server does not answer"
        raise _trouble(endpoint, f"cannot be found: {reason}", "Check the name, or give the address in numbers.")
    four = [address for address in found if ":" not in address]
    if not four:
        raise _trouble(endpoint, "has an IPv6 address only, and llama.cpp's RPC speaks IPv4", "Give an IPv4 address.")
    return four[0], endpoint.port


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _trouble(endpoint: Endpoint, what: str, hint: str) -> AppError:
    return RemoteError(f"{endpoint} {what}.", f"{hint} Without --rpc the models are loaded on this machine alone.")
