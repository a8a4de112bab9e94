"""Pinned versions of the checks, and the CI script without tmux."""

import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.hanging import HANGS_S

_ROOT = Path(__file__).parents[1]
_SCRIPT = _ROOT / ".ci" / "run"


def _project() -> dict[str, list[Requirement]]:
    with (_ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    return {
        "run": [*map(Requirement, project["dependencies"])],
        "dev": [one for one in map(Requirement, project["optional-dependencies"]["dev"]) if not one.extras],
    }


def test_tools_and_rendering_libraries_are_pinned() -> None:
    pinned = {one.name: [*one.specifier] for one in _project()["dev"]}

    assert pinned.keys() >= {"mypy", "numpy", "pytest", "ruff", "rich", "pygments", "markdown-it-py"}
    for name, (only, *more) in pinned.items():
        assert not more, name
        assert only.operator == "==", name


def test_pinned_versions_meet_the_requirements_of_the_program() -> None:
    pinned = {one.name: one.specifier for one in _project()["dev"]}
    for one in _project()["run"]:
        for tested in pinned.get(one.name, ()):
            assert one.specifier.contains(tested.version), one.name


def test_the_hub_client_is_limited_to_the_tested_minor_version() -> None:
    (client,) = [one for one in _project()["run"] if one.name == "huggingface-hub"]
    tested = version("huggingface-hub")
    major, minor, *_ = map(int, tested.split("."))

    assert client.specifier.contains(tested)
    assert not client.specifier.contains(f"{major}.{minor + 1}.0")


@pytest.mark.skipif(sys.platform == "win32" or not _SCRIPT.exists(), reason="a script for shells, of the repository")
class TestWithoutTmux:
    """The CI script on a machine without tmux, with fakes for slow commands."""

    def _runs(self, folder: Path, *, root: bool = False, **environment: str) -> subprocess.CompletedProcess[str]:
        for name in ("bash", "dirname", "sed", "touch"):
            (folder / name).symlink_to(shutil.which(name) or name)
        commands = {
            "id": f"echo {0 if root else 1000}",
            # The package lists of a fresh image are empty until `apt-get update`.
            "apt-get": f"""[ "$1" != update ] || touch {folder}/lists
                [ "$1" != install ] || [ -e {folder}/lists ] || exit 100
                [ "$1" != install ] || touch {folder}/installed""",
            "python3": "echo the tests run >&2; exit 9",
        }
        for name, does in commands.items():
            (folder / name).write_text(f"#!{folder}/bash\n{does}\n")
            (folder / name).chmod(0o755)
        return subprocess.run(
            [str(folder / "bash"), str(_SCRIPT)],
            env={"PATH": str(folder), **environment},
            capture_output=True,
            text=True,
            timeout=HANGS_S,
            check=False,
        )

    def test_the_script_fails_before_any_installation(self, tmp_path: Path) -> None:
        done = self._runs(tmp_path)

        assert done.returncode == 1
        assert "tmux is missing" in done.stderr
        assert "the tests run" not in done.stderr

    def test_a_variable_allows_to_continue_without_tmux(self, tmp_path: Path) -> None:
        assert "the tests run" in self._runs(tmp_path, TANDEM_CI_WITHOUT_TMUX="1").stderr

    def test_as_root_tmux_is_installed_also_with_empty_package_lists(self, tmp_path: Path) -> None:
        self._runs(tmp_path, root=True)
        assert (tmp_path / "installed").exists()
