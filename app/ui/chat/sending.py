"""What becomes of a prompt between Enter and the engine: commands are done, files are read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable
from pathlib import Path

from app.conversations.attached import compose, split
from app.conversations.textfile import FolderNamed, MissingFile
from app.core.errors import AppError, UsageError
from app.ui.chat.asking import Asking
from app.ui.chat.bare_screen import BareChatScreen
from app.ui.chat.comparable import comparable
from app.ui.chat.elsewhere import Elsewhere
from app.ui.chat.file_reading import FileReading, Read
from app.ui.chat.session import Phase
from app.ui.chat.tasks import Tasks
from app.ui.chat.wanted import ComparisonWanted
from app.ui.chat.ways_out import in_chat
from app.ui.commands.command import Command
from app.ui.commands.table import COMMANDS
from app.ui.composer.including import gather
from app.ui.key_names import key


class Sending:
    """For the chat screen.

    Args:
        screen: The chat.
        asking: Puts prompts to the engine.
        tasks: What is written that is no prompt.
        elsewhere: Knows whether the conversation has gone on without this chat.
        reading: Reads the files that are named.
        run: Does what a command asks for, given its argument; raises AppError for a refusal.
    """

    def __init__(
        self,
        screen: BareChatScreen,
        asking: Asking,
        tasks: Tasks,
        elsewhere: Elsewhere,
        reading: FileReading,
        run: Callable[[Command, str], Awaitable[None] | None],
    ) -> None:
        self._screen = screen
        self._asking = asking
        self._tasks = tasks
        self._elsewhere = elsewhere
        self._reading = reading
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
            if COMMANDS.is_command(text):
                await self._run_line(text)
                return
            self._refuse()
        except AppError as error:
            screen.prompt.restore(text)
            screen.hint.say(error.sentences)
        else:
            insisted = self._doubted == text
            then = partial(self._put_below, text, insisted)
            await self.read(text, then, partial(self._tasks.give_back, text))

    async def _put_below(self, text: str, insisted: bool, message: str) -> None:
        """Ask what was typed below what was said, unless that was seen by nobody yet, or cannot be asked by now."""
        screen = self._screen
        refusal = ""
        if await self._elsewhere.look():
            # Its second enter was for that, and is not asked for once more.
            self._doubted = text if insisted else None
            sends = key("prompt.send", "enter")
            refusal = f"Another Tandem went on with this conversation; {sends} sends it below that."
        try:
            self._refuse()
        except AppError as error:
            refusal = error.sentences
        if refusal:
            self._tasks.give_back(text)
            screen.hint.say(refusal)
        else:
            await self._put(message)

    def _refuse(self) -> None:
        """Raise UsageError if no prompt can be sent now."""
        session = self._screen.session
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
            screen.hint.about("")
            if answer is not None:
                answer.note("waits for the models")
                screen.refresh_bindings()

    async def compare(self) -> None:
        """Let a prompt be answered with and without the draft: the one that is typed, or else the last one."""
        session = self._screen.session
        # What is written for something else than a prompt is not asked.
        typed = "" if self._tasks.has_task else self._screen.prompt.whole.strip()
        if session.reading is not None:
            self._screen.hint.say(session.refusal or "")
        elif typed:
            await self.read(typed, self._compare, lambda: None, is_sent=False)
        else:
            await self._compare("")

    async def _compare(self, message: str) -> None:
        screen = self._screen
        try:
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

    async def read(
        self, text: str, then: Callable[[str], Awaitable[None]], back: Callable[[], None], *, is_sent: bool = True
    ) -> None:
        """Go on with the message for what was typed, which has the files that it names in it.

        Where one cannot be included the chat says why. What need not be meant as a file is text when the same is sent
        again.

        Args:
            text: What was typed.
            then: Told the message: at once where no file is named, else when they are read.
            back: Called instead where it came to nothing, or was stopped.
            is_sent: Whether it was taken from the line.
        """
        # What the store takes is imported with it, behind the first frame.
        from app.conversations.rows import storable

        # A terminal may paste half a character, which neither a model nor a disk takes.
        question, pastes = split(storable(text).strip())
        question = COMMANDS.as_said(question)
        if "@" not in question:
            await then(compose(question, pastes))
            return
        pair, insists = self._screen.session.pair, self._doubted == text
        self._doubted = None
        n_ctx = pair.n_ctx if pair else None
        await self._reading.begin(
            text if is_sent else "",
            lambda: gather(question, pastes, Path(), n_ctx, but_missing=insists),
            partial(self._go_on, text, then, back),
            back,
        )

    async def _go_on(
        self, text: str, then: Callable[[str], Awaitable[None]], back: Callable[[], None], read: Read
    ) -> None:
        """The files were read, or not."""
        try:
            message = read.result()
        except (MissingFile, FolderNamed) as error:
            self._doubted = text
            hint = f"{error.hint} {key('prompt.send', 'enter').capitalize()} again sends the text as it stands."
            why = AppError(error.message, hint.lstrip())
        except AppError as error:
            why = in_chat(error, self._screen)
        else:
            await then(message)
            return
        back()
        self._screen.hint.say(why.sentences)
