"""Check how settings reach an answer."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from app.conversations.message import Message, Role
from app.conversations.store import Store
from app.engine.types import AutoDraft, DraftParams
from app.session.chat_settings import chat_settings
from app.session.session import Session
from app.settings.file import SettingsFile
from app.settings.layers import Layer, Origin, Resolved
from app.settings.live import LiveSettings, Scope
from app.worker.events import Loaded
from tests.fake_engine import FakeEngine
from tests.session.scripted import PAIR
from tests.settings.in_memory import in_memory

OWN = Message(Role.SYSTEM, "Own.")


def ask(live: LiveSettings, *before: Message) -> Message:
    """Return the first message of the request for an answer below others."""
    with closing(Store()) as store:
        number, parent = store.create(live.document), None
        for message in before:
            parent = store.add(number, message.role, message.content, parent=parent).id
        session = Session(FakeEngine(), "A pair", live, lambda: store)
        session.library.open_store()
        session.open_conversation(number)
        session.handle(Loaded(PAIR))
        return session.comparable("c").request.messages[0]


def first(live: LiveSettings) -> Message:
    return ask(live, OWN, Message(Role.USER, "a"), Message(Role.ASSISTANT, "b"))


def test_a_system_message_in_the_conversation_goes_before_the_file_and_after_flag_and_conversation(
    tmp_path: Path,
) -> None:
    live = LiveSettings(SettingsFile(tmp_path / "settings.toml"))
    assert first(live) == OWN
    live.set("answer.system", "For all.")
    assert first(live) == OWN
    assert ask(live).content == "For all."
    live.set("answer.system", "Here.", Scope.CONVERSATION)
    assert first(live).content == "Here."
    flagged = in_memory(flags={"answer.system": "Flag."})
    assert first(flagged).content == "Flag."


def test_automatic_drafting_is_compared_with_its_settings_in_every_mode() -> None:
    lookup = AutoDraft(model=False, min_match=5)
    layer: Layer = {"draft.mode": "fixed", "draft.n_max": 3, "draft.source": "ngram", "draft.ngram_min_match": 5}
    settings = Resolved({Origin.FILE: layer})
    made = chat_settings("A pair", settings)
    assert (made.drafting, made.automatic) == (DraftParams(3), lookup)
