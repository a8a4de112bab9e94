"""What to do about a llama.cpp that cannot be loaded, by what the system says of it."""

from __future__ import annotations

from collections.abc import Collection

_REINSTALL = "Reinstall it: pip install --force-reinstall --no-cache-dir llama-cpp-python==0.3.36"
_RUNTIME = (
    "Install Microsoft's Visual C++ Redistributable, whose libraries it loads. If it is there, reinstall llama.cpp: "
    "pip install --force-reinstall --no-cache-dir llama-cpp-python==0.3.36"
)
_OTHER = "or take another build: tandem doctor"
_BUILDS = (
    # A build loads what it computes with wherever it computes.
    (("libvulkan",), "Install the Vulkan loader; on Debian and Ubuntu: apt install libvulkan1"),
    (("ggml-vulkan.dll",), f"It is built for Vulkan, which comes with the driver of a card: update that, {_OTHER}"),
    (("libcuda.so",), f"It is built for NVIDIA's cards: install NVIDIA's driver, {_OTHER}"),
    (
        ("libcudart", "libcublas", "ggml-cuda.dll"),
        f"It is built for CUDA: install the CUDA toolkit that it asks for, {_OTHER}",
    ),
    (
        ("libamdhip64", "libhipblas", "librocblas", "ggml-hip.dll"),
        f"It is built for ROCm: install the ROCm that it asks for, {_OTHER}",
    ),
    (
        ("incompatible architecture",),
        "This Python is made for another processor than llama.cpp: install one for this machine, and Tandem into it.",
    ),
)


def way_out(reason: str, libraries: Collection[str], elsewhere: str = "") -> str:
    """What to do.

    Args:
        reason: As the system put it. Windows does not name the library that it misses.
        libraries: Those that came with the package; a build has one for what it computes with.
        elsewhere: The folder in place of the package's own that LLAMA_CPP_LIB_PATH names; "" where it does not.
    """
    if elsewhere:
        return f"It was looked for in {elsewhere}, which LLAMA_CPP_LIB_PATH names: unset that, or correct it."
    is_windows = ".dll" in reason.lower()
    said = " ".join((reason, *libraries)) if is_windows else reason
    found = next((hint for signs, hint in _BUILDS if any(sign in said for sign in signs)), "")
    return found or (_RUNTIME if is_windows else _REINSTALL)
