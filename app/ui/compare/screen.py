"""The compare screen: a prompt with and without the draft, on the loaded models."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, VerticalGroup
from textual.getters import query_one

from app.compare import shown_name
from app.compare.job import CompareJob
from app.compare.race import WARM_UP, RunBegan, RunEnded, sides_of
from app.compare.report import Comparison, comparison_markdown
from app.core.errors import AppError, DoesNotFitError
from app.core.units import counted
from app.engine.events import PromptProgress, Step
from app.engine.types import DraftParams
from app.session.session import Session
from app.settings.layers import automatic
from app.ui.actions import bindings
from app.ui.base_screen import SubScreen
from app.ui.compare.panes import PromptLines, Result, SidePane, median_figures
from app.ui.event_queue import EventBatch, OverlayHandler
from app.ui.key_names import key
from app.ui.transcript.answer import in_keys
from app.ui.widgets.header import HeaderLine
from app.ui.widgets.row_canvas import n_leading
from app.worker.events import Event, Failed, JobEnded, JobProgressed, LoadProgress, Measuring
from app.worker.request import AnswerRequest

_MIN_SIDE_COLUMNS = 50
"""Width of a side; narrower windows show one text at a time."""


class CompareScreen(SubScreen[None]):
    """A prompt answered by each side in turn; the conversation does not change.

    Args:
        session: Has the loaded pair and the engine, which runs the rounds.
        request: The conversation with the prompt at its end, and the current drafting.
        listen: Sends events of the engine to a handler; None ends that.
    """

    HEADING = "Compare"
    CSS_PATH = "screen.tcss"
    BINDINGS: ClassVar[list[BindingType]] = bindings("compare.")

    result = query_one(Result)

    def __init__(
        self,
        session: Session,
        request: AnswerRequest,
        listen: Callable[[OverlayHandler | None], None],
    ) -> None:
        super().__init__()
        assert session.pair is not None
        self._engine, self._pair, self._request = session.engine, session.pair, request
        self._listen = listen
        fixed = request.drafting if isinstance(request.drafting, DraftParams) else None
        self._sides = sides_of(automatic(session.settings), fixed)
        self._comparison = Comparison()
        self._goal = 0
        """Target number of rounds."""
        self.panes = {side.name: SidePane(side.name) for side in self._sides}
        self._visible = 0
        """Index of the text in a narrow window."""
        self._job: int | None = None
        """Number of the running job."""
        self._is_stopping = False
        self._turn = RunBegan("", WARM_UP)

    def compose_body(self) -> ComposeResult:
        yield PromptLines(self._request)
        yield Container(*self.panes.values(), id="panes")
        yield VerticalGroup(*(pane.row for pane in self.panes.values()), id="sides")
        yield Result()

    def on_mount(self) -> None:
        self.query_one(HeaderLine).pair = self._pair
        self.result.show_result(self._comparison)
        self._run_rounds(1)

    def on_resize(self) -> None:
        self._arrange()

    # Keys

    def action_stop(self) -> None:
        self.stop_work()

    def action_leave(self) -> None:
        self._listen(None)
        self.dismiss()

    def stop_work(self) -> str | None:
        if not self._can_stop:
            return None
        self._is_stopping = True
        self._engine.cancel(self._job)
        self.result.show_activity("stopping")
        self.refresh_bindings()
        return "The comparison"

    async def action_more(self, rounds: int) -> None:
        await self.result.clear_problem()
        self._run_rounds(rounds)

    def action_switch(self) -> None:
        self._visible += 1
        self._arrange()

    def action_scroll(self, lines: int) -> None:
        for pane in self.panes.values():
            pane.scroll_text(lines)

    def action_copy(self) -> None:
        markdown = comparison_markdown(self._comparison, self._request, self._pair)
        self.app.copy_to_clipboard(markdown)
        self.hint.say("Copied the comparison.")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide or dim keys that would do nothing."""
        match action:
            case "stop":
                return self._can_stop
            case "more":
                return not self.expects_events or None
            case "switch":
                return not self.has_class("-wide")
            case "copy":
                return bool(self._comparison.rounds) or None
        return super().check_action(action, parameters)

    @property
    def _can_stop(self) -> bool:
        return self.expects_events and not self._is_stopping

    # Events; see `app.ui.event_queue.OverlayHandler`

    @property
    def expects_events(self) -> bool:
        return self._job is not None

    def expects(self, event: Event) -> bool:
        is_ours = isinstance(event, LoadProgress) or getattr(event, "request", None) == self._job
        return self._job is not None and is_ours

    def idle(self, next_s: float) -> None:
        pass

    async def show(self, batch: EventBatch) -> None:
        is_warm_up = self._turn.round == WARM_UP
        turn = "warming up" if is_warm_up else f"run {self._turn.round} of {self._goal}"
        activity = f"{turn}, {shown_name(self._turn.side)}"
        match batch.latest:
            case LoadProgress(share=share):
                activity = f"loading the models again: {share:.0%}"
            case Measuring() as measuring:
                activity = measuring.line()
            case PromptProgress() as progress:
                activity += f": {progress.line()}"
        if not is_warm_up:
            stats = batch.latest.stats if isinstance(batch.latest, Step) else None
            self.panes[self._turn.side].add(batch.segments, stats)
        self._show_activity(activity)

    async def handle(self, event: Event) -> None:
        match event:
            case JobProgressed(what=RunBegan() as turn):
                self._turn = turn
                if turn.round != WARM_UP:
                    self.panes[turn.side].begin()
                    self._visible = list(self.panes).index(turn.side)
                    self._arrange()
            case JobProgressed(what=RunEnded(round=number, run=run)) if number != WARM_UP:
                self.panes[run.contender].end(run)
            case JobProgressed(what=str(activity)):
                self._show_activity(activity)
            case JobEnded(result=Comparison() as raced):
                self._job = None
                self._comparison = raced.after(self._comparison)
                self._show_result()
                if raced.broken is not None:
                    await self._fail(raced.broken)
            case Failed(error=error):
                self._job = None
                await self._fail(error)

    def _run_rounds(self, n_rounds: int) -> None:
        n_done = len(self._comparison.rounds)
        self._is_stopping, self._turn, self._goal = False, RunBegan("", WARM_UP), n_done + n_rounds
        job = CompareJob(
            self._request,
            self._sides,
            n_rounds,
            first=n_done + 1,
            explains=len(self._comparison.differences) < len(self._sides) - 1,
        )
        self._job = self._engine.run(job)
        self._listen(self)
        self.result.show_activity("starting")
        self.refresh_bindings()

    def _show_activity(self, text: str) -> None:
        if not self._is_stopping:
            self.result.show_activity(text)

    def _show_result(self) -> None:
        found = self._comparison
        n_done = len(found.rounds)
        ending = f"after {counted(n_done, 'complete run')}" if n_done else "before the first run ended"
        # Otherwise only the explanation of a difference was stopped.
        self.result.show_activity(f"stopped {ending}" if found.stopped and n_done < self._goal else None)
        self.result.show_result(found)
        for measured in found.measured:
            self.panes[measured.name].show_figures(median_figures(measured, found.rounds[-1][measured.name]))
        self._mark_difference()
        self.refresh_bindings()

    async def _fail(self, error: AppError) -> None:
        if isinstance(error, DoesNotFitError):
            # The options are applied in the chat.
            once, pairs = key("compare.once"), key("chat.pairs")
            hint = f"Free some memory and press {once}, or choose another pair in the chat ({pairs})."
            error = AppError(error.message, hint)
        await self.result.fail(in_keys(error, self._pair))
        self.refresh_bindings()

    # Panes

    def _arrange(self) -> None:
        is_wide = self.size.width >= _MIN_SIDE_COLUMNS * len(self.panes)
        self.set_class(is_wide, "-wide")
        self._visible %= len(self.panes)
        for at, pane in enumerate(self.panes.values()):
            pane.display = is_wide or at == self._visible
            pane.row.set_class(at == self._visible, "-chosen")
        self.refresh_bindings()

    def _mark_difference(self) -> None:
        baseline, *others = self.panes.items()
        places = {
            name: n_leading(x == y for x, y in zip(baseline[1].text, pane.text, strict=False))
            for name, pane in others
            if self._comparison.differences.get(name) is not None
        }
        for name, pane in others:
            pane.mark(places.get(name))
        baseline[1].mark(min(places.values(), default=None))
