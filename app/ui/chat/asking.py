"""Putting prompts to the engine, and taking them back."""

from __future__ import annotations

from dataclasses import replace

from app.conversations.attached import question_of
from app.session.engine import Engine
from app.session.keeper import Keeper
from app.ui.chat.bare_screen import BareChatScreen
from app.ui.chat.session import Phase
from app.ui.chat.tasks import Tasks
from app.ui.chat.unsent import Unsent
from app.ui.commands.table import COMMANDS
from app.ui.key_names import CHOOSE, key
from app.worker.request import AnswerRequest


class Asking:
    """All that leads to the engine, and every part of the screen that an answer begins for.

    Args:
        screen: The chat.
        engine: Answers.
        keeper: Keeps what is asked.
        tasks: What is written that is no prompt; another answer to one leaves it.
        unsent: What is typed, and outlives that something is asked.
    """

    def __init__(self, screen: BareChatScreen, engine: Engine, keeper: Keeper, tasks: Tasks, unsent: Unsent) -> None:
        self._screen = screen
        self._session = screen.session
        self._engine = engine
        self._keeper = keeper
        self._tasks = tasks
        self._unsent = unsent

    def ask(self, prompt: str) -> None:
        """Put a prompt to the engine."""
        unanswered = self._session.unanswered
        request = self._session.ask(prompt)
        self._keeper.ask(prompt, self._session.said)
        # What was kept was this prompt; the next one may be in the line already.
        self._unsent.changed()
        self.start(request)
        if unanswered not in (None, prompt) and self._keeper.is_beside_another:
            choose, earlier = key("chat.choose", CHOOSE), key("message.earlier", "left/right")
            self._screen.call_later(
                self._screen.messages.notice,
                f"The prompt before this one has no answer, so the model does not read it. It is kept as the branch "
                f"beside this one: choose this one with {choose}, then {earlier}.",
            )

    async def again(self) -> None:
        """Ask for another answer to the last prompt, if that can be."""
        screen, session = self._screen, self._session
        if not session.can_ask_again:
            return
        self._tasks.leave()
        self.take_from_line(session.asked or "")
        request = session.ask_again()
        self._keeper.again()
        self.start(request)
        await screen.messages.ask_again()
        screen.hint.unseen(False)

    def take_from_line(self, prompt: str) -> None:
        """Clear the line if a prompt that came to nothing waits there, for it is asked in another way."""
        line = self._screen.prompt
        if COMMANDS.as_said(line.text.strip()) == question_of(prompt):
            line.clear()

    def start(self, request: AnswerRequest) -> None:
        """Put a request to the engine."""
        screen = self._screen
        screen.hint.forget()
        screen.hint.about("")
        screen.inspector.begin()
        screen.status.begin()
        screen.attention.begin()
        # What was said in its place before may come again.
        request = replace(request, beside=self._keeper.beside, with_details=True)
        # The inspector keeps the rounds of an answer: whoever opens it later goes back to them.
        self._session.started(self._engine.answer(request))
        screen.listener.begin()
        screen.sidebar.look_again()
        screen.refresh_bindings()

    def stop(self) -> bool:
        """Stop the running answer, for its text to stay, and say so; returns whether there is one."""
        runs = self._session.phase is Phase.ANSWERING
        if runs:
            self._screen.status.stopping()
            self.cancel()
        return runs

    def cancel(self) -> None:
        """Stop the running answer, if there is one; what came of it stays."""
        if self._session.phase is Phase.ANSWERING:
            self._engine.cancel()

    def give_back_unanswered(self, prompt: str) -> None:
        """Return a prompt that came to nothing to the user, unless they already write the next."""
        self._tasks.give_back_unanswered(prompt)

    async def take_back(self) -> None:
        """Return a prompt that waits for the models, if there is one, to the user."""
        screen, session = self._screen, self._session
        prompt, session.waiting = session.waiting, None
        if prompt is not None:
            await screen.messages.take_back()
            self._tasks.give_back(COMMANDS.as_typed(prompt))
            screen.refresh_bindings()
