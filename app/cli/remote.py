"""The servers of --rpc, queried before llama.cpp connects."""

from __future__ import annotations

from collections.abc import Sequence

from app.cli.installer import installer
from app.core.errors import UsageError
from app.hardware.builds import rpc_command
from app.hardware.rpc import RpcServer, ask, parse_endpoint
from app.hardware.system import RealSystem


def reach(endpoints: Sequence[str]) -> tuple[RpcServer, ...]:
    """Return every server with its devices.

    Raises:
        UsageError: The installed llama.cpp has no RPC.
        RemoteError: A server cannot be used.
    """
    from app.llama.devices import build, can_use_rpc

    if not can_use_rpc():
        system = RealSystem().name
        raise UsageError(
            "This llama.cpp is built without RPC and cannot use --rpc.",
            f"Rebuild it (needs a C++ compiler, takes minutes): "
            f"{rpc_command(build().backends, system, installer(system))}",
        )
    return tuple(ask(parse_endpoint(endpoint)) for endpoint in endpoints)
