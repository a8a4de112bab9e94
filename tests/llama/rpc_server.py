"""A ggml-rpc-server without its binary: the CPU of this machine, served by llama.cpp's own function.

Run it in a separate process, with a build of llama.cpp that has RPC: `python -m tests.llama.rpc_server PORT`.
"""

import ctypes
import sys

from app.llama import library
from app.llama.devices import library_call as call


def serve(port: int) -> None:
    library.start()
    start = call(
        "ggml_backend_reg_get_proc_address",
        call("ggml_backend_reg_by_name", b"RPC"),
        b"ggml_backend_rpc_start_server",
    )
    devices = (ctypes.c_void_p * 1)(call("ggml_backend_dev_get", int(call("ggml_backend_dev_count")) - 1))
    prototype = ctypes.CFUNCTYPE(
        None, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_void_p
    )
    prototype(start)(f"127.0.0.1:{port}".encode(), None, 1, 1, ctypes.addressof(devices))


if __name__ == "__main__":
    serve(int(sys.argv[1]))
