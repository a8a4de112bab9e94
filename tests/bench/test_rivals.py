"""The settings of a llama-server that are raced against."""

from __future__ import annotations

from pathlib import Path

from tests.bench.rivals import NGRAM, rivals

_DRAFT = Path("draft.gguf")


def test_look_ups_and_the_draft_model_take_part_alone_and_together() -> None:
    kinds = {name: flags[flags.index("--spec-type") + 1] for name, flags in rivals(_DRAFT).items() if flags}

    assert kinds["server ngram-simple"] == "ngram-simple"
    assert kinds["server draft n7 p0.6"] == "draft-simple"
    assert kinds["server ngram-simple+draft n7 p0.6"] == "ngram-simple,draft-simple"
    assert kinds["server ngram-simple n4 m7+draft n7 p0.6"] == "ngram-simple,draft-simple"


def test_who_has_the_model_draft_is_given_it_and_pays_for_its_reading() -> None:
    assert {name for name, flags in rivals(_DRAFT).items() if _DRAFT in flags} == {
        name for name in rivals(_DRAFT) if "draft" in name
    }


def test_sizes_are_such_that_a_look_up_can_say_anything() -> None:
    # It keeps silent where less than n tokens follow the match, so a shorter m would switch it off.
    assert all(m >= n for n, m in NGRAM)


def test_without_a_draft_model_only_look_ups_are_left() -> None:
    assert not [name for name in rivals(None) if "draft" in name]
    assert "server ngram-simple n4 m7" in rivals(None)
