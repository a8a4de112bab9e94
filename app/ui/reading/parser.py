"""The Markdown that models write, and what of it is taken for more than text."""

from __future__ import annotations

from functools import cache

from markdown_it import MarkdownIt

from app.ui.reading.mathematics import mathematics

_NESTING = 50


@cache
def parser() -> MarkdownIt:
    """GitHub's dialect, with everything shown that would otherwise vanish.

    HTML is text. Bare names such as main.py are no addresses. A link's definition elsewhere in the text would change
    what was shown long before, so definitions are text too.
    """
    made = MarkdownIt("gfm-like", {"html": False, "linkify": False, "maxNesting": _NESTING})
    return made.use(mathematics).disable("reference")
