"""What a change is checked with says the same tomorrow, and does not say green of what it left out."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

_ROOT = Path(__file__).parents[1]
_SCRIPT = _ROOT / ".ci" / "run"


def _project() -> dict[str, list[Requirement]]:
    with (_ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    return {
        "run": [*map(Requirement, project["dependencies"])],
        "dev": [one for one in map(Requirement, project["optional-dependencies"]["dev"]) if not one.extras],
    }


def test_what_checks_and_what_draws_is_one_version() -> None:
    pinned = {one.name: [*one.specifier] for one in _project()["dev"]}

    assert pinned.keys() >= {"mypy", "numpy", "pytest", "ruff", "rich", "pygments", "markdown-it-py"}
    for name, (only, *more) in pinned.items():
        assert not more, name
        assert only.operator == "==", name


def test_what_the_checks_are_run_with_suits_the_program() -> None:
    pinned = {one.name: one.specifier for one in _project()["dev"]}
    for one in _project()["run"]:
        for tested in pinned.get(one.name, ()):
            assert one.specifier.contains(tested.version), one.name


def test_the_hubs_client_is_one_whose_private_parts_were_tested() -> None:
    (client,) = [one for one in _project()["run"] if one.name == "huggingface-hub"]
    tested = version("huggingface-hub")
    major, minor, *_ = map(int, tested.split("."))

    assert client.specifier.contains(tested)
    assert not client.specifier.contains(f"{major}.{minor + 1}.0")


@pytest.mark.skipif(sys.platform == "win32" or not _SCRIPT.exists(), reason="a script for shells, of the repository")
class TestWithoutTmux:
    """The script as it runs where there is none, with stand-ins for what would take minutes."""

    def _runs(self, folder: Path, *, root: bool = False, **environment: str) -> subprocess.CompletedProcess[str]:
        for name in ("bash", "dirname", "sed", "touch"):
            (folder / name).symlink_to(shutil.which(name) or name)
        commands = {
            "id": f"echo {0 if root else 1000}",
            # The lists of a fresh image are empty: nothing is found before they are fetched.
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
            timeout=60,
            check=False,
        )

    def test_it_fails_before_anything_is_installed(self, tmp_path: Path) -> None:
        done = self._runs(tmp_path)

        assert done.returncode == 1
        assert "tmux is missing" in done.stderr
        assert "the tests run" not in done.stderr

    def test_it_can_be_told_to_go_on(self, tmp_path: Path) -> None:
        assert "the tests run" in self._runs(tmp_path, TANDEM_CI_WITHOUT_TMUX="1").stderr

    def test_as_root_it_is_fetched_also_where_the_lists_are_empty(self, tmp_path: Path) -> None:
        self._runs(tmp_path, root=True)
        assert (tmp_path / "installed").exists()
