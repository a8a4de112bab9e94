"""Draws the session's snapshot on the chat screen: only what has changed since the last one."""

from __future__ import annotations

from collections.abc import Callable

from app.conversations.message import Role
from app.conversations.tree import Node, Tree
from app.models.pair_info import PairInfo
from app.session.snapshot import Phase, Snapshot
from app.session.turn import Turn
from app.ui.chat.base import ChatBase
from app.ui.key_names import CHOOSE, key


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
        self._pair_notice_due = False

    def begin(self) -> None:
        """Draw the state before the first event."""
        if self._shown.phase is Phase.LOADING:
            self._screen.status.reading_models()
        else:
            self._screen.status.unloaded()
        self._screen.dispatcher.start()

    async def render(self, *, is_edit: bool = False) -> None:
        """Draw what has changed.

        Args:
            is_edit: Whether the last prompt was edited rather than replaced.
        """
        screen, before, now = self._screen, self._shown, self._screen.session.snapshot
        self._shown = now
        if now.loads != before.loads:
            await self._announce_load(now)
        if now.pair is not before.pair:
            self._show_pair(now.pair, is_new=before.pair is None)
        switched = now.switches != before.switches
        starts = now.running is not None and (before.running != now.running or switched)
        if starts:
            self._begin_answer()
        if now.phase is Phase.UNLOADED and before.phase is not Phase.UNLOADED:
            screen.status.unloaded()
        has_pair = now.phase in (Phase.READY, Phase.ANSWERING)
        if has_pair and (now.drafting != before.drafting or before.phase is Phase.LOADING):
            drafting = now.drafting
            screen.status.source(drafting.source, drafting=drafting.is_on, n_max=drafting.n_max)
        waits = now.waiting is not None and before.waiting is None
        if now.tree is not before.tree:
            screen.messages.mark(now.tree)
        if switched or now.messages != before.messages or now.running != before.running:
            await screen.messages.show(now.messages, now.running, replace=switched, follow=starts or waits or switched)
        if starts or waits:
            screen.hint.unseen(False)
        if waits:
            screen.hint.about("")
        if starts and not is_edit:
            await self._explain_replaced(before, now)
        if switched:
            self._begin_branch(now)
            self._pair_notice_due = True
        if now.pair is not None and (switched or before.pair is None):
            await self._show_pair_notice(now, now.pair)
        if now.messages != before.messages:
            screen.sidebar.look_again()
        screen.refresh_bindings()

    async def render_branch(self) -> None:
        """Draw another branch, and forget what was shown of the last answer."""
        await self.render()
        self._begin_branch(self._shown)
        self._screen.hint.forget()

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
        screen.show_included()

    def _begin_answer(self) -> None:
        screen = self._screen
        screen.hint.forget()
        screen.hint.about("")
        screen.inspector.begin()
        screen.status.begin()
        screen.attention.begin()
        screen.dispatcher.start()
        self._store_typed()

    async def _explain_replaced(self, before: Snapshot, now: Snapshot) -> None:
        """Say where an unanswered prompt is that another one replaces."""
        old, new = Turn.of(before.tree.path), Turn.of(now.tree.path).prompt
        if old.prompt is None or old.is_answered or new is None or new.id == old.prompt.id:
            return
        if new.parent == old.prompt.parent and new.id not in before.tree.nodes:
            choose, earlier = key("chat.choose", CHOOSE), key("message.earlier", "left/right")
            await self._screen.messages.notice(
                f"The prompt before this one has no answer, so the model does not read it. It is kept as the branch "
                f"beside this one: choose this one with {choose}, then {earlier}."
            )

    async def _show_pair_notice(self, now: Snapshot, pair: PairInfo) -> None:
        """Say once per opened conversation that another model wrote it; a draft model changes no answer."""
        loaded = self._screen.session.conversation.models["target"]
        text = ""
        if self._pair_notice_due:
            used = next((node.model for node in reversed(now.messages) if _is_named_answer(node)), loaded)
            if used != loaded:
                change = f" {key('chat.pairs', 'f6')} changes the pair." if self._screen.has_pairs else ""
                text = f"This conversation used {used}. Now answering: {loaded}.{change}"
        self._pair_notice_due = False
        await self._screen.messages.show_pair_notice(text)


def _is_named_answer(node: Node) -> bool:
    return node.role is Role.ASSISTANT and bool(node.model)


def branches_beside(tree: Tree) -> str:
    """Return that the last prompt or answer has branches beside it, and the keys to see them; "" where it has none."""
    choose, others = key("chat.choose", CHOOSE), key("message.earlier", "left/right")
    turn = Turn.of(tree.path)
    prompt = turn.prompt.id if turn.prompt is not None else None
    for node, name, presses in ((tree.leaf, "answer", choose), (prompt, "prompt", f"{choose} twice")):
        siblings = [sibling.id for sibling in tree.siblings(node)] if node is not None else []
        if node is not None and len(siblings) > 1:
            at, plural = f"{siblings.index(node) + 1} of {len(siblings)}", "s" * (len(siblings) > 2)
            return f"This is {name} {at} here: {presses}, then {others} shows the other{plural}."
    return ""
