"""Steering a conversation: editing messages, other answers, more of an answer, going from branch to branch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from app.conversations.message import Role
from app.conversations.tree import Node
from app.core.printable import printable
from app.session.keeper import Keeper
from app.ui.chat.asking import Asking
from app.ui.chat.bare_screen import BareChatScreen
from app.ui.chat.branches import Branches
from app.ui.chat.sending import Sending
from app.ui.chat.session import Phase
from app.ui.chat.tasks import Tasks
from app.ui.commands.table import COMMANDS
from app.ui.key_names import key
from app.ui.transcript.message import AnswerMessage, UserMessage
from app.ui.transcript.speech import Speech, Wish


class Steering:
    """What the user does with what was said.

    Args:
        screen: The chat.
        keeper: Has the conversation with its branches.
        asking: Puts prompts to the engine.
        sending: Reads the files that a prompt names.
        tasks: What is written that is no prompt.
    """

    def __init__(self, screen: BareChatScreen, keeper: Keeper, asking: Asking, sending: Sending, tasks: Tasks) -> None:
        self._screen = screen
        self._session = screen.session
        self._keeper = keeper
        self._asking = asking
        self._sending = sending
        self._branches = Branches(screen, keeper)
        self._tasks = tasks

    async def grant(self, speech: Speech, wish: Wish) -> None:
        """Do what is wished for a message."""
        screen = self._screen
        match wish:
            case Wish.LEAVE:
                screen.prompt.focus()
            case Wish.UP:
                await screen.messages.step(-1)
            case Wish.DOWN:
                if not await screen.messages.step(1):
                    screen.prompt.focus()
            case Wish.EDIT:
                self._edit(speech)
            case Wish.AGAIN:
                node = self._node(speech)
                if node is not None:
                    await self._again(node.parent if node.role is Role.ASSISTANT else node.id)
            case Wish.GO_ON:
                await self.go_on(speech)
            case Wish.EARLIER:
                await self._switch(speech, -1)
            case Wish.LATER:
                await self._switch(speech, 1)

    # Another text

    async def edit_last(self) -> None:
        """Let the last prompt of the conversation be changed; where something is typed, only when asked twice.

        Whoever goes to the end of the line by habit writes on there, and hears nothing where nothing can be edited.
        """
        messages, hint, typed = self._screen.messages, self._screen.hint, self._screen.prompt.whole
        refusal = self._refusal_without_model()
        if (typed and refusal) or not self._may(refusal):
            return
        last = next((node for node in reversed(self._keeper.tree.path) if node.role is Role.USER), None)
        speech = await messages.reach(last.id) if last is not None else None
        again = f"{key('chat.edit_last', 'ctrl+e')} again edits the last prompt; what is typed comes back after that."
        if speech is None:
            if not typed:
                hint.say("There is no prompt to edit.")
        elif typed and not hint.is_saying(again):
            hint.say(again)
        else:
            # That brings it in sight.
            messages.choose(speech)
            self._edit(speech)

    def _edit(self, speech: Speech) -> None:
        node = self._node(speech)
        if node is None or not self._may(self._refusal_without_model()):
            return
        begin = self._tasks.begin
        takes, leaves = key("prompt.send", "enter"), key("chat.leave_task", "esc")
        match node.role:
            case Role.SYSTEM:
                self._screen.hint.say("What the system says is set before the conversation begins.")
            case Role.USER:
                hint = f"Editing: {takes} asks it as a branch, {leaves} leaves it as it was."
                asks = partial(self._ask_instead, node.id)
                begin(hint, COMMANDS.as_typed(node.text), asks, speech, self._refusal, is_prompt=True)
            case Role.ASSISTANT:
                hint = f"Editing the answer: {takes} keeps yours as a branch, {leaves} leaves it as it was."
                begin(hint, node.text, partial(self._say_instead, node), speech, self._refusal_without_model)

    async def _ask_instead(self, prompt: int, text: str, back: Callable[[], None]) -> None:
        await self._sending.read(text, partial(self._branch_off, prompt, text, back), back)

    async def _branch_off(self, prompt: int, text: str, back: Callable[[], None], message: str) -> None:
        screen = self._screen
        if not self._may(self._refusal()):
            back()
            return
        screen.prompt.past.add(text)
        old = self._keeper.tree.nodes.get(prompt)
        if old is not None and message == old.text:
            if not await self._again(prompt):
                back()
            return
        opened = self._keeper.go_before(prompt)
        if opened is None or old is None:
            # Another Tandem has removed the conversation; what was written outlives that.
            screen.prompt.restore(text)
            return
        self._session.restart(opened.said)
        self._asking.take_from_line(old.text)
        self._asking.ask(message)
        speech = await screen.messages.reach(prompt)
        if speech is not None:
            await screen.messages.cut(speech)
        await screen.messages.ask(message)
        screen.hint.unseen(False)

    async def _say_instead(self, answer: Node, text: str, _: Callable[[], None]) -> None:
        if text == printable(answer.text):
            return
        opened = self._keeper.rewrite(answer.id, text)
        if opened is None:
            self._screen.prompt.restore(text)
        await self._branches.show(opened, answer.id)

    # Another answer, or more of one

    async def _again(self, prompt: int | None) -> bool:
        """Ask a prompt once more; returns whether it is asked."""
        if not self._may(self._refusal()):
            return False
        node = self._keeper.tree.nodes.get(prompt or 0)
        asked = await self._screen.messages.reach(node.id) if node is not None else None
        if node is None or node.role is not Role.USER or not isinstance(asked, UserMessage):
            self._screen.hint.say("There is no prompt that it answers.")
            return False
        opened = self._keeper.again(node.id)
        if opened is None or opened.asked is None:
            return False
        self._tasks.leave()
        self._screen.prompt.focus()
        self._asking.take_from_line(opened.asked)
        self._asking.start(self._session.go_back(opened.said, opened.asked))
        await self._screen.messages.ask_again(asked)
        self._screen.hint.unseen(False)
        return True

    async def go_on(self, speech: Speech | None = None) -> None:
        """Go on with an answer that ended early; None takes the last message."""
        messages = self._screen.messages
        if speech is None:
            speech = messages.speeches[-1] if messages.speeches else None
        if speech is None or not speech.can_go_on:
            is_said = isinstance(speech, AnswerMessage) and speech.text.strip()
            self._screen.hint.say("The last answer is at its end." if is_said else "There is no answer to go on with.")
            return
        node = self._node(speech)
        if node is None or not self._may(self._refusal()):
            return
        self._tasks.leave()
        if self._keeper.tree.leaf != node.id:
            await self._branches.show(self._keeper.switch(node.id), node.id)
        answer = await messages.reach(node.id)
        opened = self._keeper.go_on(node.id)
        if opened is None or opened.asked is None or not isinstance(answer, AnswerMessage):
            self._screen.hint.say("This answer cannot be continued.")
            return
        self._screen.prompt.focus()
        self._asking.take_from_line(opened.asked)
        self._asking.start(self._session.go_back(opened.said, opened.asked, opened.begun))
        await messages.go_on(answer)
        self._screen.hint.unseen(False)

    # Other branches

    async def _switch(self, speech: Speech, direction: int) -> None:
        node = self._node(speech)
        if node is None or not self._may(self._refusal_without_model()):
            return
        siblings = [sibling.id for sibling in self._keeper.tree.siblings(node.id)]
        at = siblings.index(node.id) + direction
        if 0 <= at < len(siblings):
            self._tasks.leave()
            opened = self._keeper.switch(siblings[at])
            await self._branches.show(opened, node.id)
            shown = await self._screen.messages.reach(siblings[at])
            if shown is not None:
                self._screen.messages.choose(shown)

    # What may be done

    def _node(self, speech: Speech) -> Node | None:
        node = self._keeper.tree.nodes.get(speech.node) if speech.node is not None else None
        if node is None:
            self._screen.hint.say("This message is not part of the conversation.")
        return node

    def _may(self, refusal: str) -> bool:
        """Whether nothing stands against it; what does is said."""
        if refusal:
            self._screen.hint.say(refusal)
        return not refusal

    def _refusal(self) -> str:
        """Why nothing can be asked now; empty if it can."""
        loads = "The models are still being loaded." if self._session.phase is Phase.LOADING else ""
        return self._session.refusal or loads

    def _refusal_without_model(self) -> str:
        """Why nothing can be changed now; empty if it can."""
        return self._session.refusal or "" if self._session.is_on_its_way else ""
