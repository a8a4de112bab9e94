"""Servers of remote devices: queried in seconds, whatever they are; fakes of every kind on loopback."""

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from app.cli.command_line import parse_args
from app.cli.options import read_pair, read_process
from app.core.errors import RemoteError, UsageError
from app.hardware.builds import rpc_command
from app.hardware.devices import Device
from app.hardware.installation import Installation
from app.hardware.rpc import RpcServer, parse_endpoint, query_server
from app.llama.fitting.machine_room import with_remote
from app.settings.placement import CPU
from app.ui.models.opener import Opener
from app.worker.known_pairs import KnownPair, ProcessOptions
from app.worker.loading import query_servers
from app.worker.pair_loader import PairLoader
from tests.cli.doctor_facts import fake_build
from tests.settings.in_memory import in_memory

GB = 10**9
HELLO = struct.pack("<Q", 28) + bytes([7, 0, 3, 0]) + bytes(24)
Behavior = Callable[[socket.socket], Any]


def answering(version: tuple[int, int, int] = (7, 0, 3), devices: int = 2) -> Behavior:
    """Serve like ggml: greet, count the devices, report their memory."""

    def serve(connection: socket.socket) -> None:
        while head := connection.recv(9, socket.MSG_WAITALL):
            command, size = struct.unpack("<BQ", head)
            argument = connection.recv(size, socket.MSG_WAITALL) if size else b""
            match command, size:
                case 14, 24:
                    answer = bytes([*version, 0]) + bytes(24)
                case 15, 0:
                    answer = struct.pack("<I", devices)
                case 11, 4:
                    (index,) = struct.unpack("<I", argument)
                    answer = struct.pack("<QQ", (index + 1) * GB, 8 * GB)
                case _:
                    return
            connection.sendall(struct.pack("<Q", len(answer)) + answer)

    return serve


@pytest.fixture
def listen() -> Iterator[Callable[[Behavior], str]]:
    """Return a function that starts a server with a behavior and returns its endpoint."""
    listeners: list[socket.socket] = []

    def start(behavior: Behavior) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def serve() -> None:
            try:
                connection, _ = listener.accept()
                with connection:
                    behavior(connection)
            except OSError:
                return

        threading.Thread(target=serve, daemon=True).start()
        return f"127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for listener in listeners:
        listener.close()


def silent(connection: socket.socket) -> None:
    """Send nothing until the client has gone."""
    while connection.recv(64):
        pass


def says(*parts: bytes) -> Behavior:
    """Read the greeting, send these bytes, and close."""

    def serve(connection: socket.socket) -> None:
        connection.recv(33, socket.MSG_WAITALL)
        connection.sendall(b"".join(parts))

    return serve


def test_a_server_shows_its_devices_and_its_name_becomes_an_address(listen: Callable[[Behavior], str]) -> None:
    address = listen(answering())

    assert query_server(address.replace("127.0.0.1", "localhost")) == RpcServer(address, (GB, 2 * GB))


@pytest.mark.parametrize(
    ("behavior", "told"),
    [
        (answering((6, 0, 0)), r"speaks version 6\.0\.0 of the protocol, this llama\.cpp 7\.0"),
        (answering((7, 1, 0)), r"speaks version 7\.1\.0"),
        (answering(devices=0), "claims 0 devices"),
        (answering(devices=4_000_000_000), "claims 4000000000 devices"),
        (says(), "closed the connection"),
        (says(HELLO[:20]), "closed the connection"),
        (says(b"HTTP/1.0 400 Bad Request\r\n\r\n"), "does not answer like a ggml-rpc-server"),
        (says(struct.pack("<Q", 1 << 62)), "does not answer like a ggml-rpc-server"),
        (says(HELLO, b"\xff" * 64), "does not answer like a ggml-rpc-server"),
    ],
)
def test_another_kind_of_server_is_an_error(listen: Callable[[Behavior], str], behavior: Behavior, told: str) -> None:
    endpoint = listen(behavior)

    with pytest.raises(RemoteError, match=told) as caught:
        query_server(endpoint)

    assert caught.value.message.startswith(f"{endpoint} ")
    assert caught.value.hint.endswith("Without ⟨rpc⟩ the models are loaded on this machine alone.")


def test_a_silent_server_is_an_error(listen: Callable[[Behavior], str]) -> None:
    with pytest.raises(RemoteError, match=r"does not answer within 0\.2 seconds") as caught:
        query_server(listen(silent), 0.2)
    assert "one program at a time" in caught.value.hint


def test_a_server_that_cannot_be_reached_is_an_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(RemoteError, match="cannot be reached: Connection refused"):
        query_server(f"127.0.0.1:{port}")
    with pytest.raises(RemoteError, match=r"no-such-host\.invalid:5 cannot be reached: "):
        query_server("no-such-host.invalid:5")


@pytest.mark.parametrize("text", ["192.168.1.20:50052", " workstation:1 ", "gpu_box.local.:65535"])
def test_an_endpoint_is_a_host_and_a_port(text: str) -> None:
    assert parse_endpoint(text) == text.strip()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "host",
        "host:",
        ":50052",
        "host:0",
        "host:65536",
        "[::1]:5",
        "a b:5",
        "-host:5",
        "http://host:5",
        "\x1b[31m:5",
        "host:\u0665",
    ],
)
def test_an_invalid_endpoint_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="it must be a host and a port") as caught:
        parse_endpoint(text)
    assert "\x1b" not in caught.value.message


# The flags


def process(*flags: str) -> ProcessOptions:
    return read_process(parse_args([*flags]).given)


def test_the_flag_is_repeatable_and_implies_a_process_of_its_own() -> None:
    assert process("run", "--rpc", "a:5", "--rpc", "b:6", "hi") == ProcessOptions(True, ("a:5", "b:6"))
    assert process("--isolate") == ProcessOptions(True)
    assert process() == ProcessOptions()


def test_a_server_that_is_named_twice() -> None:
    with pytest.raises(UsageError, match="names a server twice"):
        process("--rpc", "a:5", "--rpc", " a:5")


def test_the_flag_reaches_a_pair_that_is_chosen_later() -> None:
    first = read_pair(parse_args(["--rpc", "a:5"]).given)
    opener = Opener(in_memory(), first, first.process)
    loader = opener.open(KnownPair(replace(first.pair, name="later"), None)).loader

    assert isinstance(loader, PairLoader)
    assert loader.process.rpc == ("a:5",)


@pytest.mark.parametrize("command", [["tune"], ["compare", "x"]])
def test_commands_that_run_in_this_process_do_not_take_it(command: list[str]) -> None:
    with pytest.raises(UsageError, match="No such option '--rpc'"):
        parse_args([*command, "--rpc", "a:5"])


def test_a_build_without_rpc_is_reported_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.llama.devices.build", fake_build)
    with pytest.raises(UsageError, match="built without RPC and cannot use ⟨rpc⟩") as caught:
        query_servers(["127.0.0.1:1"])
    assert "-DGGML_RPC=on" in caught.value.hint
    assert "pip install" in caught.value.hint


@pytest.mark.parametrize(
    ("backends", "flags"),
    [
        (("CPU",), "-DGGML_RPC=on"),
        (("CUDA", "CPU"), "-DGGML_CUDA=on -DGGML_RPC=on"),
        (("MTL", "BLAS", "CPU"), "-DGGML_METAL=on -DGGML_RPC=on"),
    ],
)
def test_a_new_build_keeps_what_the_old_one_has(backends: tuple[str, ...], flags: str) -> None:
    command, on_windows = (rpc_command(backends, Installation("pip", "py", name)) for name in ("linux", "windows"))

    assert command.startswith(f'CMAKE_ARGS="{flags}" py -m pip install ')
    assert on_windows.startswith(f'$env:CMAKE_ARGS = "{flags}"; py -m pip install ')


# The plan

HERE = Device(CPU, "cpu", "CPU", 16 * GB)
SERVERS = (RpcServer("1.2.3.4:5", (GB, GB)), RpcServer("1.2.3.4:6", (GB,)))


def test_remote_devices_are_counted_through() -> None:
    remote = tuple(Device(f"RPC{i}", "gpu", "RPC", GB) for i in range(3))

    assert with_remote((HERE,), SERVERS) == (*remote, HERE)
    assert with_remote((HERE,), ()) == (HERE,)


def test_remote_devices_come_after_local_gpus() -> None:
    card, twice = Device("CUDA0", "gpu", "CUDA", 24 * GB), Device("Vulkan0", "gpu", "Vulkan", 20 * GB)
    inside = Device("Vulkan0", "igpu", "Vulkan", 24 * GB)

    assert with_remote((card, twice, HERE), SERVERS[1:]) == (card, twice, Device("RPC0", "gpu", "CUDA", GB), HERE)
    assert with_remote((inside, HERE), SERVERS[1:])[1].backend == "RPC"
