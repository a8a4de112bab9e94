"""What the engine says, put on the chat screen and into the store."""

from __future__ import annotations

from app.conversations.ending import Ending, ending_in, numbers_of_failure
from app.models.pair_info import PairInfo
from app.session.keeper import Keeper
from app.ui.chat.asking import Asking
from app.ui.chat.bare_screen import BareChatScreen
from app.ui.chat.branches import one_of_several
from app.ui.chat.counting import Counting
from app.ui.chat.draft_switch import DraftSwitch
from app.ui.chat.pair_changes import PairChanges
from app.ui.chat.pair_loading import PairLoading
from app.ui.chat.pair_notice import PairNotice
from app.ui.chat.session import Phase
from app.ui.chat.token_mode import TokenMode
from app.ui.chat.ways_out import in_chat
from app.ui.listening.bridge import Batch, Single
from app.ui.models.fit_options import NoRoomError
from app.ui.names import names_of
from app.ui.sweeping import REST_S, sweep
from app.ui.transcript.ended import in_vain
from app.ui.transcript.message import AnswerMessage
from app.worker.events import Event, Failed, Finished, Loaded, Measuring, Notice, PairChanged

_TIDY_S = 0.3
"""Between two steps of tidying: keys that came meanwhile go first."""
_MEASURED_ONCE = "measures what drafts cost here, once, and then answers"
_MEASURED_AGAIN = "measures once more whether drafts pay, and then answers"
"""What an answer that has not begun is kept by."""


class Hearing:
    """The chat's ears; see `app.ui.listening.listener.Ears`.

    Args:
        screen: The chat.
        keeper: Keeps what is shown.
        changes: Which pair is being loaded.
        asking: Asks what waited for the models.
        tokens: Shows who wrote each token.
        draft_switch: Shows what answers are drafted by.
        pair_loading: Loads the pair that waited for an answer to end.
        counting: Counts what the prompt includes.
        pair_notice: Shows when the loaded model differs from the conversation's.
    """

    def __init__(
        self,
        screen: BareChatScreen,
        keeper: Keeper,
        changes: PairChanges,
        asking: Asking,
        tokens: TokenMode,
        draft_switch: DraftSwitch,
        pair_loading: PairLoading,
        counting: Counting,
        pair_notice: PairNotice,
    ) -> None:
        self._screen = screen
        self._session = screen.session
        self._keeper = keeper
        self._changes = changes
        self._asking = asking
        self._tokens = tokens
        self._draft_switch = draft_switch
        self._pair_loading = pair_loading
        self._counting = counting
        self._pair_notice = pair_notice
        self._noted: tuple[AnswerMessage, str] | None = None

    @property
    def is_waiting(self) -> bool:
        return self._session.phase in (Phase.LOADING, Phase.ANSWERING)

    def is_wanted(self, event: Event) -> bool:
        """Whether somebody still waits for the answer that an event belongs to."""
        request = getattr(event, "request", None)
        return request is None or request == self._session.request or self._counting.is_wanted(event)

    def rest(self, next_s: float) -> None:
        self._screen.status.catch_up()
        self._note_reading()
        self._keeper.tick(next_s)

    async def show(self, batch: Batch) -> None:
        screen = self._screen
        # A pair may be loaded anew for a comparison; nobody waits for that here, nor sees its end.
        if self.is_waiting:
            screen.status.follow(batch.latest)
        self._keeper.add(batch.segments)
        answer = screen.messages.answer
        self._tell_why_it_waits(batch)
        if batch.segments and answer is not None:
            screen.hint.unseen(not screen.messages.following)
            await answer.add(batch.segments)
        if answer is not None:
            await self._tokens.follow(answer, batch)

    def _tell_why_it_waits(self, batch: Batch) -> None:
        """Show below an answer without text that its pair is measured or its prompt is read."""
        latest, answer = batch.latest, self._screen.messages.answer
        if isinstance(latest, Measuring) and self._screen.status.keeps_waiting(latest):
            self._note(answer, _MEASURED_AGAIN if latest.again else _MEASURED_ONCE)
        elif not self._note_reading():
            self._note(answer, "")

    def _note_reading(self) -> bool:
        """Show below an answer how much of its prompt is read; return whether one is being read."""
        line = self._screen.status.reading_line
        if line:
            self._note(self._screen.messages.answer, line)
        return bool(line)

    def _note(self, answer: AnswerMessage | None, text: str) -> None:
        """Replace this object's note below an answer; an empty text leaves other notes alone."""
        noted = self._noted
        if answer is None or noted == (answer, text) or (not text and (noted is None or noted[0] is not answer)):
            return
        self._noted = (answer, text) if text else None
        answer.note(text)

    async def handle(self, event: Single) -> None:
        if self._counting.is_wanted(event):
            self._counting.hear(event)
            return
        match event:
            case PairChanged(pair) | Loaded(pair) if not self._changes.is_loading:
                self._on_changed(pair)
            case PairChanged():
                pass
            case Loaded() | Failed(request=None) if self._changes.is_overtaken():
                pass
            case Loaded(pair):
                await self._on_loaded(pair)
            case Notice(text):
                await self._screen.messages.notice(text)
            case Finished():
                await self._on_finished(event)
            case Failed(request=None):
                await self._on_load_failed(event)
            case Failed():
                await self._on_failed(event)
        self._screen.refresh_bindings()

    async def _on_loaded(self, pair: PairInfo) -> None:
        screen, session = self._screen, self._session
        session.phase = Phase.READY
        self._show_pair(pair)
        session.drafting = session.drafting and session.can_draft
        screen.show_ready()
        self._draft_switch.show()
        await self._pair_notice.update()
        if session.waiting is None:
            self._tidy()
            return
        prompt, session.waiting = session.waiting, None
        if screen.messages.answer is not None:
            screen.messages.answer.note("")
        self._asking.ask(prompt)

    def _on_changed(self, pair: PairInfo) -> None:
        """The pair is not what it was, and what was asked for goes on."""
        self._show_pair(pair)
        self._screen.status.holds(pair.n_ctx)
        # Nobody has switched anything, and the engine knows by itself what it can draft with.
        self._draft_switch.name_source()

    def _show_pair(self, pair: PairInfo) -> None:
        self._session.pair = pair
        self._keeper.models = names_of(pair)
        self._screen.messages.name_models(self._keeper.models["target"])
        self._screen.header.pair = pair
        self._screen.panel.show_pair(pair)
        self._screen.tell_included()

    def _tidy(self) -> None:
        """Let go of what was deleted long ago, bit by bit while nothing is asked."""
        if self._session.phase is Phase.READY and self._keeper.tidy():
            self._screen.set_timer(_TIDY_S, self._tidy)

    async def _on_finished(self, event: Finished) -> None:
        self._keeper.finish(event)
        screen = self._screen
        if event.stats.predicted_n:
            screen.status.measured(event.stats, event.drafting, live=False)
        else:
            screen.status.in_vain()
        screen.sidebar.look_again()
        await self._end(event.text, event.reasoning, Ending(event.reason, event.repeats, at_limit=event.at_limit))

    async def _on_failed(self, event: Failed) -> None:
        error, is_idle = in_chat(event.error, self._screen), self._is_idle
        text, reasoning = self._keeper.fail(error)
        await self._end(text, reasoning, ending_in(numbers_of_failure(error)))
        if self._session.phase is not Phase.READY:
            return
        self._screen.status.in_vain()
        if isinstance(error, NoRoomError) and error.options:
            # They hold for now and here; what is kept of the answer says so by itself.
            await self._screen.messages.offer(error.options)
            if is_idle:
                self._pair_loading.show_ways()

    async def _on_load_failed(self, event: Failed) -> None:
        self._session.phase = Phase.UNLOADED
        self._screen.status.unloaded()
        is_idle = self._is_idle
        await self._asking.take_back()
        await self._screen.messages.fail(event.error)
        if is_idle:
            self._pair_loading.show_ways()

    async def _end(self, text: str, reasoning: str, ending: Ending) -> None:
        screen, asked = self._screen, self._session.asked
        self._noted = None
        screen.attention.end()
        screen.set_timer(REST_S, sweep)
        counts = self._session.ended(text, reasoning)
        screen.hint.forget()
        gave_way = await screen.messages.settle(ending, counts=counts)
        screen.messages.mark(self._keeper.tree, self._keeper.exchange)
        if gave_way:
            screen.hint.ask(in_vain(ending, thought=bool(reasoning.strip())))
        elif not counts:
            if asked is not None:
                self._asking.give_back_unanswered(asked)
        elif beside := one_of_several(self._keeper.tree, self._keeper.exchange):
            screen.workspace.tell_last(beside)
        await self._pair_loading.load_next()

    @property
    def _is_idle(self) -> bool:
        """Whether keys may be for the ways out: they are taken from nobody who is doing something else."""
        return not self._screen.prompt.text and self._screen.focused in (None, self._screen.prompt)
