"""The chat screen: puts what the user does to the engine, and what the engine says on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import ActiveBinding, BindingType
from textual.containers import Horizontal
from textual.css.query import NoMatches
from textual.getters import query_one
from textual.message import Message
from textual.screen import Screen
from textual.widget import MountError
from textual.widgets import Footer, Static

from app.engine.types import AutoDraft, FinishReason
from app.events import (
    Event,
    Failed,
    Finished,
    Loaded,
    LoadProgress,
    Measuring,
    Notice,
    PairInfo,
    PromptProgressed,
    StepCompleted,
)
from app.responder import AnswerRequest
from app.ui.bridge import Batch, EventBridge, Single
from app.ui.keys import KEYS, in_order
from app.ui.pace import Pace
from app.ui.session import ChatSession, Phase
from app.ui.settings import ChatSettings
from app.ui.setups import Choice, PairService
from app.ui.widgets.downloads import DownloadLine
from app.ui.widgets.header import HeaderLine
from app.ui.widgets.hint import Hint
from app.ui.widgets.message import Reasoning
from app.ui.widgets.messages import MessageList
from app.ui.widgets.prompt import PromptInput
from app.ui.widgets.status import StatusLine

if TYPE_CHECKING:
    from app.ui.app import Engine

_ENDINGS = {
    FinishReason.CANCELLED: "stopped",
    FinishReason.LENGTH: "cut at the token limit",
    FinishReason.CONTEXT: "cut: the context is full; ctrl+n begins a new conversation",
}


class ChatScreen(Screen[None]):
    """One conversation with one pair.

    Args:
        engine: Answers.
        bridge: Where its events wait.
        settings: How answers are asked for.
        pairs: The pairs to choose from, or None.
        loads: Whether a pair is being loaded already.
    """

    AUTO_FOCUS = "PromptInput"
    BINDINGS: ClassVar[list[BindingType]] = KEYS

    header = query_one(HeaderLine)
    messages = query_one(MessageList)
    hint = query_one(Hint)
    status = query_one(StatusLine)
    prompt = query_one(PromptInput)

    class EventsArrived(Message):
        """The engine has said something that should not wait."""

    class PairsWanted(Message):
        """The user wants to choose another pair."""

    def __init__(
        self,
        engine: Engine,
        bridge: EventBridge,
        settings: ChatSettings,
        pairs: PairService | None = None,
        *,
        loads: bool = True,
    ) -> None:
        super().__init__()
        self.session = ChatSession(settings)
        self.session.phase = Phase.LOADING if loads else Phase.UNLOADED
        self._pairs = pairs
        self._n_loading = int(loads)
        self._next_pair: Choice | None = None
        self._engine = engine
        self._bridge = bridge
        self._pace = Pace()
        self._looking = False

    def compose(self) -> ComposeResult:
        yield HeaderLine(self.session.settings.title)
        yield MessageList()
        yield Hint()
        if self._pairs is not None:
            yield DownloadLine(self._pairs)
        yield StatusLine()
        with Horizontal(id="entry"):
            yield Static("\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}", id="mark")
            yield PromptInput()
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self._bridge.connect(lambda: self.post_message(self.EventsArrived()))
        self.watch(self.messages, "scroll_y", self._on_scrolled, init=False)
        if self.session.phase is Phase.LOADING:
            self.status.reading_models()
        else:
            self.status.unloaded()
        self._pace.start()
        self._look_soon()

    # What the user does

    @on(PromptInput.Sent)
    async def _send(self, event: PromptInput.Sent) -> None:
        text = event.text.strip()
        if refusal := self.session.refusal:
            self.prompt.restore(event.text)
            unloaded = self.session.phase is Phase.UNLOADED and self._pairs is not None
            self.hint.say("No model is loaded; f6 chooses one." if unloaded else refusal)
            return
        # Asked before anything is awaited, so that no key in between can ask for something else.
        loading = self.session.phase is Phase.LOADING
        if loading:
            self.session.waiting = text
        else:
            self._start(self.session.ask(text))
        answer = await self.messages.ask(text)
        self.hint.unseen(False)
        if loading:
            answer.note("waits for the models")
            self.refresh_bindings()

    def action_stop(self) -> None:
        if self.session.phase is Phase.ANSWERING:
            self.status.stopping()
            self._engine.cancel()
        else:
            self.call_later(self._take_back)

    # Keys arrive beside the screen's own messages; what they change must wait its turn behind an answer's text.

    def action_again(self) -> None:
        self.call_later(self._again)

    def action_restart(self) -> None:
        self.call_later(self._restart)

    async def _again(self) -> None:
        if not self.session.can_ask_again:
            return
        if self.prompt.text.strip() == self.session.asked:
            self.prompt.clear()
        self._start(self.session.ask_again())
        await self.messages.ask_again()
        self.hint.unseen(False)

    async def _restart(self) -> None:
        await self._take_back()
        if self.session.phase is Phase.ANSWERING:
            self._engine.cancel()
        self.session.restart()
        await self.messages.clear()
        self.hint.unseen(False)
        await self._load_next()
        if self.session.phase is Phase.READY:
            self._show_ready()
        self.refresh_bindings()

    def action_toggle_drafting(self) -> None:
        session = self.session
        if not session.can_draft:
            self.hint.say("There is no draft model.")
            return
        session.drafting = not session.drafting
        self._show_source()
        if session.phase is Phase.ANSWERING:
            self.hint.say(f"The next answer is {'drafted' if session.drafting else 'decoded plainly'}.")

    def action_pairs(self) -> None:
        for line in self.query(DownloadLine):
            line.stop()
        self.post_message(self.PairsWanted())

    async def change_pair(self, choice: Choice) -> None:
        """Load another pair; a running answer is stopped first, and the conversation stays."""
        self._next_pair = choice
        if self.session.phase is Phase.ANSWERING:
            self.action_stop()
        else:
            await self._load_next()

    def watch_downloads(self) -> None:
        """Show how downloads go, until they have ended."""
        for line in self.query(DownloadLine):
            line.watch_downloads()

    async def _load_next(self) -> None:
        choice, self._next_pair = self._next_pair, None
        if choice is None:
            return
        if self._n_loading:
            self._engine.cancel()
        session = self.session
        session.settings, session.pair, session.phase = choice.settings, None, Phase.LOADING
        session.drafting = choice.settings.drafting is not None
        self._n_loading += 1
        self._engine.load(choice.loader)
        await self.header.remove()
        await self.mount(HeaderLine(choice.settings.title), before=0)
        self.status.reading_models()
        self._pace.start()
        self._look_soon()
        self.refresh_bindings()

    def action_toggle_thinking(self) -> None:
        thoughts = self.query(Reasoning)
        opened = not any(thought.open for thought in thoughts)
        for thought in thoughts:
            thought.open = opened

    def action_page(self, direction: int) -> None:
        self.messages.page(direction)

    def action_follow(self) -> None:
        self.messages.anchor()
        self.hint.unseen(False)

    def _on_scrolled(self) -> None:
        if self.messages.is_vertical_scroll_end:
            self.hint.unseen(False)

    @on(Hint.Followed)
    def _follow(self) -> None:
        self.action_follow()

    @on(Hint.Wanted)
    def _hint(self, event: Hint.Wanted) -> None:
        self.hint.say(event.text)

    @property
    def active_bindings(self) -> dict[str, ActiveBinding]:
        return in_order(super().active_bindings)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Dim the keys that would do nothing."""
        if action == "stop":
            return self.session.phase is Phase.ANSWERING or self.session.waiting is not None or None
        if action == "again":
            return self.session.can_ask_again or None
        if action == "pairs":
            return self._pairs is not None
        return True

    # What the engine says

    @on(EventsArrived)
    async def _on_events(self) -> None:
        await self._drain()

    async def _on_pace(self) -> None:
        self._looking = False
        await self._drain()
        self._look_soon()

    def _look_soon(self) -> None:
        """Look again, as long as there is something to wait for."""
        if self.session.phase in (Phase.LOADING, Phase.ANSWERING) and not self._looking:
            self._looking = True
            self.set_timer(self._pace.next_delay(), self._on_pace)

    async def _drain(self) -> None:
        """Show what has come since the last time, at once: one new layout instead of one per token."""
        try:
            for event in self._bridge.drain(self._is_wanted):
                if isinstance(event, Batch):
                    await self._show(event)
                else:
                    await self._handle(event)
                    self.refresh_bindings()
        except (MountError, NoMatches):
            # Widgets go while the program ends, perhaps between two of the lines above.
            if not self._bridge.closed:
                raise

    def _is_wanted(self, event: Event) -> bool:
        """Whether somebody still waits for the answer that an event belongs to."""
        request = getattr(event, "request", None)
        return request is None or request == self.session.request

    async def _show(self, batch: Batch) -> None:
        match batch.latest:
            case LoadProgress() as progress:
                self.status.reading_models(progress)
            case PromptProgressed() as progress:
                self.status.reading(progress)
            case Measuring(share=share):
                self.status.measuring(share)
            case StepCompleted(stats=stats, drafting=drafting):
                self.status.measured(stats, drafting, live=True)
        if batch.segments and self.messages.answer is not None:
            self.hint.unseen(not self.messages.following)
            await self.messages.answer.add(batch.segments)

    async def _handle(self, event: Single) -> None:
        match event:
            case Loaded() | Failed(request=None) if self._is_overtaken():
                pass
            case Loaded(pair):
                self._on_loaded(pair)
            case Notice(text):
                await self.messages.notice(text)
            case Finished():
                await self._on_finished(event)
            case Failed(request=None):
                await self._on_load_failed(event)
            case Failed():
                await self._on_failed(event)

    def _is_overtaken(self) -> bool:
        """Count a loading that has ended; whether another one was asked for since."""
        self._n_loading -= 1
        return self._n_loading > 0

    def _on_loaded(self, pair: PairInfo) -> None:
        session = self.session
        session.pair, session.phase = pair, Phase.READY
        session.drafting = session.drafting and session.can_draft
        self.header.pair = pair
        self.status.ready(pair.n_ctx)
        self._show_source()
        if session.waiting is not None:
            prompt, session.waiting = session.waiting, None
            if self.messages.answer is not None:
                self.messages.answer.note("")
            self._start(session.ask(prompt))

    async def _on_finished(self, event: Finished) -> None:
        self.status.measured(event.stats, event.drafting, live=False)
        if self.messages.answer is not None:
            empty = "" if event.text.strip() or event.reason in _ENDINGS else "the model said nothing"
            self.messages.answer.note(_ENDINGS.get(event.reason, empty))
        await self._end(event.text)

    async def _on_failed(self, event: Failed) -> None:
        if self.messages.answer is not None:
            await self.messages.answer.fail(event.error)
        await self._end("")
        self._show_ready()

    async def _on_load_failed(self, event: Failed) -> None:
        self.session.phase = Phase.UNLOADED
        self.status.unloaded()
        await self._take_back()
        await self.messages.fail(event.error)

    # What both lead to

    def _start(self, request: AnswerRequest) -> None:
        self.hint.forget()
        self.status.begin()
        self.session.started(self._engine.answer(request))
        self._pace.start()
        self._look_soon()
        self.refresh_bindings()

    async def _end(self, text: str) -> None:
        asked = self.session.asked
        counts = self.session.ended(text)
        self.hint.forget()
        restored = await self.messages.settle(counts=counts)
        if asked is not None and not counts and not restored:
            self.prompt.give_back(asked)
        await self._load_next()

    async def _take_back(self) -> None:
        """Return a prompt that waits for the models, if there is one, to the user."""
        prompt, self.session.waiting = self.session.waiting, None
        if prompt is not None:
            await self.messages.take_back()
            self.prompt.give_back(prompt)
            self.refresh_bindings()

    def _show_ready(self) -> None:
        if self.session.pair is not None:
            self.status.ready(self.session.pair.n_ctx)

    def _show_source(self) -> None:
        session = self.session
        if not session.can_draft:
            self.status.source("no draft", drafting=False)
        elif not session.drafting:
            self.status.source("draft off", drafting=False)
        else:
            automatic = isinstance(session.settings.drafting, AutoDraft)
            self.status.source("automatic" if automatic else "model", drafting=True)
