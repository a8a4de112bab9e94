"""Texts contain no archaic words, and the field's terms instead of our own."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import app

_ROOT = Path(app.__path__[0]).parent
_ARCHAIC = re.compile(
    r"\b(anew|mend(s|ed|ing)?|reckon(s|ed|ing)?|dear(er|est)?|likewise|foretell(s|ing)?|foretold|wherein|whoever|by now"
    r"|all the same|ride together|has no ear|nobody|said nothing|look-ups?|plain decoding|graphics card"
    r"|main memory"
    r"|per check|quantis\w+|colours?|behaviours?|favour\w*)\b",
    re.IGNORECASE,
)


def _texts() -> Iterator[tuple[Path, int, str]]:
    """Yield the docstrings and strings of the program, and the documents."""
    for file in sorted((_ROOT / "app").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
                yield file, node.lineno, node.value
    for file in (_ROOT / "README.md", _ROOT / "CHANGELOG.md", *(_ROOT / "app").rglob("*.md")):
        if file.exists():
            yield file, 1, file.read_text("utf-8")


def test_no_archaic_words() -> None:
    found = [f"{file}:{line}: {m[0]}" for file, line, text in _texts() for m in _ARCHAIC.finditer(text)]

    assert not found, "\n".join(found)
