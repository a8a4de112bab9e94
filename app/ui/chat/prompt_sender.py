"""From the input line to a message: slash commands run, named files are read."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from inspect import isawaitable
from pathlib import Path

from app.conversations.attached import compose, split
from app.conversations.textfile import FolderNamed, MissingFile
from app.core.errors import AppError
from app.session.snapshot import Phase
from app.ui.background import start_in_thread, wait_briefly
from app.ui.chat.base import ChatBase
from app.ui.chat.error_hints import in_chat, why_blocked
from app.ui.chat.input_mode import InputMode
from app.ui.chat.renderer import Renderer
from app.ui.commands.command import Command
from app.ui.commands.table import COMMANDS
from app.ui.composer.included_files import include_files
from app.ui.key_names import key

Read = asyncio.Future[str]
"""The message with its files, or the AppError that says why there is none."""


class PromptSender:
    """Sends what was typed; text that cannot be sent comes back.

    Args:
        screen: The chat.
        renderer: Draws what comes of it.
        input_mode: Takes text that is no prompt.
        run: Runs a command with its argument; raises AppError.
    """

    def __init__(
        self,
        screen: ChatBase,
        renderer: Renderer,
        input_mode: InputMode,
        run: Callable[[Command, str], Awaitable[None] | None],
    ) -> None:
        self._screen = screen
        self._renderer = renderer
        self._input_mode = input_mode
        self._run = run
        self._confirmed: str | None = None
        """Text that was refused once and is sent as it stands the second time."""
        self._read: Read | None = None
        self._put_back: Callable[[], None] | None = None

    async def send(self, text: str) -> None:
        """Do what Enter asks for."""
        screen = self._screen
        if self._input_mode.is_active:
            await self._input_mode.send(text)
            return
        screen.prompt.past.add(text)
        if COMMANDS.is_command(text):
            try:
                await self._run_line(text)
            except AppError as error:
                screen.prompt.restore(text)
                screen.hint.say(error.sentences)
        elif refusal := self.refusal:
            screen.prompt.restore(text)
            screen.hint.say(refusal)
        else:
            await self.read(text, partial(self._ask, text), partial(self._input_mode.give_back, text))

    @property
    def refusal(self) -> str:
        """Why no prompt can be sent now; "" if one can."""
        return why_blocked(self._screen.session.blocked, has_pairs=self._screen.has_pairs)

    async def _ask(self, text: str, message: str) -> None:
        """Ask a message, unless another Tandem has continued the conversation unseen."""
        screen, session = self._screen, self._screen.session
        if session.refresh():
            self._input_mode.give_back(text)
            await self._renderer.render_branch()
            sends = key("prompt.send", "enter")
            screen.hint.say(f"Another Tandem continued this conversation; {sends} sends the prompt below that.")
            return
        refusal = self.refusal
        if refusal or not session.send(message):
            self._input_mode.give_back(text)
            screen.hint.say(refusal)
            return
        self._confirmed = None
        await self._renderer.render()

    async def run_line(self, line: str) -> None:
        """Run a slash command that a key stands for, or say why not."""
        try:
            await self._run_line(line)
        except AppError as error:
            self._screen.hint.say(error.sentences)

    async def _run_line(self, line: str) -> None:
        command, argument = COMMANDS.read(line)
        done = self._run(command, argument)
        if isawaitable(done):
            await done

    async def compare(self, then: Callable[[str], Awaitable[None]]) -> None:
        """Call `then` with the typed message, or with "" for the last one, if it can be compared now."""
        screen, session = self._screen, self._screen.session
        typed = "" if self._input_mode.is_active else screen.prompt.whole.strip()
        if session.phase is Phase.LOADING:
            screen.hint.say("The models are still being loaded.")
        elif refusal := self.refusal:
            screen.hint.say(refusal)
        elif typed:
            await self.read(typed, then, lambda: None, is_sent=False)
        else:
            await then("")

    # Files

    async def read(
        self, text: str, then: Callable[[str], Awaitable[None]], back: Callable[[], None], *, is_sent: bool = True
    ) -> None:
        """Read the files that a text names, on another thread, and continue with the message.

        Args:
            text: What was typed.
            then: Receives the message.
            back: Called instead if there is none, or reading is stopped.
            is_sent: Whether the text was taken from the line.
        """
        # The store's modules are imported after the first frame.
        from app.conversations.rows import storable

        # A terminal may paste half a character, which neither a model nor a disk takes.
        question, pastes = split(storable(text).strip())
        question = COMMANDS.as_said(question)
        if "@" not in question:
            await then(compose(question, pastes))
            return
        screen = self._screen
        as_it_stands = self._confirmed == text
        self.give_up_reading()
        screen.session.preparing, self._put_back = text if is_sent else "", back
        self._read = read = start_in_thread(
            lambda: include_files(question, pastes, Path(), missing_is_text=as_it_stands)
        )
        has_read = partial(self._has_read, text, read, then, back)
        if await wait_briefly(read):
            await has_read()
        elif self._read is read:
            screen.hint.ask(f"The files are being read; {key('chat.stop', 'esc')} stops that.")
            screen.refresh_bindings()
            read.add_done_callback(lambda _: screen.call_later(has_read))

    async def _has_read(
        self, text: str, read: Read, then: Callable[[str], Awaitable[None]], back: Callable[[], None]
    ) -> None:
        if self._read is not read:
            # It was stopped.
            return
        self.give_up_reading()
        self._screen.hint.forget()
        try:
            message = read.result()
        except (MissingFile, FolderNamed) as error:
            self._confirmed = text
            hint = f"{error.hint} {key('prompt.send', 'enter').capitalize()} again sends the text as it stands."
            why = AppError(error.message, hint.lstrip())
        except AppError as error:
            why = in_chat(error, self._screen)
        else:
            await then(message)
            return
        back()
        self._screen.hint.say(why.sentences)

    def stop_reading(self) -> bool:
        """Stop reading and put the text back; return whether files were being read."""
        back = self._put_back
        self.give_up_reading()
        if back is not None:
            self._screen.hint.forget()
            back()
            self._screen.refresh_bindings()
        return back is not None

    def give_up_reading(self) -> None:
        read, self._read, self._put_back = self._read, None, None
        self._screen.session.preparing = None
        if read is not None:
            read.cancel()
