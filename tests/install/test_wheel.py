"""Build the wheel as a release does, install it without its dependencies, and run it."""

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.metadata import Metadata

from app import __version__
from tests.hanging import HANGS_S

_ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=_ROOT, check=True, capture_output=True, timeout=HANGS_S)
    (file,) = folder.iterdir()
    return file


def test_the_metadata_are_valid_and_complete(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        text = archive.read(name).decode("utf-8")
    metadata = Metadata.from_email(text)

    assert (metadata.name, str(metadata.version)) == ("tandem-chat", __version__)
    assert metadata.provides_extra is not None
    assert {"demo", "cuda", "cuda13"} <= {*metadata.provides_extra}
    assert metadata.description_content_type == "text/markdown"
    assert (metadata.description or "").startswith("# Tandem")


def test_every_data_file_of_the_program_is_inside_and_no_test(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = {*archive.namelist()}
    files = [file for file in (_ROOT / "app").rglob("*") if file.is_file() and file.suffix not in (".py", ".pyc")]
    data = {file.relative_to(_ROOT).as_posix() for file in files}

    assert {*data, "app/models.toml", "app/hardware/libraries.toml"} <= inside
    assert {name.split("/")[0] for name in inside} == {"app", f"tandem_chat-{__version__}.dist-info"}


def test_the_installed_wheel_runs(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", symlinks=os.name != "nt")
    scripts = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    python = [sys.executable, "-m", "pip", "--python", str(scripts / "python"), "install", "--no-deps", "--no-index"]
    subprocess.run([*python, str(wheel)], check=True, capture_output=True, timeout=HANGS_S)
    # The dependencies are those of this environment, and the package is the installed one.
    environment = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}

    def run(*arguments: str) -> str:
        return subprocess.run(
            [str(scripts / "tandem"), *arguments],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=HANGS_S,
            check=True,
        ).stdout

    assert "setup" in run("--help")
    # The catalog is a file of the wheel.
    assert "demo" in run("pairs", "list")
