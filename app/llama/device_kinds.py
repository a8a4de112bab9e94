"""What a device is that llama.cpp calls a card of its own, by its name and what its driver says of it."""

from __future__ import annotations

_SOFTWARE = ("llvmpipe", "lavapipe", "swiftshader", "microsoft basic render")
"""Words of drivers that compute on the processor what a card would; llama.cpp takes those devices for cards."""
_METAL = ("MTL", "Metal")
_IN_PROCESSORS = ("Apple", "Intel")
"""Makers of graphics that share the processor's memory. To llama.cpp all that Metal lists is a card of its own; it
tells as free what its own process has not taken, whatever others have."""


def is_software(description: str) -> bool:
    """Whether a device of this description is the processor, which plays a card."""
    return any(word in description.lower() for word in _SOFTWARE)


def shares_memory(name: str, description: str) -> bool:
    """Whether a device that llama.cpp may call a card of its own takes the processor's memory, by what it tells."""
    return name.startswith(_METAL) and description.startswith(_IN_PROCESSORS)
