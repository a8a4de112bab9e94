"""Query a ggml-rpc-server with a time limit, before llama.cpp connects to it.

llama.cpp waits forever for a silent server, and aborts if a server is missing or speaks another protocol. The protocol
is that of ggml-rpc.cpp: a command is one byte, the length of its argument, and the argument; an answer is its length
and its content; all numbers are little-endian.
"""

from __future__ import annotations

import re
import socket
import struct
from dataclasses import dataclass
from functools import partial
from typing import BinaryIO

from app.core.errors import RemoteError, UsageError
from app.core.printable import printable

PROTOCOL = (7, 0)
"""RPC_PROTO_MAJOR_VERSION and RPC_PROTO_MINOR_VERSION of this llama.cpp; a server may have a lower minor version."""
_TIMEOUT_S = 4.0
_MAX_DEVICES = 16
"""GGML_RPC_MAX_SERVERS, and the largest number of devices for one model."""
_HELLO_COMMAND, _DEVICE_COUNT_COMMAND, _DEVICE_MEMORY_COMMAND = 14, 15, 11
_CAPABILITY_BYTES = 24


@dataclass(frozen=True, slots=True)
class RpcServer:
    """An RPC server that has answered.

    Attributes:
        address: IPv4 address and port, so that llama.cpp needs no second name lookup.
        free_bytes: Free memory of each device, in the server's order.
    """

    address: str
    free_bytes: tuple[int, ...]


def parse_endpoint(text: str) -> str:
    """Return a host name or IPv4 address and a port in llama.cpp's form.

    Raises:
        UsageError: The text is neither.
    """
    found = re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,252}:([0-9]{1,5})", text.strip())
    if found is None or not 0 < int(found[1]) < 1 << 16:
        raise UsageError(
            f'⟨rpc⟩ is "{printable(text)}"; it must be a host and a port.',
            "For example: ⟨rpc⟩ 192.168.1.20:50052 or ⟨rpc⟩ workstation:50052",
        )
    return found[0]


def query_server(endpoint: str, seconds: float = _TIMEOUT_S) -> RpcServer:
    """Ask a server for its version and the memory of its devices.

    Raises:
        RemoteError: The server cannot be reached, does not answer in time, or speaks another protocol.
    """
    try:
        # llama.cpp's RPC has no IPv6.
        name, _, port = endpoint.partition(":")
        host = socket.gethostbyname(name)
        address = host, int(port)
        with socket.create_connection(address, seconds) as connection, connection.makefile("rb") as answers:
            call = partial(_call, endpoint, connection, answers)
            _check_version(endpoint, call(_HELLO_COMMAND, bytes(_CAPABILITY_BYTES), 4 + _CAPABILITY_BYTES))
            (count,) = struct.unpack("<I", call(_DEVICE_COUNT_COMMAND, b"", 4))
            if not 0 < count <= _MAX_DEVICES:
                raise _error(endpoint, f"claims {count} devices")
            memory = (call(_DEVICE_MEMORY_COMMAND, struct.pack("<I", index), 16) for index in range(count))
            # Free and total bytes
            return RpcServer(f"{host}:{port}", tuple(struct.unpack("<QQ", answer)[0] for answer in memory))
    except TimeoutError:
        hint = "A server serves one program at a time: another one may be using it."
        raise _error(endpoint, f"does not answer within {seconds:g} seconds", hint) from None
    except ConnectionError as error:
        raise _error(endpoint, f"cannot be reached: {error.strerror or error}") from None
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise _error(endpoint, f"cannot be reached: {reason or error}", "Check the name and the network.") from None


def _check_version(endpoint: str, answer: bytes) -> None:
    major, minor, patch = answer[:3]
    if major != PROTOCOL[0] or minor > PROTOCOL[1]:
        raise _error(
            endpoint,
            f"speaks version {major}.{minor}.{patch} of the protocol, this llama.cpp {PROTOCOL[0]}.{PROTOCOL[1]}",
            "Run the ggml-rpc-server of the same llama.cpp on both machines.",
        )


def _call(
    endpoint: str, connection: socket.socket, answers: BinaryIO, command: int, argument: bytes, size: int
) -> bytes:
    connection.sendall(struct.pack("<BQ", command, len(argument)) + argument)
    if _received(endpoint, answers, 8) != struct.pack("<Q", size):
        raise _error(endpoint, "does not answer like a ggml-rpc-server of this llama.cpp")
    return _received(endpoint, answers, size)


def _received(endpoint: str, answers: BinaryIO, size: int) -> bytes:
    data = answers.read(size)
    if len(data) < size:
        raise _error(endpoint, "closed the connection")
    return data


def _error(endpoint: str, what: str, hint: str = "Is a ggml-rpc-server running there?") -> RemoteError:
    return RemoteError(f"{endpoint} {what}.", f"{hint} Without ⟨rpc⟩ the models are loaded on this machine alone.")
