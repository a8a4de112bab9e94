"""Check that every command names the fix for models that are not compatible."""

from pathlib import Path

import pytest

from app.cli import main
from tests.llama.gguf_files import I32, STRING, Array
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import DRAFT, TARGET, tiny

pytestmark = pytest.mark.usefixtures("home")
STUCK, KEEPING, MUTE = "owner/stuck-GGUF", "owner/keeping-GGUF", "owner/mute-GGUF"
"""Models whose running state cannot be taken back at all, and as a draft; and one without a vocabulary."""
NO_DRAFT = f"Use it without a draft: tandem setup --target {STUCK}"
OTHER_DRAFT = f"Choose another draft, or none: tandem pairs find {TARGET}"
OTHER_TARGET = "Choose another target, or a recommended pair: tandem pairs list"


@pytest.fixture
def models(pair: LoopbackHub, tmp_path: Path) -> LoopbackHub:
    for repo, changes in (
        (STUCK, {"general__architecture": "mamba"}),
        (KEEPING, {"general__architecture": "lfm2"}),
        (MUTE, {"tokenizer__ggml__tokens": Array(STRING, []), "tokenizer__ggml__token_type": Array(I32, [])}),
    ):
        pair.add(repo, {"m-Q4_0.gguf": tiny(tmp_path / repo, "m.gguf", **changes)})
    return pair


@pytest.mark.parametrize(
    ("target", "draft", "helps"),
    [
        (TARGET, "owner/other-GGUF", OTHER_DRAFT),
        (TARGET, KEEPING, OTHER_DRAFT),
        (STUCK, DRAFT, NO_DRAFT),
        (STUCK, "owner/other-GGUF", NO_DRAFT),
        (MUTE, DRAFT, OTHER_TARGET),
    ],
)
def test_the_fix_for_incompatible_models_is_shown(
    models: LoopbackHub, capsys: pytest.CaptureFixture[str], target: str, draft: str, helps: str
) -> None:
    assert main(["setup", "--target", target, "--draft", draft, "--yes"]) == 1
    assert helps in " ".join(capsys.readouterr().err.split())
    assert main(["pairs", "check", target, draft]) == 1
    assert helps in " ".join(capsys.readouterr().out.split())


def test_find_refuses_a_target_without_rollback(models: LoopbackHub, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pairs", "find", STUCK]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "m cannot use a draft model" in said
    assert NO_DRAFT in said
    assert not models.asked("/api/models")


@pytest.mark.parametrize(
    ("target", "alone"), [(TARGET, "N-gram drafting needs no draft model"), (KEEPING, "It works without a draft")]
)
def test_where_no_draft_is_found_the_target_alone_is_named(
    models: LoopbackHub, capsys: pytest.CaptureFixture[str], target: str, alone: str
) -> None:
    assert main(["pairs", "find", target]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "No draft with the vocabulary of" in said
    assert f"{alone}: tandem setup --target {target}" in said
