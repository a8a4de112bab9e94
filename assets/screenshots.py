"""Make the README's screenshots from the running program: `python assets/screenshots.py [FLAGS]`.

FLAGS name the pair, as for `tandem`; the default is the demo pair. Answers are real and greedy.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from textual.pilot import Pilot

from app.cli.command_line import parse_args
from app.cli.engine import PairLoader
from app.cli.options import read_options
from app.conversations.store import Store
from app.llama.cancel import CancelFlag
from app.session.chat_settings import ChatSettings
from app.session.snapshot import Phase
from app.ui.app import TandemApp
from app.ui.screens.chat import ChatScreen
from app.worker.engine_worker import EngineWorker

_HERE = Path(__file__).parent
_EARLIER = ("Name three uses of a paperclip.", "What is a monad, in one sentence?")
_PROMPT = "Write a Python function that reverses the words of a string."
_SIZES = {"chat.svg": ((120, 36), "tandem-dark"), "chat-light.svg": ((120, 36), "tandem-light")}
_PATIENCE_S = 120


async def _until(pilot: Pilot[None], phase: Phase) -> ChatScreen:
    screen = pilot.app.screen
    assert isinstance(screen, ChatScreen)
    async with asyncio.timeout(_PATIENCE_S):
        while screen.session.phase is not phase:
            await pilot.pause(0.1)
    return screen


async def _ask(pilot: Pilot[None], prompt: str) -> None:
    screen = await _until(pilot, Phase.READY)
    screen.prompt.insert(prompt)
    await pilot.press("enter")
    # A short answer may end before the first look.
    async with asyncio.timeout(_PATIENCE_S):
        while not screen.session.conversation.turn.is_answered:
            await pilot.pause(0.1)
    await _until(pilot, Phase.READY)
    await pilot.pause()


async def _take(name: str, size: tuple[int, int], theme: str) -> None:
    options = read_options(parse_args(["run", "--temp", "0", "--max-tokens", "600", *sys.argv[1:], "-"]))
    settings = ChatSettings(
        options.pair.title, options.pair.sampling, options.drafting, max_tokens=options.max_tokens, stops=options.stops
    )
    app = TandemApp(lambda emit: EngineWorker(emit, CancelFlag()), PairLoader(options), settings, store=Store.in_memory)
    app.theme = theme
    try:
        async with app.run_test(size=size) as pilot:
            await _until(pilot, Phase.READY)
            for prompt in _EARLIER:
                await _ask(pilot, prompt)
                await pilot.press("ctrl+n")
            await _ask(pilot, _PROMPT)
            (_HERE / name).write_text(app.export_screenshot(title="tandem"), encoding="utf-8")
    finally:
        app.engine.close()


def main() -> int:
    for name, (size, theme) in _SIZES.items():
        asyncio.run(_take(name, size, theme))
    return 0


if __name__ == "__main__":
    sys.exit(main())
