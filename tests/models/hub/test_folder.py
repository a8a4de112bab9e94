"""The hub's folder, as its client has it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from huggingface_hub.file_download import repo_folder_name

from app.models.hub.cache import folder, may_hold, unfinished
from app.models.hub.environment import take_folders

_HUBS = ("HF_", "XDG_", "HUGGINGFACE_")


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"XDG_CACHE_HOME": "/c"},
        {"HF_HOME": "/hf", "XDG_CACHE_HOME": "/c"},
        {"HF_HUB_CACHE": "~/x", "HF_HOME": "/hf"},
        {"HF_HUB_CACHE": "$HOME/y"},
        {"HUGGINGFACE_HUB_CACHE": "/old", "HF_HOME": "/hf"},
        {"HF_HUB_CACHE": "/new", "HUGGINGFACE_HUB_CACHE": "/old"},
        # The name of a folder.
        {"HF_HUB_CACHE": "~no-such-user/x"},
    ],
)
def test_it_follows_the_hubs_variables(given: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    bare = {name: value for name, value in os.environ.items() if not name.startswith(_HUBS)}
    code = "from huggingface_hub import constants; print(constants.HF_HUB_CACHE)"
    asked = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**bare, **given}
    )
    for name in os.environ.keys() - bare.keys():
        monkeypatch.delenv(name)
    for name, value in given.items():
        monkeypatch.setenv(name, value)

    assert folder() == Path(asked.stdout.strip())


def test_an_empty_variable_is_none_and_a_relative_one_begins_in_one_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    environ = {"HF_HOME": "models", "HF_HUB_CACHE": " ", "XDG_CACHE_HOME": "", "HUGGINGFACE_HUB_CACHE": "~/x"}
    take_folders(environ)
    assert environ == {"HF_HOME": str(tmp_path / "models"), "HUGGINGFACE_HUB_CACHE": "~/x"}


@pytest.mark.parametrize(
    ("given", "name"),
    [({"HF_HOME": "models"}, "models/hub"), ({"HF_HOME": "", "XDG_CACHE_HOME": "c"}, "c/huggingface/hub")],
)
def test_the_client_and_doctor_have_the_same_folder(given: dict[str, str], name: str, tmp_path: Path) -> None:
    bare = {name: value for name, value in os.environ.items() if not name.startswith(_HUBS)}
    code = "import os; from app.models.hub.cache import folder; from huggingface_hub import constants; os.chdir('/'); "
    code += "print(constants.HF_HUB_CACHE, folder(), sep='\\n')"
    root = str(Path(__file__).parents[3])
    asked = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={**bare, **given, "PYTHONPATH": root},
    )
    assert asked.stdout.split() == [str(tmp_path / name)] * 2


def test_a_repository_has_the_folder_that_the_client_gives_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    assert not may_hold("owner/small-GGUF")
    (tmp_path / repo_folder_name(repo_id="owner/small-GGUF", repo_type="model")).mkdir()
    assert may_hold("owner/small-GGUF")


def test_a_repository_that_cannot_be_read_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    closed, readable = (tmp_path / f"models--owner--{name}" / "blobs" / f"{'a' * 64}.incomplete" for name in "ab")
    for path in (closed, readable):
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x")
    whole = Path.stat

    def stat(path: Path, **how: bool) -> os.stat_result:
        if path == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return whole(path, **how)

    monkeypatch.setattr(Path, "stat", stat)
    assert unfinished() == {readable: 1}
