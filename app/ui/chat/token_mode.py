"""Looking behind an answer: who wrote each token, and what the two models thought in each round."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.ui.chat.bare_screen import BareChatScreen
from app.ui.listening.bridge import Batch
from app.ui.transcript.message import AnswerMessage

if TYPE_CHECKING:
    from app.session.engine import Engine


class TokenMode:
    """Off until it is asked for; until then rounds are kept as they are told, and no probability is computed for it.

    Args:
        screen: The chat.
        engine: Told whether the target's probabilities are wanted.
    """

    def __init__(self, screen: BareChatScreen, engine: Engine) -> None:
        self._screen = screen
        self._engine = engine
        self.on = False

    async def toggle(self) -> None:
        """Show the tokens of every answer that was seen coming, or the answers as they were."""
        self.on = not self.on
        self._engine.inspect(self.on)
        self._screen.inspector.open(self.on)
        self._screen.refresh_bindings()
        await self._screen.messages.show_tokens(self.on)

    async def follow(self, answer: AnswerMessage, batch: Batch) -> None:
        """Something of an answer came, and is in it already."""
        self._screen.inspector.add(batch.rounds)
        if self.on and not answer.shows_tokens:
            await answer.show_tokens(True)

    def step(self, by: int) -> None:
        """Look at a later round, or an earlier one if negative."""
        self._screen.inspector.step(by)
