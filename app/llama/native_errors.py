"""Errors from llama.cpp's log and codes."""

from __future__ import annotations

import re

from app.core.errors import ComputeError, DecodeError, ModelLoadError, NoMemoryError
from app.core.printable import one_line
from app.llama import library
from app.settings.placement import CPU

NO_SLOT, ABORTED, _NO_MEMORY, FAILED = 1, 2, -2, -3
"""Codes of `llama_decode`."""
_MAX_LOG_LINES = 8
_FAILURE_SIGNS = re.compile(
    r"(failed|unable) to allocate|cudaMalloc failed|(out of|insufficient) memory|OutOf(Device|Host)Memory|bad_alloc",
    re.IGNORECASE,
)
# The name of a buffer type begins with its device's: "CUDA0", "MTL0_Private"; types in RAM have other names.
_FAILED_BUFFER_LINE = re.compile(r"(?:failed|unable) to allocate (\w+) buffer")
_NO_DEVICE = ("output", "compute", "host", "graph", "metal")
_OF_DEVICE = re.compile("_(Split|Private|Mapped)$")
_RAM_BUFFER_NAME = re.compile(r"CPU|.*_Host$", re.IGNORECASE)


def scarce_device(log: str) -> str | None:
    """Return the device that ran out of memory: a name, `CPU`, or "" if unknown; None for another reason."""
    if not _FAILURE_SIGNS.search(log):
        return None
    names = [name for name in _FAILED_BUFFER_LINE.findall(log) if name.lower() not in _NO_DEVICE]
    if not names:
        return ""
    return CPU if _RAM_BUFFER_NAME.match(names[0]) else _OF_DEVICE.sub("", names[0])


def no_memory(device: str | None, what: str) -> NoMemoryError:
    """Return the error for a model or context that did not fit into a device, if that is known."""
    where = "There is" if device in (None, CPU) else f"On {device} there is"
    kind = "RAM" if device == CPU else "memory"
    return NoMemoryError(
        f"{where} not enough {kind} for {what}; another program may have taken it meanwhile.",
        "Close other programs, or use a shorter context (⟨model.ctx⟩) or another device (⟨model.device⟩).",
        device,
    )


def load_error(what: str, failure: str, fix: str) -> ModelLoadError:
    """Return why llama.cpp could not load a model or create a context; `what` names it in a memory error."""
    if (device := scarce_device(library.last_errors(_MAX_LOG_LINES))) is not None:
        return no_memory(device or None, what)
    return ModelLoadError(f"{failure}: {one_line(library.last_errors()) or 'no reason was given'}.", fix)


def decode_error(code: int, model: str, n_ctx: int) -> DecodeError:
    """Return the error of a batch that llama.cpp refused or failed to compute."""
    if code == NO_SLOT:
        fix = "Start a new conversation, or use a longer context (⟨model.ctx⟩)."
        return DecodeError(f"The context of {n_ctx:,} tokens is full.", fix)
    # Metal logs first that a batch failed, then why.
    log_text = library.last_errors(2 if code == FAILED else 1)
    kind = ComputeError if code == FAILED else DecodeError
    if code == _NO_MEMORY or scarce_device(f"{log_text} {library.last_errors(_MAX_LOG_LINES)}") is not None:
        return kind(
            f"Memory ran out while {model} computed a batch.",
            "Close other programs, or use a shorter context (⟨model.ctx⟩) or a smaller KV cache "
            "(⟨model.kv_type=q8_0⟩).",
        )
    return kind(
        f"llama.cpp could not evaluate a batch: {one_line(log_text) or f'code {code}'}.",
        "Try again; if it happens again, report it.",
    )
