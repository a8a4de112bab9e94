"""Make the README's screenshot from the running program, in a terminal: `python -m assets.screenshots [FLAGS]`.

FLAGS name the pair, as for `tandem`; the default is the pair of the settings. Answers are real and greedy.
"""

import asyncio
import sys
from pathlib import Path

from textual.events import Paste
from textual.pilot import Pilot

from app.cli import main as tandem
from app.session.state import Phase
from app.ui.app import TandemApp
from app.ui.chat.screen import ChatScreen

_FILE = Path(__file__).parent / "chat.svg"
_EARLIER = ("Name three uses of a paperclip.", "What is a monad, in one sentence?")
_PROMPT = "Write a Python function that reverses the words of a string."
_SIZE = (120, 36)
_PATIENCE_S = 240
_SETTLED_S = 8.0
"""Seconds from the end of the answer until notices are gone."""


async def _until(pilot: Pilot[None], phase: Phase) -> ChatScreen:
    screen = pilot.app.screen
    assert isinstance(screen, ChatScreen)
    async with asyncio.timeout(_PATIENCE_S):
        while screen.session.phase is not phase:
            await pilot.pause(0.1)
    return screen


async def _ask(pilot: Pilot[None], prompt: str) -> None:
    screen = await _until(pilot, Phase.READY)
    pilot.app.post_message(Paste(prompt))
    await pilot.pause()
    await pilot.press("enter")
    # A short answer may end before the first look.
    async with asyncio.timeout(_PATIENCE_S):
        while not screen.session.conversation.turn.is_answered:
            await pilot.pause(0.1)
    await _until(pilot, Phase.READY)
    await pilot.pause()


async def _take(app: TandemApp) -> None:
    async with app.run_test(size=_SIZE) as pilot:
        screen = await _until(pilot, Phase.READY)
        for prompt in _EARLIER:
            await _ask(pilot, prompt)
            await pilot.press("ctrl+n")
        # The pair is measured before its speed is shown.
        async with asyncio.timeout(_PATIENCE_S):
            while screen.session.expects_events:
                await pilot.pause(0.1)
        await _ask(pilot, _PROMPT)
        await pilot.pause(_SETTLED_S)
        _FILE.write_text(app.export_screenshot(title="tandem", simplify=True), encoding="utf-8")


def _run(app: TandemApp) -> None:
    asyncio.run(_take(app))


def main() -> int:
    TandemApp.run = _run  # type: ignore[assignment, method-assign]
    return tandem(["--temp", "0", "--max-tokens", "600", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
