"""A whole chat without a screen: the changes and the displayed messages after each command and event."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from app.core.errors import AppError, ContextOverflowError
from app.engine.events import PromptProgress
from app.engine.types import FinishReason
from app.session.state import Change, Changes, Idle, Phase
from app.worker.events import Event, Failed, JobEnded, Loaded, Notice, PairChanged
from app.worker.jobs import TitleJob
from tests.fake_engine import FIXED, STATS, no_loader
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


def on(event: Callable[[int], Event | Idle]) -> Act:
    """Handle an event of the latest request."""
    return lambda chat: chat.session.handle(event(len(chat.engine.requests)))


def send(text: str) -> Act:
    return do(lambda chat: chat.session.send(text))


def text(piece: str) -> Act:
    return on(lambda number: step(number, piece))


def ends(whole: str, reason: FinishReason = FinishReason.STOP) -> Act:
    return on(lambda number: finished(number, whole, reason))


def fails(error: AppError) -> Act:
    return on(lambda number: Failed(number, error))


def end_of(changes: Changes) -> str | None:
    ended = changes.ended
    if ended is None or ended.returned:
        return ended.returned if ended is not None else None
    return "reverted" if ended.reverted else "counts" if ended.counts else ""


def titled(chat: ScriptedSession) -> Changes:
    assert isinstance(chat.engine.jobs[-1], TitleJob)
    return chat.session.handle(JobEnded(1000 + len(chat.engine.jobs), "A fine title"))


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


N, A, P = Change.NOTHING, Phase.ANSWERING, Change.PROGRESS
CHAT = (
    # A prompt waits for the pair; loading fails and succeeds.
    Row(send("a"), Change.WAITING, "a|", Phase.LOADING),
    Row(on(lambda _: Failed(None, BROKEN)), Change.UNLOADED, "", Phase.UNLOADED, ended="a"),
    Row(do(lambda chat: chat.session.load(no_loader, "A")), Change.LOADING, "", Phase.LOADING),
    Row(send("a"), Change.WAITING, "a|", Phase.LOADING),
    Row(on(lambda _: Loaded(PAIR)), Change.LOADED | Change.ASKED, "a|", A),
    # Text arrives and is stored, and other events change nothing.
    Row(on(lambda number: PromptProgress(number, False, 1, 2)), P, "a|", A),
    Row(text("one"), P, "a|one", A),
    Row(text(" two"), P, "a|one two", A),
    Row(on(lambda _: Idle(1.0)), N, "a|one two", A),
    Row(on(lambda _: step(OTHER, "not ours")), N, "a|one two", A),
    Row(on(lambda _: Notice("Drafting stopped.")), N, "a|one two", A),
    Row(on(lambda _: PairChanged(PAIR)), Change.PAIR, "a|one two", A),
    # The title is written after the first answer.
    Row(ends("one two"), N, "a|one two", ended="counts"),
    Row(titled, N, "a|one two"),
    # Prompts wait for the answer; one is withdrawn, and the others return when it is stopped.
    Row(send("b"), Change.ASKED, "a|one two|b|", A),
    Row(send("c"), N, "a|one two|b|", A, "c"),
    Row(send("d"), N, "a|one two|b|", A, "c|d"),
    Row(do(lambda chat: chat.session.take_back()), N, "a|one two|b|", A, "c"),
    Row(text("three"), P, "a|one two|b|three", A, "c"),
    Row(ends("three"), Change.ASKED, "a|one two|b|three|c|", A, ended="counts"),
    Row(send("d"), N, "a|one two|b|three|c|", A, "d"),
    Row(text("half"), P, "a|one two|b|three|c|half", A, "d"),
    Row(do(lambda chat: chat.session.stop()), N, "a|one two|b|three|c|half", A, "d"),
    Row(ends("half", FinishReason.CANCELLED), N, "a|one two|b|three|c|half", ended="d"),
    # It is continued; a failure after text keeps it, and an earlier answer stays active after a failed regeneration.
    Row(do(lambda chat: chat.session.resume(chat.node("half"))), Change.ASKED, "a|one two|b|three|c|half", A),
    Row(text(", more"), P, "a|one two|b|three|c|half, more", A),
    Row(ends("half, more"), N, "a|one two|b|three|c|half, more", ended="counts"),
    Row(do(lambda chat: chat.session.regenerate()), Change.ASKED, "a|one two|b|three|c|", A),
    Row(fails(BROKEN), N, "a|one two|b|three|c|half, more", ended="reverted"),
    # The context is full: a summary replaces earlier messages invisibly.
    Row(send("e"), Change.ASKED, "a|one two|b|three|c|half, more|e|", A),
    Row(fails(FULL), N, "a|one two|b|three|c|half, more|e|", A),
    Row(text("They talked."), N, "a|one two|b|three|c|half, more|e|", A),
    Row(ends("They talked."), Change.COMPACTED, "a|one two|b|three|c|half, more|e|", A),
    Row(text("four"), P, "a|one two|b|three|c|half, more|e|four", A),
    Row(ends("four"), N, "a|one two|b|three|c|half, more|e|four", ended="counts"),
    # Branches
    Row(do(lambda chat: chat.session.edit(chat.node("b"), "B")), Change.ASKED, "a|one two|B|", A),
    Row(ends("five"), N, "a|one two|B|five", ended="counts"),
    Row(do(lambda chat: chat.session.switch(chat.node("b"))), Change.BRANCH, "a|one two|b|three|c|half, more|e|four"),
    Row(do(lambda chat: chat.session.switch(chat.node("five"))), Change.BRANCH, "a|one two|B|five"),
    Row(do(lambda chat: chat.session.rewrite(chat.node("five"), "5")), Change.BRANCH, "a|one two|B|5"),
    Row(do(lambda chat: chat.session.delete(chat.node("5"))), Change.BRANCH, "a|one two|B|five"),
    # A prompt behind a request of another program is withdrawn immediately.
    Row(send("f"), Change.ASKED, "a|one two|B|five|f|", A),
    Row(on(lambda _: step(OTHER, "not ours")), N, "a|one two|B|five|f|", A),
    Row(do(lambda chat: chat.session.stop()), N, "a|one two|B|five|f", ended=""),
    Row(ends("", FinishReason.CANCELLED), N, "a|one two|B|five|f"),
    # Another conversation is opened during an answer, whose text is not shown there.
    Row(send("g"), Change.ASKED, "a|one two|B|five|g|", A),
    Row(do(lambda chat: chat.session.new_conversation()), Change.OPENED, "", A),
    Row(text("six"), N, "", A),
    Row(do(lambda chat: chat.session.open_conversation(1)), Change.OPENED, "a|one two|B|five|g|six", A),
    Row(ends("six"), N, "a|one two|B|five|g|six", ended="counts"),
    # Another pair is loaded when the answer has ended.
    Row(send("h"), Change.ASKED, "a|one two|B|five|g|six|h|", A),
    Row(do(lambda chat: chat.session.load(no_loader, "B", waits=True)), N, "a|one two|B|five|g|six|h|", A),
    Row(ends("seven"), Change.LOADING, "a|one two|B|five|g|six|h|seven", Phase.LOADING, ended="counts"),
    Row(on(lambda _: Loaded(PAIR)), Change.LOADED, "a|one two|B|five|g|six|h|seven"),
)  # fmt: skip


def test_a_whole_chat(tmp_path: Path) -> None:
    chat = ScriptedSession(tmp_path / "conversations.db", loaded=False, flags={**FIXED, "answer.titles": True})
    for at, row in enumerate(CHAT):
        changes, now = row.act(chat), chat.session
        shown = "|".join(node.text for node in now.messages)
        wanted = row.what, row.shown, row.phase, row.queued, row.ended
        assert (changes.what, shown, now.phase, "|".join(now.queued), end_of(changes)) == wanted, f"row {at}"
    assert chat.texts(1) == CHAT[-1].shown.split("|")
    assert chat.library.title(1) == "A fine title"
    assert chat.said == []
    assert STATS.predicted_n == chat.conversation.tree.path[-1].numbers.predicted_n
    chat.session.close()
