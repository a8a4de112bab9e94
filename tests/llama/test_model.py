"""Check that long runs are cut after words and never inside a control token."""

from __future__ import annotations

import random

import pytest

from app.llama.model import MAX_RUN, tokenizer_parts

KEPT = ["<|end|>", "<|end|><|end|>", "[/INST]", "x" * (MAX_RUN + 500), ""]


def cut(text: str, kept: list[str] | None = None) -> list[str]:
    return list(tokenizer_parts(text, kept or []))


@pytest.mark.parametrize("text", ["one two", "a" * MAX_RUN, " " * MAX_RUN, "word " * MAX_RUN, " \n" * (MAX_RUN // 2)])
def test_ordinary_texts_stay_whole(text: str) -> None:
    assert cut(text) == [text]


def test_an_empty_text_has_no_parts() -> None:
    assert cut("") == []


@pytest.mark.parametrize("letter", ["a", "7", " ", "\n", "!", "東"])
def test_no_part_exceeds_the_longest_run(letter: str) -> None:
    text = f"so {letter * 7 * MAX_RUN} it"
    found = cut(text)
    assert "".join(found) == text
    assert max(part.count(letter) for part in found) <= MAX_RUN


def test_long_runs_are_cut_after_words() -> None:
    text = "東京駅の時刻表、" * MAX_RUN
    assert all(part.endswith("表") for part in cut(text)[:-1])


def test_control_tokens_are_never_cut() -> None:
    choose = random.Random(3)
    for _ in range(200):
        pieces = choose.choices(["<|end|>", "[/INST]", "b" * 97, " ", "!" * 311, "x" * (MAX_RUN + 500)], k=60)
        text = "".join(pieces)
        found = cut(text, KEPT)
        assert "".join(found) == text
        assert all(found)
        for token in ("<|end|>", "[/INST]"):
            assert sum(part.count(token) for part in found) == text.count(token)
