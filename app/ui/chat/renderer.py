"""Draws the session's snapshot on the chat screen: only what has changed since the last one."""

from __future__ import annotations

from collections.abc import Callable

from app.conversations.message import Role
from app.models.pair_info import PairInfo
from app.session.snapshot import Phase, Snapshot
from app.ui.chat.base import ChatBase


class Renderer:
    """Every command and every event other than text is followed by one `render`.

    Args:
        screen: The chat.
        store_typed: Stores the input line soon; a sent prompt is no longer in it.
    """

    def __init__(self, screen: ChatBase, store_typed: Callable[[], object]) -> None:
        self._screen = screen
        self._store_typed = store_typed
        self._shown = screen.session.snapshot

    def begin(self) -> None:
        """Draw the state before the first event."""
        if self._shown.phase is Phase.LOADING:
            self._screen.status.reading_models()
        else:
            self._screen.status.unloaded()
        self._screen.dispatcher.start()

    async def render(self) -> None:
        """Draw what has changed."""
        screen, before, now = self._screen, self._shown, self._screen.session.snapshot
        self._shown = now
        switched = now.switches != before.switches
        starts = now.running is not None and (before.running != now.running or switched)
        waits = now.waiting is not None and before.waiting is None
        if now.loads != before.loads:
            await self._announce_load(now)
        if now.pair is not before.pair:
            self._show_pair(now.pair, is_new=before.pair is None)
        if starts:
            self._begin_answer()
        self._show_status(before, now)
        if now.tree is not before.tree:
            screen.messages.mark(now.tree)
        if switched or now.messages != before.messages or now.running != before.running:
            await screen.messages.show(now.messages, now.running, replace=switched, follow=starts or waits or switched)
        if starts or waits:
            screen.hint.unseen(False)
            screen.hint.about("")
        if switched:
            self._begin_branch(now)
        if now.pair is not None and (switched or before.pair is None):
            await self._name_other_model(now)
        if now.messages != before.messages or now.titles != before.titles:
            screen.sidebar.update_list()
        screen.refresh_bindings()

    async def render_branch(self) -> None:
        """Draw another branch, and forget what was shown of the last answer."""
        await self.render()
        self._begin_branch(self._shown)
        self._screen.hint.forget()

    def _show_status(self, before: Snapshot, now: Snapshot) -> None:
        status = self._screen.status
        if now.phase is Phase.UNLOADED and before.phase is not Phase.UNLOADED:
            status.unloaded()
        has_pair = now.phase in (Phase.READY, Phase.ANSWERING)
        if now.is_compacting:
            status.compacting()
        elif before.is_compacting and now.phase is Phase.ANSWERING:
            status.begin()
        if has_pair and (now.drafting != before.drafting or before.phase is Phase.LOADING):
            drafting = now.drafting
            status.source(drafting.source, drafting=drafting.is_on, n_max=drafting.n_max)

    def _begin_branch(self, now: Snapshot) -> None:
        screen = self._screen
        screen.inspector.begin()
        screen.hint.about("")
        if now.phase is Phase.READY and now.pair is not None:
            screen.status.ready(now.pair.n_ctx, is_empty=not now.messages)
        screen.workspace.show_last_numbers(now.messages)

    async def _announce_load(self, now: Snapshot) -> None:
        screen = self._screen
        await screen.messages.end_failure()
        screen.header.announce(now.title)
        screen.panel.show_pair(None)
        screen.status.reading_models()
        screen.dispatcher.start()

    def _show_pair(self, pair: PairInfo | None, *, is_new: bool) -> None:
        screen, conversation = self._screen, self._screen.session.conversation
        if pair is not None:
            screen.messages.name_models(conversation.models["target"])
            screen.header.pair = pair
            screen.panel.show_pair(pair)
            if is_new:
                screen.status.ready(pair.n_ctx, is_empty=not conversation.messages_before(None))
            else:
                screen.status.holds(pair.n_ctx)

    async def _name_other_model(self, now: Snapshot) -> None:
        """Say that another model wrote the conversation that was opened; a draft model changes no answer."""
        loaded = self._screen.session.conversation.models["target"]
        models = (node.model for node in reversed(now.messages) if node.role is Role.ASSISTANT and node.model)
        if (used := next(models, loaded)) != loaded:
            await self._screen.messages.notice(f"This conversation used {used}. Now answering: {loaded}.")

    def _begin_answer(self) -> None:
        screen = self._screen
        screen.hint.forget()
        screen.inspector.begin()
        screen.status.begin()
        screen.dispatcher.start()
        self._store_typed()
