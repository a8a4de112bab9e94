"""The cache folder, as the client has it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub.file_download import repo_folder_name

from app.models.hub.cache import blob_path, folder
from app.models.hub.choose import RemoteFile

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
    ],
)
def test_the_client_and_tandem_use_the_same_folder(given: dict[str, str], tmp_path: Path) -> None:
    bare = {name: value for name, value in os.environ.items() if not name.startswith(_HUBS)}
    code = "from app.models.hub.cache import folder; from huggingface_hub import constants; "
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


def test_repository_folders_are_those_of_the_client(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert folder() == tmp_path
    theirs = tmp_path / repo_folder_name(repo_id="owner/small-GGUF", repo_type="model")
    assert blob_path(RemoteFile("m.gguf", 1, "a" * 64, "owner/small-GGUF")).is_relative_to(theirs)
