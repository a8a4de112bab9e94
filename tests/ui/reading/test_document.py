"""Growing Markdown: the same in any pieces, and no slower with more text."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.content import Content

from app.core.printable import printable
from app.engine.types import Origin
from app.ui.reading import document
from app.ui.reading.document import MarkdownDocument
from app.ui.reading.parser import parser
from app.ui.reading.rows import Columns, Row, as_typed
from app.ui.reading.token_rows import TokenDocument
from app.ui.widgets.rows_view import Flow
from tests.ui.reading.documents import ALL

EVERYTHING = "\n\n".join(ALL.values())
WORDS = [
    "word ", "two\n", "\n", "\n\n", "- ", "1. ", "> ", "# ", "```", "~~~", "`", "**", "*", "_", "|", "|---|\n",
    "a | b\n", "    ", "  ", "\t", "$", "\\[", "\\]", "---\n", "===\n", "<b>", "&amp;", "[x](y)", "\\", "!",
    "\u4f60", "\x1f", "- [ ] ", "[x] ",
]  # fmt: skip


def rows(text: str, *pieces: str) -> list[Row]:
    made = MarkdownDocument()
    for piece in (text, *pieces):
        made.append(piece)
    return made.frozen + made.open


def drawn(found: list[Row], width: int = 60) -> list[str]:
    return ["".join(part.plain for _, part in line).rstrip() for row in found for line in row.lines(width)]


def shown(text: str, width: int = 60) -> list[str]:
    return drawn(rows(text), width)


def cut(text: str, places: list[int]) -> list[str]:
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[a:b] for a, b in pairwise(edges)]


def styled(found: list[Row]) -> list[tuple[str, object, str, bool, str]]:
    return [(r.content.plain, r.content.spans, r.first.plain, r.joined, r.text) for r in found]


@pytest.mark.parametrize("name", ALL)
@given(places=st.lists(st.integers(0, 10_000), max_size=8))
@settings(max_examples=25, deadline=None)
def test_any_pieces_give_the_same_rows_as_the_whole(name: str, places: list[int]) -> None:
    assert styled(rows("", *cut(ALL[name], places))) == styled(rows(ALL[name]))


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_long_answer_in_pieces_gives_the_same_rows(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    text = EVERYTHING * 2
    whole = styled(rows(text))
    assert styled(rows("", *(text[at : at + size] for at in range(0, len(text), size)))) == whole
    monkeypatch.setattr(document, "_AT_ONCE", 17)
    assert styled(rows(text)) == whole


@given(words=st.lists(st.sampled_from(WORDS), max_size=40), places=st.lists(st.integers(0, 1_000), max_size=6))
@settings(max_examples=150, deadline=None)
def test_no_nonsense_depends_on_its_pieces(words: list[str], places: list[int]) -> None:
    text = "".join(words)
    assert styled(rows("", *cut(text, places))) == styled(rows(text))


@pytest.mark.parametrize("limits", [(40, 60), (60, 200)])
@given(words=st.lists(st.sampled_from(WORDS), max_size=60), places=st.lists(st.integers(0, 1_000), max_size=6))
@settings(max_examples=80, deadline=None)
def test_what_is_cut_for_its_length_does_not_depend_on_its_pieces(
    limits: tuple[int, int], words: list[str], places: list[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(document, "_LONGEST_LINE", limits[0])
        patch.setattr(document, "_LONGEST_BLOCK", limits[1])
        text = "".join(words)
        assert styled(rows("", *cut(text, places))) == styled(rows(text))


@pytest.mark.parametrize("name", ALL)
def test_text_that_was_shown_stays(name: str) -> None:
    made, before = MarkdownDocument(), Counter[str]()
    for character in ALL[name]:
        made.append(character)
        found = "".join(drawn(made.frozen + made.open))
        letters = Counter(c for c in found if c.isalnum())
        # What is told of a link's address or a fence's language may move, and nothing else may go.
        assert sum((before - letters).values()) <= (0 if name not in ("links", "code", "lists") else 12), found
        before = letters


@pytest.mark.parametrize(("name", "words"), [(name, text.split()) for name, text in ALL.items()])
def test_every_word_is_shown(name: str, words: list[str]) -> None:
    found = "".join("".join(shown(ALL[name])).split())
    for word in ("".join(c for c in word if c.isalnum()) for word in words):
        if word and name not in ("hostile", "lists"):
            assert word in "".join(c for c in found if c.isalnum()) or word in ("python", "titlex", "1"), word


def test_a_fence_is_never_blank_while_it_is_written() -> None:
    made = MarkdownDocument()
    for character in "```py\nprint(1)\n":
        made.append(character)
    for character in "``":
        made.append(character)
        assert drawn(made.frozen + made.open)[0] == "┃ print(1)"
    made.append("`\nafter")
    assert drawn(made.frozen + made.open) == ["┃ print(1)", "", "after"]


def test_long_code_lines_wrap_with_a_mark_and_copy_whole() -> None:
    text = "```\n" + "abc " * 30 + "\n\tx\n```\n"
    found = shown(text, 40)
    assert found[0].startswith("┃ abc")
    assert all(line.startswith("┃ ↪ abc") for line in found[1:-1])
    assert [row.text for row in rows(text)] == ["abc " * 30, "\tx"]


@pytest.mark.parametrize(("before", "stop"), [("日本", 8), ("日本日本", 16), ("e\u0301", 8), ("\U0001f600", 8)])
def test_tabs_stop_at_cells_behind_characters_of_any_width(before: str, stop: int) -> None:
    text = f"{before}\tx"
    tokens = TokenDocument()
    tokens.append([(f"{text}\n", Origin.DRAFT)])
    for found in ([as_typed(Content(text))], rows(f"```\n{text}\n```"), rows(f"$$\n{text}\n$$")[1:2], tokens.frozen):
        assert [cell_len(row.content.plain.partition("x")[0]) for row in found] == [stop]
        assert found[0].part(0, -1).endswith("x"), "the mark of a line end is not copied"


def test_a_table_in_a_list_is_one_too() -> None:
    assert shown("- x\n\n  | a | b |\n  |---|---|\n  | one | 2 |") == ["• x", "", "  a    b", "  one  2"]


def test_what_is_to_be_done_has_a_box_and_is_copied_as_it_was_written() -> None:
    text = "- [ ] buy *milk*\n- [x] pay\n  - [X] rent\n- plain\n1. [ ] first\n"
    assert shown(text) == ["☐ buy milk", "☑ pay", "  ☑ rent", "• plain", "", "1. [ ] first"]
    assert [row.text for row in rows(text)][:3] == ["- [ ] buy milk", "- [x] pay", "  - [x] rent"]


def test_brackets_that_are_meant_stay() -> None:
    assert shown("- [ ]x\n- [y] x\n- [x](z)\n- a [ ] b\n- `[ ]` c") == [
        "• [ ]x", "• [y] x", "• x (z)", "• a [ ] b", "• [ ] c"
    ]  # fmt: skip


def test_a_box_is_there_before_its_text() -> None:
    assert drawn(rows("- [ ]")) == ["☐"]
    assert drawn(rows("- [", "x", "]", " do")) == ["☑ do"]


@pytest.mark.parametrize("fence", ["~~~~", "```"])
def test_what_opens_code_is_no_heading_of_a_table(fence: str) -> None:
    text = f"{fence}a | b\n|---|---|\n"
    assert styled(rows(text)) == styled(rows("", *text))
    assert shown(text)[-1] == "\u2503 |---|---|"


def test_a_table_keeps_to_its_width() -> None:
    text = "| name | what it does |\n|---|---|\n" + f"| x | {'many words ' * 12} |\n"
    for width in (12, 30, 60):
        assert max(len(line) for line in shown(text, width)) <= width
    assert shown(text, 30)[1].startswith("x     many")


def test_a_table_breaks_no_word_while_another_column_has_room() -> None:
    text = "| name | occupation | remark |\n|---|---|---|\n" + f"| Person {{}} | cook | {'many words ' * 4} |\n" * 3
    for width in (26, 30, 40, 60):
        head = shown(text, width)[0]
        assert head.split() == ["name", "occupation", "remark"], width
        assert all(len(line) <= width for line in shown(text, width))
    assert shown("| a | b |\n|---|---|\n| x | " + "y" * 30 + " |", 20)[1:] == ["x  " + "y" * 17, "   " + "y" * 13]


@pytest.mark.parametrize(("width", "widths"), [(20, [4, 6, 6]), (22, [4, 10, 4]), (40, [4, 10, 22]), (98, [4, 10, 80])])
def test_a_column_without_spaces_is_not_squeezed_until_it_cannot_be_read(width: int, widths: list[int]) -> None:
    columns = Columns()
    columns.include([Content("name"), Content("occupation"), Content("\u6a21" * 40)])
    assert columns.fit(width) == widths


def test_a_wide_table_of_short_rows_is_read_in_no_time_and_shown_whole() -> None:
    text = f"|{'a|' * 400}\n|{'-|' * 400}\n" + "b\n" * 900
    assert len(parser().parse(text)) < 50_000
    assert sum(row.text.startswith("b") for row in rows(text)) == 900
    assert styled(rows("", *cut(text, list(range(0, 3_000, 100))))) == styled(rows(text))


@pytest.mark.parametrize("text", ["- " * 1_500, "> " * 1_500, "\\[\n" + "x" * 1_500 + "\n\\]\n", "    " + "x " * 1_500])
def test_where_a_long_line_was_broken_shows_nowhere(text: str) -> None:
    assert "".join(row.text for row in rows(text)).isprintable()


def test_numbers_go_on_and_a_loose_list_stays_loose() -> None:
    assert shown("1. a\n1. b\n\n1. c\n- d\n\nx") == ["1. a", "2. b", "", "3. c", "", "• d", "", "x"]


def test_latex_is_left_as_it_was_written() -> None:
    text = "so $\\hat{x}_i + \\hat{y}_j$, \\(a_b*c*d\\) for $5 or $6\n\\[\na_1 \\\\\n- b_1\n\\]\n"
    assert shown(text) == [
        "so $\\hat{x}_i + \\hat{y}_j$, \\(a_b*c*d\\) for $5 or $6", "", "\\[", "a_1 \\\\", "- b_1", "\\]"
    ]  # fmt: skip


def test_an_address_is_told() -> None:
    assert shown("[bank](https://evil.example/)") == ["bank (https://evil.example/)"]
    assert shown("<https://x.org/> ![](p.png)") == ["https://x.org/ image (p.png)"]


@pytest.mark.parametrize("text", ["a X b", "# X", "> *X*", "- [X](y)", "![X](y)", "|X|b|\n|-|-|\n|c|X|\n"])
@pytest.mark.parametrize("name", ["&#x202e;", "&#8294;", "&#27;", "&#x9b;", "&#0;"])
def test_the_name_of_a_character_steers_no_more_than_the_character(text: str, name: str) -> None:
    made = "".join(row.text for row in rows(text.replace("X", f"1{name}2")))
    assert made == printable(made)


def test_deep_nesting_is_shown_and_survived() -> None:
    assert "end" in "".join(shown(">" * 300 + " end\n", 400))
    assert "end" in "".join(shown("".join(f"{'  ' * n}- \n" for n in range(80)) + "  " * 80 + "- end\n", 400))


@pytest.mark.parametrize(
    "piece",
    ["word ", "word\n", "x = 1\n", "\n", "- item\n", "| a | b |\n", "  - nested\n", "> quote\n", "and **bold** ", "x"],
)
@pytest.mark.parametrize("opening", ["", "```py\n", "| a | b |\n|---|---|\n", "- a\n  ```\n", "> "])
def test_what_is_read_again_does_not_grow(opening: str, piece: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "_LONGEST_LINE", 400)
    monkeypatch.setattr(document, "_LONGEST_BLOCK", 1_200)
    made = MarkdownDocument()
    made.append(opening)
    # In all more pieces than rows may stay open, and more characters than may be read again.
    for _ in range(4):
        made.append(piece * max(400, 800 // len(piece)))
    made.append("end")
    assert len(made._tail) < 3_000
    assert len(made.open) < 1_500


def test_of_a_paragraph_without_end_little_is_read_again() -> None:
    made, longest = MarkdownDocument(), 0
    for _ in range(100):
        made.append("word and *word* and " * 8)
        longest = max(longest, len(made._tail))
    assert longest < 3_500
    item = "- " + "a line of an item\n  " * 200
    assert [row.first.plain for row in rows(item)] == ["• ", *["  "] * 199]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("Apple\nBanana\n  Cherry", ["Apple", "Banana", "Cherry"]),
        ("- Apple\n  red\n- Banana", ["• Apple", "  red", "• Banana"]),
        ("> Apple\n> Banana", ["┃ Apple", "┃ Banana"]),
        ("*Apple\nBanana*", ["Apple", "Banana"]),
    ],
)
def test_a_single_line_break_stays_a_line_break(text: str, lines: list[str]) -> None:
    assert shown(text) == lines


def test_a_flow_knows_its_rows_at_any_width() -> None:
    flow, found = Flow(), rows(EVERYTHING)
    flow.replace(0, found)
    for width in (20, 60, 33):
        lines = [line for row in found for line in row.lines(width)]
        assert flow.height(width) == len(lines)
        seen = [flow.at(y) for y in range(len(lines))]
        assert [hit[1] for hit in seen if hit is not None] == lines
        assert flow.at(len(lines)) is None
