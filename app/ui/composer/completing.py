"""Completing what is typed in the prompt."""

from __future__ import annotations

from collections.abc import Sequence

from app.ui.aside import aside, begin_aside, patiently, run_latest
from app.ui.commands.table import COMMANDS
from app.ui.composer.completion import Completion, Site
from app.ui.composer.editor import PromptEditor
from app.ui.composer.suggestions import Suggestion, Suggestions


class Completing:
    """Offers what the text at the cursor could become, and puts what is taken in its place.

    Args:
        editor: Where it is typed.
        menu: Shows what is offered.
    """

    def __init__(self, editor: PromptEditor, menu: Suggestions) -> None:
        self._editor = editor
        self._menu = menu
        self._completion = Completion(COMMANDS)
        self._site: Site | None = None
        self._offered: Site | None = None

    def begin(self) -> None:
        """Nothing was offered yet."""
        self._site = self._offered = None

    def look(self) -> None:
        """Offer what the text at the cursor could become."""
        cursor = self._editor.cursor
        site = self._completion.site(self._editor.text, cursor) if cursor is not None else None
        if site == self._site:
            return
        self._site = site
        if site is None or not site.reads_disk:
            self._offer(site, self._completion.offer(site) if site else ())
            return

        async def look() -> None:
            found = await aside(lambda: self._completion.offer(site))
            if site == self._site:
                self._offer(site, found)

        run_latest(self._editor, look, "paths")

    async def complete(self) -> bool:
        """Take what is marked; False where nothing can be completed."""
        site = self._site
        if site is None:
            return False
        if site != self._offered:
            # What comes later is offered, not taken: it may be about a text that has gone on.
            looked = begin_aside(lambda: self._completion.offer(site))
            if await patiently(looked) and site == self._site:
                self._offer(site, looked.result())
        if self._chosen is not None and site == self._site:
            self._take(site, self._chosen)
        return True

    def finish(self) -> bool:
        """Take what is marked unless the text says so already; whether the text can then be sent."""
        chosen, site = self._chosen, self._site
        if chosen is None or site is None:
            return True
        if chosen.value.strip() == self._editor.text[site.start : site.end].strip():
            return True
        self._take(site, chosen)
        return chosen.whole

    def choose(self, suggestion: Suggestion) -> None:
        """Take a suggestion that was clicked."""
        if self._site is not None and self._offered == self._site:
            self._take(self._site, suggestion)

    def _offer(self, site: Site | None, found: Sequence[Suggestion]) -> None:
        self._offered = site
        self._menu.offer(found)

    @property
    def _chosen(self) -> Suggestion | None:
        """What is marked in the menu, if that was made for the text as it is."""
        return self._menu.chosen if self._offered == self._site else None

    def _take(self, site: Site, suggestion: Suggestion) -> None:
        self._editor.type_over(suggestion.value, site.start, site.end)
