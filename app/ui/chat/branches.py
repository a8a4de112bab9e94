"""The branches of a conversation, on the screen."""

from __future__ import annotations

from app.conversations.tree import Tree
from app.session.keeper import Keeper
from app.session.kept import Opened
from app.ui.chat.bare_screen import BareChatScreen
from app.ui.chat.session import Phase
from app.ui.key_names import CHOOSE, key


class Branches:
    """For the chat screen.

    Args:
        screen: The chat.
        keeper: Has the conversation with its branches.
    """

    def __init__(self, screen: BareChatScreen, keeper: Keeper) -> None:
        self._screen = screen
        self._keeper = keeper

    async def show(self, opened: Opened | None, instead: int) -> None:
        """Show another branch from the place of a message on, and go on from its end.

        Args:
            opened: What the store says of the branch; None leaves everything as it is.
            instead: The message.
        """
        if opened is None:
            return
        screen, session, tree = self._screen, self._screen.session, self._keeper.tree
        session.restart(opened.said, opened.asked, answered=opened.answered)
        screen.inspector.begin()
        screen.hint.forget()
        screen.hint.about("")
        siblings = {sibling.id for sibling in tree.siblings(instead)}
        depth = next((at for at, node in enumerate(opened.path) if node.id in siblings), 0)
        speech = await screen.messages.reach(instead)
        if speech is None:
            await screen.messages.show(opened.path)
        else:
            await screen.messages.cut(speech, opened.path[depth:])
        screen.messages.mark(tree)
        if session.phase is Phase.READY:
            screen.show_ready()
        screen.workspace.show_last_numbers(opened.path)
        screen.refresh_bindings()


def one_of_several(tree: Tree, exchange: tuple[int | None, int | None]) -> str:
    """That the last exchange has others beside it, and how to come to them; "" where it has none.

    Args:
        tree: The conversation.
        exchange: The ids of the last prompt and of its answer.
    """
    prompt, answer = exchange
    choose, others = key("chat.choose", CHOOSE), key("message.earlier", "left/right")
    for node, name, presses in ((answer, "answer", choose), (prompt, "prompt", f"{choose} twice")):
        if node is None or node not in tree.nodes:
            continue
        siblings = [sibling.id for sibling in tree.siblings(node)]
        if len(siblings) > 1:
            at, plural = f"{siblings.index(node) + 1} of {len(siblings)}", "s" * (len(siblings) > 2)
            return f"This is {name} {at} here: {presses}, then {others} shows the other{plural}."
    return ""
