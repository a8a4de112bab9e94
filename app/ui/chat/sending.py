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
from app.ui.chat.bare_screen import BareChatScreen
from app.ui.chat.comparable import comparable
from app.ui.chat.elsewhere import Elsewhere
from app.ui.chat.session import Phase
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
        elsewhere: Knows whether the conversation has gone on without this chat.
        run: Does what a command asks for, given its argument; raises AppError for a refusal.
    """

    def __init__(
        self,
        screen: BareChatScreen,
        asking: Asking,
        tasks: Tasks,
        elsewhere: Elsewhere,
        run: Callable[[Command, str], Awaitable[None] | None],
    ) -> None:
        self._screen = screen
        self._asking = asking
        self._tasks = tasks
        self._elsewhere = elsewhere
        self._run = run
        self._doubted: str | None = None

    async def send(self, text: str) -> None:
        """Do what was asked for with Enter, whatever it is; what cannot be done is given back."""
        screen = self._screen
        if self._tasks.has_task:
            await self._tasks.send(text)
            return
        screen.prompt.past.add(text)
        try:
            if is_command(text):
                await self._run_line(text)
                return
            self._refuse()
            insisted = self._doubted == text
            message = await self.message(text)
        except AppError as error:
            screen.prompt.restore(text)
            screen.hint.say(error.sentences)
        else:
            if await self._elsewhere.look():
                screen.prompt.restore(text)
                # Its second enter was for that, and is not asked for once more.
                self._doubted = text if insisted else None
                sends = key("prompt.send", "enter")
                screen.hint.say(f"Another Tandem went on with this conversation; {sends} sends it below that.")
            else:
                await self._put(message)

    def _refuse(self) -> None:
        """Raise UsageError if no prompt can be sent now."""
        session = self._screen.session
        if session.phase is Phase.UNLOADED and self._screen.has_pairs:
            raise UsageError(f"No model is loaded; {key('chat.pairs', 'f6')} chooses one.")
        if session.refusal:
            raise UsageError(session.refusal)

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
        try:
            message = await self.message(typed) if typed else ""
            screen.post_message(ComparisonWanted(comparable(screen.session, message)))
        except AppError as error:
            screen.hint.say(error.sentences)

    async def do(self, line: str) -> None:
        """Do what a slash command asks for that a key stands for, or say why not."""
        try:
            await self._run_line(line)
        except AppError as error:
            self._screen.hint.say(error.sentences)

    async def _run_line(self, line: str) -> None:
        """Do what a slash command asks for. Raises AppError if it is refused."""
        command, argument = COMMANDS.read(line)
        done = self._run(command, argument)
        if isawaitable(done):
            await done

    async def message(self, text: str) -> str:
        """The message for what was typed, with the files that it names.

        Raises:
            AppError: A file cannot be included, as the chat tells it. What need not be meant as one is text when the
                same is sent again.
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
            raise AppError(error.message, hint.lstrip()) from None
        except AppError as error:
            raise in_chat(error, self._screen) from None
