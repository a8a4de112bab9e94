"""From the input line to a message: slash commands run, named files are read."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from pathlib import Path

from app.conversations.attached import compose, split
from app.core.errors import AppError
from app.session.chat_settings import Comparable
from app.session.snapshot import Phase
from app.ui.background import in_thread
from app.ui.chat.base import ChatBase
from app.ui.chat.error_hints import why_blocked
from app.ui.chat.input_mode import InputMode
from app.ui.chat.renderer import Renderer
from app.ui.commands.command import Command
from app.ui.commands.table import COMMANDS
from app.ui.composer.included_files import include_files


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
        self._session = screen.session
        self._renderer = renderer
        self._input_mode = input_mode
        self._run = run

    async def send(self, text: str) -> None:
        """Do what Enter asks for."""
        if self._input_mode.is_active:
            await self._input_mode.send(text)
            return
        self._screen.prompt.past.add(text)
        try:
            await (self.run_line(text) if COMMANDS.is_command(text) else self._ask(text))
        except AppError as error:
            self._screen.prompt.restore(text)
            self._screen.hint.say(error.sentences)

    async def _ask(self, text: str) -> None:
        message = await self.message(text)
        self.refuse_if_blocked()
        if not self._session.send(message):
            raise AppError("The prompt was not sent.")
        await self._renderer.render()

    def refuse_if_blocked(self, *, while_loading: bool = False) -> None:
        """Raise AppError if no prompt can be sent now, or, if asked, while the models load."""
        if refusal := why_blocked(self._session.blocked, has_pairs=self._screen.has_pairs):
            raise AppError(refusal)
        if while_loading and self._session.phase is Phase.LOADING:
            raise AppError("The models are still being loaded.")

    async def run_line(self, line: str) -> None:
        """Run a slash command; raises AppError."""
        command, argument = COMMANDS.read(line)
        done = self._run(command, argument)
        if isawaitable(done):
            await done

    async def comparison(self) -> Comparable:
        """Return the typed message, or else the last one, to be compared; raises AppError."""
        typed = "" if self._input_mode.is_active else self._screen.prompt.whole.strip()
        self.refuse_if_blocked(while_loading=True)
        return self._session.comparable(await self.message(typed) if typed else "")

    async def message(self, text: str) -> str:
        """Return the message for a typed text, with the files that it names.

        Raises:
            AppError: A file is missing, or cannot be included.
        """
        # The store's modules are imported after the first frame.
        from app.conversations.rows import storable

        # A terminal may paste half a character, which neither a model nor a disk takes.
        question, pastes = split(storable(text).strip())
        if "@" not in question:
            return compose(question, pastes)
        return await in_thread(lambda: include_files(question, pastes, Path()))
