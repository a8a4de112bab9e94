"""Commands about pairs can be copied with any names and paths."""

import sys
from pathlib import Path

import pytest

from app.cli import main
from app.models.catalog import Pair
from app.models.pair_summary import setup_command
from app.models.source import HubModel, LocalModel

pytestmark = [
    pytest.mark.usefixtures("folders"),
    pytest.mark.skipif(sys.platform == "win32", reason="reads commands as the shells of other systems do"),
]
NAME = "my own pair"
SPACED = HubModel("owner/repo", file="a model.gguf")
MINE = Pair(NAME, "Mine", SPACED, LocalModel(Path("/my models/small.gguf")))


def test_a_pair_is_set_up_by_its_name_or_its_models() -> None:
    assert setup_command(MINE, by_name=True) == "⟨setup=my own pair⟩"
    models = "owner/repo:a model.gguf|/my models/small.gguf"
    assert setup_command(MINE, by_name=False) == f"⟨setup.models={models}⟩"
    assert setup_command(Pair("p", "P", SPACED, None), by_name=False) == "⟨setup.models=owner/repo:a model.gguf⟩"


def test_what_is_not_here_comes_by_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--target", "owner/repo:a model.gguf", "hi"]) == 1
    [line] = [line for line in capsys.readouterr().err.splitlines() if "Download it" in line]
    assert line.endswith("tandem setup --target 'owner/repo:a model.gguf'")
    assert main(["setup", "owner/repo:a model.gguf"]) == 2
    [line] = [line for line in capsys.readouterr().err.splitlines() if "To set up" in line]
    assert line.endswith("tandem setup --target 'owner/repo:a model.gguf'")
