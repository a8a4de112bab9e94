"""Make the pictures of the documentation from the running program: `python assets/screenshots.py`.

The chat runs with the demo pair and gives a real, greedy answer. Only the speed differs from one run to the next.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from textual.pilot import Pilot

from app.cli.options import loader, read_options
from app.cli.parser import build_parser
from app.llama.cancel import CancelFlag
from app.ui.app import make_app
from app.ui.screens.chat import ChatScreen
from app.ui.session import Phase
from app.ui.settings import ChatSettings
from app.worker import EngineWorker

_HERE = Path(__file__).parent
_PROMPT = "Write a Python function that reverses a string, and explain how it works."
_SIZES = {"chat.svg": ((100, 30), "tandem-dark"), "chat-light.svg": ((100, 30), "tandem-light")}
_PATIENCE_S = 600


async def _until(pilot: Pilot[None], phase: Phase) -> ChatScreen:
    screen = pilot.app.screen
    assert isinstance(screen, ChatScreen)
    async with asyncio.timeout(_PATIENCE_S):
        while screen.session.phase is not phase:
            await pilot.pause(0.1)
    return screen


async def _take(name: str, size: tuple[int, int], theme: str) -> None:
    options = read_options(build_parser().parse_args(["--temp", "0", "--max-tokens", "200", "--draft-n-max", "7"]))
    settings = ChatSettings(
        options.pair.title, options.pair.sampling, options.drafting, options.system, options.max_tokens, options.stops
    )
    app = make_app(lambda emit: EngineWorker(emit, CancelFlag()), loader(options), settings)
    app.theme = theme
    try:
        async with app.run_test(size=size) as pilot:
            screen = await _until(pilot, Phase.READY)
            screen.prompt.insert(_PROMPT)
            await pilot.press("enter")
            await _until(pilot, Phase.ANSWERING)
            await _until(pilot, Phase.READY)
            await pilot.pause()
            (_HERE / name).write_text(app.export_screenshot(title="tandem"), encoding="utf-8")
    finally:
        app.engine.close()


def main() -> int:
    for name, (size, theme) in _SIZES.items():
        asyncio.run(_take(name, size, theme))
    return 0


if __name__ == "__main__":
    sys.exit(main())
