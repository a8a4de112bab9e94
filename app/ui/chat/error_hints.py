"""Errors with the keys that fix them, and why a key does nothing now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.conversations.attached import split
from app.core.errors import AppError, ContextOverflowError, EngineLostError
from app.models.context_limit import enough_for, roomy
from app.models.pair_info import PairInfo
from app.session.snapshot import Blocked
from app.ui.chat.base import ChatBase
from app.ui.key_names import CHOOSE, key
from app.ui.models.fit_options import NoRoomError
from app.ui.models.state import PairCard
from app.worker.overflow import or_longer

if TYPE_CHECKING:
    from app.session.comparison import Comparable


@dataclass(frozen=True, slots=True)
class Situation:
    """State of the chat when something failed.

    Attributes:
        pair: The loaded pair; None without one.
        asked: The prompt, with what it includes.
        context_after_reload: Context in tokens after the next load; 0 where it stays.
        roomier: Another pair with a longer context; None without one.
    """

    pair: PairInfo | None = None
    asked: str = ""
    context_after_reload: int = 0
    roomier: PairCard | None = None


def why_blocked(blocked: Blocked | None, *, has_pairs: bool) -> str:
    """Return why no prompt can be sent, with the key that helps; "" if one can."""
    match blocked:
        case None:
            return ""
        case Blocked.ANSWERING:
            return f"An answer is being written; {key('chat.stop', 'esc')} stops it."
        case Blocked.UNLOADED:
            pairs, leaves = key("chat.pairs", "f6"), key("app.quit", "ctrl+q")
            return f"No model is loaded; {f'{pairs} chooses one' if has_pairs else f'{leaves} quits'}."
        case Blocked.WAITING:
            return f"A prompt already waits for the models; {key('chat.stop', 'esc')} takes it back."
        case Blocked.PREPARING:
            return f"Files are still being read; {key('chat.stop', 'esc')} stops that."


def in_chat(error: AppError, screen: ChatBase, asked: str = "") -> AppError:
    """Return the error of a prompt with the keys that fix it."""
    if isinstance(error, EngineLostError):
        # The worker does not know whether the conversation is stored.
        return EngineLostError(error.message, f"The conversation is kept. {error.hint}".rstrip())
    if not isinstance(error, ContextOverflowError):
        return error
    session, prompt = screen.session, screen.session.conversation.turn.prompt
    asked = asked or (prompt.text if prompt is not None else "")
    roomier = screen.roomier_pair(error.n_tokens)
    return with_keys(error, Situation(session.pair, asked, session.context_after_reload, roomier))


def in_comparison(error: AppError, what: Comparable) -> AppError:
    """Return the error of a comparison with the keys that fix it."""
    if isinstance(error, NoRoomError):
        # The options are applied in the chat.
        once, pairs = key("compare.once", "m"), key("chat.pairs", "f6")
        return AppError(
            error.message, f"{once} tries again when memory is free; {pairs} in the chat chooses another pair."
        )
    return with_keys(error, Situation(what.pair, what.request.messages[-1].content, what.context_after_reload))


def with_keys(error: AppError, situation: Situation) -> AppError:
    """Return the error with keys in place of a command's flags."""
    if not isinstance(error, ContextOverflowError):
        return error
    shorter, longer = _shorter(error.whose, situation.asked), _longer(error.n_tokens, situation)
    hint = f"{longer} {shorter}." if longer.endswith(".") else f"{shorter}{longer}."
    return AppError(error.message, hint + _other(error.n_tokens, situation))


def _shorter(whose: str, asked: str) -> str:
    settings = key("chat.settings", "f4")
    match whose:
        case "system":
            return f"Shorten the system prompt ({settings} or /system)"
        case "prompt":
            return _without(asked) or "Shorten it"
        case "file":
            return "Include a part of it"
    new, choose, edit = key("chat.new", "ctrl+n"), key("chat.choose", CHOOSE), key("message.edit", "e")
    anew = f"{new} begins a new conversation"
    return anew if whose == "answer" else f"{anew}, {choose} and {edit} change an earlier prompt"


def _without(asked: str) -> str:
    """Return the advice to leave out the largest included text; "" without any."""
    _, attachments = split(asked)
    if not attachments:
        return ""
    largest = max(attachments, key=lambda one: one.size)
    named = largest.name if largest.is_file else largest.reference
    is_largest = ", the largest," if len(attachments) > 1 else ""
    return f"Leave out {named}{is_largest} or include a part of it"


def _longer(n_tokens: int, situation: Situation) -> str:
    """Return how to get a longer context, as a clause; if one is set already, as a sentence."""
    settings = key("chat.settings", "f4")
    pair, to_come = situation.pair, situation.context_after_reload
    if pair is None or not n_tokens:
        return f", {settings} sets a longer context (ctx)"
    if to_come > n_tokens:
        load = key("settings.load", "ctrl+r")
        return f"ctx {to_come} is set and would hold it: {settings}, then {load}, loads the models with it."
    return or_longer(pair, n_tokens, lambda enough: f"set a longer context: {settings}, ctx {enough}")


def _other(n_tokens: int, situation: Situation) -> str:
    """Return which other pair has a context that is long enough."""
    pair, card = situation.pair, situation.roomier
    if pair is None or card is None or enough_for(pair, n_tokens):
        return ""
    settings, pairs = key("chat.settings", "f4"), key("chat.pairs", "f6")
    which = f"The pair {card.name}" if card.set_up else f"A pair such as {card.name}"
    slowly = ", but is slow here" if card.slow else ""
    return f" {which} can have one{slowly}: {settings}, ctx {min(card.context, roomy(n_tokens))}, then {pairs}."
