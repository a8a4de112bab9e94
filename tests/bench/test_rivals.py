"""The parameters of llama-server that Tandem is measured against."""

from __future__ import annotations

from pathlib import Path

from tests.bench.rivals import NGRAM, rivals

_DRAFT = Path("draft.gguf")


def test_n_grams_and_the_draft_model_run_alone_and_together() -> None:
    kinds = {name: flags[flags.index("--spec-type") + 1] for name, flags in rivals(_DRAFT).items() if flags}

    assert kinds["server ngram-simple"] == "ngram-simple"
    assert kinds["server draft n7 p0.6"] == "draft-simple"
    assert kinds["server ngram-simple+draft n7 p0.6"] == "ngram-simple,draft-simple"
    assert kinds["server ngram-simple n4 m7+draft n7 p0.6"] == "ngram-simple,draft-simple"


def test_only_model_drafts_load_the_draft_model() -> None:
    assert {name for name, flags in rivals(_DRAFT).items() if _DRAFT in flags} == {
        name for name in rivals(_DRAFT) if "draft" in name
    }


def test_n_gram_drafts_are_at_least_as_long_as_their_match() -> None:
    # It proposes nothing if fewer than n tokens follow the match, so a shorter m would turn it off.
    assert all(m >= n for n, m in NGRAM)


def test_without_a_draft_model_only_n_grams_run() -> None:
    assert not [name for name in rivals(None) if "draft" in name]
    assert "server ngram-simple n4 m7" in rivals(None)
