"""List devices and measure throughput in a child process, which a driver may crash or hang."""

from __future__ import annotations

import json
import math
import subprocess
from dataclasses import dataclass
from typing import Any, Literal

from app.core.child import Ending, ask_python
from app.core.errors import ModelLoadError
from app.core.printable import one_line

_PROBE_SECONDS = 60.0


Kind = Literal["cpu", "gpu", "igpu", "accel", "software"]


@dataclass(frozen=True, slots=True)
class Device:
    """Device that can hold and compute layers.

    Attributes:
        name: llama.cpp's, such as "CUDA0".
        description: Such as "NVIDIA GeForce RTX 4090".
        kind: "gpu" has memory of its own, "igpu" shares the processor's, "accel" helps the processor, and "software"
            is the processor, which plays a card.
        backend: Such as "CUDA".
        total_bytes: Its memory; 0 where the library does not know.
        free_bytes: Of that, now; for the processor what can be had without swapping.
    """

    name: str
    description: str
    kind: Kind
    backend: str
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class BuildInfo:
    """The installed build.

    Attributes:
        binding: Version of llama-cpp-python.
        version: Version of llama.cpp; empty if it does not tell.
        commit: Commit that it was built from; empty if it does not tell.
        ggml: Version of ggml; empty if it does not tell.
        backends: Registered backends, in llama.cpp's order, those without a device too.
        supports_offload: Whether layers can go to a GPU.
        features: What the backends were compiled for, such as "AVX2".
        errors: What llama.cpp logged as errors while it looked for devices.
    """

    binding: str
    version: str
    commit: str
    ggml: str
    backends: tuple[str, ...]
    supports_offload: bool
    features: tuple[str, ...]
    errors: str


def probe(ram_available: int | None = None, seconds: float = _PROBE_SECONDS) -> tuple[BuildInfo, tuple[Device, ...]]:
    """Return `app.llama.devices.build` and `devices` of a child process.

    Args:
        ram_available: As for `devices`.
        seconds: Time limit.

    Raises:
        ModelLoadError: llama.cpp cannot be loaded, or did not survive looking at its devices.
    """
    code = f"from app.llama.devices import print_devices; print_devices({ram_available!r})"
    try:
        done = ask_python(code, seconds)
    except subprocess.TimeoutExpired:
        raise ModelLoadError(
            f"llama.cpp did not list its devices within {seconds:g} seconds.", "A graphics driver may hang; restart."
        ) from None
    except OSError as error:
        raise ModelLoadError(f"A second Python cannot be started: {error.strerror}.") from error
    lines = done.stdout.decode("utf-8", errors="replace").splitlines()
    if done.returncode != 0 or not lines:
        said = done.stderr.decode("utf-8", errors="replace").strip().rpartition("\n")[2]
        raise ModelLoadError(
            f"llama.cpp ended {Ending(done.returncode).how} when asked for its devices: {one_line(said) or 'no word'}.",
            "A graphics driver may be broken; update it, or install another build of llama-cpp-python.",
        )
    return _parse_answer(lines[-1])


def _parse_answer(line: str) -> tuple[BuildInfo, tuple[Device, ...]]:
    try:
        answer = json.loads(line)
        if "message" not in answer:
            about: dict[str, Any] = answer["build"]
            for name in ("backends", "features"):
                about[name] = tuple(about[name])
            return BuildInfo(**about), tuple(Device(**device) for device in answer["devices"])
        message, hint = str(answer["message"]), str(answer["hint"])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise ModelLoadError("llama.cpp gave no answer that can be read when asked for its devices.") from error
    raise ModelLoadError(message, hint)


_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Throughput:
    """Measured speed of computing with weights.

    Attributes:
        bytes_per_s: Bytes of 4-bit weights per second, the best of many times.
        alone: Whether nothing else took the processor meanwhile; what is not alone may be faster than it seems.
    """

    bytes_per_s: float
    alone: bool = True


def probe_throughput(n_threads: int) -> Throughput | None:
    """The throughput of the device that layers go to first, measured in a child process.

    Args:
        n_threads: For the processor, where there is nothing faster.

    Returns:
        None where it cannot be measured: another release of ggml, no memory, a driver that crashes or hangs.
    """
    code = f"from app.llama.throughput import _tell; _tell({n_threads!r})"
    try:
        done = ask_python(code, _SECONDS)
        found = json.loads(done.stdout.decode("utf-8", errors="replace").strip().rpartition("\n")[2] or "null")
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    if done.returncode != 0 or not isinstance(found, list) or len(found) != 2:
        return None
    bytes_per_s, alone = found
    good = isinstance(bytes_per_s, float) and math.isfinite(bytes_per_s) and bytes_per_s > 0
    return Throughput(bytes_per_s, alone is True) if good else None
