"""The acceptance rule."""

from __future__ import annotations

from app.engine.generator import verify
from app.engine.types import Draft, FinishReason, Origin


def test_every_accepted_token_names_the_source_that_drafted_it() -> None:
    found: list[tuple[int, Origin]] = []

    def observe(token: int, origin: Origin) -> FinishReason | None:
        found.append((token, origin))
        return None

    draft = Draft((1, 2, 3), (0.9, 0.9, 0.9), n_model=1)
    assert verify(draft, [1, 2, 9, 9].__getitem__, observe).n_accepted == 2
    assert found == [(1, Origin.DRAFT), (2, Origin.NGRAM), (9, Origin.TARGET)]
