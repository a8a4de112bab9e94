"""User actions in the chat: prompts, messages, branches, conversations and their settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from inspect import isawaitable
from typing import TYPE_CHECKING

from app.conversations.message import Role
from app.conversations.tree import Node
from app.core.errors import AppError
from app.core.printable import printable
from app.session.state import Phase
from app.ui.chat.conversation_commands import ConversationCommands
from app.ui.chat.input_line import InputLine
from app.ui.chat.renderer import Renderer
from app.ui.chat.view import ChatView
from app.ui.commands import COMMANDS
from app.ui.event_queue import EventQueue
from app.ui.key_names import key
from app.ui.keys import active_key
from app.ui.models.opener import Opener
from app.ui.models.state import LoadRequest
from app.ui.transcript.answer import AnswerMessage
from app.ui.transcript.message import MessageItem

if TYPE_CHECKING:
    from app.ui.conversations.picker import ConversationPicker


class ChatController:
    """Turns user actions into commands of the session, and draws their changes.

    A key, the palette or a slash command calls a method `action_...` with its argument, if any. It raises AppError if
    it cannot be done.

    Args:
        action: Returns the runner of a chat action by name.
    """

    def __init__(
        self, view: ChatView, opener: Opener, queue: EventQueue, action: Callable[[str], Callable[..., object]]
    ) -> None:
        self.view = view
        self.session = view.session
        self.line = InputLine(view)
        self.renderer = Renderer(view, self.line, opener.option, queue)
        self.commands = ConversationCommands(view, self.line, self.run)
        self._action = action

    async def command(self, action: Callable[..., object], *arguments: object) -> None:
        """Run an action with `attempt`, and draw its changes."""
        await self.attempt(action, *arguments)
        await self.renderer.render()

    async def attempt(self, action: Callable[..., object], *arguments: object) -> None:
        """Run an action, or say why it cannot be done."""
        self.view.hint.forget_said()
        try:
            done = action(*arguments)
            if isawaitable(done):
                await done
        except AppError as error:
            self.view.refuse(error)

    # Prompts

    async def send(self, text: str) -> None:
        """Do what Enter requests; text that cannot be sent is restored."""
        prompt = self.view.prompt
        try:
            if self.line.is_borrowed:
                await self.line.send(text)
            else:
                prompt.past.add(text)
                await self.run(text)
        except AppError:
            prompt.restore(text)
            raise

    async def run(self, text: str) -> None:
        """Run a slash command, or send a prompt."""
        await (self.action_run_line if COMMANDS.is_command(text) else self._ask)(text)

    async def action_run_line(self, line: str) -> None:
        command, argument = COMMANDS.read(line)
        done = self._action(command.run)(*filter(None, [argument]))
        if isawaitable(done):
            await done

    async def _ask(self, text: str) -> None:
        message = await self.line.take(text)
        turn, hint = self.session.conversation.turn, self.view.hint
        self.session.send(message)
        await self.renderer.render()
        if self.session.queued:
            hint.say("The prompt waits for the end of the answer.")
        elif turn.prompt is not None and not turn.is_answered and turn.prompt.text != message:
            hint.say("The previous prompt has no answer; this prompt is a branch beside it.")

    def action_take_back(self) -> None:
        if (prompt := self.session.take_back()) is not None:
            self.view.hint.forget()
            self.line.give_back(prompt)

    def action_stop(self) -> None:
        if not self.line.stop_reading() and not self.stop_answer():
            elsewhere = self.session.answered_elsewhere is not None
            self.view.hint.say("The answer is in another conversation." if elsewhere else "No answer is being written.")

    def stop_answer(self) -> bool:
        """Stop the running answer, whose text stays; return whether there is one."""
        stops = self.session.stop()
        if stops:
            self.view.status.do("stopping")
            # It has already ended if it was behind a request of another program.
            self.view.call_later(self.renderer.render)
        return stops

    # Messages

    async def perform(self, message: MessageItem, requested: str) -> None:
        """Perform a requested action on a message."""
        view = self.view
        match requested:
            case "choose":
                # The input line keeps the focus: after clicking an answer, the user may want to type.
                view.prompt.focus()
                view.messages.choose(message, focus=False)
            case "leave":
                view.prompt.focus()
            case "edit":
                self._edit(self.session.node(message.id), message)
            case "again":
                self.action_again(message)
            case "go_on":
                self.action_go_on(message)
            case "delete":
                await self._delete(self.session.node(message.id))
            case "fork":
                node = self.session.node(message.id)
                await self.open_conversation(self.session.fork(node.id))
                prompt = "; send the prompt below, or another one" if node.role is Role.USER else ""
                view.hint.say(f"This is a copy{prompt}. The other conversation stays as it is.")
            case "earlier" | "later":
                await self._switch(message, -1 if requested == "earlier" else 1)
            case _:
                self.commands.perform(message, requested)

    async def _delete(self, node: Node) -> None:
        self.line.refuse_if_reading()
        before = self.session.conversation.tree
        self.session.delete(node.id)
        await self._choose(before.path.index(node))
        after, undo = self.session.conversation.tree, active_key(self.view.screen, "chat.undelete")
        has_prompt = any(old.role is Role.USER for old in before.nodes.values() if old.id not in after.nodes)
        what, they = ("the prompt and its answers", "them") if has_prompt else ("the answer", "it")
        # If the input has text, the key undoes typing.
        self.view.hint.say(f"Deleted {what}{f'; {undo} restores {they}' if undo else ''}.")

    async def action_undelete(self) -> None:
        path = self.session.conversation.tree.path
        self.session.undelete()
        self.view.hint.forget()
        restored = self.session.conversation.tree.path
        await self._choose(next((at for at, node in enumerate(restored) if node not in path), len(path)))

    async def _choose(self, at: int) -> None:
        await self.renderer.render()
        path = self.session.conversation.tree.path
        self.view.messages.choose(self.view.messages.find(path[: at + 1][-1].id) if path else None)

    async def action_edit_last(self) -> None:
        path, messages = self.session.conversation.tree.path, self.view.messages
        last = next((node for node in reversed(path) if node.role is Role.USER), None)
        message = messages.find(last.id) if last is not None else None
        if last is None or message is None:
            raise AppError("There is no prompt to edit.")
        self._edit(last, message)
        messages.choose(message)
        self.view.prompt.focus()

    def _edit(self, node: Node, message: MessageItem) -> None:
        self.session.refuse_if_busy()
        if node.role is Role.SYSTEM:
            raise AppError("The system message of an imported conversation cannot be edited.")
        saves = key("prompt.send")
        if node.role is Role.USER:
            hint = f"Editing the prompt: {saves} sends it as a new branch."
            ask = partial(self._ask_edited, node)
            self.line.begin(hint, COMMANDS.as_typed(node.text), ask, message, is_prompt=True)
        else:
            hint = f"Editing the answer: {saves} saves it as a new branch."
            self.line.begin(hint, node.text, partial(self._rewrite, node), message)

    async def _ask_edited(self, prompt: Node, text: str) -> None:
        self.session.edit(prompt.id, await self.line.take(text))
        self.view.prompt.past.add(text)
        self.line.end()
        self.line.take_from_line(prompt.text)

    async def _rewrite(self, answer: Node, text: str) -> None:
        if text != printable(answer.text):
            self.session.rewrite(answer.id, text)

    def action_again(self, message: MessageItem | None = None) -> None:
        """Answer the prompt of a message again, by default the last prompt."""
        self.line.refuse_if_reading()
        self.session.regenerate(message.id if message is not None else None)
        self._leave_line()

    def action_go_on(self, message: MessageItem | None = None) -> None:
        """Continue an answer that ended early, by default the last answer."""
        leaf = self.session.conversation.tree.leaf
        message = message or (self.view.messages.find(leaf) if leaf is not None else None)
        if message is None or not message.can_go_on:
            has_text = isinstance(message, AnswerMessage) and message.text.strip()
            raise AppError("The last answer is complete." if has_text else "There is no answer to continue.")
        self.line.refuse_if_reading()
        self.session.resume(self.session.node(message.id).id)
        self._leave_line()

    def _leave_line(self) -> None:
        self.line.leave()
        if (prompt := self.session.conversation.turn.prompt) is not None:
            self.line.take_from_line(prompt.text)
        self.view.prompt.focus()

    async def _switch(self, message: MessageItem, direction: int) -> None:
        self.session.refuse_if_busy()
        node, has_focus = self.session.node(message.id), self.view.messages.has_focus
        siblings = [sibling.id for sibling in self.session.conversation.tree.siblings(node.id)]
        at = siblings.index(node.id) + direction
        if 0 <= at < len(siblings):
            await self._show_branch(siblings[at])
            shown = self.view.messages.find(siblings[at])
            if shown is not None:
                self.view.messages.choose(shown, focus=has_focus)

    async def _show_branch(self, message: int) -> None:
        self.line.refuse_if_reading()
        self.line.leave()
        self.session.switch(message)
        await self.renderer.render()

    # Conversations

    async def action_restart(self) -> None:
        self.view.prompt.focus()
        self.view.hint.forget()
        await self._leave_for(None)

    async def open_conversation(self, conversation: int | None) -> None:
        """Open another conversation; None stays, unless the open conversation was deleted. Raises AppError.

        Conversations may have been deleted in the list before.
        """
        self.session.drop_deleted()
        here = self.session.conversation.number
        if conversation is not None and conversation != here:
            self.view.hint.forget()
            await self._leave_for(conversation)
        elif self.session.library.has_deleted(here):
            await self._leave_for(None)

    async def open_found(self, found: ConversationPicker.Chosen | None) -> None:
        """Open a found conversation at its found message; None stays."""
        await self.open_conversation(found.conversation if found is not None else None)
        if found is not None and found.message is not None:
            await self._reveal(found.message, found.words)

    async def _reveal(self, message: int, words: Sequence[str]) -> None:
        from app.conversations.search import any_of

        tree = self.session.conversation.tree
        if message in tree.nodes and tree.nodes[message] not in tree.path:
            if self.session.is_busy:
                raise AppError("The found message is on another branch; wait for the answer, then open it again.")
            await self._show_branch(message)
        self.view.messages.seek(message, any_of(words) if words else None)

    async def _leave_for(self, conversation: int | None) -> None:
        self.line.refuse_if_reading()
        pending = self.line.pending_text
        if conversation is None:
            self.session.new_conversation(pending)
        elif not self.session.open_conversation(conversation, pending):
            return
        self.line.end()
        self.view.prompt.put(self.session.conversation.unsent_text)
        await self.renderer.render()

    # The pair

    async def load_pair(self, choice: LoadRequest) -> None:
        """Load another pair; a running answer ends first, or is stopped if the request says so."""
        if self.session.phase is Phase.ANSWERING:
            if choice.stops:
                self.view.status.do("stopping")
            else:
                self.view.hint.say(f"{choice.title} is loaded when the answer has ended.")
        elif choice.is_new_default:
            self.view.hint.say(f"Tandem opens with this pair from now on; {key('chat.pairs')} changes that.")
        self.session.load(choice.loader, choice.title, stops=choice.stops)
        await self.renderer.render()
