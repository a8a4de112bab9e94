"""How the settings reach an answer."""

from __future__ import annotations

from pathlib import Path

from app.cli.options import options_of
from app.conversations.message import Message, Role
from app.engine.types import AutoDraft, DraftParams
from app.models.catalog import Pair
from app.models.source import parse_source
from app.session.chat_settings import ChatSettings, applied
from app.settings.file import SettingsFile
from app.settings.layers import Layer, Origin, Resolved
from app.settings.live import LiveSettings, Scope
from app.settings.model_file import Recommended
from app.ui.chat.session import ChatSession

OWN = Message(Role.SYSTEM, "Own.")


def first(session: ChatSession) -> Message:
    session.restart((OWN, Message(Role.USER, "a"), Message(Role.ASSISTANT, "b")))
    return session.ask("c").messages[0]


def test_a_system_message_in_the_conversation_goes_before_the_file_and_after_flag_and_conversation(
    tmp_path: Path,
) -> None:
    live = LiveSettings(SettingsFile(tmp_path / "settings.toml"))
    session = ChatSession(ChatSettings("A pair", drafting=AutoDraft()), live)
    assert first(session) == OWN
    live.set("answer.system", "For all.")
    assert first(session) == OWN
    session.restart()
    assert session.ask("c").messages[0].content == "For all."
    live.set("answer.system", "Here.", Scope.CONVERSATION)
    assert first(session).content == "Here."
    flagged = LiveSettings(flags={"answer.system": "Flag."})
    assert first(ChatSession(ChatSettings("A pair"), flagged)).content == "Flag."


def test_without_live_settings_it_is_as_it_was_started() -> None:
    session = ChatSession(ChatSettings("A pair", system="Started."))
    assert first(session).content == "Started."


def test_automatic_drafting_is_compared_as_it_is_set_whatever_mode_counts() -> None:
    lookup = AutoDraft(model=False, min_match=5)
    layer: Layer = {"draft.mode": "fixed", "draft.n_max": 3, "draft.source": "lookup", "draft.lookup_min_match": 5}
    settings = Resolved({Origin.FILE: layer})
    pair = Pair(name="fake", title="Fake", target=parse_source("x.gguf"), draft=parse_source("y.gguf"))
    for made in (applied(ChatSettings("A pair"), settings), options_of(settings, pair, None, Recommended())):
        assert (made.drafting, made.automatic) == (DraftParams(3), lookup)
