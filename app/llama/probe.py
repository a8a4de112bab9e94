"""Looking at devices in a child process: a driver that crashes or hangs takes only that down."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from typing import Any

from app.core.child import Ending, ask_python
from app.core.errors import ModelLoadError
from app.llama.described import BuildInfo, Device
from app.llama.plain import plain

_PROBE_SECONDS = 60.0


def probe(ram_available: int | None = None, seconds: float = _PROBE_SECONDS) -> tuple[BuildInfo, tuple[Device, ...]]:
    """`app.llama.devices.build` and `devices`, told by the child.

    Args:
        ram_available: As for `devices`.
        seconds: After which nobody waits any more.

    Raises:
        ModelLoadError: llama.cpp cannot be loaded, or did not survive looking at its devices.
    """
    code = f"from app.llama.probe import _tell; _tell({ram_available!r})"
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
            f"llama.cpp ended {Ending(done.returncode).how} when asked for its devices: {plain(said) or 'no word'}.",
            "A graphics driver may be broken; update it, or install another build of llama-cpp-python.",
        )
    return _heard(lines[-1])


def _tell(ram_available: int | None) -> None:
    """The child's side of `probe`."""
    try:
        # Importing it loads llama.cpp, which is the child's to survive.
        from app.llama.devices import build, devices

        answer: dict[str, Any] = {
            "build": asdict(build()),
            "devices": [asdict(device) for device in devices(ram_available)],
        }
    except ModelLoadError as error:
        answer = {"message": error.message, "hint": error.hint}
    sys.stdout.write(json.dumps(answer) + "\n")


def _heard(line: str) -> tuple[BuildInfo, tuple[Device, ...]]:
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
