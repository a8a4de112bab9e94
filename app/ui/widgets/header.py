"""The line at the top: the loaded models, active settings, and the device."""

from __future__ import annotations

import re

from rich.cells import cell_len
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from app.core.printable import printable
from app.core.units import GIB, gigabytes, memory_size
from app.models.pair_info import PairInfo
from app.settings.placement import CPU
from app.ui.text import cut, draft_name, draft_text

_BRAND_TEXT = " Tandem   "
_GAP_CELLS = 2
_OMITTED_GPU_WORDS = re.compile(r"^NVIDIA (GeForce )?|\s+\(.*")
"""Omitted parts of a GPU's name: its vendor, and what drivers append."""
_HOST_PATTERN = re.compile(r"^https?://[^/]*:(?=\d+\b)")


class HeaderLine(Widget):
    """The loaded pair in its two colors; a title until it is loaded.

    Attributes:
        active: Settings that change answers, such as a preset.
        serves: Address of the server for other programs, while it serves.
    """

    pair: reactive[PairInfo | None] = reactive(None)
    active: reactive[tuple[str, ...]] = reactive(())
    serves: reactive[str | None] = reactive(None)

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    def announce(self, title: str) -> None:
        """Replace the pair by the title of the loading pair."""
        self._title, self.pair = title, None
        self.refresh()

    def render(self) -> Content:
        width, brand, pair = self.size.width, Content.styled(_BRAND_TEXT, "bold"), self.pair
        if pair is None:
            return (brand + Content.styled(printable(self._title), "$quiet")).truncate(width, ellipsis=True)
        lefts = [brand + names for names in (_pair(pair), _pair(pair, brief=True), _target(pair, brief=True))]
        choices = [(left, active) for names in (lefts[:2], lefts[2:]) for active in self._actives for left in names]
        taken = [left.cell_length + cell_len(active) + _GAP_CELLS * bool(active) for left, active in choices]
        left, active = next((each for each, n in zip(choices, taken, strict=True) if n < width), choices[-1])
        left = left.truncate(width - 1, ellipsis=True)
        device = printable(pair.device)
        rights = [f"{device} · {more} " for more in (_gpu(pair), _memory(pair)) if more]
        room = width - left.cell_length - _GAP_CELLS
        ends = [*rights, f"{device} ", ""]
        shown = [Content.assemble((active, "$foreground"), (end, "$quiet")) for end in ends]
        shown += [Content.styled(cut(Content(active.rstrip()), max(1, room)).plain, "$foreground")] if active else []
        right = next((right for right in shown if right.cell_length <= room), shown[-1])
        return Content.assemble(left, " " * (width - left.cell_length - right.cell_length), right)

    @property
    def _actives(self) -> tuple[str, str]:
        servers = (self.serves, _HOST_PATTERN.sub(":", self.serves)) if self.serves else (None, None)
        marks = [[*map(printable, self.active), *([f"serving {server}"] if server else [])] for server in servers]
        long, short = (f"{' · '.join(each)}   " if each else "" for each in marks)
        return long, short


def _gpu(pair: PairInfo) -> str | None:
    """Return the name and the used memory of the only GPU; None without one, or with several."""
    gpus = [used for used in pair.memory if used.device != CPU]
    if len(gpus) != 1 or not gpus[0].description or not gpus[0].total_bytes:
        return None
    name = _OMITTED_GPU_WORDS.sub("", printable(gpus[0].description))
    return f"{name} · {gpus[0].n_bytes / GIB:.1f} / {memory_size(gpus[0].total_bytes)}"


def _memory(pair: PairInfo) -> str:
    on_gpus = sum(used.n_bytes for used in pair.memory if used.device != CPU)
    if n_bytes := on_gpus or sum(used.n_bytes for used in pair.memory):
        return f"memory {memory_size(n_bytes)}"
    return gigabytes(pair.target.size_bytes + (pair.draft.size_bytes if pair.draft is not None else 0))


def _pair(pair: PairInfo, *, brief: bool = False) -> Content:
    """Return both names; briefly, without quantizations and without a draft that has the target's name."""
    target = _target(pair, brief=brief)
    if pair.draft is None:
        return target
    draft = draft_name(pair.target, pair.draft) if brief else draft_text(pair.target, pair.draft)
    if not draft:
        return target
    return Content.assemble(target, (" + ", "$quiet"), (printable(draft), "$draft"))


def _target(pair: PairInfo, *, brief: bool) -> Content:
    name = pair.target.name
    return Content.styled(printable(name if brief else f"{name} {pair.target.quantization}"), "$target")
