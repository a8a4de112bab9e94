"""Values of settings: precedence, changes during a chat, and the resulting requests."""

from contextlib import closing
from pathlib import Path

import pytest

from app.conversations.message import Message, Role
from app.conversations.store import Store
from app.core.errors import SettingsError, UsageError
from app.engine.types import AutoDraft, DraftParams
from app.session.session import Session
from app.settings.file import SettingsFile
from app.settings.layers import Layer, Origin, Resolved, automatic, drafting
from app.settings.live import LiveSettings, Scope
from app.worker.events import Loaded
from tests.fake_engine import FakeEngine
from tests.fake_tools import no_tools
from tests.session.scripted import PAIR
from tests.settings.conftest import write
from tests.settings.in_memory import in_memory

FILE_SAYS: Layer = {"sampling.temp": 0.6, "sampling.top_k": 20}
"""A model file's recommendations."""


def test_additional_flags_can_be_tried_before_they_apply() -> None:
    live = in_memory({"model.ctx": 4096})

    assert live.given({"model.kv_type": "q8_0"}, {})["model.kv_type"] == "q8_0"
    before = live.resolved()
    live.give({"model.kv_type": "q8_0"})
    assert (live.resolved()["model.kv_type"], live.resolved()["model.ctx"]) == ("q8_0", 4096)
    # What a server was given stays as it is.
    assert before["model.kv_type"] == "auto"


def test_a_change_for_all_replaces_the_flag_and_a_conversation_keeps_its_own_value(file: SettingsFile) -> None:
    live = LiveSettings(file, flags={"sampling.temp": 0.1})
    live.set("sampling.temp", 0.2, Scope.CONVERSATION)
    assert live.resolved().origin("sampling.temp") is Origin.CONVERSATION
    assert not file.path.exists()
    live.set("sampling.temp", 0.3)
    assert file.read().values == {"sampling.temp": 0.3}
    assert live.resolved()["sampling.temp"] == 0.2
    assert (live.resolved({})["sampling.temp"], live.resolved({}).origin("sampling.temp")) == (0.3, Origin.FILE)
    live.reset("sampling.temp", Scope.CONVERSATION)
    assert (live.resolved()["sampling.temp"], live.document) == (0.3, {})


def test_a_reset_removes_the_value_of_one_layer(file: SettingsFile) -> None:
    write(file, 'preset = "mine"\n[sampling]\ntemp = 0.4\n[presets.mine.sampling]\ntemp = 0.3')
    live = LiveSettings(
        file, {"sampling.temp": 0.1}, {"sampling.temp": 0.5}, {"sampling.temp": 0.6, "sampling.top_k": 20}
    )
    live.enter({"sampling": {"temp": 0.2}})
    seen = []
    for _ in range(4):
        now = live.resolved()
        seen.append((now.origin("sampling.temp"), now["sampling.temp"]))
        live.reset("sampling.temp", Scope.CONVERSATION if now.origin("sampling.temp") is not Origin.FILE else Scope.ALL)
        if seen[-1][0] is Origin.PRESET:
            live.set("preset", None)
    assert seen == [(Origin.FLAG, 0.1), (Origin.CONVERSATION, 0.2), (Origin.PRESET, 0.3), (Origin.FILE, 0.4)]
    assert live.resolved().origin("sampling.temp") is Origin.PAIR
    assert (live.resolved()["sampling.top_k"], live.resolved().origin("sampling.top_k")) == (20, Origin.MODEL)


def test_the_preset_is_chosen_by_the_strongest_that_names_one(file: SettingsFile) -> None:
    write(file, 'preset = "creative"\n[presets.coder.sampling]\ntemp = 0.9')
    live = LiveSettings(file)
    assert (live.preset, live.resolved()["sampling.top_k"]) == ("creative", 0)
    live.enter({"preset": "coder"})
    assert (live.preset, live.resolved()["sampling.temp"]) == ("coder", 0.9)
    assert LiveSettings(file, {"preset": None}).preset is None
    assert LiveSettings(file, {"preset": "precise"}).resolved()["sampling.temp"] == 0


def test_a_preset_that_is_not_there(file: SettingsFile) -> None:
    with pytest.raises(UsageError, match='There is no preset "codr"'):
        LiveSettings(file, {"preset": "codr"})
    write(file, 'preset = "codr"')
    live = LiveSettings(file)
    assert live.preset is None
    assert live.sentences()[0].startswith(f'{file.path}: There is no preset "codr".')
    assert live.refusal("preset", "nothing").startswith("There is no preset")


def test_a_conversation_has_only_what_acts_at_once_and_is_checked(file: SettingsFile) -> None:
    live = LiveSettings(file)
    raw = {"sampling": {"temp": "hot", "top_k": 5}, "model": {"ctx": 9}, "preset": "x\x1b[2J", "odd": {}}
    told = [problem.text for problem in live.enter(raw)]
    assert live.document == {"sampling": {"top_k": 5}}
    assert len(told) == 4
    assert all(text.isprintable() for text in told)
    assert not live.waiting
    assert live.enter({}) == []
    assert live.resolved().origin("sampling.top_k") is Origin.DEFAULT


def names(live: LiveSettings) -> list[str]:
    return [one.name for one in live.waiting]


def test_a_model_setting_waits_for_a_reload(file: SettingsFile) -> None:
    live = LiveSettings(file)
    live.loading()
    live.set("sampling.temp", 0.2)
    live.set("draft.mode", "off")
    assert names(live) == []
    live.set("model.ctx", 4096)
    assert names(live) == ["model.ctx"]
    live.reset("model.ctx")
    assert names(live) == []
    live.loading()
    live.set("draft.mode", "auto")
    assert names(live) == ["draft.mode"]


def test_a_preset_of_what_is_set_now(file: SettingsFile) -> None:
    live = LiveSettings(file, pair={"sampling.top_p": 0.9}, model={"sampling.top_k": 20})
    live.set("sampling.temp", 0.2)
    live.set("answer.system", "Be brief.", Scope.CONVERSATION)
    live.save_preset("brief")
    assert live.presets["brief"] == {"sampling.temp": 0.2, "answer.system": "Be brief."}


def test_a_file_that_cannot_be_read_is_not_written(file: SettingsFile) -> None:
    write(file, "[sampling\ntemp = 1")
    live = LiveSettings(file)
    assert "cannot be read" in live.sentences()[0]
    with pytest.raises(SettingsError):
        live.set("sampling.temp", 0.2)
    assert live.resolved().origin("sampling.temp") is Origin.DEFAULT
    live.set("sampling.temp", 0.2, Scope.CONVERSATION)
    assert file.path.read_text() == "[sampling\ntemp = 1"


def test_a_change_in_a_conversation_removes_the_flag(file: SettingsFile) -> None:
    live = LiveSettings(file, {"sampling.temp": 0.1, "draft.mode": "fixed", "draft.n_max": 3})
    live.set_own("sampling.temp", 0.2)
    live.set("draft.mode", "auto", Scope.CONVERSATION)
    assert live.resolved()["sampling.temp"] == 0.2
    assert isinstance(drafting(live.resolved()), AutoDraft)

    live.enter({})
    assert live.resolved().origin("sampling.temp") is Origin.DEFAULT


def test_another_pair_downloads_its_own_file(file: SettingsFile) -> None:
    live = LiveSettings(file, model=FILE_SAYS)
    assert live.given({}, {}, {"sampling.top_k": 7})["sampling.top_k"] == 7
    assert live.given({}, {})["sampling.top_k"] == 40
    assert live.resolved()["sampling.top_k"] == 20

    live.switch_pair({})
    assert live.resolved().origin("sampling.top_k") is Origin.DEFAULT


def test_a_preset_that_another_program_removes_is_ignored(file: SettingsFile) -> None:
    write(file, "[presets.mine.sampling]\ntemp = 0.3")
    live = LiveSettings(file, {"preset": "mine"})
    file.remove_preset("mine")
    live.set("appearance.theme", "tandem-light")
    assert live.preset is None


OWN_SYSTEM_MESSAGE = Message(Role.SYSTEM, "Own.")


def ask(live: LiveSettings, *before: Message) -> Message:
    """Return the first message of the request for an answer to other messages."""
    with closing(Store()) as store:
        number, parent = store.create(live.document), None
        for message in before:
            parent = store.add(number, message.role, message.content, parent=parent).id
        session = Session(FakeEngine(), "A pair", live, no_tools(), lambda: store)
        session.library.open_store()
        session.open_conversation(number)
        session.handle(Loaded(PAIR))
        return session.comparable("c").messages[0]


def first(live: LiveSettings) -> Message:
    return ask(live, OWN_SYSTEM_MESSAGE, Message(Role.USER, "a"), Message(Role.ASSISTANT, "b"))


def test_a_system_message_in_the_conversation_goes_before_the_file_and_after_flag_and_conversation(
    tmp_path: Path,
) -> None:
    live = LiveSettings(SettingsFile(tmp_path / "settings.toml"))
    assert first(live) == OWN_SYSTEM_MESSAGE
    live.set("answer.system", "For all.")
    assert first(live) == OWN_SYSTEM_MESSAGE
    assert ask(live).content == "For all."
    live.set("answer.system", "Here.", Scope.CONVERSATION)
    assert first(live).content == "Here."
    flagged = in_memory(flags={"answer.system": "Flag."})
    assert first(flagged).content == "Flag."


def test_automatic_drafting_is_compared_with_its_settings_in_every_mode() -> None:
    lookup = AutoDraft(model=False, min_match=5)
    layer: Layer = {"draft.mode": "fixed", "draft.n_max": 3, "draft.source": "ngram", "draft.ngram_min_match": 5}
    settings = Resolved({Origin.FILE: layer})
    assert (drafting(settings), automatic(settings)) == (DraftParams(3), lookup)
