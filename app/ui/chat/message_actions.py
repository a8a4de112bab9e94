"""Actions on messages: edit, answer again, continue, and go from branch to branch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from app.conversations.message import Role
from app.conversations.tree import Node
from app.core.printable import printable
from app.session.snapshot import Phase
from app.ui.chat.base import ChatBase
from app.ui.chat.input_mode import InputMode
from app.ui.chat.prompt_sender import PromptSender
from app.ui.chat.renderer import Renderer
from app.ui.commands.table import COMMANDS
from app.ui.key_names import key
from app.ui.transcript.message import AnswerMessage
from app.ui.transcript.message_view import MessageAction, MessageView


class MessageActions:
    """Actions on messages.

    Args:
        screen: The chat.
        renderer: Draws what comes of it.
        sender: Reads the files that an edited prompt names.
        input_mode: Lets a message be edited in the input line.
    """

    def __init__(self, screen: ChatBase, renderer: Renderer, sender: PromptSender, input_mode: InputMode) -> None:
        self._screen = screen
        self._session = screen.session
        self._renderer = renderer
        self._sender = sender
        self._input_mode = input_mode

    async def perform(self, message_view: MessageView, requested: MessageAction) -> None:
        """Do what a key asks for on a chosen message."""
        screen = self._screen
        match requested:
            case MessageAction.LEAVE:
                screen.prompt.focus()
            case MessageAction.UP:
                await screen.messages.step(-1)
            case MessageAction.DOWN:
                if not await screen.messages.step(1):
                    screen.prompt.focus()
            case MessageAction.EDIT:
                self._edit(message_view)
            case MessageAction.AGAIN:
                node = self._node(message_view)
                if node is not None:
                    await self.regenerate(node.parent if node.role is Role.ASSISTANT else node.id)
            case MessageAction.GO_ON:
                await self.resume(message_view)
            case MessageAction.EARLIER:
                await self._switch(message_view, -1)
            case MessageAction.LATER:
                await self._switch(message_view, 1)

    # Edit

    async def edit_last(self) -> None:
        """Edit the last prompt; if something is typed, only when asked twice.

        The key also goes to the end of a line, so it says nothing where typed text cannot be left.
        """
        messages, hint, typed = self._screen.messages, self._screen.hint, self._screen.prompt.whole
        refusal = self._refusal_to_change()
        if (typed and refusal) or not self._may(refusal):
            return
        path = self._session.conversation.tree.path
        last = next((node for node in reversed(path) if node.role is Role.USER), None)
        message_view = await messages.reach(last.id) if last is not None else None
        again = f"{key('chat.edit_last', 'ctrl+e')} again edits the last prompt; what is typed comes back after that."
        if message_view is None:
            if not typed:
                hint.say("There is no prompt to edit.")
        elif typed and not hint.is_saying(again):
            hint.say(again)
        else:
            messages.choose(message_view)
            self._edit(message_view)

    def _edit(self, message_view: MessageView) -> None:
        node = self._node(message_view)
        if node is None or not self._may(self._refusal_to_change()):
            return
        begin = self._input_mode.begin
        takes, leaves = key("prompt.send", "enter"), key("chat.leave_task", "esc")
        match node.role:
            case Role.SYSTEM:
                self._screen.hint.say("What the system says is set before the conversation begins.")
            case Role.USER:
                hint = f"Editing: {takes} asks it as a branch, {leaves} leaves it as it was."
                asks = partial(self._ask_edited, node.id)
                begin(hint, COMMANDS.as_typed(node.text), asks, message_view, self._refusal_to_ask, is_prompt=True)
            case Role.ASSISTANT:
                hint = f"Editing the answer: {takes} keeps yours as a branch, {leaves} leaves it as it was."
                begin(hint, node.text, partial(self._rewrite, node), message_view, self._refusal_to_change)

    async def _ask_edited(self, prompt: int, text: str, back: Callable[[], None]) -> None:
        await self._sender.read(text, partial(self._branch_off, prompt, text, back), back)

    async def _branch_off(self, prompt: int, text: str, back: Callable[[], None], message: str) -> None:
        screen = self._screen
        old = self._session.conversation.tree.nodes.get(prompt)
        if not self._may(self._refusal_to_ask()) or old is None or not self._session.edit(prompt, message):
            back()
            return
        screen.prompt.past.add(text)
        self._input_mode.take_from_line(old.text)
        await self._renderer.render(is_edit=True)

    async def _rewrite(self, answer: Node, text: str, _: Callable[[], None]) -> None:
        if text == printable(answer.text):
            return
        if self._session.rewrite(answer.id, text):
            await self._renderer.render_branch()
        else:
            # Another Tandem has removed the conversation.
            self._screen.prompt.restore(text)

    # Answer again or continue

    async def regenerate(self, prompt: int | None = None) -> None:
        """Answer a prompt again, by default the last one."""
        last = self._session.conversation.turn.prompt
        node = self._session.conversation.tree.nodes.get(prompt) if prompt is not None else last
        if not self._may(self._refusal_to_ask()):
            return
        if node is None or not self._session.regenerate(node.id):
            self._screen.hint.say("There is no prompt that it answers.")
            return
        await self._show_begun(node)

    async def resume(self, message_view: MessageView | None = None) -> None:
        """Continue an answer that ended early, by default the last message."""
        messages, hint = self._screen.messages, self._screen.hint
        if message_view is None:
            message_view = messages.message_views[-1] if messages.message_views else None
        if message_view is None or not message_view.can_go_on:
            is_said = isinstance(message_view, AnswerMessage) and message_view.text.strip()
            hint.say("The last answer is at its end." if is_said else "There is no answer to go on with.")
            return
        node = self._node(message_view)
        if node is None or not self._may(self._refusal_to_ask()):
            return
        if not self._session.resume(node.id):
            hint.say("This answer cannot be continued.")
            return
        await self._show_begun(self._session.conversation.turn.prompt)

    async def _show_begun(self, prompt: Node | None) -> None:
        self._input_mode.leave()
        if prompt is not None:
            self._input_mode.take_from_line(prompt.text)
        await self._renderer.render(is_edit=True)
        self._screen.prompt.focus()

    # Branches

    async def _switch(self, message_view: MessageView, direction: int) -> None:
        node = self._node(message_view)
        if node is None or not self._may(self._refusal_to_change()):
            return
        siblings = [sibling.id for sibling in self._session.conversation.tree.siblings(node.id)]
        at = siblings.index(node.id) + direction
        if 0 <= at < len(siblings):
            await self.switch(siblings[at])
            shown = await self._screen.messages.reach(siblings[at])
            if shown is not None:
                self._screen.messages.choose(shown)

    async def switch(self, message: int) -> None:
        """Show the branch through a message."""
        self._input_mode.leave()
        if self._session.switch(message):
            await self._renderer.render_branch()

    def _node(self, message_view: MessageView) -> Node | None:
        node = self._session.conversation.tree.nodes.get(message_view.node) if message_view.node is not None else None
        if node is None:
            self._screen.hint.say("This message is not part of the conversation.")
        return node

    def _may(self, refusal: str) -> bool:
        if refusal:
            self._screen.hint.say(refusal)
        return not refusal

    def _refusal_to_ask(self) -> str:
        loads = "The models are still being loaded." if self._session.phase is Phase.LOADING else ""
        return self._sender.refusal or loads

    def _refusal_to_change(self) -> str:
        return self._sender.refusal if self._session.is_busy else ""
