"""The settings screen over a real settings file and a scripted engine."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.conversations.message import Message, Role
from app.conversations.store import Store
from app.core.errors import SettingsError
from app.session.state import Phase
from app.settings.file import SettingsFile
from app.settings.layers import ThinkingSupport
from app.worker.events import PairChanged
from tests.fake_engine import PAIR
from tests.ui.settings.driver import SettingsChat, open_settings

MARK = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"


def idle_keys(chat: SettingsChat) -> set[str]:
    return {view.setting.key for view in chat.panel.settings.rows if view.idle}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


async def test_the_screen_shows_the_value_and_origin_of_every_setting(file: Path) -> None:
    file.write_text("[sampling]\ntop_k = 7")
    async with open_settings(file, flags={"sampling.temp": 0.2}, pair={"sampling.top_p": 0.9}) as chat:
        for words, line in (
            ("temp", "temp 0.2 command line"),
            ("top_k", "top_k 7 settings.toml"),
            ("top_p", "top_p 0.9 pair"),
            ("min_p", "min_p 0.05 default"),
            ("ctx", "ctx ↻ 8k to 64k, by memory default"),
        ):
            await chat.find(words)
            assert any(" ".join(row.replace(MARK, "").split()) == line for row in chat.rows), chat.text
        await chat.find("top_k", shows="K most probable tokens kept; 0 keeps all.")
        assert "A whole number between 0 and 1,000,000. Default: 40." in chat.text
        assert "sampling.top_k in settings.toml, --top-k; from settings.toml" in chat.text
        await chat.find("min_p", shows="sampling.min_p in settings.toml, --min-p; default")


async def test_descriptions_are_never_cut(file: Path) -> None:
    async with open_settings(file, size=(120, 90)) as chat:
        await chat.find(".")
        chosen, *others = chat.panel.settings.rows
        shown = chat.text.lower()
        assert chosen.setting.help.lower() in " ".join(shown.split())
        assert [view.name for view in others if view.setting.text.lower() not in shown] == []


async def test_a_typed_value_is_checked_while_typed_and_saved_with_enter(file: Path) -> None:
    async with open_settings(file) as chat:
        await chat.find("top_k")
        await chat.press("enter", "end", "x", shows="Expected a whole number between 0 and 1,000,000.")
        await chat.press("enter")
        assert not file.exists()
        await chat.press("backspace", "1", "enter")
        await chat.until(lambda: chat.live.resolved()["sampling.top_k"] == 401)
        assert "top_k = 401" in file.read_text()
        await chat.close()
        await chat.send("hello")
        assert chat.engine.requests[0].sampling.top_k == 401


async def test_left_and_right_change_choices_and_numbers(file: Path) -> None:
    async with open_settings(file) as chat:
        await chat.change("draft.mode", "right")
        assert chat.live.resolved()["draft.mode"] == "fixed"
        await chat.press("left", "left")
        assert chat.live.resolved()["draft.mode"] == "off"
        await chat.change("sampling.temp", "right")
        assert chat.live.resolved()["sampling.temp"] == 0.9
        await chat.close()
        await chat.send("hello")
        assert chat.engine.requests[0].drafting is None
        assert chat.engine.loads == 1


async def test_a_number_of_fixed_drafting_shows_that_it_needs_the_mode(file: Path) -> None:
    async with open_settings(file) as chat:
        await chat.change("n_max", "right", shows="n_max takes effect with mode fixed.")
        assert chat.live.resolved()["draft.mode"] == "auto"


async def test_leaving_offers_a_reload_that_keeps_the_conversation(file: Path) -> None:
    async with open_settings(file, opened=False) as chat:
        await chat.exchange("one", "first")
        await chat.open()
        await chat.change("model.kv_type", "right", shows="after reload, settings.toml")
        await chat.press("escape", shows="Reload the models for model.kv_type? Enter now, esc later")
        await chat.press("enter", until=lambda: chat.engine.loads == 2)
        assert chat.live.waiting == ()
        await chat.load()
        await chat.shows("first")
        await chat.send("two")
        assert [m.content for m in chat.engine.requests[1].messages] == ["one", "first", "two"]


async def test_a_reload_brings_a_failed_draft_back(file: Path) -> None:
    async with open_settings(file, opened=False) as chat:
        engine = chat.engine
        engine.emit(PairChanged(replace(PAIR, draft=None, draft_failed=True)))
        await chat.until(lambda: chat.screen.session.pair.draft is None)  # type: ignore[union-attr]
        await chat.open()
        await chat.shows("ctrl+r reload")
        await chat.press("ctrl+r", until=lambda: engine.loads == 2)
        # A late event of the replaced pair does not change the new pair.
        engine.emit(PairChanged(replace(PAIR, draft=None, draft_failed=True)))
        await chat.load()
        assert chat.screen.session.pair == PAIR
        assert chat.screen.session.phase is Phase.READY


async def test_a_conversation_has_settings_of_its_own(file: Path, tmp_path: Path) -> None:
    database = tmp_path / "conversations.db"
    async with open_settings(file, store=lambda: Store(database)) as chat:
        await chat.press("tab", shows="for this conversation")
        await chat.change("answer.system", "enter", *"Be", "ctrl+j", *"brief.", "enter")
        await chat.until(lambda: chat.live.resolved()["answer.system"] == "Be\nbrief.")
        await chat.close()
        await chat.exchange("one", "first")
        assert chat.engine.requests[0].messages[0] == Message(Role.SYSTEM, "Be\nbrief.")
        await chat.press("ctrl+n", until=lambda: chat.screen.session.settings["answer.system"] is None)
        await chat.exchange("two", "second")
        assert chat.engine.requests[1].messages[0].role is Role.USER
        await chat.screen.controller.open_conversation(1)
        await chat.send("three")
        assert chat.engine.requests[2].messages[0] == Message(Role.SYSTEM, "Be\nbrief.")
    assert not file.exists()
    store = Store(database)
    assert store.load(1).settings == {"answer": {"system": "Be\nbrief."}}
    assert store.load(2).settings == {}
    store.close()


async def test_the_values_for_all_are_shown_and_changed_beside_those_of_a_conversation(file: Path) -> None:
    async with open_settings(file) as chat:
        await chat.press("tab")
        await chat.find("sampling.temp")
        await chat.press("enter", *"0.3", "enter", "tab", shows="This conversation has its own value: 0.3")
        await chat.press("enter", *"0.6", "enter")
        await chat.until(lambda: chat.live.resolved({})["sampling.temp"] == 0.6)
        assert chat.live.resolved()["sampling.temp"] == 0.3
        await chat.shows("Saved, but 0.3 (this conversation) counts here.")
        # Each scope resets only its own value.
        await chat.press("ctrl+x", shows="Reset: 0.3 (this conversation) counts now.")
        assert "temp" not in file.read_text()
        await chat.press("enter", *"0.6", "enter", "tab", "ctrl+x", shows="Reset: 0.6 (settings.toml) counts now.")
        await chat.press("ctrl+x")
        assert "temp = 0.6" in file.read_text()


async def test_a_value_that_a_preset_overrides_is_reset_too(file: Path) -> None:
    file.write_text('preset = "creative"\n[sampling]\ntemp = 0.3')
    async with open_settings(file) as chat:
        await chat.change("sampling.temp", "ctrl+x", shows="Reset: 1.1 (preset creative) counts now.")
        assert "temp" not in file.read_text()


async def test_imported_settings_cannot_send_control_sequences(file: Path, tmp_path: Path) -> None:
    database = tmp_path / "conversations.db"
    store = Store(database)
    number = store.create({"answer": {"system": "Be\x1b]0;owned\x07\nbrief", "stop": ["\x1b[2Jend"]}})
    store.add(number, Role.USER, "one", parent=None)
    store.close()
    async with open_settings(file, store=lambda: Store(database), opened=False) as chat:
        await chat.until(lambda: chat.screen.session.library.is_open)
        await chat.screen.controller.open_conversation(1)
        await chat.open()
        for name, words in (("answer.system", "Be]0;owned"), ("answer.stop", "[2Jend")):
            await chat.change(name, "enter", shows=words)
            strips = chat.panel._compositor.render_strips(chat.panel.size)
            assert not any(set("\x1b\x07") & set(strip.text) for strip in strips)
            await chat.press("escape")


async def test_the_scope_does_not_change_during_editing(file: Path) -> None:
    async with open_settings(file) as chat:
        await chat.change("answer.system", "enter", *"For all")
        await chat.pilot.click("#scope")
        await chat.press("enter", until=lambda: "For all" in file.read_text())
        assert chat.live.document == {}


async def test_model_settings_apply_to_all_conversations(file: Path) -> None:
    async with open_settings(file) as chat:
        await chat.press("tab")
        await chat.find("model.ctx")
        await chat.press("enter", shows="model.ctx applies to all conversations; tab changes the scope.")
        await chat.change("model.fit", "right")
        assert chat.live.resolved()["model.fit"] == "auto"


@pytest.mark.parametrize(
    ("mode", "idle"),
    [
        ("auto", {"n_max", "n_min", "p_min"}),
        ("fixed", {"source", "ngram_min_match"}),
        ("off", {"type", "n_max", "n_min", "p_min", "source", "ngram_min_match", "device", "gpu_layers", "kv_type"}),
    ],
)
async def test_settings_without_effect_in_a_draft_mode_are_dimmed(file: Path, mode: str, idle: set[str]) -> None:
    async with open_settings(file, flags={"draft.mode": mode}) as chat:
        assert idle_keys(chat) == idle


async def test_settings_that_the_model_ignores_are_dimmed(file: Path) -> None:
    deaf = replace(PAIR, thinking_support=ThinkingSupport(switchable=False, effort=False, effort_on=False))
    async with open_settings(file, opened=False) as chat:
        chat.engine.loaded(deaf)
        await chat.until(lambda: chat.screen.session.pair == deaf)
        await chat.open()
        assert idle_keys(chat) >= {"thinking", "reasoning_effort"}
        await chat.find("answer.thinking", shows="The loaded model cannot turn reasoning on or off.")
        await chat.find("answer.reasoning_effort", shows="The loaded model has no reasoning effort.")


async def test_presets_are_chosen_and_saved(file: Path) -> None:
    async with open_settings(file) as chat:
        await chat.shows("precise: temp 0")
        await chat.press("enter", *"precise", "enter")
        await chat.until(lambda: chat.live.preset == "precise")
        await chat.find("sampling.temp", shows="preset")
        await chat.press("enter", *"0.4", "enter", shows="Saved, but 0 (preset precise) counts here.")
        await chat.change("", "ctrl+s", shows="name of the preset")
        await chat.press(*"none", "enter", shows="Choose a name other than none.")
        await chat.press(*"x", "enter")
        await chat.until(lambda: "nonex" in chat.live.presets)
        assert chat.live.presets["nonex"] == {"sampling.temp": 0.0}


async def test_problems_of_the_settings_file_are_shown_in_the_chat(file: Path) -> None:
    file.write_text('[sampling]\ntemp = 200\n[keys]\n"chat.agian" = "f4"\n[appearance]\ntheme = "[red]"')
    async with open_settings(file, opened=False, size=(200, 40)) as chat:
        await chat.shows("it must be a number between 0 and 100.")
        assert 'keys: there is no "chat.agian". Did you mean "chat.again"?' in chat.text
        assert 'There is no theme "[red]".' in chat.text


async def test_a_full_disk_is_an_error_on_the_screen(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise SettingsError("settings.toml cannot be written: No space left on device.", "Check the disk.")

    async with open_settings(file) as chat:
        monkeypatch.setattr(SettingsFile, "set", refuse)
        await chat.change("sampling.temp", "right", shows="No space left on device. Check the disk.")
        assert chat.live.resolved()["sampling.temp"] == 0.8


async def test_theme_and_motion_act_at_once_and_are_kept(file: Path) -> None:
    async with open_settings(file) as chat:
        app = chat.app
        await chat.change("appearance.theme", "right")
        assert app.theme == "tandem-light"
        await chat.change("reduced_motion", "right")
        assert app.animation_level == "full"
        app.theme = "nord"
        await chat.until(lambda: 'theme = "nord"' in file.read_text())
    async with open_settings(file, opened=False) as chat:
        assert chat.app.theme == "nord"
        assert chat.app.animation_level == "full"


async def test_the_mouse_chooses_and_changes(file: Path) -> None:
    async with open_settings(file) as chat:
        await chat.click("source")
        assert chat.setting == "draft.source"
        await chat.click("source", until=lambda: chat.live.resolved()["draft.source"] == "model")
        await chat.pilot.click("#scope")
        await chat.shows("for this conversation")


async def test_a_filter_without_a_match_does_nothing(file: Path) -> None:
    async with open_settings(file) as chat:
        await chat.find("zzz", shows="No matches.")
        await chat.press("enter", "right", "down", "ctrl+x")
        assert not file.exists()
        await chat.find("")
        assert "No matches." not in chat.text
        assert chat.setting == "preset"


async def test_rare_sampling_settings_are_folded_until_searched_or_changed(file: Path) -> None:
    async with open_settings(file, flags={"sampling.typical_p": 0.5}, size=(100, 60)) as chat:
        await chat.shows("rarely used settings; type a name to find one")
        assert "typical_p" in chat.text
        assert "presence_penalty   " not in chat.text
        await chat.find("presence", shows="presence_penalty")
