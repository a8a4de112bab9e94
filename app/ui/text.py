"""Format model output, names and numbers for the screen."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from rich.cells import cell_len
from textual.content import Content

from app.core.columns import fit
from app.models.model_names import apart
from app.models.pair_info import ModelInfo
from app.models.pair_summary import SAME_FILE


def draft_name(target: ModelInfo, draft: ModelInfo) -> str:
    """Return the part of the draft's name that differs from its target's."""
    return apart(target.name, draft.name)


def draft_text(target: ModelInfo, draft: ModelInfo) -> str:
    """Return the difference between draft and target with the draft's quantization, or its file if these are equal."""
    name = draft_name(target, draft)
    if name or target.quantization != draft.quantization:
        return f"{name} {draft.quantization}".strip()
    return draft.file if draft.file != target.file else SAME_FILE


MARK = "\N{HEAVY RIGHT-POINTING ANGLE QUOTATION MARK ORNAMENT}"
"""Mark of the input, and of the chosen item in a list."""
CHOSEN_BAR = "┃"
"""Mark of the chosen item, and of the prompt while keys act on that item."""
NONE = "\N{EN DASH}"
"""Placeholder for an unknown number."""
_BAR_CHARACTERS = "▁▂▃▄▅▆▇█"
_KIBI = 1024
_TIME_UNITS = ((3600, "h"), (60, "min"))
_DAY_S, _WEEK_DAYS = 86_400, 7


def sparkline(values: Sequence[float]) -> str:
    """Return a bar per value, relative to the largest."""
    top = max(values, default=0.0)
    if top <= 0:
        return ""
    return "".join(
        _BAR_CHARACTERS[min(len(_BAR_CHARACTERS) - 1, int(value / top * len(_BAR_CHARACTERS)))] for value in values
    )


def tokens(count: int) -> str:
    """Format a number of tokens like a context length: 32768 is 32k."""
    if count < _KIBI:
        return str(count)
    thousands = count / _KIBI
    return f"{thousands:.0f}k" if thousands >= 10 or count % _KIBI == 0 else f"{thousands:.1f}k"


def when(moment: float, now: float) -> str:
    """Return how long ago something was if less than a day, else its date, in at most 8 cells."""
    for size, unit in _TIME_UNITS:
        if size <= now - moment < _DAY_S:
            return f"{(now - moment) // size:.0f} {unit}"
    if now - moment < _DAY_S:
        return "now"
    then = datetime.fromtimestamp(moment)
    return f"{then:%b} {then.day}" if then.year == datetime.fromtimestamp(now).year else f"{then:%b %Y}"


def day(moment: float, now: float) -> str:
    """Return the heading for a day: recent days have names, earlier days the month and year."""
    then, today = datetime.fromtimestamp(moment).date(), datetime.fromtimestamp(now).date()
    days = (today - then).days
    if days < _WEEK_DAYS:
        return "Today" if days < 1 else "Yesterday" if days == 1 else "Last 7 days"
    return f"{then:%B}" if then.year == today.year else f"{then:%B %Y}"


def side_by_side(parts: Iterable[str], width: int, between: str) -> str:
    """Arrange parts in lines of this many cells; a part is broken only if it is wider than a line."""
    lines: list[str] = []
    for part in parts:
        longer = f"{lines[-1]}{between}{part}" if lines else part
        if lines and cell_len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(part)
    return "\n".join(lines)


def cut(content: Content, room: int) -> Content:
    """Return one line, cut between words and with an ellipsis if it is wider than `room`."""
    if content.cell_length <= room:
        return content
    kept = fit(content.plain, room)
    # Combined characters may be drawn wider or narrower than the sum of their cells.
    return Content(kept, list(content[: len(kept)].spans)).truncate(max(0, room), ellipsis=True)


def cell(content: Content, width: int) -> Content:
    """Pad or cut a line to exactly this many cells."""
    content = content.truncate(width, ellipsis=True)
    return content.pad_right(max(0, width - content.cell_length))


def size(count: int) -> str:
    """Format a number of bytes: 12 KB, 1.4 MB."""
    if count < 1000:
        return f"{count} B"
    for unit in ("KB", "MB"):
        value = count / 1000
        if value < 999.5:
            return f"{value:.1f} {unit}" if value < 9.95 and unit != "KB" else f"{value:.0f} {unit}"
        count = round(value)
    return f"{count / 1000:.1f} GB"
