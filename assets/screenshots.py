"""Make the README's screenshots from the running program: `python -m assets.screenshots [FLAGS]`.

FLAGS name the pair, as for `tandem`; the default is the demo pair. Answers are real and greedy.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from app.cli.engine import make_engine
from app.cli.known_pairs import of_file
from textual.pilot import Pilot

from app.cli.chat import Opener, first_pair
from app.cli.command_line import parse_args
from app.cli.options import open_settings, read_process
from app.cli.setting_flags import read_flags
from app.conversations.store import Store
from app.session.state import Phase
from app.ui.app import TandemApp
from app.ui.chat.screen import ChatScreen
from app.ui.models.state import Tuning
from tests.ui.models.fake_pairs import FakePairs

_HERE = Path(__file__).parent
_EARLIER = ("Name three uses of a paperclip.", "What is a monad, in one sentence?")
_PROMPT = "Write a Python function that reverses the words of a string."
_SIZES = {"chat.svg": ((120, 36), "tandem-dark")}
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
    screen.prompt.insert(prompt)
    await pilot.press("enter")
    # A short answer may end before the first look.
    async with asyncio.timeout(_PATIENCE_S):
        while not screen.session.conversation.turn.is_answered:
            await pilot.pause(0.1)
    await _until(pilot, Phase.READY)
    await pilot.pause()


def _app() -> TandemApp:
    args = parse_args(["--temp", "0", "--max-tokens", "600", *sys.argv[1:]])
    pair, files, _ = first_pair(args)
    settings = open_settings(read_flags(args), pair, of_file(pair, files))
    opener = Opener(settings, pair, files, read_process(args), is_asked_for=True)
    first = opener.again()
    return TandemApp(
        lambda emit: make_engine(opener.process, emit),
        first.loader,
        first.title,
        Tuning(opener.live, opener.again),
        FakePairs(),
        store=Store,
    )


async def _take(name: str, size: tuple[int, int], theme: str) -> None:
    app = _app()
    app.theme = theme
    try:
        async with app.run_test(size=size) as pilot:
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
            (_HERE / name).write_text(app.export_screenshot(title="tandem", simplify=True), encoding="utf-8")
    finally:
        app.engine.close()


def main() -> int:
    for name, (size, theme) in _SIZES.items():
        asyncio.run(_take(name, size, theme))
    return 0


if __name__ == "__main__":
    sys.exit(main())
