"""A user who installs Tandem from an index of stub packages: uv, pipx, pip and separate environments."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.hardware.build_choices import known_builds
from tests.hanging import HANGS_S
from tests.install.package_index import make_packages, served_packages


def tool(name: str) -> str | None:
    """Return the path of a program of the development environment, or of the system."""
    return shutil.which(name, path=os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", ""))))


class User:
    """Runs commands in a shell, with packages from the local index only."""

    def __init__(self, home: Path, root: Path, address: str) -> None:
        self.home, self.clone, self.address = home, root / "my clone", address
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PIP", "UV_", "XDG_", "PYTHON"))
        }
        folders = [str(Path(path).parent) for name in ("uv", "pipx") if (path := tool(name))]
        self._environment = {
            **kept,
            "HOME": str(home),
            "PATH": os.pathsep.join([str(home / ".local/bin"), *folders, kept.get("PATH", "")]),
            "UV_DEFAULT_INDEX": f"{address}/pypi",
            "UV_NO_CONFIG": "1",
            "UV_PYTHON": self.python,
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_HTTP_RETRIES": "0",
            "PIPX_DEFAULT_PYTHON": self.python,
            "PIP_CONFIG_FILE": os.devnull,
            "PIP_INDEX_URL": f"{address}/pypi",
            "PIP_RETRIES": "0",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        }

    @property
    def python(self) -> str:
        """The interpreter of the development environment."""
        return str(Path(getattr(sys, "_base_executable", sys.executable)).resolve())

    def run(self, command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command in the folder of the clone; addresses of the real indexes lead to the local one."""
        local = command.replace(known_builds()["index"], f"{self.address}/whl/")
        return subprocess.run(
            local,
            shell=True,
            cwd=self.clone,
            env={**self._environment, **environment},
            capture_output=True,
            text=True,
            timeout=HANGS_S,
            check=False,
        )

    def out(self, command: str, **environment: str) -> str:
        """Run a command that must succeed; return what it prints."""
        done = self.run(command, **environment)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    root = tmp_path_factory.mktemp("packages")
    make_packages(root)
    with served_packages(root) as address:
        yield root, address


@pytest.fixture
def user(packages: tuple[Path, str], tmp_path: Path) -> User:
    return User(tmp_path, *packages)
