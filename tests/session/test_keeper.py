"""What the chat keeps, without a screen."""

from __future__ import annotations

import sqlite3

import pytest

from app.conversations.message import Message, Role
from app.conversations.store import Store
from app.conversations.tree import State
from app.core.errors import StoreError
from app.engine.text.segments import Segment
from app.engine.types import FinishReason, Origin
from app.session.keeper import Keeper
from app.ui.text import age
from tests.session.keeping import BROKEN, Kept


def test_nothing_is_written_before_the_first_prompt(kept: Kept) -> None:
    kept.keeper.draft("half a thought")
    kept.keeper.leave("half a thought")
    kept.keeper.tick(0.2)
    assert kept.keeper.summaries() == ()


class TestUnsent:
    """What is typed where nothing was said yet."""

    def kill(self, kept: Kept) -> None:
        """Let go of the file as the end of a process does: its sign of life stays, and nobody holds it."""
        store = kept.keeper._disk.store
        assert store is not None
        (sign,) = kept.file.parent.glob("*writer*")
        store._writers.close()
        store._database.close()
        sign.touch()

    def again(self, kept: Kept) -> Keeper:
        keeper = Keeper(lambda: Store.open(kept.file))
        keeper.open_store()
        return keeper

    def test_it_outlives_a_process_that_ends_without_a_word(self, kept: Kept) -> None:
        kept.keeper.draft("half a thought")
        self.kill(kept)

        keeper = self.again(kept)
        assert keeper.take_unsent() == "half a thought"
        assert keeper.leave("half a thought").draft == "half a thought"
        keeper.close()
        assert list(kept.file.parent.glob("*writer*")) == [], "nothing of the dead one lies about"

    def test_it_waits_for_the_next_run_and_the_one_after(self, kept: Kept) -> None:
        kept.keeper.close("half a thought")
        for _ in range(2):
            keeper = self.again(kept)
            assert keeper.take_unsent() == "half a thought"
            keeper.close()

    def test_what_waits_in_the_last_conversation_is_told_by_its_title(self, kept: Kept) -> None:
        kept.keeper.ask("Where to?")
        assert self.again(kept).left_typed() == ""
        kept.keeper.close("half a thought")

        keeper = self.again(kept)
        assert keeper.left_typed() == "Where to?"
        keeper.ask("Something else")
        assert keeper.left_typed() == "", "by now another one is the last"

    def test_another_tandem_that_runs_keeps_its_own(self, kept: Kept) -> None:
        kept.keeper.draft("mine")
        other = self.again(kept)
        assert other.take_unsent() == ""
        other.close("the other's")

        assert self.again(kept).take_unsent() == "the other's"

    def test_of_several_the_newest_comes_and_the_others_wait(self, kept: Kept) -> None:
        now = [0.0]
        for text in ("first", "second"):
            now[0] += 1.0
            keeper = Keeper(lambda: Store.open(kept.file, now=lambda: now[0]))
            keeper.open_store()
            keeper.close(text)

        keeper = self.again(kept)
        assert keeper.take_unsent() == "second"
        keeper.ask("second")
        keeper.close("")
        assert self.again(kept).take_unsent() == "first"

    @pytest.mark.parametrize("end", ["sent", "taken back"])
    def test_what_was_sent_or_taken_back_does_not_come_again(self, kept: Kept, end: str) -> None:
        kept.keeper.draft("half a thought")
        if end == "sent":
            kept.keeper.ask("half a thought")
        else:
            kept.keeper.draft("")
        kept.keeper.close()

        assert self.again(kept).take_unsent() == ""


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
    assert len(kept.said) == 1
    assert kept.said[0].endswith("Check the folder and its permissions. Tandem saves them as soon as it can.")
    assert not kept.keeper._disk.store.on_disk
    opened = kept.keeper.open(1)
    assert opened is not None
    assert [message.content for message in opened.said] == ["a", "b", "c", "d"]
    assert kept.texts(1) == ["a", "b"]


def test_a_disk_that_takes_again_what_it_refused_is_gone_back_to_and_that_is_said(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, tries = [100.0], []
    kept.keeper._disk._clock = lambda: now[0]
    conversation = kept.exchange("a", "b")
    store = kept.keeper._disk.store
    assert store is not None
    store._database.connection.execute("PRAGMA query_only = ON")
    kept.exchange("c", "d")

    def refuse(*_: object, **__: object) -> None:
        tries.append(now[0])
        raise StoreError("The disk is full.")

    with monkeypatch.context() as full:
        full.setattr("app.conversations.outage.open_file", refuse)
        for _ in range(20):
            now[0] += 1.0
            kept.keeper.maintain()
            kept.keeper.pin(conversation, pinned=True)
    assert tries == [105.0, 110.0, 115.0, 120.0]
    assert len(kept.said) == 1
    now[0] += 5.0
    kept.exchange("e", "f")
    assert kept.said[1:] == ["All messages are saved again."]
    assert kept.texts(conversation) == ["a", "b", "c", "d", "e", "f"]


def test_what_is_said_after_the_file_was_taken_away_is_written_in_its_place_with_all_the_rest(kept: Kept) -> None:
    now = [100.0]
    kept.keeper._disk._clock = lambda: now[0]
    first = kept.exchange("a", "b")
    kept.keeper.leave()
    kept.exchange("c", "d")
    kept.file.rename(kept.file.with_name("elsewhere.db"))
    kept.exchange("e", "f")
    (said,) = kept.said
    assert f"{kept.file} was moved, removed or replaced. Put it back. Tandem saves them" in said
    now[0] += 5.0
    kept.keeper.maintain()
    assert kept.said[1:] == ["All messages are saved again."]
    assert kept.texts(first) == ["a", "b"]
    assert kept.texts() == ["c", "d", "e", "f"]


def test_an_answer_that_gets_to_the_disk_late_is_told_to_be_there(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> bool:
        raise StoreError("The disk is full.")

    kept.keeper.ask("Count.")
    kept.hear("one")
    with monkeypatch.context() as full:
        full.setattr("app.conversations.answers.Answers.keep", refuse)
        kept.keeper.tick(1.0)
    kept.hear(" two")
    kept.keeper.tick(1.0)
    kept.keeper.tick(1.0)
    assert kept.said == ["The disk is full.", "All messages are saved again."]
    assert kept.texts()[-1] == "one two"


def test_what_is_said_after_a_file_broke_in_use_is_written_in_its_place(kept: Kept) -> None:
    kept.exchange("a", "b")
    for file in kept.file.parent.glob("conversations.db*"):
        if "writer" not in file.name:
            file.write_bytes(b"no database at all" * 1000)
    kept.keeper.ask("c", (Message(Role.USER, "a"), Message(Role.ASSISTANT, "b")))
    assert kept.said[0].endswith(" Tandem opens the latest backup. Tandem saves them as soon as it can.")
    kept.hear("d")
    kept.end("d")
    kept.keeper.close("typed")

    assert [file.read_bytes()[:5] for file in kept.file.parent.glob("*-damaged-*.db")] == [b"no da"]
    (again,) = kept.other.summaries()
    assert kept.texts(again.id) == ["a", "b", "c", "d"]
    assert kept.other.load(again.id).draft == "typed"


def test_what_another_tandem_removed_is_begun_anew_with_all_that_was_said(kept: Kept) -> None:
    kept.exchange("a", "b")
    with sqlite3.connect(kept.file) as db:
        db.execute("PRAGMA foreign_keys = ON")
        db.execute("DELETE FROM conversations")
    db.close()
    kept.keeper.ask("c", (Message(Role.USER, "a"), Message(Role.ASSISTANT, "b", "thought")))
    kept.hear("d")
    kept.end("d")
    assert [said[:2] for said in kept.path()] == [("a", ""), ("b", "thought"), ("c", ""), ("d", "")]
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
        db.execute("UPDATE conversations SET deleted = deleted - 180000")
        db.execute("INSERT INTO overdue SELECT id, deleted, deleted + 90000 FROM conversations")
    db.close()
    kept.keeper.tidy()
    assert not kept.keeper.can_undelete
    assert kept.keeper.undelete() is None


def test_what_another_tandem_deleted_is_gone_on_with_and_brought_back_by_what_is_said_in_it(kept: Kept) -> None:
    conversation = kept.exchange("a", "b")
    other = kept.other
    other.delete(conversation)
    other.close()
    kept.keeper.tidy()
    assert not kept.keeper.is_deleted
    assert kept.keeper.summaries() == ()

    assert kept.keeper.can_undelete
    kept.exchange("c", "d")
    assert [summary.id for summary in kept.keeper.summaries()] == [conversation]
    assert not kept.keeper.can_undelete


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
