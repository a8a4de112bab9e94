"""The single owner of a chat: commands and worker events in, changes out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from app.conversations.attached import with_marks
from app.conversations.message import Role
from app.conversations.tree import Node
from app.core.errors import AppError
from app.session.chat_events import ChatEvents
from app.session.permissions import Permission
from app.session.state import Blocked, BlockedError, Change, Phase
from app.settings.kinds import Value

if TYPE_CHECKING:
    from app.worker.engine_worker import Loader


class Session(ChatEvents):
    """The commands of a chat; they return immediately, and raise AppError if they are not possible.

    `handle` processes an event of the worker and returns the changes; `take_changes` returns the changes by commands.
    """

    def send(self, text: str) -> None:
        """Ask a prompt, or queue it behind the models or other answers."""
        if self.phase is Phase.UNLOADED:
            raise BlockedError(Blocked.UNLOADED)
        self.conversation.unsent_text = ""
        if self._can_answer:
            self._ask(text)
            return
        self._active.add_prompt(text)
        if self.phase is Phase.LOADING:
            self._what |= Change.WAITING
        self._go_on()

    def _ask(self, text: str, instead_of: int | None = None) -> None:
        self.conversation.ask(text, instead_of)
        self._start(self.conversation)

    def count(self, text: str) -> None:
        """Count the tokens of the open conversation with a typed prompt, unless an answer is running."""
        if self.phase is Phase.READY:
            self.answering.begin_count(self.conversation, text)

    def forget_count(self) -> bool:
        """Forget the count of a typed prompt; return whether there was one."""
        had_count = self.answering.typed is not None
        self.answering.count_job = self.answering.typed = None
        return had_count

    def take_back(self) -> str | None:
        """Withdraw and return the last queued prompt of the open conversation."""
        return self._active.take_back()

    def edit(self, prompt: int, text: str) -> None:
        """Ask another text as a branch beside a prompt; the same text is answered again."""
        self.refuse_if_blocked()
        if with_marks(self.node(prompt).text) == with_marks(text):
            self.regenerate(prompt)
        else:
            self._ask(text, prompt)

    def regenerate(self, message: int | None = None) -> None:
        """Answer a prompt, or the prompt of an answer, again; by default the last prompt."""
        self.refuse_if_blocked()
        node = self.conversation.turn.prompt if message is None else self.node(message)
        if node is not None and node.role is Role.ASSISTANT and node.parent is not None:
            node = self.node(node.parent)
        self.conversation.regenerate(node)
        self._start(self.conversation)

    def resume(self, answer: int) -> None:
        """Continue an answer that ended early, or a turn that ended at a tool call or its result."""
        self.refuse_if_blocked()
        node = self.node(answer)
        self.conversation.switch(answer)
        # A turn that ended at a call continues with the call or its result.
        if node.role is not Role.TOOL and not node.calls:
            self.conversation.resume(node)
        self._start(self.conversation)

    def node(self, message: int | None) -> Node:
        """Return a message by its id. Raises AppError if there is none."""
        node = self.conversation.tree.nodes.get(message) if message is not None else None
        if node is None:
            raise AppError("This message is not part of the conversation.")
        return node

    def stop(self) -> bool:
        """Stop the running answer of the open conversation, whose text stays; return whether there is one.

        An answer that waits for another program's request ends immediately.
        """
        if not self.is_answering or not self._stop_running():
            return False
        if self.is_behind and self.conversation.running is not None:
            self._end(self.conversation.stop())
        return True

    def permit(self, permission: Permission) -> None:
        """Answer the question about a call."""
        if self.question is None:
            raise AppError("No tool call is waiting for your answer.")
        failure = self.tools.answer(permission, self.conversation)
        if failure is not None:
            self.library.say(f"{failure.sentences} Only this call is allowed.")
        self._what |= Change.CALLS
        if self.tools.running is None:
            self._run_calls()

    def set_summary(self, text: str) -> None:
        """Change the summary, if there is one."""
        self.refuse_if_busy()
        holder = next((node for node in reversed(self.conversation.tree.path) if node.compaction is not None), None)
        if holder is not None and holder.compaction is not None:
            self.conversation.set_numbers(holder, replace(holder.compaction, summary=text.strip()).numbers)

    def switch(self, message: int) -> None:
        """Activate the branch through a message."""
        self.refuse_if_busy()
        self.conversation.switch(self.node(message).id)
        self._what |= Change.BRANCH

    def rewrite(self, answer: int, text: str) -> None:
        """Add the user's own answer as a branch."""
        self.refuse_if_busy()
        self.conversation.rewrite(self.node(answer), text)
        self._what |= Change.BRANCH

    def delete(self, message: int) -> None:
        """Remove a message; see `Tree.without_message`."""
        self.refuse_if_busy()
        self.conversation.delete(self.node(message))
        self._what |= Change.BRANCH

    def undelete(self) -> None:
        """Restore the last deleted message."""
        self.refuse_if_busy()
        self.conversation.undelete()
        self._what |= Change.BRANCH

    def fork(self, message: int) -> int:
        """Copy the branch up to a message into a new conversation; return its id. See `Branches.fork`."""
        return self.conversation.fork(self.node(message))

    def new_conversation(self, unsent_text: str = "") -> None:
        """Begin an empty conversation; store `unsent_text` with the previous conversation, whose answer continues."""
        self._active.open_empty(unsent_text)
        self._enter()

    def open_conversation(self, number: int, unsent_text: str = "") -> bool:
        """Open another conversation; return whether it exists."""
        if not self._active.open_stored(number, unsent_text):
            return False
        self._enter()
        return True

    def _enter(self) -> None:
        self._what |= Change.OPENED
        for problem in self._live.enter(self.conversation.settings):
            self.library.say(f"This conversation's settings: {problem.text}")
        self._apply_settings()
        self.drop_deleted()

    def drop_deleted(self) -> None:
        """Stop the answers of deleted conversations that are not open; their queued prompts stay as unsent text."""
        self._active.give_up_deleted()
        elsewhere = self.answered_elsewhere
        if self.library.has_deleted(elsewhere):
            self._stop_running()

    def set_setting(self, name: str, value: Value) -> None:
        """Change a setting for this conversation only; None removes it."""
        self._live.set_own(name, value)
        self.settings_changed()

    def settings_changed(self) -> None:
        """Use changed settings from the next answer, and store the conversation's own."""
        self.conversation.set_settings(self._live.document)
        self._apply_settings()

    def set_drafting(self, on: bool) -> None:
        """Turn drafting on or off, even within the running answer."""
        self._pair.drafts = on
        self.engine.draft(on)

    def load(self, loader: Loader, title: str, *, stops: bool = False) -> None:
        """Load another pair, which waits for the end of a running answer or `stops` it."""
        self._pair.next = loader, title
        if self.phase is not Phase.ANSWERING:
            self.load_next()
        elif stops:
            self._stop_running()

    def close(self, unsent_text: str | None = None) -> None:
        """Stop the answer and close the store; `unsent_text` is the text of the input line, by default as stored."""
        self.engine.cancel()
        if unsent_text is not None:
            self.conversation.set_unsent_text(unsent_text)
        self._active.answered.abandon()
        self.library.close()
