"""What the chat keeps, without a screen."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.chat.ending import UNKNOWN, Ending, Failure
from app.chat.message import Message, Role
from app.chat.store import Store
from app.chat.tree import Node, State
from app.engine.stats import GenerationStats
from app.engine.text import Segment
from app.engine.types import FinishReason, Origin
from app.errors import AppError, StoreError
from app.events import AnswerPlan, Finished
from app.ui.keeping.keeper import Keeper
from app.ui.text import age

STATS = GenerationStats(prompt_n=10, predicted_n=21, draft_n=20, draft_n_accepted=15, predicted_ns=2_000_000_000)
BROKEN = AppError("It broke.", "Mend it.")


class Kept:
    """A keeper over a real store, and a second look at the same file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.said: list[str] = []
        self.keeper = Keeper(lambda: Store.open(file))
        self.keeper.say = self.said.append
        self.keeper.open_store()

    @property
    def other(self) -> Store:
        return Store.open(self.file)

    def path(self, conversation: int | None = None) -> list[tuple[str, str, State]]:
        store = self.other
        number = conversation or self.keeper.conversation or store.summaries()[0].id
        path = store.load(number).tree.path
        store.close()
        return [(node.text, node.reasoning, node.state) for node in path]

    def texts(self, conversation: int | None = None) -> list[str]:
        return [text for text, _, _ in self.path(conversation)]

    def hear(self, text: str, *, thinking: bool = False) -> None:
        self.keeper.add([Segment(text, Origin.TARGET, thinking)])

    def end(self, text: str, reason: FinishReason = FinishReason.STOP) -> None:
        self.keeper.finish(Finished(1, reason, text, "", STATS, AnswerPlan("auto", "model", None, None)), target="Big")

    def exchange(self, prompt: str, text: str, reason: FinishReason = FinishReason.STOP) -> int:
        self.keeper.ask(prompt)
        self.hear(text)
        self.end(text, reason)
        assert self.keeper.conversation is not None
        return self.keeper.conversation


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    kept = Kept(tmp_path / "conversations.db")
    yield kept
    kept.keeper.close()


def test_nothing_is_written_before_the_first_prompt(kept: Kept) -> None:
    kept.keeper.draft("half a thought")
    kept.keeper.leave("half a thought")
    kept.keeper.tick(0.2)
    assert kept.keeper.summaries() == ()


def test_an_exchange_is_kept_with_its_numbers(kept: Kept) -> None:
    kept.keeper.ask("Why?")
    kept.hear("hm", thinking=True)
    kept.hear("Because.")
    kept.end("Because.")
    assert kept.path() == [("Why?", "", State.COMPLETE), ("Because.", "hm", State.COMPLETE)]
    answer = kept.other.load(1).tree.path[-1]
    stats = kept.other.stats(answer.id)
    assert (stats["predicted_per_second"], stats["acceptance"], stats["target"]) == (10.0, 0.75, "Big")


@pytest.mark.parametrize(
    ("reason", "state"),
    [
        (FinishReason.STOP, State.COMPLETE),
        (FinishReason.CANCELLED, State.STOPPED),
        (FinishReason.LENGTH, State.CUT),
        (FinishReason.CONTEXT, State.CUT),
    ],
)
def test_how_it_ended_is_kept(kept: Kept, reason: FinishReason, state: State) -> None:
    kept.exchange("Why?", "Bec", reason)
    assert kept.path()[-1] == ("Bec", "", state)


def test_what_was_shown_is_on_disk_when_the_next_look_is_far_off(kept: Kept) -> None:
    kept.keeper.ask("Count.")
    kept.hear("one two")
    kept.keeper.tick(1.0)
    assert kept.path()[-1] == ("one two", "", State.WRITING)


def test_near_looks_write_less_often(kept: Kept) -> None:
    now = [0.0]
    kept.keeper.ask("Count.")
    assert kept.keeper._journal is not None
    kept.keeper._journal._clock = lambda: now[0]
    kept.hear("one two")
    kept.keeper.tick(0.2)
    assert kept.texts()[-1] == ""
    now[0] = 0.8
    kept.keeper.tick(0.2)
    assert kept.texts()[-1] == "one two"


def test_what_is_left_in_the_middle_is_cut(kept: Kept) -> None:
    kept.keeper.ask("Count.")
    kept.hear("one")
    kept.keeper.close("typed")
    assert kept.path(1)[-1] == ("one", "", State.CUT)
    assert kept.other.load(1).draft == "typed"


def test_the_next_prompt_goes_on_below_and_another_answer_beside(kept: Kept) -> None:
    kept.exchange("a", "b")
    kept.exchange("c", "d")
    kept.keeper.again()
    kept.hear("e")
    kept.end("e")
    assert kept.texts() == ["a", "b", "c", "e"]
    assert {node.text for node in kept.other.load(1).tree.nodes.values()} == set("abcde")
    kept.exchange("f", "g")
    assert kept.texts() == ["a", "b", "c", "e", "f", "g"]


def test_an_answer_without_a_word_leaves_none_and_its_prompt_can_be_sent_again(kept: Kept) -> None:
    kept.keeper.ask("a")
    kept.end("", FinishReason.CANCELLED)
    assert kept.texts() == ["a"]
    kept.exchange("a", "b")
    assert len(kept.other.load(1).tree.nodes) == 2


def test_a_failed_answer_is_marked_and_not_gone_on_from(kept: Kept) -> None:
    kept.exchange("a", "b")
    kept.keeper.ask("c")
    kept.hear("half")
    kept.keeper.fail(BROKEN)
    assert kept.path()[-1] == ("half", "", State.FAILED)
    kept.exchange("d", "e")
    assert kept.texts() == ["a", "b", "d", "e"]


def test_a_failed_second_answer_leaves_the_first_active(kept: Kept) -> None:
    kept.exchange("a", "b")
    kept.keeper.again()
    kept.hear("half")
    kept.keeper.fail(BROKEN)
    assert kept.texts() == ["a", "b"]
    kept.exchange("c", "d")
    assert kept.texts() == ["a", "b", "c", "d"]


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
    assert kept.keeper.fail(BROKEN) == "b"
    assert kept.other.load(1).tree == before
    kept.exchange("c", "d")
    assert kept.texts() == ["a", "b", "c", "d"]


def test_more_of_a_failed_answer_counts_once_it_ends_well(kept: Kept) -> None:
    kept.keeper.ask("a")
    kept.hear("half")
    assert kept.keeper.fail(BROKEN) == ""
    kept.keeper.go_on(2)
    kept.hear(" and")
    assert kept.keeper.fail(BROKEN) == ""
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


def test_leaving_stops_the_answer_and_drafts_wait_for_the_return(kept: Kept) -> None:
    first = kept.exchange("a", "b")
    assert kept.keeper.leave("for the first").draft == ""
    second = kept.exchange("c", "d")
    kept.keeper.ask("e")
    kept.hear("half")
    opened = kept.keeper.open(first, "for the second")
    assert opened is not None
    assert (opened.draft, opened.asked) == ("for the first", "a")
    assert opened.said == (Message(Role.USER, "a"), Message(Role.ASSISTANT, "b"))
    assert kept.path(second)[-1] == ("half", "", State.STOPPED)
    assert kept.other.load(second).draft == "for the second"
    kept.exchange("f", "g")
    assert kept.texts(first) == ["a", "b", "f", "g"]
    assert kept.other.load(first).draft == ""


def test_an_empty_conversation_has_its_draft_too(kept: Kept) -> None:
    first = kept.exchange("a", "b")
    kept.keeper.leave()
    kept.keeper.open(first, "not yet sent")
    assert kept.keeper.leave().draft == "not yet sent"


@pytest.mark.parametrize("state", [State.FAILED, State.CUT])
def test_an_unanswered_end_is_shown_but_not_gone_on_from(kept: Kept, state: State) -> None:
    store = kept.other
    number = store.create()
    asked = store.add(number, Role.USER, "a", parent=None)
    store.answer(number, asked.id).finish(state, reasoning="thought only")
    opened = kept.keeper.open(number)
    assert opened is not None
    assert (len(opened.path), opened.said, opened.asked) == (2, (), "a")
    kept.keeper.again()
    kept.hear("b")
    kept.end("b")
    assert kept.texts(number) == ["a", "b"]


def test_a_store_that_cannot_be_opened_is_a_sentence_and_one_in_memory() -> None:
    def refuse() -> Store:
        raise StoreError("It is of a newer Tandem.", "Update.")

    said: list[str] = []
    keeper = Keeper(refuse)
    keeper.say = said.append
    keeper.open_store()
    assert said == ["It is of a newer Tandem. Update. Conversations are kept in memory only, until Tandem ends."]
    keeper.ask("a")
    assert [summary.title for summary in keeper.summaries()] == ["a"]
    keeper.close()


def test_a_disk_that_refuses_is_said_and_nothing_is_lost(kept: Kept) -> None:
    kept.exchange("a", "b")
    assert kept.keeper._disk.store is not None
    kept.keeper._disk.store._database.connection.execute("PRAGMA query_only = ON")
    kept.exchange("c", "d")
    assert kept.said
    assert "conversations" in kept.said[0]
    assert not kept.keeper._disk.store.on_disk
    opened = kept.keeper.open(1)
    assert opened is not None
    assert [message.content for message in opened.said] == ["a", "b", "c", "d"]
    assert kept.texts(1) == ["a", "b"]


def test_what_another_tandem_removed_is_begun_anew_with_all_that_was_said(kept: Kept) -> None:
    kept.exchange("a", "b")
    with sqlite3.connect(kept.file) as db:
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("DELETE FROM conversations")
    db.close()
    kept.keeper.ask("c", (Message(Role.USER, "a"), Message(Role.ASSISTANT, "b")))
    kept.hear("d")
    kept.end("d")
    assert kept.texts() == ["a", "b", "c", "d"]
    assert kept.keeper._disk.store is not None
    assert kept.keeper._disk.store.on_disk
    assert len(kept.said) == 1


def test_deleting_and_undoing(kept: Kept) -> None:
    first = kept.exchange("a", "b")
    kept.keeper.delete(first)
    assert kept.keeper.summaries() == ()
    assert kept.keeper.is_deleted
    assert kept.keeper.undelete() == first
    assert not kept.keeper.is_deleted
    assert kept.keeper.undelete() is None
    assert len(kept.keeper.summaries()) == 1


def test_what_an_earlier_run_deleted_is_brought_back_last_first(kept: Kept) -> None:
    first = kept.exchange("a", "b")
    kept.keeper.leave()
    second = kept.exchange("c", "d")
    kept.keeper.delete(second)
    kept.keeper.delete(first)
    kept.keeper.close()
    again = Kept(kept.file)
    assert again.keeper.can_undelete
    assert [again.keeper.undelete() for _ in range(3)] == [first, second, None]
    assert {summary.id for summary in again.keeper.summaries()} == {first, second}
    again.keeper.close()


def test_what_is_removed_for_good_is_not_offered(kept: Kept) -> None:
    conversation = kept.exchange("a", "b")
    kept.keeper.delete(conversation)
    with sqlite3.connect(kept.file) as db:
        db.execute("UPDATE conversations SET deleted = deleted - 90000")
    db.close()
    kept.keeper.tidy()
    assert not kept.keeper.can_undelete
    assert kept.keeper.undelete() is None


def test_what_another_tandem_brought_back_is_not_deleted_here_either(kept: Kept) -> None:
    conversation = kept.exchange("a", "b")
    kept.keeper.delete(conversation)
    kept.keeper.leave()
    other = kept.other
    other.undelete(conversation)
    other.close()
    assert kept.keeper.open(conversation) is not None
    assert not kept.keeper.is_deleted
    assert not kept.keeper.can_undelete


def test_without_a_store_nothing_is_kept() -> None:
    keeper = Keeper()
    keeper.open_store()
    keeper.ask("a")
    keeper.add([Segment("b", Origin.TARGET)])
    keeper.tick(1.0)
    keeper.fail(BROKEN)
    assert keeper.leave("typed").draft == "typed"
    assert (keeper.keeps, keeper.conversation, keeper.summaries(), keeper.search("a")) == (False, None, (), ())
    keeper.close()


def test_ages_are_short() -> None:
    assert [age(s) for s in (-5, 59, 60, 7200, 86400 * 6, 86400 * 8, 86400 * 800)] == [
        "now",
        "now",
        "1 min",
        "2 h",
        "6 d",
        "1 wk",
        "2 y",
    ]


def last(kept: Kept) -> Node:
    """The last message, as somebody who comes later finds it; the chat itself knows the same."""
    node = kept.other.load(1).tree.path[-1]
    assert kept.keeper.tree.path[-1] == node
    return node


@pytest.mark.parametrize("reason", [FinishReason.CONTEXT, FinishReason.LENGTH])
def test_why_an_answer_was_cut_is_kept(kept: Kept, reason: FinishReason) -> None:
    kept.keeper.ask("Why?")
    kept.hear("Bec")
    kept.keeper.finish(Finished(1, reason, "Bec", "", STATS, AnswerPlan("off", "none", None, None), repeating=700))
    assert last(kept).ending == Ending(reason, 700)


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
        '{"reason":"?","repeating":-1,"error":[]}',
        '{"reason":[],"repeating":true,"error":{"message":7}}',
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
