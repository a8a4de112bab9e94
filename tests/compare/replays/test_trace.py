"""What a draft model says at every place of an answer, up to the end of its context."""

from __future__ import annotations

from app.compare.replays.trace import teacher_forced
from app.engine.cache import TokenCache
from tests.fakes import N_VOCAB, FakeModel, mixing, script

PROMPT = (1, 2, 3)
TEXT = (10, 11, 12, 13, 14, 15)


def test_the_draft_looks_no_further_than_its_context() -> None:
    # The answer ended because a context of eight was full: its last token was chosen and never evaluated.
    draft = TokenCache(FakeModel(script(TEXT, len(PROMPT)), n_ctx=8))
    views = list(teacher_forced(draft, N_VOCAB, PROMPT, TEXT, depth=4))

    assert [matches for matches, _ in views] == [4, 4, 3, 2, 1]
    assert [len(confidences) for _, confidences in views] == [4, 4, 3, 2, 1]


def test_what_was_drafted_before_leaves_no_trace() -> None:
    wrong = TokenCache(FakeModel(mixing(7)))
    alone = [
        list(teacher_forced(TokenCache(FakeModel(mixing(7))), N_VOCAB, PROMPT, TEXT, depth))[2] for depth in (1, 5)
    ]

    deep = list(teacher_forced(wrong, N_VOCAB, PROMPT, TEXT, depth=5))
    assert deep[2] == alone[1]
    assert deep[2][1][:1] == alone[0][1]
