"""Plays a session and looks whether everything is as it must be, whatever happened in it."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from app.conversations.tree import Node
from app.core.printable import printable
from app.session.chat_settings import ChatSettings
from app.session.snapshot import Phase
from app.ui.models.state import LoadRequest
from app.ui.screens.chat import ChatScreen
from app.ui.transcript.column import Entry
from app.ui.transcript.message import AnswerMessage, UserMessage
from app.ui.transcript.message_data import AnswerData
from tests.ui.fakes import no_loader
from tests.ui.monkey.moves import Engine, Key, Move, Reopen, Resize, Session, Wait, Word
from tests.ui.monkey.program import Home, Program

_ESCAPES = 12
_ENDS = 30


class TroubleError(AssertionError):
    """Something is not as it must be."""


def must(condition: object, what: str) -> None:
    if not condition:
        raise TroubleError(what)


async def play(session: Session) -> None:
    """Play it.

    Raises:
        TroubleError: Something was not as it must be.
        Exception: Whatever the program did not catch.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, _noticed() as unheard:
        home = Home(Path(folder))
        with home.watched():
            runs = list(_runs(session))
            for number, moves in enumerate(runs):
                await _run(home, moves, last=number == len(runs) - 1)
            await _look_again(home)
        gc.collect()
        must(not unheard, "\n".join(unheard))


def _runs(session: Session) -> Iterator[list[Move]]:
    moves: list[Move] = []
    for move in session:
        if isinstance(move, Reopen):
            yield moves
            moves = []
        else:
            moves.append(move)
    yield moves


@contextmanager
def _noticed() -> Iterator[list[str]]:
    """Gather what threads, tasks and finalisers complain of."""
    complaints: list[str] = []
    loop, hooks = asyncio.get_running_loop(), (threading.excepthook, sys.unraisablehook)

    class Gather(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            complaints.append(self.format(record))

    handler = Gather(logging.ERROR)
    threading.excepthook = lambda args: complaints.append(f"thread: {args.exc_value!r}")
    sys.unraisablehook = lambda args: complaints.append(f"{args.err_msg}: {args.exc_value!r} {args.object!r}")
    loop.set_exception_handler(lambda _, context: complaints.append(f"loop: {context}"))
    logging.getLogger().addHandler(handler)
    try:
        yield complaints
    finally:
        threading.excepthook, sys.unraisablehook = hooks
        loop.set_exception_handler(None)
        logging.getLogger().removeHandler(handler)


async def _run(home: Home, moves: list[Move], *, last: bool) -> None:
    program = Program(home)
    async with program.app.run_test(size=(100, 30)) as program.pilot:
        await program.rest()
        for move in moves:
            if not program.runs:
                break
            await program.do(move)
            await asyncio.sleep(0)
            _look_at_screens(program)
        if program.runs:
            await program.rest()
            if last:
                await _must_work(program)
            else:
                await program.do(Key("ctrl+q"))
                await program.pilot.pause()
    must(program.app._return_code in (0, None), f"it ended with {program.app._return_code}")


def _look_at_screens(program: Program) -> None:
    kinds = [type(screen) for screen in program.app.screen_stack]
    must(len(kinds) == len(set(kinds)), f"a screen stands twice: {[kind.__name__ for kind in kinds]}")


async def _must_work(program: Program) -> None:
    """A user who has had enough presses escape, makes the window larger, and goes on."""
    await _do(program, Resize(100, 30))
    for _ in range(_ESCAPES):
        if program.app.screen is program.chat and program.chat.prompt.has_focus:
            break
        await _do(program, Key("escape"))
        if program.engine.is_busy and program.app.screen is not program.chat:
            await _do(program, Engine("end"))
    must(isinstance(program.app.screen, ChatScreen), f"there is no way back from {program.app.screen}")
    must(program.chat.prompt.has_focus, f"escape leads to {program.app.focused}")
    for _ in range(_ENDS):
        if program.engine.is_busy:
            await _do(program, Engine("end"))
    must(not program.engine.is_busy, "the engine is asked for ever more")
    await program.pilot.pause(0.1)
    await program.rest()
    session = program.chat.session
    must(
        session.phase in (Phase.READY, Phase.UNLOADED), f"the engine has nothing to do, the chat waits: {session.phase}"
    )
    _must_show_the_tree(program)
    _must_have_the_words(program)
    if session.phase is Phase.UNLOADED:
        await program.chat.load_pair(LoadRequest(no_loader, ChatSettings("Another")))
        await _do(program, Engine("end"))
        _must_be_ready(program, "a pair was loaded")
    await _must_answer(program)
    await _do(program, Key("escape"))
    await _do(program, Word("unsent "))
    must(
        "unsent" in program.chat.pending_text,
        f"what is typed goes elsewhere: {program.app.focused}, {program.chat.pending_text!r}",
    )
    _must_show_the_tree(program)
    home, library = program.home, program.chat.library
    home.conversation, home.unsent = library.conversation, program.chat.pending_text
    home.path = _plain(program.chat.session.conversation.tree.path)
    await program.do(Key("ctrl+q"))
    await program.pilot.pause()
    must(not program.runs, "ctrl+q does not end it")


def _must_have_the_words(program: Program) -> None:
    """What was typed is written, sent, or kept."""
    home, chat = program.home, program.chat
    chat.session.conversation.set_draft(chat.pending_text)
    places = (chat.pending_text, chat.prompt.whole, chat.session.conversation.draft, home.texts())
    for word in home.words if home.is_well else ():
        must(any(word in place for place in places), f"it was typed and is nowhere: {word!r}, but {places[:3]}")


async def _do(program: Program, move: Move) -> None:
    must(program.runs, f"it has ended before {move}")
    await program.do(move)
    await program.rest()


def _must_be_ready(program: Program, since: str) -> None:
    phase = program.chat.session.phase
    must(phase is Phase.READY, f"{since}, the chat waits: {phase}")


async def _must_answer(program: Program) -> None:
    chat, engine = program.chat, program.engine
    if chat.input_mode.is_active:
        chat.input_mode.leave()
    chat.prompt.action_dismiss()
    chat.prompt.clear()
    await program.rest()
    asked = engine.answers_asked
    await _do(program, Word("probe "))
    await _do(program, Key("enter"))
    must(
        engine.answers_asked == asked + 1,
        f"a prompt is not put to the model: {chat.prompt.text!r} {chat.session.phase}",
    )
    await _do(program, Engine("say", "the probe is answered"))
    await _do(program, Engine("end"))
    for _ in range(50):
        if chat.session.phase is Phase.READY:
            break
        await program.pilot.pause(0.02)
    _must_be_ready(program, "an answer has ended")
    await program.rest()
    screen = program.app.screen
    rows = "\n".join(strip.text for strip in screen._compositor.render_strips(screen.size))
    must("the probe is answered" in rows, f"an answer is not on the screen:\n{rows}")


def _must_show_the_tree(program: Program) -> None:
    """What is kept is on the screen, message for message; nothing of another branch stands between them."""
    chat = program.chat
    path = _plain(chat.session.conversation.tree.path)
    entries = [entry for entry in chat.messages.said.column.entries if entry.data is not None and not entry.hidden]
    shown = [(entry.node, _text(entry)) for entry in entries]
    rest = iter(shown)
    for node, text in path:
        found = any(there == text and number in (node, None) for number, there in rest)
        must(found, f"it shows\n{shown}\nand keeps\n{path}")
    strays = {number for number, _ in shown} - {number for number, _ in path} - {None}
    must(not strays, f"it shows {strays} of another branch:\n{shown}\nand keeps\n{path}")


def _plain(path: tuple[Node, ...]) -> list[tuple[int | None, str]]:
    return [(node.id, printable(node.text).strip()) for node in path]


def _text(entry: Entry) -> str:
    if isinstance(entry.widget, AnswerMessage):
        return printable(entry.widget.text).strip()
    if isinstance(entry.widget, UserMessage):
        return printable(entry.widget._whole).strip()
    assert entry.data is not None
    return printable(entry.data.text).strip() if isinstance(entry.data, AnswerData) else entry.data.text.strip()


async def _look_again(home: Home) -> None:
    """What is on disk opens in another run, and everything is there."""
    if home.is_well:
        kept = home.texts().replace("\n", "")
        for text in home.shown:
            must(text.replace("\n", "") in kept, f"it was shown and is not kept: {text!r}")
    program = Program(home)
    async with program.app.run_test(size=(100, 30)) as program.pilot:
        await _do(program, Engine("end"))
        await _do(program, Wait())
        if home.is_well and home.conversation is not None:
            await program.chat.open_conversation(home.conversation)
            await program.rest()
            must(_plain(program.chat.session.conversation.tree.path) == home.path, "another run keeps something else")
            _must_show_the_tree(program)
            must(program.chat.prompt.whole == home.unsent, f"typed {home.unsent!r}, kept {program.chat.prompt.whole!r}")
    must(program.app._return_code in (0, None), "it does not open again")


def complaint(error: BaseException) -> str:
    """What tells one failure from another."""
    if isinstance(error, TroubleError):
        return re.sub("[0-9]+", "0", str(error).split("\n")[0])[:32]
    frames: list[Any] = []
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if "/app/" in code.co_filename:
            frames.append(f"{Path(code.co_filename).name}:{code.co_name}")
        trace = trace.tb_next
    return f"{type(error).__name__}:{frames[-1] if frames else ''}"
