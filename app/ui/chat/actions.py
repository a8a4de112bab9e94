"""Actions on prompts, messages, conversations and their settings."""

from __future__ import annotations

from asyncio import wrap_future
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual import on

from app.conversations.attached import compose, split
from app.conversations.message import Role
from app.conversations.tree import Node
from app.core.errors import AppError
from app.core.printable import printable
from app.core.program import in_background
from app.session.session import Session
from app.session.snapshot import Phase
from app.settings.kinds import Value
from app.ui.chat.base import ChatBase
from app.ui.chat.input_mode import InputMode
from app.ui.chat.renderer import Renderer
from app.ui.commands import COMMANDS
from app.ui.composer.included_files import include_files
from app.ui.composer.input import PromptInput
from app.ui.key_names import key
from app.ui.keys import active_key
from app.ui.models.service import PairService
from app.ui.transcript.message import AnswerMessage
from app.ui.transcript.message_view import MessageView

if TYPE_CHECKING:
    from app.ui.conversations.picker import ConversationPicker


def in_turn(action: Callable[[Any], Awaitable[None]]) -> Callable[[ChatActions], None]:
    """Let a key's action wait for the screen's own messages, beside which keys arrive."""

    def begin(screen: ChatActions) -> None:
        screen.call_later(screen.attempt, action, screen)

    return begin


class ChatActions(ChatBase):
    """The screen with what it does on the session; an action raises AppError if it cannot be done."""

    def __init__(self, session: Session, pairs: PairService) -> None:
        super().__init__(session, pairs)
        self.input_mode = InputMode(self)
        self.renderer = Renderer(self, self.input_mode)
        self._asked_to_delete: int | None = None

    async def attempt(self, action: Callable[..., Awaitable[None]], *arguments: object) -> None:
        """Run an action, or say why it cannot be done."""
        try:
            await action(*arguments)
        except AppError as error:
            self.hint.say(error.sentences)

    def _refuse_if_blocked(self, *, while_loading: bool = False) -> None:
        """Refuse if no prompt can be sent now, or, if asked, while the models load."""
        phase, here = self.session.phase, self.session.conversation
        if phase is Phase.UNLOADED:
            raise AppError(f"No pair is loaded; {key('chat.pairs', 'f6')} chooses one.")
        if here.queued:
            raise AppError(f"A prompt is already waiting{self._offer('chat.take_back', 'takes it back')}.")
        if here.running is not None:
            raise AppError(f"An answer is being written{self._offer('chat.stop', 'stops it')}.")
        if phase is Phase.ANSWERING:
            raise AppError("Another conversation is being answered; wait for its end, or open it to stop it.")
        if while_loading and phase is Phase.LOADING:
            raise AppError("The pair is still loading.")

    def _offer(self, identity: str, does: str) -> str:
        """Return a clause such as "; esc stops it", unless the key of that action does something else now."""
        return f"; {shown} {does}" if (shown := active_key(self, identity)) else ""

    def _refuse_if_busy(self) -> None:
        if self.session.is_busy:
            self._refuse_if_blocked()

    # Prompts and slash commands

    @on(PromptInput.Sent)
    async def _send(self, event: PromptInput.Sent) -> None:
        """Do what Enter asks for; text that cannot be sent comes back."""
        text = event.text
        try:
            if self.input_mode.is_active:
                await self.input_mode.send(text)
                return
            self.prompt.past.add(text)
            await (self.run_line(text) if COMMANDS.is_command(text) else self._ask(text))
        except AppError as error:
            self.prompt.restore(text)
            self.hint.say(error.sentences)

    async def _ask(self, text: str) -> None:
        message = await self._message(text)
        if self.session.phase is Phase.UNLOADED:
            self._refuse_if_blocked()
        turn = self.session.conversation.turn
        if not self.session.send(message):
            raise AppError("The prompt was not sent.")
        await self.renderer.render()
        if self.session.snapshot.queued:
            self.hint.say("The prompt waits for the end of the answer.")
        elif turn.prompt is not None and not turn.is_answered and turn.prompt.text != message:
            self.hint.say("The prompt before has no answer; this one is a branch beside it.")

    async def run_line(self, line: str) -> None:
        """Run a slash command."""
        raise NotImplementedError

    async def _message(self, text: str) -> str:
        """Return the message for a typed text, with the files that it names."""
        # The store's modules are imported after the first frame.
        from app.conversations.rows import storable

        # A terminal may paste half a character, which neither a model nor a disk takes.
        question, pastes = split(storable(text).strip())
        if "@" not in question:
            return compose(question, pastes)
        return await wrap_future(in_background(lambda: include_files(question, pastes, Path()), "included files"))

    # Messages

    @on(MessageView.ActionRequested)
    async def _on_message_action(self, event: MessageView.ActionRequested) -> None:
        await self.attempt(self._perform, event.message_view, event.requested)

    async def _perform(self, message_view: MessageView, requested: str) -> None:
        """Do what a key or a click asks for on a message."""
        match requested:
            case "choose":
                # The input line keeps the focus: who clicks an answer may want to type next.
                self.prompt.focus()
                self.messages.choose(message_view, focus=False)
            case "leave":
                self.prompt.focus()
            case "up":
                await self.messages.step(-1)
            case "down":
                if not await self.messages.step(1):
                    self.prompt.focus()
            case "edit":
                self._edit(self._node(message_view), message_view)
            case "again":
                node = self._node(message_view)
                await self._regenerate(node.parent if node.role is Role.ASSISTANT else node.id)
            case "go_on":
                await self._resume(message_view)
            case "delete":
                await self._delete(self._node(message_view))
            case "fork":
                if (copy := self.session.fork(self._node(message_view).id)) is None:
                    raise AppError("The conversation was not copied.")
                await self.open_conversation(copy)
                self.hint.say("This is a copy; the other conversation stays as it is.")
            case "earlier" | "later":
                await self._switch(message_view, -1 if requested == "earlier" else 1)

    async def _delete(self, node: Node) -> None:
        """Delete a message if the key was pressed twice."""
        self._refuse_if_busy()
        if self._asked_to_delete != node.id:
            self._asked_to_delete = node.id
            alone = node.role is Role.ASSISTANT and not self.session.conversation.tree.replies(node.id)
            what = "this answer" if alone else "this prompt and its answers; later messages stay"
            self.hint.say(f"Press {key('message.delete', 'del')} again to delete {what}.")
            return
        if node.role is Role.SYSTEM or not self.session.delete(node.id):
            raise AppError("The message was not deleted.")
        self.prompt.focus()
        await self.renderer.render_branch()

    def _node(self, message_view: MessageView) -> Node:
        node = self.session.conversation.tree.nodes.get(message_view.node) if message_view.node is not None else None
        if node is None:
            raise AppError("This message is not part of the conversation.")
        return node

    @in_turn
    async def action_edit_last(self) -> None:
        path = self.session.conversation.tree.path
        last = next((node for node in reversed(path) if node.role is Role.USER), None)
        message_view = await self.messages.reach(last.id) if last is not None else None
        if last is None or message_view is None:
            raise AppError("There is no prompt to edit.")
        self._refuse_if_busy()
        self.messages.choose(message_view)
        self._edit(last, message_view)

    def _edit(self, node: Node, message_view: MessageView) -> None:
        self._refuse_if_busy()
        if node.role is Role.SYSTEM:
            raise AppError("The system message of an imported conversation cannot be edited.")
        saves = key("prompt.send", "enter")
        if node.role is Role.USER:
            hint = f"Editing the prompt: {saves} sends it as a new branch."
            ask = partial(self._ask_edited, node)
            self.input_mode.begin(hint, COMMANDS.as_typed(node.text), ask, message_view, is_prompt=True)
        else:
            hint = f"Editing the answer: {saves} saves it as a new branch."
            self.input_mode.begin(hint, node.text, partial(self._rewrite, node), message_view)

    async def _ask_edited(self, prompt: Node, text: str) -> None:
        message = await self._message(text)
        self._refuse_if_blocked(while_loading=True)
        if not self.session.edit(prompt.id, message):
            raise AppError("The prompt was not sent.")
        self.prompt.past.add(text)
        self.input_mode.end()
        self.input_mode.take_from_line(prompt.text)
        await self.renderer.render()

    async def _rewrite(self, answer: Node, text: str) -> None:
        self._refuse_if_busy()
        if text == printable(answer.text):
            return
        if not self.session.rewrite(answer.id, text):
            raise AppError("The answer was not saved.")
        await self.renderer.render_branch()

    def action_edit_summary(self) -> None:
        """Edit the summary that the model reads in place of earlier messages."""
        if self.session.summary is None:
            raise AppError("There is no summary of earlier messages.")

        async def change(text: str) -> None:
            self.session.set_summary(text)
            self.hint.say("The next answer uses the new summary.")

        self.input_mode.begin("Editing the summary of earlier messages", self.session.summary, change)

    @in_turn
    async def action_again(self) -> None:
        last = self.session.conversation.turn.prompt
        await self._regenerate(last.id if last is not None else None)

    async def _regenerate(self, prompt: int | None) -> None:
        self._refuse_if_blocked(while_loading=True)
        node = self.session.conversation.tree.nodes.get(prompt) if prompt is not None else None
        if node is None or not self.session.regenerate(node.id):
            raise AppError("There is no prompt to answer.")
        await self._show_started(node)

    @in_turn
    async def action_go_on(self) -> None:
        message_views = self.messages.message_views
        await self._resume(message_views[-1] if message_views else None)

    async def _resume(self, message_view: MessageView | None) -> None:
        if message_view is None or not message_view.can_go_on:
            has_text = isinstance(message_view, AnswerMessage) and message_view.text.strip()
            raise AppError("The last answer is complete." if has_text else "There is no answer to continue.")
        node = self._node(message_view)
        self._refuse_if_blocked(while_loading=True)
        if not self.session.resume(node.id):
            raise AppError("This answer cannot be continued.")
        await self._show_started(self.session.conversation.turn.prompt)

    async def _show_started(self, prompt: Node | None) -> None:
        self.input_mode.leave()
        if prompt is not None:
            self.input_mode.take_from_line(prompt.text)
        await self.renderer.render()
        self.prompt.focus()

    async def _switch(self, message_view: MessageView, direction: int) -> None:
        self._refuse_if_busy()
        node, has_focus = self._node(message_view), self.focused is message_view
        siblings = [sibling.id for sibling in self.session.conversation.tree.siblings(node.id)]
        at = siblings.index(node.id) + direction
        if 0 <= at < len(siblings):
            await self._show_branch(siblings[at])
            shown = await self.messages.reach(siblings[at])
            if shown is not None:
                self.messages.choose(shown, focus=has_focus)

    async def _show_branch(self, message: int) -> None:
        self.input_mode.leave()
        if self.session.switch(message):
            await self.renderer.render_branch()

    # Conversations

    @in_turn
    async def action_restart(self) -> None:
        self.prompt.focus()
        self.hint.forget()
        await self._leave_for(None)

    async def open_conversation(self, conversation: int | None) -> None:
        """Open another conversation; None stays, unless the open one was deleted."""
        if conversation is not None and conversation != self.library.conversation:
            self.hint.forget()
            await self._leave_for(conversation)
        elif self.library.is_deleted:
            await self._leave_for(None)

    async def open_found(self, found: ConversationPicker.Chosen | None) -> None:
        """Open the conversation that was found, at the message that was found; None stays."""
        await self.open_conversation(found.conversation if found is not None else None)
        if found is not None and found.message is not None:
            await self.attempt(self._reveal, found.message, found.words)

    async def _reveal(self, message: int, words: Sequence[str]) -> None:
        """Show a message, at the first of some words in it."""
        from app.conversations.search import any_of

        tree = self.session.conversation.tree
        if message in tree.nodes and tree.nodes[message] not in tree.path:
            if self.session.is_busy:
                raise AppError("The found message is on another branch; wait for the answer, then open it again.")
            await self._show_branch(message)
        await self.messages.seek(message, any_of(words) if words else None)

    async def _leave_for(self, conversation: int | None) -> None:
        pending = self.input_mode.pending_text
        if conversation is None:
            self.session.new_conversation(pending)
        elif not self.session.open_conversation(conversation, pending):
            return
        self.input_mode.end()
        self.prompt.put(self.session.conversation.unsent_text)
        await self.renderer.render()

    # Settings of this conversation, drafting on or off

    def settings_changed(self) -> None:
        """Use the settings as they are now."""
        self.session.settings_changed()
        self.call_later(self.renderer.render)

    def set_setting(self, name: str, value: Value) -> None:
        """Change a setting for this conversation alone; None removes it."""
        self.session.set_setting(name, value)
        self.call_later(self.renderer.render)

    def action_toggle_drafting(self) -> None:
        """Turn drafting on or off, or say why not."""
        session, drafting = self.session, self.session.drafting
        if not drafting.is_available:
            settings = key("chat.settings", "f4")
            off = f"Drafting is off in the settings; {settings} turns it on."
            self.hint.say(off if session.settings.drafting is None else drafting.reason)
            return
        session.set_drafting(not drafting.is_on)
        self.call_later(self.renderer.render)
        which = "This answer continues" if session.can_switch_running else "The next answer is written"
        self.hint.say(f"{which} {'without' if drafting.is_on else 'with'} drafting.")
