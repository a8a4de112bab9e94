"""What becomes of a prompt between Enter and the engine: commands are done, files are read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from pathlib import Path

from app.chat.attached import compose, split
from app.chat.textfile import FolderNamed, MissingFile
from app.errors import AppError, UsageError
from app.ui.aside import aside
from app.ui.chat.asking import Asking
from app.ui.chat.comparable import comparable
from app.ui.chat.session import Phase
from app.ui.chat.stage import Stage
from app.ui.chat.tasks import Tasks
from app.ui.chat.wanted import ComparisonWanted
from app.ui.chat.ways_out import in_chat
from app.ui.commands.command import Command, as_said, is_command
from app.ui.commands.table import COMMANDS
from app.ui.key_names import key
from app.ui.prompt.including import gather


class Sending:
    """For the chat screen.

    Args:
        screen: The chat.
        asking: Puts prompts to the engine.
        tasks: What is written that is no prompt.
        run: Does what a command asks for, given its argument; raises AppError for a refusal.
    """

    def __init__(
        self, screen: Stage, asking: Asking, tasks: Tasks, run: Callable[[Command, str], Awaitable[None] | None]
    ) -> None:
        self._screen = screen
        self._asking = asking
        self._tasks = tasks
        self._run = run
        self._doubted: str | None = None

    async def send(self, text: str) -> None:
        """Do what was asked for with Enter, whatever it is."""
        screen, session = self._screen, self._screen.session
        if self._tasks.has_task:
            await self._tasks.send(text)
            return
        screen.prompt.past.add(text)
        if is_command(text):
            await self.do(text)
            return
        if refusal := session.refusal:
            screen.prompt.restore(text)
            unloaded = session.phase is Phase.UNLOADED and screen.has_pairs
            screen.hint.say(f"No model is loaded; {key('chat.pairs', 'f6')} chooses one." if unloaded else refusal)
            return
        message = await self.message(text)
        if message is not None:
            await self._put(message)

    async def _put(self, message: str) -> None:
        """Ask, or let the message wait for the models."""
        screen, session = self._screen, self._screen.session
        # Asked before anything else is awaited, so that no key in between can ask for something else.
        loading, unanswered = session.phase is Phase.LOADING, session.unanswered
        if loading:
            session.waiting = message
        else:
            self._asking.ask(message)
        answer = await screen.messages.ask(message, unanswered)
        screen.hint.unseen(False)
        if loading:
            answer.note("waits for the models")
            screen.refresh_bindings()

    async def compare(self) -> None:
        """Let a prompt be answered with and without the draft: the one that is typed, or else the last one."""
        screen = self._screen
        # What is written for something else than a prompt is not asked.
        typed = "" if self._tasks.has_task else screen.prompt.whole.strip()
        message = await self.message(typed, give_back=False) if typed else ""
        if message is None:
            return
        try:
            screen.post_message(ComparisonWanted(comparable(screen.session, message)))
        except UsageError as error:
            screen.hint.say(error.message)

    async def do(self, line: str, *, give_back: bool = True) -> None:
        """Do what a slash command asks for, or say why not and give it back, unless a key stood for it."""
        try:
            command, argument = COMMANDS.read(line)
            done = self._run(command, argument)
            if isawaitable(done):
                await done
        except AppError as error:
            self._refuse(error, line if give_back else "")

    async def message(self, text: str, *, give_back: bool = True) -> str | None:
        """The message for a prompt, with the files that it names.

        Args:
            text: What was typed.
            give_back: Whether the prompt's line gets it back if it is refused.

        Returns:
            The message; None if a file cannot be included, which is then said. A prompt that
            names what is no file is sent as it stands when it is sent again.
        """
        # What the store takes is imported with it, behind the first frame.
        from app.chat.rows import storable

        # A terminal may paste half a character, which neither a model nor a disk takes.
        question, pastes = split(storable(text).strip())
        question = as_said(question)
        if "@" not in question:
            return compose(question, pastes)
        pair, insists = self._screen.session.pair, self._doubted == text
        self._doubted = None
        try:
            return await aside(
                lambda: gather(question, pastes, Path(), pair.n_ctx if pair else None, but_missing=insists)
            )
        except (MissingFile, FolderNamed) as error:
            self._doubted = text
            hint = f"{error.hint} {key('prompt.send', 'enter').capitalize()} again sends the text as it stands."
            self._refuse(AppError(error.message, hint.lstrip()), text if give_back else "")
        except AppError as error:
            self._refuse(in_chat(error, self._screen), text if give_back else "")
        return None

    def _refuse(self, error: AppError, text: str) -> None:
        if text:
            self._screen.prompt.restore(text)
        self._screen.hint.say(f"{error.message} {error.hint}".strip())
