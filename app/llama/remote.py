"""Devices of other machines, through llama.cpp's RPC backend."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

from app.core.errors import ModelLoadError
from app.llama import library
from app.llama.backends import call
from app.llama.devices import build

_RPC = b"RPC"
_ADD_SERVER = b"ggml_backend_rpc_add_server"


def can_use_rpc() -> bool:
    """Whether the installed llama.cpp has the backend."""
    return _RPC.decode() in build().backends


def add_servers(addresses: Sequence[str]) -> None:
    """Add all devices of these servers, in their order, as RPC0, RPC1 and so on; one that is there already stays.

    llama.cpp waits for a server without a limit, and ends the process where one does not answer or goes away later:
    ask it by `app.hardware.rpc` first, and call this in a process that may die.

    Args:
        addresses: Such as "192.168.1.20:50052".

    Raises:
        ModelLoadError: This llama.cpp has no RPC, or a server has no devices.
    """
    if not addresses:
        return
    library.start()
    # Asking a registry that is not there for a function would end the process.
    registry = call("ggml_backend_reg_by_name", _RPC)
    function = call("ggml_backend_reg_get_proc_address", registry, _ADD_SERVER) if registry else None
    if not function:
        raise ModelLoadError("The installed llama.cpp is built without RPC.", "Leave --rpc out.")
    add = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)(function)
    for address in addresses:
        server = add(address.encode("ascii"))
        if not server:
            raise ModelLoadError(f"{address} has no devices.", "Leave --rpc out.")
        call("ggml_backend_register", server)
