"""Text from untrusted files is shown without control and invisible characters."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.printable import escape_unprintable, printable


@pytest.mark.parametrize(
    "text",
    [
        "a\x1b]52;c;eA==\x07b",
        "a\x9b2Jb",
        "a\u202eb\u2069\u200f\u061c",
        "a\u200bb\u2060\ufeff\u00ad",
        "a\U000e0001\U000e0061\U000e007fb",
        "a\u200d\u200cb",
        "a\ufe0f\ufe0e\U000e0100b",
    ],
)
def test_control_and_invisible_characters_are_removed(text: str) -> None:
    assert "".join(c for c in printable(text) if not c.isascii() or not c.isprintable()) == ""
    assert printable(text).startswith("a")
    assert "b" in printable(text)


@pytest.mark.parametrize(
    "text",
    [
        "\N{WOMAN}\u200d\N{PERSONAL COMPUTER}",
        "\u2764\ufe0f\u200d\N{FIRE}",
        "1\ufe0f\u20e3",
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        "क्\u200dष",
        "a\n\tb",
    ],
)
def test_joiners_and_selectors_of_emoji_and_scripts_stay(text: str) -> None:
    assert printable(text) == text


@given(st.text("a1#\u2764\ufe0f\u200d\u200c\u200b\u2028\n", max_size=12), st.integers(0, 12))
def test_printable_is_idempotent_and_works_in_pieces(text: str, place: int) -> None:
    first = printable(text[:place])

    assert printable(printable(text)) == printable(text)
    assert first + printable(text[place:], first[-1:]) == printable(text)


@given(st.text('a1"\\\u2764\ufe0f\u200d\u200b\u2028\x1b\x9b\x7f\U000e0041\n', max_size=12))
def test_json_keeps_every_character_without_showing_it(text: str) -> None:
    document = escape_unprintable(json.dumps({"text": text}, ensure_ascii=False))

    assert json.loads(document) == {"text": text}
    assert printable(document) == document
