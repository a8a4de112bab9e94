"""About how many tokens: near what vocabularies say, whatever the script."""

from __future__ import annotations

import pytest

from app.conversations.token_estimate import estimated_tokens, in_tokens

# Counted with the vocabularies of SmolLM2 135M, Qwen2.5 Coder and Gemma 3.
COUNTED = [
    ("The keeper of the lighthouse counted the steps again, as he did every evening. " * 6, (97, 103, 97)),
    ("灯塔的看守人像每天晚上一样。又数了一遍台阶。并把数字写了下来。" * 8, (432, 176, 192)),
    ("Смотритель маяка снова пересчитал ступени, как делал это каждый вечер. " * 8, (426, 162, 162)),
    ("😀🎉🚀✨🔥💡🧪🐍👩‍💻🏳️‍🌈❤️👍🏽🌍📦🦀" * 20, (1180, 480, 420)),
    (" ".join(str(i * 7919 % 1000003) for i in range(500)), (3439, 3439, 3439)),
]


@pytest.mark.parametrize(("text", "counted"), COUNTED)
def test_it_lies_between_what_vocabularies_say_or_near(text: str, counted: tuple[int, ...]) -> None:
    assert min(counted) * 0.8 <= estimated_tokens(text) <= max(counted) * 1.1


def test_a_long_text_is_judged_by_its_beginning_middle_and_end() -> None:
    words, emoji = "one word after another ", "😀"
    assert estimated_tokens(words * 50_000) == pytest.approx(estimated_tokens(words * 500) * 100, rel=0.05)
    mixed = words * 20_000 + emoji * 115_000 + words * 20_000
    assert estimated_tokens(mixed) > 1.5 * estimated_tokens(words * 60_000)
    # As much of it as is looked at of the middle, and no more.
    around, within = words * 20_000, emoji * (65_536 // 4)
    thirds = (2 * estimated_tokens(around) / len(around) + estimated_tokens(within) / 65_536) / 3
    assert estimated_tokens(around + within + around) == pytest.approx(thirds * (2 * len(around) + 65_536), rel=0.05)


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "about 0 tokens"), ("word", "about 1 token"), ("word " * 1234, "about 1,200 tokens"), ("\ud800", "about 1")],
)
def test_it_is_told_as_the_estimate_that_it_is(text: str, said: str) -> None:
    assert in_tokens(estimated_tokens(text)).startswith(said)


def test_what_was_counted_is_told_to_the_token() -> None:
    assert [in_tokens(n, exact=True) for n in (1, 15_153)] == ["1 token", "15,153 tokens"]
