"""The line at the top: which two models, and where they run."""

from __future__ import annotations

import re

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from app.core.printable import printable
from app.core.units import GB, gigabytes
from app.models.pair_info import PairInfo
from app.settings.placement import CPU
from app.ui.names import draft_name, draft_text, model_name, quantization

_BRAND = " Tandem   "
_GAP = 2
_OBVIOUS = re.compile(r"^NVIDIA (GeForce )?|\s+\(.*")
"""In the name of a card: its maker where the model says it, and what drivers append."""


class HeaderLine(Widget):
    """The pair in its two colors.

    Args:
        title: Shown until the pair is loaded.
    """

    pair: reactive[PairInfo | None] = reactive(None)

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    def announce(self, title: str) -> None:
        """Show what is being loaded, in place of the pair before it."""
        self._title, self.pair = title, None
        self.refresh()

    def render(self) -> Content:
        width = self.size.width
        if self.pair is None:
            return Content.assemble((_BRAND, "bold"), (printable(self._title), "$quiet")).truncate(width, ellipsis=True)
        brand = Content.styled(_BRAND, "bold")
        # Without a word rather than with half of one.
        for pair in (_pair(self.pair), _pair(self.pair, brief=True), _target(self.pair, brief=True)):
            left = brand + pair
            if left.cell_length < width:
                break
        left = left.truncate(width - 1, ellipsis=True)
        device = printable(self.pair.device)
        # The two names come first; what does not fit beside them whole is left out.
        beside = filter(None, (_card(self.pair), _memory(self.pair)))
        for more in (*(f"{device} · {what} " for what in beside), f"{device} ", ""):
            right = Content.styled(more, "$quiet")
            gap = width - left.cell_length - right.cell_length
            if gap >= _GAP:
                break
        return Content.assemble(left, " " * gap, right)


def _card(pair: PairInfo) -> str:
    """The one card that there is, with what is taken of its memory; "" where there is none, or more than one."""
    fast = [taken for taken in pair.memory if taken.device != CPU]
    if len(fast) != 1 or not fast[0].description or not fast[0].total_bytes:
        return ""
    name = _OBVIOUS.sub("", printable(fast[0].description))
    return f"{name} · {fast[0].n_bytes / GB:.1f} / {gigabytes(fast[0].total_bytes)}"


def _memory(pair: PairInfo) -> str:
    """What is taken of the devices that are named, as it was counted; where it was not, how large the models are."""
    fast = sum(taken.n_bytes for taken in pair.memory if taken.device != CPU)
    if counted := fast or sum(taken.n_bytes for taken in pair.memory):
        return f"memory {gigabytes(counted)}"
    return gigabytes(pair.target.size_bytes + (pair.draft.size_bytes if pair.draft is not None else 0))


def _pair(pair: PairInfo, *, brief: bool = False) -> Content:
    """Both names with their quantizations; briefly, without these where a name is left."""
    target = _target(pair, brief=brief)
    if pair.draft is None:
        return target
    draft = (draft_name(pair.target, pair.draft) if brief else "") or draft_text(pair.target, pair.draft)
    return Content.assemble(target, (" + ", "$quiet"), (printable(draft), "$draft"))


def _target(pair: PairInfo, *, brief: bool) -> Content:
    """The target's name, with its quantization if not briefly."""
    name = model_name(pair.target)
    return Content.styled(printable(name if brief else f"{name} {quantization(pair.target)}"), "$target")
