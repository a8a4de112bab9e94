"""How the sections of `tandem doctor` are printed."""

from __future__ import annotations

from dataclasses import replace

from app.cli.doctor.lines import render
from app.hardware.checks import Line, Section
from tests.cli.doctor_facts import ADVICE, FACTS, SECTIONS, text, with_gpu


def test_the_two_views_stand_side_by_side_where_there_is_room() -> None:
    wide = text(FACTS, 120).splitlines()

    assert wide[0].split("  ")[-1].strip() == "llama.cpp can use"
    column = wide[0].index("llama.cpp can use")
    assert wide[1].index("CPU, AVX2") == column
    assert wide[2].rindex("20 GB of") == column


def test_a_narrow_screen_gets_one_below_the_other() -> None:
    narrow = text(with_gpu(advice=replace(ADVICE, command="pip " + "x" * 100)), 70).splitlines()

    assert "         this machine has, and llama.cpp can use" in narrow
    assert " " * 21 + "llama.cpp: CPU, AVX2" in narrow
    assert max(len(row) for row in narrow if "xxx" not in row) <= 70


def test_a_narrow_screen_does_not_put_words_into_the_mouth_of_llama_cpp() -> None:
    section = Section("the pair", (Line("ok", "pair", "demo", "as named"),), other="what it takes")
    narrow = render([section], columns=60, color=False)

    assert narrow == ["         the pair, and what it takes", "ok       pair        demo", " " * 21 + "as named"]


def test_commands_are_never_broken() -> None:
    long = "python -m pip install " + "--option value " * 20

    assert long.strip() in text(with_gpu(advice=replace(ADVICE, command=long.strip())), 60)


def test_every_line_begins_with_its_state() -> None:
    for row in text(with_gpu(advice=ADVICE)).splitlines():
        assert not row or row.startswith(("ok ", "warning ", "problem ", " "))


def test_color_is_only_where_it_is_wanted() -> None:
    sections = [section(FACTS) for section in SECTIONS]

    assert "\x1b[32mok" in "\n".join(render(sections, columns=100, color=True))
    assert "\x1b" not in "\n".join(render(sections, columns=100, color=False))


def test_what_was_read_cannot_steer_the_terminal() -> None:
    evil = replace(FACTS, versions=(("tandem", "\x1b]52;c;eA==\x07"),), hidden=("CUDA_VISIBLE_DEVICES=\x1b[2J",))

    assert "\x1b" not in text(evil)
