"""Long runs are cut, behind words where there are some, and never through a control token."""

from __future__ import annotations

import random

import pytest

from app.llama.runs import LONGEST, parts

KEPT = ["<|end|>", "<|end|><|end|>", "[/INST]", "x" * (LONGEST + 500), ""]


def cut(text: str, kept: list[str] | None = None) -> list[str]:
    return list(parts(text, kept or []))


@pytest.mark.parametrize("text", ["one two", "a" * LONGEST, " " * LONGEST, "word " * LONGEST, " \n" * (LONGEST // 2)])
def test_ordinary_texts_stay_whole(text: str) -> None:
    assert cut(text) == [text]


def test_nothing_has_no_parts() -> None:
    assert cut("") == []


@pytest.mark.parametrize("letter", ["a", "7", " ", "\n", "!", "東"])
def test_no_part_holds_a_longer_run(letter: str) -> None:
    text = f"so {letter * 7 * LONGEST} it"
    found = cut(text)
    assert "".join(found) == text
    assert max(part.count(letter) for part in found) <= LONGEST


def test_a_cut_falls_behind_a_word_where_there_is_one() -> None:
    text = "東京駅の時刻表、" * LONGEST
    assert all(part.endswith("表") for part in cut(text)[:-1])


def test_control_tokens_are_never_cut() -> None:
    choose = random.Random(3)
    for _ in range(200):
        pieces = choose.choices(["<|end|>", "[/INST]", "b" * 97, " ", "!" * 311, "x" * (LONGEST + 500)], k=60)
        text = "".join(pieces)
        found = cut(text, KEPT)
        assert "".join(found) == text
        assert all(found)
        for token in ("<|end|>", "[/INST]"):
            assert sum(part.count(token) for part in found) == text.count(token)
