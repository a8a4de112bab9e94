"""Bursts of keys: what is pressed at once ends as it does when each key waits for the one before it."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from random import Random

from tests.ui.monkey.moves import Engine, Key, Move, Paste, Session, Type, Wait
from tests.ui.monkey.play import must
from tests.ui.monkey.program import Home, Program

_KEYS = (
    "enter", "enter", "enter", "escape", "escape", "escape", "up", "up", "down", "left", "right", "tab", "backspace",
    "ctrl+up", "ctrl+up", "ctrl+down", "e", "r", "c", "ctrl+u", "ctrl+n", "ctrl+o", "ctrl+p", "ctrl+r", "ctrl+s",
    "ctrl+x", "ctrl+d", "f1", "f2", "f3", "f4", "f5", "f6", "f7", "alt+up", "shift+enter", "home", "end", "pageup",
)  # fmt: skip
_TEXTS = ("one ", "two ", "more", "/new", "/help", "temp", "keys", "a b c", "Zebra", "ε", "9")
_PASTES = (Paste("pasted "), Paste("line\n", 20), Paste("e", 3))
_HAPPENS = ("say", "say", "end", "end", "cut", "fail")


def random_bursts(seed: int, bursts: int = 8) -> tuple[Session, ...]:
    """Bursts of keys, each followed by something that the engine does."""
    random = Random(seed)
    return tuple(_burst(random) for _ in range(bursts))


def _burst(random: Random) -> list[Move]:
    burst: list[Move] = []
    for _ in range(random.randint(2, 7)):
        match random.randrange(9):
            case 0 | 1 | 2 | 3 | 4:
                burst.append(Key(random.choice(_KEYS)))
            case 5:
                burst.append(random.choice(_PASTES))
            case _:
                burst.append(Type(random.choice(_TEXTS)))
    what = random.choice(_HAPPENS)
    return [*burst, Wait(), Engine(what, "It is said. " if what == "say" else ""), Wait()]


async def must_end_alike(bursts: tuple[Session, ...]) -> None:
    """Play bursts at once and key by key.

    Raises:
        TroubleError: They end otherwise.
    """
    slow, fast = await _ends(bursts, at_once=False), await _ends(bursts, at_once=True)
    for number, (this, that) in enumerate(zip(slow, fast, strict=True)):
        must(this == that, f"burst {number}, {bursts[number]}:\nkey by key {this}\nat once    {that}")


async def _ends(bursts: tuple[Session, ...], *, at_once: bool) -> list[object]:
    """How the program stands after every burst."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        home = Home(Path(folder))
        with home.watched():
            program = Program(home)
            async with program.app.run_test(size=(120, 40)) as program.pilot:
                await program.do(Engine("end"))
                await program.rest()
                return [await _end(program, burst, at_once=at_once) for burst in bursts]


async def _end(program: Program, burst: Session, *, at_once: bool) -> object:
    for move in burst:
        for stroke in _strokes(move):
            await program.do(stroke)
            if not at_once:
                await program.rest()
    await asyncio.sleep(0)
    await program.rest()
    app, chat = program.app, program.chat
    focused = app.focused
    return (
        chat.prompt.whole,
        chat.pending_text,
        [type(screen).__name__ for screen in app.screen_stack],
        type(focused).__name__,
        getattr(focused, "value", getattr(focused, "text", None)),
        chat.input_mode.is_active,
        chat.session.phase,
        program.engine.answers_asked,
        [node.text for node in chat.session.conversation.tree.path],
        [summary.title for summary in chat.library.summaries()],
    )


def _strokes(move: Move) -> Session:
    return [Type(character) for character in move.text] if isinstance(move, Type) else [move]
