"""Actions on messages, conversations and their settings."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from app.conversations.message import Role
from app.conversations.tree import Node
from app.core.errors import AppError, UsageError
from app.core.printable import printable
from app.settings.kinds import Value
from app.ui.chat.base import ChatBase
from app.ui.chat.input_mode import InputMode
from app.ui.chat.prompt_sender import PromptSender
from app.ui.chat.renderer import Renderer
from app.ui.commands.table import COMMANDS
from app.ui.key_names import key
from app.ui.transcript.message import AnswerMessage
from app.ui.transcript.message_view import MessageAction, MessageView

if TYPE_CHECKING:
    from app.ui.conversations.picker import ConversationPicker


class ChatActions:
    """Actions on messages, conversations and their settings. They raise AppError if they cannot be done.

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
                self._edit(self._node(message_view), message_view)
            case MessageAction.AGAIN:
                node = self._node(message_view)
                await self._regenerate(node.parent if node.role is Role.ASSISTANT else node.id)
            case MessageAction.GO_ON:
                await self._resume(message_view)
            case MessageAction.EARLIER | MessageAction.LATER:
                await self._switch(self._node(message_view), -1 if requested is MessageAction.EARLIER else 1)

    def _node(self, message_view: MessageView) -> Node:
        node = self._session.conversation.tree.nodes.get(message_view.node) if message_view.node is not None else None
        if node is None:
            raise AppError("This message is not part of the conversation.")
        return node

    def _refuse_if_busy(self) -> None:
        if self._session.is_busy:
            self._sender.refuse_if_blocked()

    # Edit

    async def edit_last(self) -> None:
        """Edit the last prompt."""
        path = self._session.conversation.tree.path
        last = next((node for node in reversed(path) if node.role is Role.USER), None)
        message_view = await self._screen.messages.reach(last.id) if last is not None else None
        if last is None or message_view is None:
            raise AppError("There is no prompt to edit.")
        self._refuse_if_busy()
        self._screen.messages.choose(message_view)
        self._edit(last, message_view)

    def _edit(self, node: Node, message_view: MessageView) -> None:
        self._refuse_if_busy()
        if node.role is Role.SYSTEM:
            raise AppError("The system message of an imported conversation cannot be edited.")
        takes, leaves = key("prompt.send", "enter"), key("chat.leave_task", "esc")
        if node.role is Role.USER:
            hint = f"Editing: {takes} asks it as a branch, {leaves} leaves it as it was."
            ask = partial(self._ask_edited, node)
            self._input_mode.begin(hint, COMMANDS.as_typed(node.text), ask, message_view, is_prompt=True)
        else:
            hint = f"Editing the answer: {takes} keeps yours as a branch, {leaves} leaves it as it was."
            self._input_mode.begin(hint, node.text, partial(self._rewrite, node), message_view)

    async def _ask_edited(self, prompt: Node, text: str) -> None:
        message = await self._sender.message(text)
        self._sender.refuse_if_blocked(while_loading=True)
        if not self._session.edit(prompt.id, message):
            raise AppError("The prompt was not sent.")
        self._screen.prompt.past.add(text)
        self._input_mode.end()
        self._input_mode.take_from_line(prompt.text)
        await self._renderer.render()

    async def _rewrite(self, answer: Node, text: str) -> None:
        self._refuse_if_busy()
        if text == printable(answer.text):
            return
        if not self._session.rewrite(answer.id, text):
            raise AppError("The answer was not saved.")
        await self._renderer.render_branch()

    # Answer again or continue

    async def regenerate(self) -> None:
        """Answer the last prompt again."""
        last = self._session.conversation.turn.prompt
        if last is not None:
            await self._regenerate(last.id)

    async def _regenerate(self, prompt: int | None) -> None:
        self._sender.refuse_if_blocked(while_loading=True)
        node = self._session.conversation.tree.nodes.get(prompt) if prompt is not None else None
        if node is None or not self._session.regenerate(node.id):
            raise AppError("There is no prompt that it answers.")
        await self._show_started(node)

    async def resume(self) -> None:
        """Continue the last answer if it ended early."""
        message_views = self._screen.messages.message_views
        await self._resume(message_views[-1] if message_views else None)

    async def _resume(self, message_view: MessageView | None) -> None:
        if message_view is None or not message_view.can_go_on:
            has_text = isinstance(message_view, AnswerMessage) and message_view.text.strip()
            raise AppError("The last answer is at its end." if has_text else "There is no answer to go on with.")
        node = self._node(message_view)
        self._sender.refuse_if_blocked(while_loading=True)
        if not self._session.resume(node.id):
            raise AppError("This answer cannot be continued.")
        await self._show_started(self._session.conversation.turn.prompt)

    async def _show_started(self, prompt: Node | None) -> None:
        self._input_mode.leave()
        if prompt is not None:
            self._input_mode.take_from_line(prompt.text)
        await self._renderer.render()
        self._screen.prompt.focus()

    # Branches

    async def _switch(self, node: Node, direction: int) -> None:
        self._refuse_if_busy()
        siblings = [sibling.id for sibling in self._session.conversation.tree.siblings(node.id)]
        at = siblings.index(node.id) + direction
        if 0 <= at < len(siblings):
            await self._show_branch(siblings[at])
            shown = await self._screen.messages.reach(siblings[at])
            if shown is not None:
                self._screen.messages.choose(shown)

    async def _show_branch(self, message: int) -> None:
        self._input_mode.leave()
        if self._session.switch(message):
            await self._renderer.render_branch()

    # Conversations

    async def new_conversation(self) -> None:
        """Begin an empty conversation, and type in it."""
        self._screen.prompt.focus()
        self._screen.hint.forget()
        self._screen.sidebar.end_search()
        await self._leave_for(None)

    async def open(self, conversation: int | None) -> None:
        """Open another conversation; None stays, unless the open one was deleted."""
        library = self._session.library
        if conversation is not None and conversation != library.conversation:
            self._screen.hint.forget()
            await self._leave_for(conversation)
        elif library.is_deleted:
            await self._leave_for(None)

    async def open_found(self, found: ConversationPicker.Chosen | None) -> None:
        """Open the conversation that was found, at the message that was found; None stays."""
        if found is None:
            await self.open(None)
            return
        self._screen.sidebar.end_search()
        await self.open(found.conversation)
        if found.message is not None:
            await self._reveal(found.message)

    async def _reveal(self, message: int) -> None:
        tree = self._session.conversation.tree
        if message in tree.nodes and tree.nodes[message] not in tree.path:
            self._refuse_if_busy()
            await self._show_branch(message)
        await self._screen.messages.seek(message)

    async def _leave_for(self, conversation: int | None) -> None:
        session, pending = self._session, self._input_mode.pending_text
        if conversation is None:
            session.new_conversation(pending)
        elif not session.open_conversation(conversation, pending):
            return
        self._input_mode.end()
        self._screen.prompt.put(session.conversation.draft)
        await self._renderer.render()

    # Settings of this conversation, drafting on or off

    @property
    def system(self) -> str:
        """The system prompt of the next answer; "" for none."""
        return self._session.settings.system or ""

    def settings_changed(self) -> None:
        """Use the settings as they are now."""
        self._session.settings_changed()
        self._screen.call_later(self._renderer.render)

    def set_setting(self, name: str, value: Value) -> None:
        """Change a setting for this conversation alone; None removes it.

        Raises:
            UsageError: There are no settings to change.
        """
        if not self._session.can_set:
            raise UsageError("There are no settings here.")
        self._session.set_setting(name, value)
        self._screen.call_later(self._renderer.render)

    def toggle_drafting(self) -> None:
        """Turn drafting on or off, or say why not."""
        drafting = self._session.drafting
        self._screen.hint.say(self._turn(not drafting.is_on) if drafting.is_available else self._why_no_draft)

    @property
    def _why_no_draft(self) -> str:
        if self._session.can_set and self._session.settings.drafting is None:
            return f"Drafting is off in the settings; {key('chat.settings', 'f4')} turns it on."
        return self._session.drafting.reason

    def _turn(self, on: bool) -> str:
        self._session.set_drafting(on)
        self._screen.call_later(self._renderer.render)
        which = "This answer continues" if self._session.can_switch_running else "The next answer is written"
        return f"{which} {'with' if on else 'without'} drafting."
