"""Compatibility of two vocabularies, and the reason if they are not compatible."""

from dataclasses import replace

import pytest

from app.engine.vocab_compatibility import VocabInfo, incompatibility, replace_unknown

TOKENS = tuple(f"t{i}".encode() for i in range(1000))
BASE = VocabInfo(kind="gpt2", tokens=TOKENS, bos=1, eos=2)


def changed(index: int, text: bytes) -> VocabInfo:
    return replace(BASE, tokens=(*TOKENS[:index], text, *TOKENS[index + 1 :]))


def padded(n: int) -> VocabInfo:
    return replace(BASE, tokens=(*TOKENS, *(f"pad{i}".encode() for i in range(n))))


WITH_BOS = replace(BASE, add_bos=True)


@pytest.mark.parametrize(
    ("target", "draft", "reason"),
    [
        (BASE, replace(BASE), None),
        (padded(128), BASE, None),
        (BASE, padded(128), None),
        (padded(129), BASE, 'The vocabularies have 1,129 and 1,000 tokens: token 1000, "pad0", is only in the target.'),
        (BASE, changed(0, b"<special>"), None),
        (BASE, changed(4, b"<special>"), None),
        (BASE, changed(5, b"x"), 'The vocabularies differ: token 5 is "t5" in the target and "x" in the draft.'),
        (
            BASE,
            replace(BASE, tokens=(*TOKENS[:700], b"other", *TOKENS[701:900], b"later", *TOKENS[901:])),
            'The vocabularies differ: token 700 is "t700" in the target and "other" in the draft.',
        ),
        (BASE, replace(BASE, kind="llama"), 'The tokenizers differ: the target uses "gpt2", the draft "llama".'),
        (BASE, replace(BASE, bos=7), None),
        (WITH_BOS, replace(WITH_BOS, bos=7), "The BOS tokens differ: 1 and 7."),
        (WITH_BOS, BASE, "The BOS tokens differ: 1 and none added."),
    ],
)
def test_the_first_difference_that_counts_is_named(target: VocabInfo, draft: VocabInfo, reason: str | None) -> None:
    assert incompatibility(target, draft) == reason


def test_unprintable_texts_are_quoted_safely() -> None:
    sentence = incompatibility(BASE, changed(9, b"\x1b[31m\xff" + b"x" * 100)) or ""
    assert "\x1b" not in sentence
    assert len(sentence) < 150


@pytest.mark.parametrize(
    ("tokens", "read"),
    [([9, 3, 0], [9, 3, 0]), ([9, 10], [9, 7]), ([10, 9, 12, 1], [7, 9, 7, 1]), ([], [])],
)
def test_unknown_tokens_are_replaced(tokens: list[int], read: list[int]) -> None:
    assert replace_unknown(10, 7)(tokens) == read
