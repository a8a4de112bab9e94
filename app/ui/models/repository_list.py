"""Repositories on Hugging Face that a search found."""

from __future__ import annotations

from textual.content import Content

from app.core.printable import printable
from app.models.source import FoundRepository
from app.ui.text import MARK, cell
from app.ui.widgets.choice_list import ChoiceList

_NAME_CELLS = 60
_BILLION = 1_000_000_000


class RepositoryList(ChoiceList[FoundRepository]):
    """List repositories, most downloaded first, with the size and architecture of their models."""

    def line(self, at: int, width: int) -> Content:
        found, chosen = self.rows[at], at == self.index
        name = cell(
            Content.styled(printable(found.name), "bold" if chosen else ""), min(_NAME_CELLS, max(1, width - 24))
        )
        size = f"{found.n_params / _BILLION:.1f} B" if found.n_params else ""
        about = Content.styled(f"{size:>8}  {printable(found.architecture)}", "$quiet")
        return Content.assemble(f" {MARK} " if chosen else "   ", name, "  ", about)
