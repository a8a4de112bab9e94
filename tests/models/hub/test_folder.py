"""The cache folder, as the client has it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub.file_download import repo_folder_name

from app.models.hub.cache import folder, may_hold
from app.models.hub.environment import prepare_environment

_HUBS = ("HF_", "XDG_", "HUGGINGFACE_")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"XDG_CACHE_HOME": "/c"},
        {"HF_HOME": "/hf", "XDG_CACHE_HOME": "/c"},
        {"HF_HUB_CACHE": "~/x", "HF_HOME": "/hf"},
        {"HF_HUB_CACHE": "$HOME/y"},
        {"HF_HUB_CACHE": "/new", "HUGGINGFACE_HUB_CACHE": "/old"},
        {"HF_HOME": "models"},
        {"HF_HOME": "", "XDG_CACHE_HOME": "c"},
    ],
)
def test_the_client_and_tandem_use_the_same_folder(given: dict[str, str], tmp_path: Path) -> None:
    bare = {name: value for name, value in os.environ.items() if not name.startswith(_HUBS)}
    code = "import os; from app.models.hub.cache import folder; from huggingface_hub import constants; os.chdir('/'); "
    code += "print(constants.HF_HUB_CACHE, folder(), sep='\\n')"
    asked = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**bare, **given, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    theirs, ours = asked.stdout.split()
    assert theirs == ours
    assert Path(ours).is_absolute()


def test_empty_variables_are_unset_and_relative_ones_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    environ = {"HF_HOME": "models", "HF_HUB_CACHE": " ", "XDG_CACHE_HOME": "", "HUGGINGFACE_HUB_CACHE": "~/x"}
    prepare_environment(environ)
    assert environ["HF_HOME"] == str(tmp_path / "models")
    assert environ["HUGGINGFACE_HUB_CACHE"] == "~/x"
    assert not environ.keys() & {"HF_HUB_CACHE", "XDG_CACHE_HOME"}


def test_a_repository_has_the_folder_that_the_client_gives_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert folder() == tmp_path
    assert not may_hold("owner/small-GGUF")
    (tmp_path / repo_folder_name(repo_id="owner/small-GGUF", repo_type="model")).mkdir()
    assert may_hold("owner/small-GGUF")
