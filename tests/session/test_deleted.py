"""A conversation that another Tandem on the same folder deletes or removes while this one is in it, or has left it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable

import pytest

from app.engine.types import FinishReason
from app.session.keeper import Keeper
from tests.session.keeping import Kept


def delete_elsewhere(kept: Kept, conversation: int) -> None:
    other = kept.other
    other.delete(conversation)
    other.close()


def listed(kept: Kept) -> list[int]:
    other = kept.other
    found = [summary.id for summary in other.summaries()]
    other.close()
    return found


def test_a_prompt_that_is_put_again_is_no_part_of_one_that_was_deleted_since(kept: Kept) -> None:
    kept.keeper.ask("Why?")
    kept.end("", FinishReason.CANCELLED)
    deleted = kept.keeper.conversation
    assert deleted is not None
    kept.keeper.leave()
    delete_elsewhere(kept, deleted)

    kept.exchange("Why?", "Because.")
    assert kept.keeper.conversation != deleted
    assert listed(kept) == [kept.keeper.conversation]


def test_what_is_typed_brings_a_conversation_back_that_was_deleted_elsewhere(kept: Kept) -> None:
    conversation = kept.exchange("a", "b")
    kept.keeper.draft("typed before")
    delete_elsewhere(kept, conversation)
    kept.keeper.draft("typed before")
    assert listed(kept) == []
    kept.keeper.draft("")
    assert listed(kept) == []
    kept.keeper.draft("typed since")
    assert listed(kept) == [conversation]
    assert kept.other.load(conversation).draft == "typed since"


def test_what_is_typed_brings_nothing_back_that_was_deleted_here(kept: Kept) -> None:
    conversation = kept.exchange("a", "b")
    kept.keeper.delete(conversation)
    kept.keeper.leave("typed meanwhile")
    assert listed(kept) == []
    assert kept.other.load(conversation).draft == "typed meanwhile"


def test_what_is_typed_in_one_that_is_gone_for_good_waits_for_the_next_run(kept: Kept) -> None:
    conversation = kept.exchange("a", "b")
    with sqlite3.connect(kept.file) as db:
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("DELETE FROM conversations WHERE id = ?", (conversation,))
    db.close()
    kept.keeper.close("half a thought")

    assert Kept(kept.file).keeper.take_unsent() == "half a thought"


@pytest.mark.parametrize(
    "goes_on",
    [
        lambda keeper, answer: keeper.draft("typed"),
        lambda keeper, answer: keeper.rewrite(answer, "in other words"),
        lambda keeper, answer: keeper.go_on(answer),
        lambda keeper, answer: keeper.again(),
        lambda keeper, answer: keeper.ask("and?"),
    ],
    ids=["typed", "rewritten", "continued", "answered again", "asked"],
)
def test_what_is_gone_on_with_has_nothing_to_be_brought_back(
    kept: Kept, goes_on: Callable[[Keeper, int], object]
) -> None:
    conversation = kept.exchange("a", "b", FinishReason.CANCELLED)
    _, answer = kept.keeper.exchange
    assert answer is not None
    delete_elsewhere(kept, conversation)
    kept.keeper.tidy()
    assert kept.keeper.can_undelete

    goes_on(kept.keeper, answer)
    assert listed(kept) == [conversation]
    assert not kept.keeper.can_undelete


def test_what_was_set_aside_in_a_conversation_is_forgotten_with_it(kept: Kept) -> None:
    kept.keeper.set_aside("where nothing was said")
    conversation = kept.exchange("a", "b")
    kept.keeper.set_aside("half a thought")
    kept.keeper.delete(conversation)
    assert [one.text for one in kept.other.typed(9)] == ["where nothing was said"]
