"""The settings of a running program: who has the say, and what a change does."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.engine.types import AutoDraft, DraftParams
from app.errors import SettingsError, UsageError
from app.settings.build import drafting
from app.settings.desk import Desk, Scope
from app.settings.file import SettingsFile
from app.settings.layers import Origin


@pytest.fixture
def file(tmp_path: Path) -> SettingsFile:
    return SettingsFile(tmp_path / "settings.toml")


def write(file: SettingsFile, text: str) -> None:
    file.path.write_text(text)


def test_a_mode_that_is_chosen_overrules_numbers_that_were_given_as_flags() -> None:
    desk = Desk(None, {"draft.n_max": 3})
    assert isinstance(drafting(desk.resolved()), DraftParams)

    desk.set_own("draft.mode", "auto")
    assert isinstance(drafting(desk.resolved()), AutoDraft)


def test_what_counted_before_counts_again_when_a_conversation_lets_go(file: SettingsFile) -> None:
    desk = Desk(file)
    desk.set("answer.system", "For all.")
    desk.set_own("answer.system", "For this one.")
    assert desk.resolved()["answer.system"] == "For this one."

    desk.set_own("answer.system", None)
    assert desk.resolved()["answer.system"] == "For all."


def test_more_flags_are_weighed_before_they_are_taken() -> None:
    desk = Desk(None, {"model.ctx": 4096})

    assert desk.given({"model.kv_type": "q8_0"}, {})["model.kv_type"] == "q8_0"
    assert desk.resolved()["model.kv_type"] == "auto"
    desk.give({"model.kv_type": "q8_0"})
    assert (desk.resolved()["model.kv_type"], desk.resolved()["model.ctx"]) == ("q8_0", 4096)


def test_a_change_for_all_is_in_the_file_and_takes_the_place_of_flag_and_conversation(file: SettingsFile) -> None:
    desk = Desk(file, flags={"sampling.temp": 0.1})
    desk.set("sampling.temp", 0.2, Scope.CONVERSATION)
    assert desk.resolved().origin("sampling.temp") is Origin.CONVERSATION
    assert not file.path.exists()
    desk.set("sampling.temp", 0.3)
    assert (desk.resolved()["sampling.temp"], desk.resolved().origin("sampling.temp")) == (0.3, Origin.FILE)
    assert file.read().values == {"sampling.temp": 0.3}
    assert desk.document == {}


def test_reset_goes_one_layer_down(file: SettingsFile) -> None:
    write(file, 'preset = "mine"\n[sampling]\ntemp = 0.4\n[presets.mine.sampling]\ntemp = 0.3')
    desk = Desk(file, flags={"sampling.temp": 0.1}, pair={"sampling.temp": 0.5})
    desk.enter({"sampling": {"temp": 0.2}})
    seen = []
    for _ in range(4):
        now = desk.resolved()
        seen.append((now.origin("sampling.temp"), now["sampling.temp"]))
        desk.reset("sampling.temp")
        if seen[-1][0] is Origin.PRESET:
            desk.set("preset", None)
    assert seen == [(Origin.FLAG, 0.1), (Origin.CONVERSATION, 0.2), (Origin.PRESET, 0.3), (Origin.FILE, 0.4)]
    assert desk.resolved().origin("sampling.temp") is Origin.PAIR


def test_reset_all_keeps_presets_and_keys(file: SettingsFile) -> None:
    write(file, '[sampling]\ntemp = 0.4\n[presets.mine.sampling]\ntemp = 0.3\n[keys]\n"chat.again" = "f8"')
    desk = Desk(file, flags={"sampling.top_k": 3})
    desk.enter({"answer": {"system": "Be brief."}})
    desk.reset_all()
    assert {desk.resolved().origin(name) for name in ("sampling.temp", "sampling.top_k", "answer.system")} == {
        Origin.DEFAULT
    }
    assert "mine" in desk.presets
    assert desk.content.keys == {"chat.again": "f8"}


def test_the_preset_is_chosen_by_the_strongest_that_names_one(file: SettingsFile) -> None:
    write(file, 'preset = "creative"\n[presets.coder.sampling]\ntemp = 0.9')
    desk = Desk(file)
    assert (desk.preset, desk.resolved()["sampling.top_k"]) == ("creative", 0)
    desk.enter({"preset": "coder"})
    assert (desk.preset, desk.resolved()["sampling.temp"]) == ("coder", 0.9)
    assert Desk(file, {"preset": None}).preset is None
    assert Desk(file, {"preset": "precise"}).resolved()["sampling.temp"] == 0


def test_a_preset_that_is_not_there(file: SettingsFile) -> None:
    with pytest.raises(UsageError, match='There is no preset "codr"'):
        Desk(file, {"preset": "codr"})
    write(file, 'preset = "codr"')
    desk = Desk(file)
    assert desk.preset is None
    assert desk.problems[0].text.startswith('There is no preset "codr".')
    assert desk.refusal("preset", "nothing").startswith("There is no preset")


def test_numbers_that_contradict_each_other_do_not_count_and_are_told(file: SettingsFile) -> None:
    write(file, "[draft]\nn_max = 3\nn_min = 5")
    desk = Desk(file)
    assert drafting(desk.resolved()) == AutoDraft()
    assert "n_min is 5; it must lie between 0 and n_max (3)." in desk.sentences()[0]
    desk.set("draft.n_max", 8)
    assert drafting(desk.resolved()) == DraftParams(8, 5)
    assert not desk.sentences()
    assert desk.refusal("draft.n_min", 9).startswith("n_min is 9")


def test_a_conversation_has_only_what_acts_at_once_and_is_checked(file: SettingsFile) -> None:
    desk = Desk(file)
    raw = {"sampling": {"temp": "hot", "top_k": 5}, "model": {"ctx": 9}, "preset": "x\x1b[2J", "odd": {}}
    told = [problem.text for problem in desk.enter(raw)]
    assert desk.document == {"sampling": {"top_k": 5}}
    assert len(told) == 4
    assert all(text.isprintable() for text in told)
    assert not desk.waiting
    assert "counts for all conversations" in desk.refusal("model.ctx", 512, Scope.CONVERSATION)
    assert desk.enter({}) == []
    assert desk.resolved().origin("sampling.top_k") is Origin.DEFAULT


def test_contradictions_of_a_conversation_do_not_count(file: SettingsFile) -> None:
    desk = Desk(file)
    assert "n_min is 9" in desk.enter({"draft": {"n_min": 9}})[0].text
    assert drafting(desk.resolved()) is not None


def names(desk: Desk) -> list[str]:
    return [one.name for one in desk.waiting]


def test_what_waits_for_the_models(file: SettingsFile) -> None:
    desk = Desk(file)
    desk.loading()
    desk.set("sampling.temp", 0.2)
    desk.set("draft.mode", "off")
    assert names(desk) == []
    desk.set("model.ctx", 4096)
    assert names(desk) == ["model.ctx"]
    desk.reset("model.ctx")
    assert names(desk) == []
    desk.loading()
    desk.set("draft.mode", "auto")
    assert names(desk) == ["draft.mode"]


def test_flash_attention_and_a_quantised_cache(file: SettingsFile) -> None:
    desk = Desk(file)
    desk.set("model.flash_attn", "off")
    assert "needs flash attention" in desk.refusal("model.kv_type", "q8_0")
    assert desk.refusal("model.kv_type", "bf16") == ""


def test_a_preset_of_what_is_set_now(file: SettingsFile) -> None:
    desk = Desk(file, pair={"sampling.top_p": 0.9})
    desk.set("sampling.temp", 0.2)
    desk.set("answer.system", "Be brief.", Scope.CONVERSATION)
    desk.save_preset("brief")
    assert desk.presets["brief"] == {"sampling.temp": 0.2, "answer.system": "Be brief."}


def test_a_file_that_cannot_be_read_is_not_written_and_can_be_moved(file: SettingsFile) -> None:
    write(file, "[sampling\ntemp = 1")
    desk = Desk(file)
    assert "cannot be read" in desk.sentences()[0]
    with pytest.raises(SettingsError):
        desk.set("sampling.temp", 0.2)
    assert desk.resolved().origin("sampling.temp") is Origin.DEFAULT
    desk.set("sampling.temp", 0.2, Scope.CONVERSATION)
    assert Path(desk.move_file_away()).read_text() == "[sampling\ntemp = 1"
    desk.set("sampling.temp", 0.3)
    assert desk.sentences() == ()


def test_without_a_file_changes_are_for_this_program() -> None:
    desk = Desk()
    desk.set("sampling.temp", 0.2)
    assert desk.resolved()["sampling.temp"] == 0.2
    desk.reset("sampling.temp")
    assert desk.resolved().origin("sampling.temp") is Origin.DEFAULT


def test_a_flag_gives_way_to_one_conversation_only(file: SettingsFile) -> None:
    desk = Desk(file, {"sampling.temp": 0.1, "draft.n_max": 3})
    desk.set_own("sampling.temp", 0.2)
    desk.set("draft.mode", "auto", Scope.CONVERSATION)
    assert desk.resolved()["sampling.temp"] == 0.2
    assert desk.given({}, {})["sampling.temp"] == 0.2
    assert isinstance(drafting(desk.resolved()), AutoDraft)

    desk.enter({})
    assert desk.resolved().origin("sampling.temp") is Origin.FLAG
    assert drafting(desk.resolved()) == DraftParams(n_max=3)

    desk.set_own("sampling.temp", 0.2)
    desk.set_own("sampling.temp", None)
    assert desk.resolved()["sampling.temp"] == 0.1


def test_a_change_for_all_takes_the_place_of_a_flag_that_gave_way_here(file: SettingsFile) -> None:
    desk = Desk(file, {"sampling.temp": 0.1})
    desk.set_own("sampling.temp", 0.2)
    desk.set("sampling.temp", 0.3)
    desk.enter({})
    assert desk.resolved()["sampling.temp"] == 0.3
