"""How an answer ended is kept, and so is why there is none."""

from __future__ import annotations

import sqlite3

import pytest

from app.conversations.ending import UNKNOWN, Ending, Failure, ending_in, numbers_of, numbers_of_failure, without_ending
from app.conversations.tree import Node, State
from app.engine.types import FinishReason
from app.worker.events import AnswerPlan, Finished
from tests.session.keeping import BROKEN, STATS, Kept


def last(kept: Kept) -> Node:
    """The last message, as somebody who comes later finds it; the chat itself knows the same."""
    node = kept.other.load(1).tree.path[-1]
    assert kept.keeper.tree.path[-1] == node
    return node


@pytest.mark.parametrize("reason", [FinishReason.CONTEXT, FinishReason.LENGTH, FinishReason.REPETITION])
def test_why_an_answer_was_cut_is_kept(kept: Kept, reason: FinishReason) -> None:
    kept.keeper.ask("Why?")
    kept.hear("Bec")
    kept.keeper.finish(Finished(1, reason, "Bec", "", STATS, AnswerPlan("off", "none", None, None), repeats=7))
    assert last(kept).ending == Ending(reason, 7)


def test_whether_the_context_could_have_been_longer_is_kept(kept: Kept) -> None:
    kept.keeper.ask("Why?")
    kept.hear("Bec")
    plan = AnswerPlan("off", "none", None, None)
    kept.keeper.finish(Finished(1, FinishReason.CONTEXT, "Bec", "", STATS, plan, at_limit=True))
    assert last(kept).ending == Ending(FinishReason.CONTEXT, at_limit=True)


def test_a_file_of_before_says_it_too_and_one_of_now_can_be_read_as_before(kept: Kept) -> None:
    """The reason always stood among the numbers; tables and states are what they were."""
    kept.exchange("Why?", "Bec", FinishReason.CONTEXT)
    kept.keeper.ask("And?")
    kept.keeper.fail(BROKEN)
    db = sqlite3.connect(kept.file)
    (version,) = db.execute("PRAGMA user_version").fetchone()
    states = [state for (state,) in db.execute("SELECT state FROM messages ORDER BY id")]
    (stats,) = db.execute("SELECT stats FROM messages WHERE id = 2").fetchone()
    db.close()
    assert (version, states) == (1, ["complete", "cut", "complete"])
    assert '"reason":"context"' in stats


def test_why_nothing_came_of_a_prompt_is_kept_until_it_has_an_answer(kept: Kept) -> None:
    kept.exchange("a", "b")
    kept.keeper.ask("c")
    kept.keeper.fail(BROKEN)
    assert (last(kept).text, last(kept).ending) == ("c", Ending(failure=Failure("It broke.", "Mend it.")))
    kept.keeper.ask("c")
    kept.end("")
    assert (last(kept).text, last(kept).ending) == ("c", Ending(FinishReason.STOP))
    kept.keeper.ask("c")
    kept.keeper.leave()
    assert kept.other.load(1).tree.path[-1].ending == Ending(FinishReason.CANCELLED)
    kept.keeper.open(1)
    kept.exchange("c", "d")
    kept.keeper.again()
    kept.keeper.fail(BROKEN)
    assert (last(kept).text, last(kept).ending) == ("d", UNKNOWN)
    assert kept.other.load(1).tree.path[-2].ending == Ending(FinishReason.CANCELLED)


def test_why_an_answer_failed_is_kept(kept: Kept) -> None:
    kept.keeper.ask("a")
    kept.hear("half")
    kept.keeper.fail(BROKEN)
    assert last(kept).ending == Ending(failure=Failure("It broke.", "Mend it."))


def test_what_was_continued_and_then_killed_no_longer_ends_as_its_first_part_did(kept: Kept) -> None:
    kept.exchange("a", "one ", FinishReason.CONTEXT)
    assert kept.keeper.go_on(2) is not None
    kept.hear("two")
    kept.keeper.close()
    node = kept.other.load(1).tree.path[-1]
    assert (node.text, node.state, node.ending) == ("one two", State.CUT, UNKNOWN)
    assert kept.other.stats(2)["target"] == "Big"


def test_what_was_continued_in_vain_ends_as_it_did(kept: Kept) -> None:
    kept.exchange("a", "one ", FinishReason.CONTEXT)
    assert kept.keeper.go_on(2) is not None
    kept.keeper.fail(BROKEN)
    assert last(kept).ending == Ending(FinishReason.CONTEXT)


@pytest.mark.parametrize(
    "stats",
    [
        '{"reason":"?","repeats":-1,"error":[]}',
        '{"reason":[],"repeats":true,"error":{"message":7}}',
        '{"error":{"message":" "}}',
        "[1]",
        "{",
        '{"reason":Infinity}',
        b"\xff",
    ],
)
def test_numbers_from_anywhere_say_nothing_that_cannot_be_meant(kept: Kept, stats: object) -> None:
    kept.exchange("a", "half", FinishReason.CONTEXT)
    kept.keeper.close()
    db = sqlite3.connect(kept.file)
    with db:
        db.execute("UPDATE messages SET stats = ?", (stats,))
        db.execute("UPDATE messages SET state = 'writing', writer = 'nobody' WHERE id = 2")
    db.close()
    path = kept.other.load(1).tree.path
    assert [(node.text, node.ending) for node in path] == [("a", UNKNOWN), ("half", UNKNOWN)]


def test_an_answer_that_goes_on_says_nothing_of_how_it_had_ended() -> None:
    ended = {"n": 1, **numbers_of(FinishReason.CONTEXT, 7, at_limit=True), **numbers_of_failure(BROKEN)}
    assert ending_in(ended) == Ending(FinishReason.CONTEXT, 7, Failure("It broke.", "Mend it."), at_limit=True)
    assert without_ending(ended) == {"n": 1}
