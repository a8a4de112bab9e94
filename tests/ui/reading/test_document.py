"""Growing Markdown: the same rows in any pieces, and no slower with more text."""

from collections import Counter
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.content import Content

from app.core.printable import printable
from app.engine.sources import Source
from app.engine.text.segments import Segment
from app.ui.reading import document, highlight
from app.ui.reading.blocks import code_rows, parser
from app.ui.reading.document import MarkdownDocument, preload
from app.ui.reading.rows import Row, as_typed, column_widths
from app.ui.reading.token_rows import TokenDocument

DOCUMENTS = {
    "code": "Look:\n\n```python title=x\ndef f(a):\n\tif a:\n\n        return '``'\n```\n\nDone, `f` is **good**.\n",
    "open fence": "text\n```\nno language, no end [red]x[/red]\n\n\n  indented\n``\n",
    "lists": (
        "1. one\n   - nested *em*\n     more\n   - two\n\n     para\n2. two\n   ```sh\n   ls\n   ```\n\n"
        "   after\n1. three\n\n- a\n\n- b\n+ c\n"
    ),
    "table": (
        "Before\n| a | b |\n|:--|--:|\n| x | 1 |\n| longer `c` | 22 | extra |\n|  |\nlast | row\n\nAfter | no table\n"
    ),
    "maths": (
        "Let $x_1$ and $y_1$, \\(a_b*c*\\), $5 and $10:\n\\[\nx = y_1 * z_2\n+ \\frac{1}{2}\n\\]\n"
        "then $$\\sum_i x_i$$\n"
    ),
    "heads": "# A\n\ntext\n----\n\nTwo\n===\n***\n#hashtag\n#\n***bold***\n",
    "quotes": "> one\n> - two\n>   three\nlazy\n>\n> ```\n> code\n> ```\n\nout\n\n> > deep\n",
    "html": "<div>\nhello\n</div>\n\nx <b>y</b> <!-- z --> <script>w</script>\n",
    "wide": (
        "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u4f60\u597d\u4e16\u754c "
        "\U0001f468\u200d\U0001f469\u200d\U0001f467 e\u0301\n"
        "\n| \u4f60\u597d | \U0001f600 |\n|---|---|\n| \u4e16 | \u754c |\n"
    ),
    "links": (
        '[text](https://x.org/a_b "ti") ![alt](u.png) <https://y.org> [ref]\n\n[ref]: http://def\n'
        "[js](javascript:alert(1))\n"
    ),
    "odd": (
        "-\n\n  foo\n\n    indented code\n\n10) ten\n11) eleven\n\ta tab\n1986\\. year\n\n* * *\n  \n\n\n\n"
        "end  \nhard\\\nbreak"
    ),
    "hostile": "\x1b]0;t\x07a\x1b[2Jb \u202ed [@click=app.quit]x[/] [/nonsense] `[red]y[/red]`\n",
}
"""Samples of broken Markdown."""
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
BLOCKS = [
    "- ", "1. ", "2) ", "+ ", "1986. ", "    - ", "\n  - ", "> ", "\n> ", "# ", "---\n", "===\n", "***\n",
    "```", "```py\n", "\n```\n", "\n   ```\n", "~~~", "\n~~~~\n", "|", "|---|\n", "|:-:|--:|\n", "a | b\n",
    "| a | b |\n", "\\|", "`|`", "<div>\n", "<!-- ", "-->", "[^1]: n\n", "[y]: http://z\n", "\\[", "\\]", "$$",
]  # fmt: skip
LINES = [
    "word ", "two\n", "\n", "\n\n", "    ", "  ", "\t", "\n\t", "`", "``", "**", "*", "_", "~~", "$", "\\(", "\\)",
    "<b>", "<think>", "&amp;", "&#0;", "&#x202e;", "[x](y)", "[x][y]", "![i](", "](", ")", "\\", "!", ":", "- [ ] ",
    "https://a.b/c ", "<http://x.org>", "x" * 70, "\u4f60", "\u05e9\u05dc", "\u202e", FAMILY, "\ufe0f", "e\u0301",
    "\ud800", "\x00", "\x1b[2J", "\r\n", "\x0b", "\x85", "\u2028", "\ufeff",
]  # fmt: skip
NONSENSE = st.lists(st.sampled_from([*BLOCKS, *LINES]), max_size=40)
PLACES = st.lists(st.integers(0, 1_000), max_size=6)


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


def letters(texts: list[str]) -> Counter[str]:
    return Counter(character for text in texts for character in text if character.isalpha())


@pytest.mark.parametrize("name", DOCUMENTS)
@given(places=PLACES)
@settings(max_examples=8)
def test_streamed_pieces_give_the_same_rows_as_the_whole_text(name: str, places: list[int]) -> None:
    assert styled(rows("", *cut(DOCUMENTS[name], places))) == styled(rows(DOCUMENTS[name]))


@given(words=NONSENSE, places=PLACES)
@settings(max_examples=60)
def test_the_rows_of_nonsense_do_not_depend_on_its_pieces(words: list[str], places: list[int]) -> None:
    text = "".join(words)
    whole = rows(text)
    assert styled(rows("", *cut(text, places))) == styled(rows("", *text)) == styled(whole)
    for row in whole:
        for width in (1, 3, 20):
            assert row.height(width) == len(list(row.lines(width)))


@given(words=st.lists(st.sampled_from(["word ", "two\n", "\n", "- ", "> ", "```\n", "1. ", "    "]), max_size=80))
@settings(max_examples=40)
def test_no_text_is_lost_where_long_blocks_are_cut(words: list[str]) -> None:
    text = "".join(words)
    with pytest.MonkeyPatch.context() as patch:
        for limit in ("LONGEST_LINE", "LONGEST_PARAGRAPH", "LONGEST_BLOCK"):
            patch.setattr(document, limit, 40)
        patch.setattr(document, "MOST_LINES", 4)
        for found in (rows(text), rows("", *text)):
            # The text after an opening fence names the language.
            if "```" not in text:
                assert letters([row.content.plain for row in found]) == letters([text.replace("1.", "")])


@pytest.mark.parametrize("name", DOCUMENTS)
def test_text_that_was_shown_stays(name: str) -> None:
    made, before = MarkdownDocument(), Counter[str]()
    for character in DOCUMENTS[name]:
        made.append(character)
        now = letters(drawn(made.frozen + made.open))
        # The address of a link or the language of a fence may move, and cells beyond a table's columns are dropped.
        assert sum((before - now).values()) <= (12 if name in ("links", "code", "lists", "table") else 0)
        before = now


@pytest.mark.parametrize("name", sorted(DOCUMENTS.keys() - {"hostile", "lists", "table"}))
def test_every_word_is_shown(name: str) -> None:
    found = "".join(c for text in shown(DOCUMENTS[name]) for c in text if c.isalnum())
    for word in DOCUMENTS[name].split():
        word = "".join(c for c in word if c.isalnum())
        assert word in found or word in ("python", "titlex", "ti", "1"), word


def test_a_fence_is_never_blank_while_it_is_written() -> None:
    made = MarkdownDocument()
    for character in "```py\nprint(1)\n":
        made.append(character)
    for character in "``":
        made.append(character)
        assert drawn(made.frozen + made.open)[0] == "┃ print(1)"
    made.append("`\nafter")
    assert drawn(made.frozen + made.open) == ["┃ print(1)", "", "after"]


@pytest.mark.parametrize("opening", ["```py\n", "1. Do this:\n   ```py\n"])
def test_long_code_continues_as_code(opening: str) -> None:
    indent = " " * (opening.index("`") - opening.rfind("\n", 0, opening.index("`")) - 1)
    lines = [f"def f{n}(): # {'x' * 60}" if n % 3 else "" for n in range(300)]
    text = opening + "".join(f"{indent}{line}\n" for line in lines) + f"{indent}```\nafter\n"
    found = rows("", *cut(text, list(range(0, len(text), 50))))
    code_lines = [row for row in found if "┃" in row.first.plain]
    assert [row.content.plain for row in code_lines] == lines
    assert found[-1].content.plain == "after"


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
    tokens.append([Segment(f"{text}\n", Source.MODEL)])
    for found in ([as_typed(Content(text))], rows(f"```\n{text}\n```"), rows(f"$$\n{text}\n$$")[1:2], tokens.frozen):
        assert [cell_len(row.content.plain.partition("x")[0]) for row in found] == [stop]
        assert found[0].part(0, -1).endswith("x"), "the mark of a line end is not copied"


def test_a_table_in_a_list_is_a_table() -> None:
    assert shown("- x\n\n  | a | b |\n  |---|--:|\n  | one | 22 |") == ["• x", "", "  a     b", "  one  22"]


def test_a_long_table_keeps_its_columns() -> None:
    text = "| name | n |\n|---|---|\n" + "".join(f"| row {n} | {n} |\n" for n in range(100))
    found = drawn(rows("", *cut(text, list(range(0, len(text), 10)))))
    assert [line.split() for line in found] == [["name", "n"], *(["row", str(n), str(n)] for n in range(100))]
    assert {line.rindex(str(n)) for n, line in enumerate(found[1:])} == {8}


@pytest.mark.parametrize(
    ("width", "widths"),
    [(5, None), (22, (4, 7, 7)), (28, (4, 10, 10)), (40, (4, 10, 22)), (100, (4, 10, 80))],
)
def test_wide_columns_are_narrowed_first(width: int, widths: tuple[int, ...] | None) -> None:
    assert column_widths((4, 10, 80), width) == widths
    text = f"| name | occupation |\n|---|---|\n| x | {'many words ' * 7} |\n"
    assert max(len(line) for line in shown(text, width)) <= width


def test_numbers_continue_and_a_loose_list_stays_loose() -> None:
    text = "1. a\n1. b\n\n1. c\n- d\n\nx"
    assert shown(text) == drawn(rows("", *text)) == ["1. a", "2. b", "", "3. c", "", "• d", "", "x"]


def test_latex_is_left_as_it_was_written() -> None:
    text = "so $\\hat{x}_i + \\hat{y}_j$, \\(a_b*c*d\\) for $5 or $6\n\\[\na_1 \\\\\n- b_1\n\\]\n"
    assert shown(text) == [
        "so $\\hat{x}_i + \\hat{y}_j$, \\(a_b*c*d\\) for $5 or $6", "", "\\[", "a_1 \\\\", "- b_1", "\\]"
    ]  # fmt: skip


def test_an_address_is_shown() -> None:
    assert shown("[bank](https://evil.example/)") == ["bank (https://evil.example/)"]
    assert shown("<https://x.org/> ![](p.png)") == ["https://x.org/ image (p.png)"]


@pytest.mark.parametrize("text", ["a X b", "# X", "> *X*", "- [X](y)", "![X](y)", "|X|b|\n|-|-|\n|c|X|\n"])
@pytest.mark.parametrize("name", ["&#x202e;", "&#8294;", "&#27;", "&#x9b;", "&#0;"])
def test_entities_are_as_harmless_as_their_characters(text: str, name: str) -> None:
    made = "".join(row.text for row in rows(text.replace("X", f"1{name}2")))
    assert made == printable(made)


def test_deep_nesting_is_survived() -> None:
    assert shown(">" * 300 + " end\n", 400)
    assert shown("".join(f"{'  ' * n}- \n" for n in range(80)) + "  " * 80 + "- end\n", 400)


@pytest.mark.parametrize(
    ("opening", "piece"),
    [
        *product(["", "```py\n"], ["word ", "word\n", "x = 1\n", "\n", "- item\n", "| a | b |\n", "> quote\n", "x"]),
        *product(["| a | b |\n|---|---|\n", "- a\n  ```\n", "> "], ["word\n", "x"]),
    ],
)
def test_only_the_end_is_read_again(opening: str, piece: str) -> None:
    made, longest = MarkdownDocument(), 0
    made.append(opening)
    for _ in range(40):
        made.append(piece * max(50, 300 // len(piece)))
        longest = max(longest, len("".join(row.text for row in made.open)))
    assert longest < 12_000
    assert len(made.open) < 600


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


def test_the_first_code_of_an_answer_finds_everything_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    parser.cache_clear()
    highlight.lexer_of.cache_clear()
    preload()
    assert parser.cache_info().currsize == 1
    monkeypatch.setattr(highlight, "get_lexer_by_name", lambda name, **options: pytest.fail(f"{name} is loaded again"))
    assert rows("```python\ndef f(): pass\n```\n")[0].content.spans


def test_an_unknown_language_is_looked_for_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    highlight.lexer_of.cache_clear()
    monkeypatch.setattr("pygments.lexers.find_plugin_lexers", lambda: pytest.fail("installed packages are searched"))
    assert [row.text for row in code_rows(["a = 1"], "no-such-language")] == ["a = 1"]
    assert code_rows(["a = 'b'"], "Python")[0].content.spans
