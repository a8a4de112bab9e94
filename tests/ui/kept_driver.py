"""A chat whose conversations stay on disk, and what another start shows of them, for tests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from app.conversations.store import Store
from app.core.errors import AppError, ContextOverflowError
from app.engine.types import FinishReason
from tests.ui.chat_driver import Chat, open_chat, said

FULL = ContextOverflowError(
    "With this prompt the conversation has 272 tokens and the context holds 256.",
    "Start a new conversation, or ask for a longer context (--ctx).",
)
BROKEN = AppError("llama.cpp failed.", "Load a smaller pair.")
REFUSAL = ["Answer", f"┃ {FULL.message}"]
"""What stands below a prompt that was refused so, with the ways out."""
WAYS_OUT = [
    "┃ Start a new conversation (ctrl+n) or edit an earlier prompt (ctrl+up, then e), or set",
    "┃ a longer context (f4, ctx).",
]


@asynccontextmanager
async def kept_chat(
    file: Path, *, loaded: bool = True, again: bool = False, size: tuple[int, int] = (90, 40), continues: bool = False
) -> AsyncIterator[Chat]:
    """Open a chat; optionally continue the conversation of an earlier one."""
    async with open_chat(store=lambda: Store(file), size=size, loaded=loaded, continues=continues) as chat:
        if again:
            await chat.screen.open_conversation(1)
        yield chat


async def is_shown_again(file: Path, before: list[str]) -> None:
    """Another start shows the same."""
    async with kept_chat(file, again=True) as chat:
        await chat.until(lambda: said(chat) == before)


async def refused(chat: Chat, error: AppError = FULL) -> None:
    """Nothing, or nothing more, comes of the answer."""
    chat.engine.fails(error)
    await chat.ready()


async def answered(chat: Chat, text: str, reason: FinishReason = FinishReason.STOP) -> None:
    """The rest of the answer comes, and is its end."""
    chat.engine.goes_on(text, reason)
    await chat.ready()
