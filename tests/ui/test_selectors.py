"""Style sheets name widgets by their class, which a rename must not break silently."""

from __future__ import annotations

import re
from pathlib import Path

from textual import containers

import app.ui

_FOLDER = Path(app.ui.__file__).parent
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_SELECTOR = re.compile(r"([^{};]*)\{")
_TYPE = re.compile(r"(?<![\w$.#-])[A-Z]\w+")


def test_every_widget_in_a_style_sheet_exists() -> None:
    code = "\n".join(path.read_text("utf-8") for path in _FOLDER.rglob("*.py"))
    known = {*re.findall(r"^class (\w+)", code, re.MULTILINE), *dir(containers), "Static"}
    styles = _COMMENT.sub("", "\n".join(path.read_text("utf-8") for path in _FOLDER.rglob("*.tcss")))
    named = {name for selector in _SELECTOR.findall(styles) for name in _TYPE.findall(selector)}

    assert len(named) > 10
    assert named <= known
