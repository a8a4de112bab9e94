"""What is kept when answers are gone on with, given again or edited."""

from __future__ import annotations

import sqlite3

from app.conversations.tree import State
from app.engine.types import FinishReason
from tests.session.keeping import BROKEN, Kept


def test_an_answer_goes_on_with_the_numbers_of_both_parts(kept: Kept) -> None:
    kept.exchange("a", "b", FinishReason.LENGTH)
    for more, reason in (("c", FinishReason.CANCELLED), ("d", FinishReason.STOP)):
        opened = kept.keeper.go_on(2)
        assert opened is not None
        assert opened.begun is not None
        assert (opened.said, opened.asked) == ((), "a")
        kept.hear(more)
        kept.end(opened.begun.text + more, reason)
    assert kept.path() == [("a", "", State.COMPLETE), ("bcd", "", State.COMPLETE)]
    stats = kept.other.stats(2)
    assert [part["reason"] for part in (*stats["earlier"], stats)] == ["length", "cancelled", "stop"]
    assert kept.keeper.go_on(2) is None


def test_nothing_is_lost_of_an_answer_of_which_no_more_came(kept: Kept) -> None:
    kept.exchange("a", "b", FinishReason.LENGTH)
    before, numbers = kept.other.load(1).tree, kept.other.stats(2)
    kept.keeper.go_on(2)
    kept.end("b", FinishReason.CANCELLED)
    assert kept.other.load(1).tree == before == kept.keeper.tree
    assert kept.other.stats(2) == numbers
    kept.keeper.go_on(2)
    assert kept.keeper.fail(BROKEN) == ("b", "")
    assert kept.other.load(1).tree == before
    kept.exchange("c", "d")
    assert kept.texts() == ["a", "b", "c", "d"]


def test_more_of_a_failed_answer_counts_once_it_ends_well(kept: Kept) -> None:
    kept.keeper.ask("a")
    kept.hear("half")
    assert kept.keeper.fail(BROKEN) == ("", "")
    kept.keeper.go_on(2)
    kept.hear(" and")
    assert kept.keeper.fail(BROKEN) == ("", "")
    assert kept.path()[-1] == ("half and", "", State.FAILED)
    kept.keeper.go_on(2)
    kept.hear(" more")
    kept.end("half and more")
    kept.exchange("b", "c")
    assert kept.texts() == ["a", "half and more", "b", "c"]


def test_what_another_tandem_goes_on_with_is_left_alone(kept: Kept) -> None:
    kept.exchange("a", "b", FinishReason.CANCELLED)
    other = kept.other
    other.resume(2)
    assert kept.keeper.go_on(2) is None
    assert kept.keeper._disk.store is not None
    assert kept.keeper._disk.store.on_disk
    other.close()


def test_an_earlier_prompt_is_answered_again_and_the_branch_comes_back_if_that_fails(kept: Kept) -> None:
    kept.exchange("a", "b")
    kept.exchange("c", "d")
    opened = kept.keeper.again(1)
    assert opened is not None
    assert (opened.said, opened.asked) == ((), "a")
    kept.keeper.fail(BROKEN)
    assert kept.texts() == ["a", "b", "c", "d"]
    assert kept.keeper.tree == kept.other.load(1).tree
    kept.keeper.again(1)
    kept.hear("e")
    kept.end("e")
    assert kept.texts() == ["a", "e"]
    kept.exchange("f", "g")
    assert kept.texts() == ["a", "e", "f", "g"]


def test_an_edited_prompt_is_a_branch_and_the_old_one_can_be_gone_back_to(kept: Kept) -> None:
    kept.exchange("a", "b")
    kept.exchange("c", "d")
    opened = kept.keeper.go_before(3)
    assert opened is not None
    assert [message.content for message in opened.said] == ["a", "b"]
    kept.exchange("e", "f")
    assert kept.texts() == ["a", "b", "e", "f"]
    assert kept.keeper.exchange == (5, 6)
    opened = kept.keeper.switch(3)
    assert opened is not None
    assert [message.content for message in opened.said] == ["a", "b", "c", "d"]
    assert kept.texts() == ["a", "b", "c", "d"]
    assert kept.keeper.tree == kept.other.load(1).tree


def test_an_edited_answer_is_gone_on_from(kept: Kept) -> None:
    kept.exchange("a", "b")
    opened = kept.keeper.rewrite(2, "better")
    assert opened is not None
    assert [message.content for message in opened.said] == ["a", "better"]
    kept.exchange("c", "d")
    assert kept.texts() == ["a", "better", "c", "d"]
    assert len(kept.other.load(1).tree.siblings(2)) == 2


def test_what_is_not_there_is_not_steered(kept: Kept) -> None:
    assert kept.keeper.again(7) is kept.keeper.switch(7) is kept.keeper.go_before(7) is None
    kept.exchange("a", "b")
    assert kept.keeper.again(7) is kept.keeper.switch(7) is kept.keeper.rewrite(7, "x") is kept.keeper.go_on(7) is None


def test_another_answer_where_another_tandem_removed_the_conversation(kept: Kept) -> None:
    kept.exchange("a", "b")
    with sqlite3.connect(kept.file) as db:
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("DELETE FROM conversations")
    db.close()
    kept.keeper.again()
    kept.hear("c")
    kept.end("c")
    assert len(kept.said) == 1
    assert kept.keeper.summaries() == ()


def beside(kept: Kept) -> list[str]:
    return list(kept.keeper.beside)


def test_what_was_answered_in_the_same_place_is_told_for_the_next_answer(kept: Kept) -> None:
    kept.exchange("a", "b")
    kept.keeper.ask("c")
    assert beside(kept) == []
    kept.hear("thought", thinking=True)
    kept.hear("d")
    kept.end("d")

    kept.keeper.again()
    assert beside(kept) == ["thought", "d"]
    kept.hear("e")
    kept.end("e", FinishReason.LENGTH)
    answer = kept.keeper.tree.leaf
    assert answer is not None

    kept.keeper.go_on(answer)
    assert beside(kept) == ["thought", "d"], "what goes on is in the prompt"
    kept.end("ef")
    kept.keeper.go_before(3)
    kept.keeper.ask("instead")
    assert beside(kept) == ["ef", "thought", "d"]
    kept.hear("g")
    kept.end("g")
    kept.keeper.ask("next")
    assert beside(kept) == []
