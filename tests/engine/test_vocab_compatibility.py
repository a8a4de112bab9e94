"""Compatibility of two vocabularies, and the reason if they are not compatible."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.engine.vocab_compatibility import VocabInfo, incompatibility, replace_unknown

TOKENS = tuple(f"t{i}".encode() for i in range(1000))
BASE = VocabInfo(kind="gpt2", tokens=TOKENS, bos=1, eos=2)


def changed(index: int, text: bytes) -> VocabInfo:
    return replace(BASE, tokens=(*TOKENS[:index], text, *TOKENS[index + 1 :]))


def test_equal_vocabularies_are_compatible() -> None:
    assert incompatibility(BASE, replace(BASE)) is None


@pytest.mark.parametrize("difference", [1, 128])
def test_padding_up_to_128_tokens_is_compatible_either_way(difference: int) -> None:
    padded = replace(BASE, tokens=(*TOKENS, *(f"pad{i}".encode() for i in range(difference))))

    assert incompatibility(padded, BASE) is None
    assert incompatibility(BASE, padded) is None


def test_more_padding_is_incompatible_and_the_first_extra_token_is_named() -> None:
    padded = replace(BASE, tokens=(*TOKENS, *(f"pad{i}".encode() for i in range(129))))

    sentence = incompatibility(padded, BASE)

    assert sentence == 'The vocabularies have 1,129 and 1,000 tokens: token 1000, "pad0", is only in the target.'


def test_the_first_differing_token_is_named_with_its_id() -> None:
    two = replace(changed(700, b"other"), tokens=(*TOKENS[:700], b"other", *TOKENS[701:900], b"later", *TOKENS[901:]))

    assert incompatibility(BASE, two) == (
        'The vocabularies differ: token 700 is "t700" in the target and "other" in the draft.'
    )


@pytest.mark.parametrize("index", [0, 4])
def test_the_first_five_ids_may_differ(index: int) -> None:
    assert incompatibility(BASE, changed(index, b"<special>")) is None


def test_id_five_must_not_differ() -> None:
    assert "token 5 " in (incompatibility(BASE, changed(5, b"x")) or "")


def test_tokenizers_of_other_families_are_incompatible() -> None:
    assert incompatibility(BASE, replace(BASE, kind="llama")) == (
        'The tokenizers differ: the target uses "gpt2", the draft "llama".'
    )


def test_bos_counts_only_if_the_models_add_it() -> None:
    assert incompatibility(BASE, replace(BASE, bos=7)) is None
    adding = replace(BASE, add_bos=True)
    assert incompatibility(adding, replace(adding, bos=7)) == "The BOS tokens differ: 1 and 7."
    assert incompatibility(adding, BASE) == "The BOS tokens differ: 1 and none added."


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
