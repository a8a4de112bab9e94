"""Whole chats without a screen: the changes and the displayed messages after each command and event."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.core.errors import AppError, ContextOverflowError
from app.engine.events import PromptProgress
from app.engine.types import FinishReason
from app.session.state import Blocked, BlockedError, Change, Changes, Phase
from app.worker.events import Event, Failed, JobEnded, Loaded, Notice, PairChanged
from app.worker.jobs import TitleJob
from tests.fake_engine import FIXED, no_loader
from tests.session.scripted import BROKEN, PAIR, ScriptedSession, finished, step

FULL = ContextOverflowError("Too long.", whose="conversation", n_tokens=5000)
OTHER = 99
"""Number of a request of another program."""
Act = Callable[[ScriptedSession], Changes]


def do(command: Callable[[ScriptedSession], object]) -> Act:
    """Give a command, which must be accepted."""

    def act(chat: ScriptedSession) -> Changes:
        assert command(chat) is not False
        return chat.session.take_changes()

    return act


def refused(command: Callable[[ScriptedSession], object]) -> Act:
    """Give a command that is not possible now."""

    def act(chat: ScriptedSession) -> Changes:
        with pytest.raises(BlockedError):
            command(chat)
        return chat.session.take_changes()

    return act


def on(event: Callable[[int], Event]) -> Act:
    """Handle an event of the latest request."""
    return lambda chat: chat.session.handle(event(len(chat.engine.requests)))


def send(text: str) -> Act:
    return do(lambda chat: chat.session.send(text))


def load(title: str, *, stops: bool = False, cancels: bool = False) -> Act:
    """Load another pair, which cancels an answer or another load if `cancels`."""

    def act(chat: ScriptedSession) -> Changes:
        before = chat.engine.cancelled
        chat.session.load(no_loader, title, stops=stops)
        assert chat.engine.cancelled - before == cancels
        return chat.session.take_changes()

    return act


def regenerate(message: str) -> Act:
    return do(lambda chat: chat.session.regenerate(chat.node(message)))


def resume(answer: str) -> Act:
    return do(lambda chat: chat.session.resume(chat.node(answer)))


def edit(prompt: str, text: str) -> Act:
    return do(lambda chat: chat.session.edit(chat.node(prompt), text))


def switch(message: str) -> Act:
    return do(lambda chat: chat.session.switch(chat.node(message)))


def delete(message: str) -> Act:
    return do(lambda chat: chat.session.delete(chat.node(message)))


def text(piece: str) -> Act:
    return on(lambda number: step(number, piece))


def ends(whole: str, reason: FinishReason = FinishReason.STOP) -> Act:
    return on(lambda number: finished(number, whole, reason))


def fails(error: AppError = BROKEN) -> Act:
    return on(lambda number: Failed(number, error))


def titled(chat: ScriptedSession) -> Changes:
    assert isinstance(chat.engine.jobs[-1], TitleJob)
    changes = chat.session.handle(JobEnded(1000 + len(chat.engine.jobs), "A fine title"))
    assert chat.library.title(1) == "A fine title"
    return changes


LOADED, FAILED_TO_LOAD = on(lambda _: Loaded(PAIR)), on(lambda _: Failed(None, BROKEN))
STOP = do(lambda chat: chat.session.stop())
TAKE_BACK = do(lambda chat: chat.session.take_back())
NEW = do(lambda chat: chat.session.new_conversation())
UNDELETE = do(lambda chat: chat.session.undelete())
N, A, P = Change.NOTHING, Phase.ANSWERING, Change.PROGRESS
CANCELLED = FinishReason.CANCELLED


@dataclass(frozen=True)
class Row:
    """A step of the chat, and its results."""

    act: Act
    what: Change
    shown: str
    """The messages that a reader shows, separated by bars."""
    phase: Phase = Phase.READY
    queued: str = ""
    ended: str | None = None
    """Returned prompts, "reverted" or "counts" at the end of an answer or a load, if one ended."""
    blocked: Blocked | None = None
    """Why nothing can be asked, if neither the queue nor the phase says so."""


LOADING = (
    Row(send("a"), Change.WAITING, "a|", Phase.LOADING, blocked=Blocked.WAITING),
    Row(FAILED_TO_LOAD, Change.UNLOADED, "", Phase.UNLOADED, ended="a"),
    Row(load("A"), Change.LOADING, "", Phase.LOADING),
    Row(send("a"), Change.WAITING, "a|", Phase.LOADING, blocked=Blocked.WAITING),
    Row(TAKE_BACK, N, "", Phase.LOADING),
    Row(send("a"), Change.WAITING, "a|", Phase.LOADING, blocked=Blocked.WAITING),
    Row(LOADED, Change.LOADED | Change.ASKED, "a|", A),
    Row(ends("b"), N, "a|b", ended="counts"),
    # Later loads overtake earlier loads, whether these succeed or fail.
    Row(load("B"), Change.LOADING, "a|b", Phase.LOADING),
    Row(load("C", cancels=True), Change.LOADING, "a|b", Phase.LOADING),
    Row(load("D", cancels=True), Change.LOADING, "a|b", Phase.LOADING),
    Row(LOADED, N, "a|b", Phase.LOADING),
    Row(FAILED_TO_LOAD, N, "a|b", Phase.LOADING),
    Row(LOADED, Change.LOADED, "a|b"),
    # A load stops the running answer, or waits for its end.
    Row(send("c"), Change.ASKED, "a|b|c|", A),
    Row(load("B", stops=True, cancels=True), N, "a|b|c|", A),
    Row(ends("d", CANCELLED), Change.LOADING, "a|b|c|d", Phase.LOADING, ended="counts"),
    Row(LOADED, Change.LOADED, "a|b|c|d"),
    Row(send("e"), Change.ASKED, "a|b|c|d|e|", A),
    Row(load("B"), N, "a|b|c|d|e|", A),
    Row(ends("f"), Change.LOADING, "a|b|c|d|e|f", Phase.LOADING, ended="counts"),
    Row(LOADED, Change.LOADED, "a|b|c|d|e|f"),
)  # fmt: skip
ANSWERS = (
    # Text arrives and is stored, and other events change nothing.
    Row(send("a"), Change.ASKED, "a|", A),
    Row(on(lambda number: PromptProgress(number, False, 1, 2)), P, "a|", A),
    Row(text("one"), P, "a|one", A),
    Row(text(" two"), P, "a|one two", A),
    Row(on(lambda _: step(OTHER, "not ours")), N, "a|one two", A),
    Row(on(lambda _: Notice("Drafting stopped.")), N, "a|one two", A),
    Row(on(lambda _: PairChanged(PAIR)), Change.PAIR, "a|one two", A),
    Row(ends("one two"), N, "a|one two", ended="counts"),
    Row(titled, N, "a|one two"),
    # Prompts wait for the answer; one is withdrawn, and the others return when it is stopped.
    Row(send("b"), Change.ASKED, "a|one two|b|", A),
    Row(send("c"), N, "a|one two|b|", A, "c"),
    Row(send("d"), N, "a|one two|b|", A, "c|d"),
    Row(TAKE_BACK, N, "a|one two|b|", A, "c"),
    Row(text("three"), P, "a|one two|b|three", A, "c"),
    Row(ends("three", FinishReason.LENGTH), Change.ASKED, "a|one two|b|three|c|", A, ended="counts"),
    Row(send("d"), N, "a|one two|b|three|c|", A, "d"),
    Row(send("e"), N, "a|one two|b|three|c|", A, "d|e"),
    Row(STOP, N, "a|one two|b|three|c|", A, "d|e"),
    Row(ends("half", CANCELLED), N, "a|one two|b|three|c|half", ended="d\n\ne"),
)  # fmt: skip
CONTINUED = (
    Row(send("a"), Change.ASKED, "a|", A),
    Row(text("half"), P, "a|half", A),
    Row(ends("half", FinishReason.CONTEXT), N, "a|half", ended="counts"),
    # Without new text, the answer stays as it was.
    Row(resume("half"), Change.ASKED, "a|half", A),
    Row(ends("half", CANCELLED), N, "a|half", ended="reverted"),
    Row(resume("half"), Change.ASKED, "a|half", A),
    Row(fails(), N, "a|half", ended="reverted"),
    Row(resume("half"), Change.ASKED, "a|half", A),
    Row(text(", more"), P, "a|half, more", A),
    Row(fails(), N, "a|half, more", ended="reverted"),
    Row(resume("half, more"), Change.ASKED, "a|half, more", A),
    Row(ends("half, more, all"), N, "a|half, more, all", ended="counts"),
    Row(send("b"), Change.ASKED, "a|half, more, all|b|", A),
)  # fmt: skip
FAILURES = (
    # An unanswered prompt is asked again, and another prompt becomes a branch beside it.
    Row(send("a"), Change.ASKED, "a|", A),
    Row(fails(), N, "a", ended=""),
    Row(send("a"), Change.ASKED, "a|", A),
    Row(text("half"), P, "a|half", A),
    Row(fails(), N, "a|half", ended="counts"),
    Row(send("b"), Change.ASKED, "a|half|b|", A),
    Row(ends("c"), N, "a|half|b|c", ended="counts"),
    Row(send("d"), Change.ASKED, "a|half|b|c|d|", A),
    Row(fails(), N, "a|half|b|c|d", ended=""),
    Row(send("e"), Change.ASKED, "a|half|b|c|e|", A),
    Row(ends("f"), N, "a|half|b|c|e|f", ended="counts"),
    # If another answer fails, the earlier answer stays active.
    Row(regenerate("b"), Change.ASKED, "a|half|b|", A),
    Row(fails(), N, "a|half|b|c|e|f", ended="reverted"),
    Row(regenerate("c"), Change.ASKED, "a|half|b|", A),
    Row(text("g"), P, "a|half|b|g", A),
    Row(fails(), N, "a|half|b|c|e|f", ended="reverted"),
    Row(regenerate("e"), Change.ASKED, "a|half|b|c|e|", A),
    Row(ends("h"), N, "a|half|b|c|e|h", ended="counts"),
    Row(send("i"), Change.ASKED, "a|half|b|c|e|h|i|", A),
    Row(send("j"), N, "a|half|b|c|e|h|i|", A, "j"),
    Row(fails(), N, "a|half|b|c|e|h|i", ended="j"),
)  # fmt: skip
BRANCHES = (
    Row(send("a"), Change.ASKED, "a|", A),
    Row(ends("b"), N, "a|b", ended="counts"),
    Row(send("c"), Change.ASKED, "a|b|c|", A),
    Row(ends("d"), N, "a|b|c|d", ended="counts"),
    Row(edit("c", "e"), Change.ASKED, "a|b|e|", A),
    Row(ends("f"), N, "a|b|e|f", ended="counts"),
    Row(switch("c"), Change.BRANCH, "a|b|c|d"),
    # An edit without a change is another answer.
    Row(edit("c", "c"), Change.ASKED, "a|b|c|", A),
    Row(ends("g"), N, "a|b|c|g", ended="counts"),
    Row(do(lambda chat: chat.session.rewrite(chat.node("g"), "G")), Change.BRANCH, "a|b|c|G"),
    Row(send("h"), Change.ASKED, "a|b|c|G|h|", A),
    Row(refused(lambda chat: chat.session.delete(chat.node("a"))), N, "a|b|c|G|h|", A),
    Row(ends("i"), N, "a|b|c|G|h|i", ended="counts"),
    # Deleted messages return to their places, last first.
    Row(delete("c"), Change.BRANCH, "a|b|h|i"),
    Row(delete("i"), Change.BRANCH, "a|b|h"),
    Row(UNDELETE, Change.BRANCH, "a|b|h|i"),
    Row(UNDELETE, Change.BRANCH, "a|b|c|G|h|i"),
    Row(delete("c"), Change.BRANCH, "a|b|h|i"),
    Row(send("j"), Change.ASKED, "a|b|h|i|j|", A),
)  # fmt: skip
COMPACTION = (
    Row(send("a"), Change.ASKED, "a|", A),
    Row(ends("b"), N, "a|b", ended="counts"),
    Row(send("c"), Change.ASKED, "a|b|c|", A),
    Row(fails(FULL), N, "a|b|c|", A),
    Row(on(lambda number: PromptProgress(number, False, 1, 2)), N, "a|b|c|", A),
    Row(text("They talked."), N, "a|b|c|", A),
    Row(ends("They talked."), Change.COMPACTED, "a|b|c|", A),
    Row(text("d"), P, "a|b|c|d", A),
    Row(ends("d"), N, "a|b|c|d", ended="counts"),
)  # fmt: skip
OTHERS = (
    # A prompt behind a request of another program is withdrawn immediately.
    Row(send("a"), Change.ASKED, "a|", A),
    Row(on(lambda _: step(OTHER, "not ours")), N, "a|", A),
    Row(STOP, N, "a", ended=""),
    Row(ends("", CANCELLED), N, "a"),
    # Another conversation is opened during an answer, whose text is not shown there.
    Row(send("b"), Change.ASKED, "b|", A),
    Row(NEW, Change.OPENED, "", A, blocked=Blocked.ELSEWHERE),
    Row(do(lambda chat: not chat.session.stop()), N, "", A, blocked=Blocked.ELSEWHERE),
    Row(text("c"), N, "", A, blocked=Blocked.ELSEWHERE),
    Row(do(lambda chat: chat.session.open_conversation(1)), Change.OPENED, "b|c", A),
    Row(ends("c"), N, "b|c", ended="counts"),
)  # fmt: skip
CHATS = {
    "loading": LOADING,
    "answers": ANSWERS,
    "continued answers": CONTINUED,
    "failures": FAILURES,
    "branches": BRANCHES,
    "compaction": COMPACTION,
    "other programs and conversations": OTHERS,
}
_BLOCKED_BY_PHASE = {
    Phase.READY: None,
    Phase.LOADING: Blocked.LOADING,
    Phase.ANSWERING: Blocked.ANSWERING,
    Phase.UNLOADED: Blocked.UNLOADED,
}


def end_of(changes: Changes) -> str | None:
    ended = changes.ended
    if ended is None or ended.returned:
        return ended.returned if ended is not None else None
    return "reverted" if ended.reverted else "counts" if ended.counts else ""


def why_blocked(chat: ScriptedSession) -> Blocked | None:
    try:
        chat.session.refuse_if_blocked()
    except BlockedError as error:
        return error.why
    return None


@pytest.mark.parametrize("rows", CHATS.values(), ids=CHATS.keys())
def test_a_whole_chat(tmp_path: Path, rows: tuple[Row, ...]) -> None:
    flags = {**FIXED, "answer.titles": True}
    chat = ScriptedSession(tmp_path / "conversations.db", loaded=rows is not LOADING, flags=flags)
    chat.session.take_changes()
    for at, row in enumerate(rows):
        changes, now = row.act(chat), chat.session
        shown = "|".join(node.text for node in now.messages)
        blocked = row.blocked or (Blocked.WAITING if row.queued else _BLOCKED_BY_PHASE[row.phase])
        wanted = row.what, row.shown, row.phase, row.queued, row.ended, blocked
        found = changes.what, shown, now.phase, "|".join(now.queued), end_of(changes), why_blocked(chat)
        assert found == wanted, f"row {at}"
        if Change.ASKED in changes.what:
            *texts, begun = shown.split("|")
            prefill = chat.engine.requests[-1].prefill
            assert (chat.read, prefill and prefill.text) == (texts, begun or None), f"row {at}"
        if chat.conversation.number is not None and now.phase is Phase.READY:
            other = chat.other
            assert other.load(chat.conversation.number).tree == chat.conversation.tree, f"row {at}"
            other.close()
    assert chat.said == []
    chat.session.close()
