"""Progress of downloads: two bars on the setup screen, a quiet line each in the chat."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.timer import Timer
from textual.widgets import Static

from app.core.printable import printable
from app.core.units import GB
from app.models.progress import duration, speed
from app.ui.key_names import key
from app.ui.models.state import Download, PairService, SetupProgress, Stage
from app.ui.text import cut, percent

LOOK_S = 0.125
"""Seconds between two updates."""
_QUIET_LOOK_S = 0.5
_SOON_S = 1.0
"""Shorter waits are not counted down."""
_ROLE = 6
_SHORTEST_BAR, _LONGEST_BAR = 10, 40
_NUMBERS = 54
"""Cells beside a bar."""
_BESIDE = _ROLE + 6
"""Cells of a line without the bar and its text."""
_SPEED = 7
"""Cells of a speed."""
_GAP = "  "


class DownloadBars(Static):
    """The downloads of one pair, a line a model."""

    def __init__(self) -> None:
        super().__init__()
        self._job: SetupProgress | None = None

    def show(self, job: SetupProgress | None) -> None:
        if job != self._job:
            self._job = job
            self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        job = self._job
        self.display = job is not None and bool(job.downloads)
        if job is None:
            return
        lines, pending = [], next((one.role for one in job.downloads if one.done < one.total), "")
        for one in job.downloads:
            pace = _pace(job) if one.role == pending else []
            lines.append(_bar(one, pace, self.app.size.width))
        self.update(Content("\n").join(lines))


class DownloadLines(Static):
    """A line in the chat for each running download and its result."""

    def __init__(self, pairs: PairService) -> None:
        super().__init__()
        self._pairs = pairs
        self._watched: tuple[str, ...] = ()
        self._timer: Timer | None = None
        self.display = False

    def watch_downloads(self) -> None:
        """Show downloads until they end."""
        self.stop()
        self._watched = tuple(name for name, job in self._pairs.look().jobs.items() if job.running)
        if self._watched:
            self._timer = self.set_interval(_QUIET_LOOK_S, self._look)
            self._look()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self.display = False

    def _look(self) -> None:
        jobs = self._pairs.look().jobs
        watched = {name: jobs[name] for name in self._watched if name in jobs}
        if self._timer is not None and not any(job.running for job in watched.values()):
            self._timer.stop()
        told = {name: job for name, job in watched.items() if job.stage is not Stage.STOPPED}
        width = self.app.size.width - self.gutter.width
        self.display = bool(told)
        self.update(Content("\n").join(line_text(name, job, width) for name, job in told.items()))


def line_text(name: str, job: SetupProgress, width: int) -> Content:
    """Return a setup in one line of `width` cells."""
    name, pairs = printable(name), key("chat.pairs", "f6")
    if job.stage is Stage.READY:
        return Content.styled(f"{name} is ready; {pairs} opens it", "$quiet").truncate(width, ellipsis=True)
    if job.stage is Stage.ASKING:
        text = f"{name} waits for your confirmation; press {pairs}"
        return Content.styled(text, "$quiet").truncate(width, ellipsis=True)
    if job.error is not None:
        what, more = Content(f"{name}: {printable(job.error.message)}"), f" {pairs} shows details"
        return (cut(what, width - len(more)) + more).stylize("$quiet")
    parts = _line_parts(name, job)
    while len(parts) > 1 and Content(_GAP).join(parts).cell_length > width:
        parts.pop()
    return Content(_GAP).join(parts).truncate(width, ellipsis=True)


def _line_parts(name: str, job: SetupProgress) -> list[Content]:
    """Return the parts of a line, the most important first."""
    parts = [Content.styled(name, "$quiet")]
    parts += [Content.styled(f"{one.role} {percent(one.share):>3}", f"${one.role}") for one in job.downloads]
    waiting = next((one.waiting for one in job.downloads if one.waiting), "")
    if job.stage is Stage.DOWNLOADING and job.downloads:
        parts += [Content.styled(part, "$quiet") for part in ([printable(waiting)] if waiting else _pace(job))]
    else:
        parts.append(Content.styled(printable(job.looking) or job.stage.value, "$quiet"))
    return parts


def _pace(job: SetupProgress) -> list[str]:
    """Return the speed and the time left, if known."""
    if not job.running:
        return [job.stage.value]
    left = duration(job.left_s) if job.left_s is not None and job.left_s >= 1 else ""
    pace = speed(job.bytes_per_s)
    return [part for part in (f"{pace:>{_SPEED}}" if pace else "", left) if part]


def _bar(one: Download, pace: Sequence[str], width: int) -> Content:
    if one.waiting:
        again = f", retry in {one.wait_s:.0f} s" if one.wait_s > _SOON_S else ""
        tail = f"{printable(one.waiting).rstrip('.')}{again}"
    else:
        parts = [_amount(one), *(["✓"] if one.done >= one.total else pace)]
        while len(parts) > 1 and len(_GAP.join(parts)) > width - _BESIDE + len(_GAP):
            parts.pop()
        tail = _GAP.join(parts)
    # A sentence may need more than numbers do; it does not go on below the bar.
    room = min(width - _NUMBERS, width - _BESIDE - Content(tail).cell_length)
    cells = min(_LONGEST_BAR, room) if room >= _SHORTEST_BAR else 0
    full = int(one.share * cells)
    style = f"${one.role}"
    return Content.assemble(
        (f"{one.role:{_ROLE}}{_GAP}", style),
        ("━" * full, style),
        ("━" * (cells - full), "$rule"),
        _GAP * bool(cells),
        (tail, "" if not one.waiting else "$quiet"),
    )


def _amount(one: Download) -> str:
    unit, name = (GB, "GB") if one.total >= GB / 10 else (1_000_000, "MB")
    return f"{one.done / unit:5.1f} / {one.total / unit:4.1f} {name}"
