"""Why a build of llama.cpp does not load, from messages of the loaders of Linux, macOS and Windows."""

import pytest

from app.core.program import ExitStatus
from app.hardware.builds import loader_failure, start_failure

OPEN = "cannot open shared object file: No such file or directory"


@pytest.mark.parametrize(
    ("text", "reason", "fix", "avoid"),
    [
        (f"libcuda.so.1: {OPEN}", "libcuda.so.1 is missing, which belongs to NVIDIA's driver", "driver", ("cuda",)),
        (f"libvulkan.so.1: {OPEN}", "libvulkan.so.1 is missing", "apt install libvulkan1", ("vulkan",)),
        (f"libamdhip64.so.7: {OPEN}", "belongs to ROCm", "ROCm 7.2", ("rocm",)),
        (f"librocblas.so.5: {OPEN}", "belongs to ROCm", "ROCm 7.2", ("rocm",)),
        (f"libcublas.so.13: {OPEN}", "belongs to the CUDA 13 toolkit", "CUDA 13", ("cuda",)),
        (f"libcudart.so.11.0: {OPEN}", "libcudart.so.11.0 is missing", "CUDA 11", ("cuda",)),
        (f"libgomp.so.1: {OPEN}", "the compiler's runtime", "apt install libgomp1", ()),
        (r"Could not find module 'C:\x\llama.dll' (or one of", "Visual C++", "winget install", ("cuda",)),
        ("[WinError 126] The specified module", "Windows does not find", "winget install", ("cuda",)),
    ],
)
def test_a_missing_library_is_named_with_its_owner(text: str, reason: str, fix: str, avoid: tuple[str, ...]) -> None:
    failure = loader_failure(f"Failed to load shared library '/v/lib/libllama.so': {text}", ("cuda",))

    assert reason in failure.reason
    assert failure.fix is not None
    assert fix in failure.fix
    assert (failure.avoid, failure.can_compile) == (avoid, False)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("/lib/libc.so.6: version `GLIBC_2.35' not found (required by /v/libggml.so)", "it needs C library 2.35"),
        ("/lib/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by x)", "it needs C++ library 3.4.32"),
        ("/v/libllama.so: wrong ELF class: ELFCLASS32", "another kind of machine"),
        ("mach-o file, but is an incompatible architecture (have 'x86_64', need 'arm64')", "another kind of machine"),
        ("[WinError 193] %1 is not a valid Win32 application", "another kind of machine"),
        ("Shared library with base name 'llama' not found", "Shared library with base name 'llama' not found"),
        ("No module named 'llama_cpp'", "llama.cpp cannot run here: it is not installed."),
    ],
)
def test_only_another_build_helps(text: str, reason: str) -> None:
    failure = loader_failure(text, ("cuda",))

    assert reason in failure.message
    assert (failure.fix, failure.can_compile) == (None, True)


@pytest.mark.parametrize("code", [-4, 0xC000001D])
def test_an_illegal_instruction_is_a_cpu_without_it(code: int) -> None:
    failure = start_failure(ExitStatus(code, "Illegal instruction"), 90, ("cuda",))

    assert failure.message == "llama.cpp cannot run here: it uses instructions that this CPU does not have."
    assert (failure.avoid, failure.can_compile) == (("cuda",), True)


def test_a_failed_or_slow_start_is_described() -> None:
    assert "crashed: ggml: no device" in start_failure(ExitStatus(-6, "ggml: no device"), 90, ("cuda",)).reason
    assert "took longer than 90 seconds" in start_failure(None, 90, ("cuda",)).reason
    # Only a build for GPUs can hang in a driver.
    assert "driver" in (start_failure(None, 90, ("vulkan",)).fix or "")
    assert start_failure(None, 90, ("cpu",)).fix is None
