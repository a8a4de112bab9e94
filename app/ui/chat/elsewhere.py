"""What another Tandem says in the conversation that goes on here."""

from __future__ import annotations

from app.session.keeper import Keeper
from app.ui.chat.bare_screen import BareChatScreen
from app.ui.chat.branches import Branches
from app.ui.chat.tasks import Tasks


class Elsewhere:
    """For the chat screen. What is typed stays as it is.

    Args:
        screen: The chat.
        keeper: Has the conversation, as it was when it was last looked at.
        tasks: What is written that is no prompt; it stands beside a message that stays.
    """

    def __init__(self, screen: BareChatScreen, keeper: Keeper, tasks: Tasks) -> None:
        self._screen = screen
        self._keeper = keeper
        self._tasks = tasks
        self._branches = Branches(screen, keeper)

    async def look(self) -> bool:
        """Show what was said since, unless something is on its way here; returns whether a prompt would be below it."""
        screen, before = self._screen, self._keeper.tree
        if self._tasks.has_task or screen.session.is_on_its_way:
            return False
        opened = self._keeper.look_again()
        if self._keeper.tree is before:
            return False
        screen.sidebar.look_again()
        screen.messages.mark(self._keeper.tree)
        if opened is None:
            return False
        now = self._keeper.tree.nodes
        other = (node.id for node in before.path if node.id not in now or not node.says_as(now[node.id]))
        await self._branches.show(opened, next(other, before.leaf or 0))
        return True
