"""The settings panel over a real settings file and a scripted engine."""

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
from tests.ui.settings.driver import Panel, open_panel

MARK = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"


def idle_keys(panel: Panel) -> set[str]:
    return {view.setting.key for view in panel.screen.settings.rows if view.idle}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.toml"


async def test_the_screen_shows_the_value_and_origin_of_every_setting(file: Path) -> None:
    file.write_text("[sampling]\ntop_k = 7")
    async with open_panel(file, flags={"sampling.temp": 0.2}, pair={"sampling.top_p": 0.9}) as panel:
        for words, line in (
            ("temp", "temp 0.2 command line"),
            ("top_k", "top_k 7 settings.toml"),
            ("top_p", "top_p 0.9 pair"),
            ("min_p", "min_p 0.05 default"),
            ("ctx", "ctx ↻ 8k to 64k, by memory default"),
        ):
            await panel.find(words)
            assert any(" ".join(row.replace(MARK, "").split()) == line for row in panel.chat.rows), panel.chat.text
        await panel.find("top_k", shows="K most probable tokens kept; 0 keeps all.")
        assert "A whole number between 0 and 1,000,000. Default: 40." in panel.chat.text
        assert "sampling.top_k in settings.toml, --top-k; from settings.toml" in panel.chat.text
        await panel.find("min_p", shows="sampling.min_p in settings.toml, --min-p; default")


async def test_descriptions_are_never_cut(file: Path) -> None:
    async with open_panel(file, size=(120, 90)) as panel:
        await panel.find(".")
        chosen, *others = panel.screen.settings.rows
        shown = panel.chat.text.lower()
        assert chosen.setting.help.lower() in " ".join(shown.split())
        assert [view.name for view in others if view.setting.text.lower() not in shown] == []


async def test_a_typed_value_is_checked_while_typed_and_saved_with_enter(file: Path) -> None:
    async with open_panel(file) as panel:
        await panel.find("top_k")
        await panel.press("enter", "end", "x", shows="Expected a whole number between 0 and 1,000,000.")
        await panel.press("enter")
        assert not file.exists()
        await panel.press("backspace", "1", "enter")
        await panel.chat.until(lambda: panel.live.resolved()["sampling.top_k"] == 401)
        assert "top_k = 401" in file.read_text()
        await panel.close()
        await panel.chat.send("hello")
        assert panel.chat.engine.requests[0].sampling.top_k == 401


async def test_left_and_right_change_choices_and_numbers(file: Path) -> None:
    async with open_panel(file) as panel:
        await panel.find("draft.mode")
        await panel.press("right")
        assert panel.live.resolved()["draft.mode"] == "fixed"
        await panel.press("left", "left")
        assert panel.live.resolved()["draft.mode"] == "off"
        await panel.find("sampling.temp")
        await panel.press("right")
        assert panel.live.resolved()["sampling.temp"] == 0.9
        await panel.close()
        await panel.chat.send("hello")
        assert panel.chat.engine.requests[0].drafting is None
        assert panel.chat.engine.loads == 1


async def test_a_number_of_fixed_drafting_shows_that_it_needs_the_mode(file: Path) -> None:
    async with open_panel(file) as panel:
        await panel.find("n_max")
        await panel.press("right", shows="n_max takes effect with mode fixed.")
        assert panel.live.resolved()["draft.mode"] == "auto"


async def test_leaving_offers_a_reload_that_keeps_the_conversation(file: Path) -> None:
    async with open_panel(file, opened=False) as panel:
        await panel.chat.exchange("one", "first")
        await panel.open()
        await panel.find("model.kv_type")
        await panel.press("right", shows="after reload, settings.toml")
        await panel.press("escape", shows="Reload the models for model.kv_type? Enter now, esc later")
        await panel.press("enter")
        await panel.chat.until(lambda: panel.chat.engine.loads == 2)
        assert panel.live.waiting == ()
        await panel.chat.load()
        await panel.chat.shows("first")
        await panel.chat.send("two")
        assert [m.content for m in panel.chat.engine.requests[1].messages] == ["one", "first", "two"]


async def test_a_reload_brings_a_failed_draft_back(file: Path) -> None:
    async with open_panel(file, opened=False) as panel:
        engine = panel.chat.engine
        engine.emit(PairChanged(replace(PAIR, draft=None, draft_failed=True)))
        await panel.chat.until(lambda: panel.chat.screen.session.pair.draft is None)  # type: ignore[union-attr]
        await panel.open()
        await panel.chat.shows("ctrl+r reload")
        await panel.press("ctrl+r")
        await panel.chat.until(lambda: engine.loads == 2)
        # A late event of the replaced pair does not change the new pair.
        engine.emit(PairChanged(replace(PAIR, draft=None, draft_failed=True)))
        await panel.chat.load()
        assert panel.chat.screen.session.pair == PAIR
        assert panel.chat.screen.session.phase is Phase.READY


async def test_a_conversation_has_settings_of_its_own(file: Path, tmp_path: Path) -> None:
    database = tmp_path / "conversations.db"
    async with open_panel(file, store=lambda: Store(database)) as panel:
        await panel.press("tab", shows="for this conversation")
        await panel.find("answer.system")
        await panel.press("enter", *"Be", "ctrl+j", *"brief.", "enter")
        await panel.chat.until(lambda: panel.live.resolved()["answer.system"] == "Be\nbrief.")
        await panel.close()
        await panel.chat.exchange("one", "first")
        assert panel.chat.engine.requests[0].messages[0] == Message(Role.SYSTEM, "Be\nbrief.")
        await panel.press("ctrl+n")
        await panel.chat.until(lambda: panel.chat.screen.session.settings["answer.system"] is None)
        await panel.chat.exchange("two", "second")
        assert panel.chat.engine.requests[1].messages[0].role is Role.USER
        await panel.chat.screen.controller.open_conversation(1)
        await panel.chat.send("three")
        assert panel.chat.engine.requests[2].messages[0] == Message(Role.SYSTEM, "Be\nbrief.")
    assert not file.exists()
    store = Store(database)
    assert store.load(1).settings == {"answer": {"system": "Be\nbrief."}}
    assert store.load(2).settings == {}
    store.close()


async def test_the_values_for_all_are_shown_and_changed_beside_those_of_a_conversation(file: Path) -> None:
    async with open_panel(file) as panel:
        await panel.press("tab")
        await panel.find("sampling.temp")
        await panel.press("enter", *"0.3", "enter", "tab", shows="This conversation has its own value: 0.3")
        await panel.press("enter", *"0.6", "enter")
        await panel.chat.until(lambda: panel.live.resolved({})["sampling.temp"] == 0.6)
        assert panel.live.resolved()["sampling.temp"] == 0.3
        await panel.chat.shows("Saved, but 0.3 (this conversation) counts here.")
        # Each scope resets only its own value.
        await panel.press("ctrl+x", shows="Reset: 0.3 (this conversation) counts now.")
        assert "temp" not in file.read_text()
        await panel.press("enter", *"0.6", "enter", "tab", "ctrl+x", shows="Reset: 0.6 (settings.toml) counts now.")
        await panel.press("ctrl+x")
        assert "temp = 0.6" in file.read_text()


async def test_a_value_that_a_preset_overrides_is_reset_too(file: Path) -> None:
    file.write_text('preset = "creative"\n[sampling]\ntemp = 0.3')
    async with open_panel(file) as panel:
        await panel.find("sampling.temp")
        await panel.press("ctrl+x", shows="Reset: 1.1 (preset creative) counts now.")
        assert "temp" not in file.read_text()


async def test_imported_settings_cannot_send_control_sequences(file: Path, tmp_path: Path) -> None:
    database = tmp_path / "conversations.db"
    store = Store(database)
    number = store.create({"answer": {"system": "Be\x1b]0;owned\x07\nbrief", "stop": ["\x1b[2Jend"]}})
    store.add(number, Role.USER, "one", parent=None)
    store.close()
    async with open_panel(file, store=lambda: Store(database), opened=False) as panel:
        await panel.chat.until(lambda: panel.chat.screen.session.library.is_open)
        await panel.chat.screen.controller.open_conversation(1)
        await panel.open()
        for name, words in (("answer.system", "Be]0;owned"), ("answer.stop", "[2Jend")):
            await panel.find(name)
            await panel.press("enter", shows=words)
            strips = panel.screen._compositor.render_strips(panel.screen.size)
            assert not any(set("\x1b\x07") & set(strip.text) for strip in strips)
            await panel.press("escape")


async def test_the_scope_does_not_change_during_editing(file: Path) -> None:
    async with open_panel(file) as panel:
        await panel.find("answer.system")
        await panel.press("enter", *"For all")
        await panel.chat.pilot.click("#scope")
        await panel.press("enter")
        await panel.chat.until(lambda: "For all" in file.read_text())
        assert panel.live.document == {}


async def test_model_settings_apply_to_all_conversations(file: Path) -> None:
    async with open_panel(file) as panel:
        await panel.press("tab")
        await panel.find("model.ctx")
        await panel.press("enter", shows="model.ctx applies to all conversations; tab changes the scope.")
        await panel.find("model.fit")
        await panel.press("right")
        assert panel.live.resolved()["model.fit"] == "auto"


@pytest.mark.parametrize(
    ("mode", "idle"),
    [
        ("auto", {"n_max", "n_min", "p_min"}),
        ("fixed", {"source", "ngram_min_match"}),
        ("off", {"type", "n_max", "n_min", "p_min", "source", "ngram_min_match", "device", "gpu_layers", "kv_type"}),
    ],
)
async def test_settings_without_effect_in_a_draft_mode_are_dimmed(file: Path, mode: str, idle: set[str]) -> None:
    async with open_panel(file, flags={"draft.mode": mode}) as panel:
        assert idle_keys(panel) == idle


async def test_settings_that_the_model_ignores_are_dimmed(file: Path) -> None:
    deaf = replace(PAIR, thinking_support=ThinkingSupport(switchable=False, effort=False, effort_on=False))
    async with open_panel(file, opened=False) as panel:
        panel.chat.engine.loaded(deaf)
        await panel.chat.until(lambda: panel.chat.screen.session.pair == deaf)
        await panel.open()
        assert idle_keys(panel) >= {"thinking", "reasoning_effort"}
        await panel.find("answer.thinking", shows="The loaded model cannot turn reasoning on or off.")
        await panel.find("answer.reasoning_effort", shows="The loaded model has no reasoning effort.")


async def test_presets_are_chosen_and_saved(file: Path) -> None:
    async with open_panel(file) as panel:
        await panel.chat.shows("precise: temp 0")
        await panel.press("enter", *"precise", "enter")
        await panel.chat.until(lambda: panel.live.preset == "precise")
        await panel.find("sampling.temp", shows="preset")
        await panel.press("enter", *"0.4", "enter", shows="Saved, but 0 (preset precise) counts here.")
        await panel.find("")
        await panel.press("ctrl+s", shows="name of the preset")
        await panel.press(*"none", "enter", shows="Choose a name other than none.")
        await panel.press(*"x", "enter")
        await panel.chat.until(lambda: "nonex" in panel.live.presets)
        assert panel.live.presets["nonex"] == {"sampling.temp": 0.0}


async def test_problems_of_the_settings_file_are_shown_in_the_chat(file: Path) -> None:
    file.write_text('[sampling]\ntemp = 200\n[keys]\n"chat.agian" = "f4"\n[appearance]\ntheme = "[red]"')
    async with open_panel(file, opened=False, size=(200, 40)) as panel:
        await panel.chat.shows("it must be a number between 0 and 100.")
        assert 'keys: there is no "chat.agian". Did you mean "chat.again"?' in panel.chat.text
        assert 'There is no theme "[red]".' in panel.chat.text


async def test_a_full_disk_is_an_error_on_the_screen(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise SettingsError("settings.toml cannot be written: No space left on device.", "Check the disk.")

    async with open_panel(file) as panel:
        monkeypatch.setattr(SettingsFile, "set", refuse)
        await panel.find("sampling.temp")
        await panel.press("right", shows="No space left on device. Check the disk.")
        assert panel.live.resolved()["sampling.temp"] == 0.8


async def test_theme_and_motion_act_at_once_and_are_kept(file: Path) -> None:
    async with open_panel(file) as panel:
        app = panel.chat.pilot.app
        await panel.find("appearance.theme")
        await panel.press("right")
        assert app.theme == "tandem-light"
        await panel.find("reduced_motion")
        await panel.press("right")
        assert app.animation_level == "full"
        app.theme = "nord"
        await panel.chat.until(lambda: 'theme = "nord"' in file.read_text())
    async with open_panel(file, opened=False) as panel:
        assert panel.chat.pilot.app.theme == "nord"
        assert panel.chat.pilot.app.animation_level == "full"


async def test_the_mouse_chooses_and_changes(file: Path) -> None:
    async with open_panel(file) as panel:
        await panel.chat.click("source")
        assert panel.chosen == "draft.source"
        await panel.chat.click("source")
        await panel.chat.until(lambda: panel.live.resolved()["draft.source"] == "model")
        await panel.chat.pilot.click("#scope")
        await panel.chat.shows("for this conversation")


async def test_a_filter_without_a_match_does_nothing(file: Path) -> None:
    async with open_panel(file) as panel:
        await panel.find("zzz", shows="No matches.")
        await panel.press("enter", "right", "down", "ctrl+x")
        assert not file.exists()
        await panel.find("")
        assert "No matches." not in panel.chat.text
        assert panel.chosen == "preset"


async def test_rare_sampling_settings_are_folded_until_searched_or_changed(file: Path) -> None:
    async with open_panel(file, flags={"sampling.typical_p": 0.5}, size=(100, 60)) as panel:
        await panel.chat.shows("rarely used settings; type a name to find one")
        assert "typical_p" in panel.chat.text
        assert "presence_penalty   " not in panel.chat.text
        await panel.find("presence", shows="presence_penalty")
