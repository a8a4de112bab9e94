"""Check that every command names the fix for models that are not compatible."""

from pathlib import Path

import pytest

from tests.llama.gguf_files import I32, STRING, Array
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import DRAFT, TARGET, tiny
from tests.tandem import Tandem

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
    models: LoopbackHub, tandem: Tandem, target: str, draft: str, helps: str
) -> None:
    assert helps in tandem("setup", "--target", target, "--draft", draft, "--yes", code=1).sentences
    assert helps in " ".join(tandem("pairs", "check", target, draft, code=1).out.split())


def test_find_refuses_a_target_without_rollback(models: LoopbackHub, tandem: Tandem) -> None:
    said = tandem("pairs", "find", STUCK, code=1).sentences
    assert "m cannot use a draft model" in said
    assert NO_DRAFT in said
    assert not models.asked("/api/models")


@pytest.mark.parametrize(
    ("target", "alone"), [(TARGET, "N-gram drafting needs no draft model"), (KEEPING, "It works without a draft")]
)
def test_where_no_draft_is_found_the_target_alone_is_named(
    models: LoopbackHub, tandem: Tandem, target: str, alone: str
) -> None:
    said = tandem("pairs", "find", target, code=1).sentences
    assert "No draft with the vocabulary of" in said
    assert f"{alone}: tandem setup --target {target}" in said
