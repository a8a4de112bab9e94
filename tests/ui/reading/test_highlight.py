"""Growing code has the colors of the whole text, and only new lines are read."""

from typing import Any

import pytest
from pygments.lexers import PythonLexer

from app.ui.reading import highlight
from app.ui.reading.document import MarkdownDocument
from app.ui.reading.highlight import colored_lines

CODE = {
    "python": 'def f(x):\n    """Say\n    more."""\n    return f"{x} and {\'a\'}"  # done\n\nclass A:\n    n = 1',
    "c": "/* two\n   lines */\nint main(void) {\n  return 0x1f; // ok\n}",
    "css": "a {\n  color: red;\n}\nb::before { content: 'x'; }",
    "html": "<p class='a'>text</p>\n<script>\nlet a = `x ${1}\ny`;\n</script>\n<b>end</b>",
    "javascript": "const s = `a\n${b + 1}\nc`;\nfunction f() { return 'x'; }",
    "bash": 'cat <<EOF\nif $HOME\nEOF\nfor x in 1 2; do echo "$x"; done',
}


def spans(lines: list[str], language: str, *, may_grow: bool = True) -> list[list[tuple[int, int, str]]]:
    found = colored_lines(lines, language, may_grow=may_grow)
    return [[(span.start, span.end, str(span.style)) for span in line.spans] for line in found]


@pytest.fixture(autouse=True)
def _no_lines_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(highlight, "_latest", highlight._Read())


@pytest.mark.parametrize("language", ["python", "c", "css", "javascript"])
def test_code_that_grows_has_the_colors_of_the_whole(language: str) -> None:
    code = CODE[language]
    grown = [spans(code[:end].split("\n"), language) for end in range(1, len(code) + 1)][-1]
    assert _merged(grown) == _merged(spans(code.split("\n"), language, may_grow=False))


def _merged(lines: list[list[tuple[int, int, str]]]) -> list[list[str]]:
    """Return the color of each character."""
    return [[style for start, end, style in line for _ in range(start, end)] for line in lines]


@pytest.mark.parametrize("language", CODE)
def test_a_complete_block_has_the_colors_of_the_whole(language: str) -> None:
    document, whole = MarkdownDocument(), MarkdownDocument()
    code = f"```{language}\n{CODE[language]}\n```\n"
    for character in code:
        document.append(character)
    whole.append(code)
    assert [row.content.spans for row in document.frozen] == [row.content.spans for row in whole.frozen]


def test_a_new_line_is_read_without_those_above(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    plain = PythonLexer.get_tokens_unprocessed

    def noted(lexer: PythonLexer, text: str, state: tuple[str, ...] = ("root",)) -> Any:
        read.append(text)
        return plain(lexer, text, state)

    monkeypatch.setattr(PythonLexer, "get_tokens_unprocessed", noted)
    lines = [f"x{n} = {n}" for n in range(50)]
    spans(lines, "python")
    spans([*lines, "y"], "python")
    assert read[1:] == ["x49 = 49\ny\n"]


def test_a_shorter_text_or_another_one_is_read_from_its_beginning() -> None:
    lines = ['"""', "text", '"""', "a = 1"]
    before = spans(lines, "python")
    assert spans(["a = 1"], "python") == before[3:]
    assert spans(lines, "python") == before
