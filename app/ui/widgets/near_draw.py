"""What of a screen is drawn when something on it has changed."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from textual._compositor import ChopsUpdate, Compositor
from textual.geometry import Region
from textual.strip import Strip


class NearUpdate(ChopsUpdate):
    """Tells a terminal what to draw where; of all that this takes, Textual's own spends the most on saying where."""

    def render_segments(self, console: Console) -> str:
        parts: list[str] = []
        for y, start, end in self.spans:
            for right, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=True):
                if strip is not None and x < end and right > start:
                    shown = strip if right <= end else strip.crop(0, end - x)
                    parts += f"\x1b[{y + 1};{x + 1}H", shown.render(console)
        return "".join(parts)


class NearCompositor(Compositor):
    """Draws the widgets that are seen where something has changed, and of those only the rows that it is in.

    Textual's own asks every widget on the screen for all its lines at every change, and throws most of them away.
    """

    def render_partial_update(self) -> ChopsUpdate | None:
        update = super().render_partial_update()
        return NearUpdate(update.chops, update.spans, update.chop_ends) if update is not None else None

    def _get_renders(self, crop: Region | None = None) -> Iterable[tuple[Region, Region, list[Strip]]]:
        near = crop or self.size.region
        rows = Region(0, near.y, self.size.width, near.height)
        covered: list[Region] = []
        # In front comes first.
        for widget, (region, clip) in self.visible_widgets.items():
            seen = region.intersection(clip).intersection(near)
            if not seen or any(cover.contains_region(seen) for cover in covered):
                continue
            covered.append(seen)
            clip = clip.intersection(rows)
            yield region, clip, widget.render_lines(region.intersection(clip).translate(-region.offset))
