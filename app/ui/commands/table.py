"""The chat's commands, one line each; help lists them in this order."""

from __future__ import annotations

import re
from asyncio import Future
from collections.abc import Sequence
from pathlib import Path

from app.conversations.message import Message, Role
from app.conversations.textfile import text_size
from app.conversations.titles import fit, one_line
from app.core.errors import AppError, UsageError
from app.core.printable import printable
from app.ui.background import start_in_thread, wait_briefly
from app.ui.commands.chat import Chat
from app.ui.commands.code_blocks import code_blocks
from app.ui.commands.command import Command, Commands, Takes
from app.ui.commands.help import help_rows
from app.ui.commands.saving import saving
from app.ui.terminal.copying import copy_text

_NUMBER = re.compile("[0-9]{1,9}")
_NEWEST = "the answer"
_NONE = "-"
_BRIEF = 24
"""Columns of a system prompt that is told."""
_MARGIN, _WIDEST = 3, 100
"""Cells beside what is told, the scrollbar included, and what it takes at most."""


def _draft(chat: Chat, mode: str) -> None:
    chat.hint.say(chat.settings.draft(mode))


def _last_answer(chat: Chat) -> tuple[str, str]:
    """The newest answer of which there is anything, and what it is called; empty without one."""
    newest = chat.messages.answer
    if newest is not None and (shown := newest.text.strip()):
        return shown, _NEWEST
    said = (message.content for message in reversed(_said(chat)) if message.role is Role.ASSISTANT)
    # A model that still thinks has not answered yet.
    return next(said, ""), _NEWEST if newest is None else "the answer before this one"


def _said(chat: Chat) -> Sequence[Message]:
    return chat.session.conversation.messages_before(None)


def _copy(chat: Chat, what: str) -> None:
    answer, name = _last_answer(chat)
    if not answer:
        raise AppError("There is no answer to copy yet.")
    kind, _, number = what.partition(" ")
    if not kind:
        copy_text(chat.app, answer, name)
        return
    if kind != "code" or not _NUMBER.fullmatch(number.strip() or "1"):
        raise UsageError("Give it as /copy, /copy code or /copy code 2.")
    blocks = code_blocks(answer)
    at = int(number or len(blocks)) if blocks else 0
    if not 1 <= at <= len(blocks):
        many = f"{len(blocks)} block{'s' * (len(blocks) != 1)} of code" if blocks else "no code"
        raise AppError(f"{name.capitalize()} has {many}.")
    which = "the code" if len(blocks) == 1 else f"code {at} of {len(blocks)}"
    copy_text(chat.app, blocks[at - 1], which if name == _NEWEST else f"{which} in {name}")


async def _save(chat: Chat, name: str) -> None:
    written = start_in_thread(saving(chat.library, name))
    if await wait_briefly(written):
        chat.hint.say(written.result())
    else:
        chat.hint.ask("The file is being written; its disk takes its time.")
        written.add_done_callback(lambda _: chat.app.call_later(chat.hint.say, _told(written)))


def _told(written: Future[str]) -> str:
    try:
        return written.result()
    except AppError as error:
        return error.sentences


async def _include(chat: Chat, path: str) -> None:
    looked = start_in_thread(lambda: text_size(Path(path).expanduser(), path))
    # A disk that does not answer is waited for when the prompt is sent, which esc stops.
    if not await wait_briefly(looked):
        looked.cancel()
    else:
        try:
            looked.result()
        except (RuntimeError, ValueError):
            raise AppError(f"There is no file {path}.") from None
    chat.prompt.include(path)


def _title(chat: Chat, title: str) -> None:
    conversation = chat.library.conversation
    if conversation is None:
        raise AppError("Nothing was said yet; a title waits for the first prompt.")
    chat.hint.say(f'This conversation is called "{printable(chat.library.rename(conversation, title))}".')


def _system(chat: Chat, text: str) -> None:
    now = chat.settings.system
    if text and text != _NONE:
        chat.settings.set("answer.system", text)
        chat.hint.say("From the next prompt on.")
    elif text:
        chat.settings.set("answer.system", None)
        chat.hint.say("This conversation has no system prompt of its own.")
    elif now:
        brief = fit(one_line(now), _BRIEF)
        chat.hint.say(f'The system prompt here is "{brief}"; /system {_NONE} ends one that is only here.')
    else:
        chat.hint.say("There is no system prompt here. Write it behind /system.")


async def _help(chat: Chat, _: str) -> None:
    await chat.messages.tell(help_rows(COMMANDS.known.values(), min(_WIDEST, chat.messages.size.width - _MARGIN)))


_ELSEWHERE = {
    "add": "include",
    "clear": "new",
    "exit": "quit",
    "export": "save",
    "load": "open",
    "pairs": "models",
    "regenerate": "again",
    "rename": "title",
    "retry": "again",
}
"""What other programs call them."""

COMMANDS = Commands(
    [
        Command("new", "begin a new conversation", lambda chat, _: chat.action_restart()),
        Command("open", "look for a conversation and go on with it", lambda chat, _: chat.action_conversations()),
        Command("again", "answer the last prompt again", lambda chat, _: chat.action_again()),
        Command("stop", "stop the answer; its text stays", lambda chat, _: chat.action_stop()),
        Command(
            "draft", "draft the next answers, or not", _draft, Takes.WORDS, "on|off|auto", choices=("on", "off", "auto")
        ),
        Command("copy", "copy the answer, or a block of its code", _copy, Takes.WORDS, "[code [N]]"),
        Command("save", "write this conversation to a file, as JSON if so named", _save, Takes.PATH, "FILE"),
        Command("include", "name a file whose text goes with the prompt", _include, Takes.PATH, "FILE"),
        Command("models", "choose or add a pair of models", lambda chat, _: chat.action_pairs()),
        Command("title", "name this conversation", _title, Takes.TEXT, "[TEXT]"),
        Command("system", "system prompt for this conversation", _system, Takes.LINES, f"[TEXT|{_NONE}]"),
        Command("help", "the commands and some keys", _help),
        Command("quit", "stop everything and leave", lambda chat, _: chat.app.action_quit()),
    ],
    _ELSEWHERE.items(),
)
