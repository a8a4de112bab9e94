"""Compare the estimated memory of each device with what llama.cpp allocates; run in a process of its own.

`python -m tests.llama.device_memory FILE`, with a JSON list of lists of flags on standard input, prints one JSON object
per list: estimated and allocated bytes by device.
"""

import ctypes
import json
import re
import sys
from collections import Counter
from pathlib import Path

from app.cli.command_line import parse_args
from app.cli.options import read_pair
from app.hardware.fit import MAIN
from app.llama import library
from app.llama.checks import open_model_file
from app.llama.context import Context
from app.llama.fitting.fit_pair import fitting_of
from app.llama.fitting.machine_room import memory_rooms
from app.llama.library import native
from app.llama.model import Model
from app.worker.loading import asked_here

_ALLOCATED = re.compile(r"(\S+) (?:model|KV|RS|compute) buffer size =\s*([\d.]+) MiB")
_MIB = 1 << 20


def compare(path: Path, flags: list[str]) -> dict[str, tuple[int, int]]:
    """Return the estimated and the allocated bytes of each device but RAM, where mapped files count in full."""
    rooms = memory_rooms()
    asked = asked_here(read_pair(parse_args(["--target", str(path), "--no-draft", *flags]).given), lambda: rooms)
    found = fitting_of(asked, rooms)
    lines: list[bytes] = []
    callback = native.llama_log_callback(lambda level, text, _: lines.append(text))
    library.start()
    native.llama_log_set(callback, ctypes.c_void_p(0))
    model = Model(open_model_file(path), found.params.model)
    Context(model, found.params.target_context(found.target.n_ctx)).close()
    model.close()
    allocated: Counter[str] = Counter()
    for name, size in _ALLOCATED.findall(b"".join(lines).decode(errors="replace")):
        allocated[name] += round(float(size) * _MIB)
    loads = (load for load in found.plan.loads if load.device != MAIN)
    return {load.device: (load.need_bytes, allocated[load.device]) for load in loads}


if __name__ == "__main__":
    for placement in json.load(sys.stdin):
        print(json.dumps(compare(Path(sys.argv[1]), placement)), flush=True)  # noqa: T201
