"""A loop is detected as soon as it is long enough; similar lines are not a loop."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence

import pytest

from app.engine.repetition import (
    LEAST_SHORT_TOKENS,
    LEAST_TIMES,
    LEAST_TOKENS,
    LONGEST_BLOCK,
    SHORT_BLOCK,
    RepetitionDetector,
)


def repeats(tokens: Iterable[int]) -> list[int]:
    """Return what the detector reports after each token."""
    detector = RepetitionDetector()
    return [detector.push(token) for token in tokens]


def least(block: int) -> int:
    return max(LEAST_SHORT_TOKENS if block < SHORT_BLOCK else LEAST_TOKENS, LEAST_TIMES * block)


def by_definition(tokens: Sequence[int]) -> int:
    """Count the repeats of the block with which the most tokens at the end agree, without a running state."""

    def matches(block: int) -> int:
        at = len(tokens) - 1
        while at >= block and tokens[at] == tokens[at - block]:
            at -= 1
        return len(tokens) - 1 - at

    block = max(range(1, LONGEST_BLOCK + 1), key=matches)
    return matches(block) // block + 1 if matches(block) + block >= least(block) else 0


def words(text: str) -> list[int]:
    """Return ids for words, digits, spaces and marks, as finely as a vocabulary splits them."""
    return [hash(word) for word in re.findall(r"[A-Za-z]+|.|\n", text)]


@pytest.mark.parametrize("seed", range(6))
def test_repeats_match_the_definition(seed: int) -> None:
    choose = random.Random(seed)
    tokens: list[int] = []
    while len(tokens) < 2000:
        tokens += [choose.randrange(5) for _ in range(choose.randrange(60))]
        block = [choose.randrange(3) for _ in range(choose.choice([1, 2, 3, 8, 17, 50]))]
        tokens += (block * 300)[: choose.choice([63, 64, 65, 127, 128, 129, 200, 300])]
    found = repeats(tokens)
    assert any(found)
    for at in range(0, len(tokens), 13):
        assert found[at] == by_definition(tokens[: at + 1]), at


@pytest.mark.parametrize("block", [1, SHORT_BLOCK - 1, SHORT_BLOCK, 16, 17, LONGEST_BLOCK])
def test_a_loop_is_reported_from_its_last_needed_token_to_its_end(block: int) -> None:
    loop = (list(range(block)) * least(block))[: least(block)]
    found = repeats([*range(1000, 1090), *loop, 5000])
    assert found[90 + least(block) - 2 :] == [0, least(block) // block, 0]


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
def test_similar_lines_are_no_loop(text: str) -> None:
    tokens = words(text)
    assert len(tokens) > 2 * LEAST_SHORT_TOKENS
    assert not any(repeats(tokens))


def test_a_repeated_sentence_is_a_loop_after_any_text() -> None:
    assert repeats(words(TABLE + "I am sorry, I cannot do that. " * 4))[-1] == 4
