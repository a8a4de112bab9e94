"""Repetition is noticed exactly, and nothing that only looks like it."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence

import pytest

from app.engine.repetition import LEAST_TIMES, LEAST_TOKENS, LONGEST_PERIOD, RepetitionWatch


def lengths(tokens: Iterable[int]) -> list[int]:
    """What is told after each token."""
    watch, told = RepetitionWatch(), []
    for token in tokens:
        watch.push(token)
        told.append(watch.length)
    return told


def by_definition(tokens: Sequence[int]) -> int:
    """The longest end of the text that has a period, if it is long enough and repeats often enough."""
    longest = 0
    for period in range(1, LONGEST_PERIOD + 1):
        run = min(period, len(tokens))
        while run < len(tokens) and tokens[-run - 1] == tokens[-run - 1 + period]:
            run += 1
        if run >= max(LEAST_TOKENS, LEAST_TIMES * period):
            longest = max(longest, run)
    return longest


def words(text: str) -> list[int]:
    """Ids for words, digits, spaces and marks, as fine as a vocabulary cuts them."""
    return [hash(word) for word in re.findall(r"[A-Za-z]+|.|\n", text)]


@pytest.mark.parametrize("seed", range(12))
def test_it_tells_what_the_definition_says_at_every_token(seed: int) -> None:
    choose = random.Random(seed)
    tokens: list[int] = []
    while len(tokens) < 2600:
        tokens += [choose.randrange(5) for _ in range(choose.randrange(150))]
        piece = [choose.randrange(3) for _ in range(choose.choice([1, 2, 3, 17, 50, 63, 64, 65]))]
        tokens += (piece * 700)[: choose.choice([100, 399, 400, 401, 511, 512, 700])]
    told = lengths(tokens)
    assert any(told)
    looked_at = [
        *range(0, len(tokens), 37),
        *(at for at in range(1, len(tokens)) if bool(told[at]) != bool(told[at - 1])),
    ]
    for at in looked_at:
        assert told[at] == by_definition(tokens[: at + 1]), at


@pytest.mark.parametrize("period", [1, 7, LONGEST_PERIOD])
def test_it_is_told_as_soon_as_it_is_long_enough_and_until_it_ends(period: int) -> None:
    least = max(LEAST_TOKENS, LEAST_TIMES * period)
    piece = list(range(period))
    told = lengths([*range(1000, 1090), *(piece * least)[:least], 500, 501])
    assert told[90 + least - 2 :] == [0, least, 0, 0]


def test_a_longer_piece_is_not_looked_for() -> None:
    assert not any(lengths(list(range(LONGEST_PERIOD + 1)) * 50))


TABLE = "| Name | Age |\n| --- | --- |\n" + "".join(f"| person {n} | {20 + n % 50} |\n" for n in range(300))
NUMBERS = ", ".join(map(str, range(600)))
BINARY = "\n".join(f"{n:010b}" for n in range(200))
CODE = "".join(f'    if key == "{n}":\n        return handlers[{n}](event)\n' for n in range(120))
LIST = "".join(f"{n}. The sea is blue and the ship is old.\n" for n in range(1, 150))
ZEROS = "matrix = [\n" + "".join(f"  [{'0, ' * n}1, {'0, ' * (29 - n)}],\n" for n in range(30)) + "]\n"
RULES = f"Title\n{'-' * 80}\n" + f"| {'- ' * 40}|\n" * 3 + "Text\n" + "=" * 120
SONG = "".join(
    f"{n} green bottles hanging on the wall,\n{n} green bottles hanging on the wall,\n" for n in range(99, 0, -1)
)


@pytest.mark.parametrize("text", [TABLE, NUMBERS, BINARY, CODE, LIST, ZEROS, RULES, SONG])
def test_what_is_only_alike_is_no_repetition(text: str) -> None:
    tokens = words(text)
    assert len(tokens) > 2 * LONGEST_PERIOD
    assert not any(lengths(tokens))


def test_a_sentence_over_and_over_is_repetition_behind_any_text() -> None:
    tokens = words(TABLE + "I am sorry, I cannot do that. " * 60)
    assert lengths(tokens)[-1] == len(words("I am sorry, I cannot do that. ")) * 60


def test_the_longest_stretch_outlives_its_end() -> None:
    watch = RepetitionWatch()
    for token in [1, 2] * 300 + [3] * 20 + list(range(200)) + [1, 2] * 220:
        watch.push(token)
    assert (watch.length, watch.longest) == (440, 600)
