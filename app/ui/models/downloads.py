"""Progress of downloads: two bars on the setup screen, or a line per download in the chat."""

from __future__ import annotations

from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static

from app.core.printable import printable
from app.core.units import GB
from app.models.progress import FileProgress, duration, speed
from app.models.setup_task import SetupProgress, Stage
from app.ui.key_names import for_chat, key
from app.ui.models.service import PairService
from app.ui.text import cut

UPDATE_S = 0.125
"""Interval between two updates."""
_QUIET_UPDATE_S = 0.5
_ROLE_CELLS = 6
_SHORTEST_BAR, _LONGEST_BAR = 10, 40
_COLUMN_GAP = "  "


class DownloadBars(Static):
    """The downloads of a pair, a line per model."""

    setup: reactive[SetupProgress | None] = reactive(None)

    def watch_setup(self) -> None:
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _draw(self) -> None:
        setup = self.setup
        self.display = setup is not None and bool(setup.files) and setup.stage is not Stage.READY
        if setup is not None:
            files, width = setup.files, self.app.size.width - self.gutter.width
            pending = next((file for file in files if file.done < file.total), None)
            texts = [_bar_text(file, _pace(setup) if file is pending else []) for file in files]
            room = width - _ROLE_CELLS - max((text.cell_length for text in texts), default=0) - 2 * len(_COLUMN_GAP)
            cells = min(_LONGEST_BAR, room) if room >= _SHORTEST_BAR else 0
            lines = (_bar(file, text, cells).truncate(width) for file, text in zip(files, texts, strict=True))
            self.update(Content("\n").join(lines))


class DownloadLines(Static):
    """A line in the chat for each running download and its result."""

    def __init__(self, pairs: PairService) -> None:
        super().__init__()
        self._pairs = pairs
        self._watched: tuple[str, ...] = ()
        self.display = False

    def on_mount(self) -> None:
        self._timer = self.set_interval(_QUIET_UPDATE_S, self._update, pause=True)

    def watch_downloads(self) -> None:
        """Show downloads until they end."""
        self.stop()
        self._watched = tuple(name for name, setup in self._pairs.state().setups.items() if setup.running)
        if self._watched:
            self._timer.resume()
            self._update()

    def stop(self) -> None:
        self._timer.pause()
        self.display = False

    def _update(self) -> None:
        setups = self._pairs.state().setups
        watched = {name: setups[name] for name in self._watched if name in setups}
        if not any(setup.running for setup in watched.values()):
            self._timer.pause()
        shown = {name: setup for name, setup in watched.items() if setup.stage is not Stage.STOPPED}
        width = self.app.size.width - self.gutter.width
        self.display = bool(shown)
        self.update(Content("\n").join(line_text(name, setup, width) for name, setup in shown.items()))


def line_text(name: str, setup: SetupProgress, width: int) -> Content:
    """Return a setup in one line of `width` cells."""
    name, pairs = printable(name), key("chat.pairs")
    if setup.error is not None:
        failure, more = Content(f"{name}: {for_chat(setup.error.message)}"), f" {pairs} shows details"
        return (cut(failure, width - len(more)) + more).stylize("$quiet")
    if setup.stage is Stage.READY:
        parts = [Content(f"{name} is ready; {pairs} opens it")]
    else:
        files = setup.files
        waiting = next((file.waiting for file in files if file.waiting), None)
        details = [waiting] if waiting else _pace(setup) if files else [setup.header_progress or setup.stage.value]
        shares = [Content.styled(f"{file.role} {_share(file):>3.0%}", _style(file)) for file in files]
        parts = [Content(name), *shares, *(Content(printable(detail)) for detail in details)]
    while len(parts) > 1 and Content(_COLUMN_GAP).join(parts).cell_length > width:
        parts.pop()
    return Content(_COLUMN_GAP).join(parts).stylize_before("$quiet").truncate(width, ellipsis=True)


def _pace(setup: SetupProgress) -> list[str]:
    if not setup.running:
        return [setup.stage.value]
    return list(filter(None, (speed(setup.bytes_per_s), duration(setup.left_s) if setup.left_s else "")))


def _bar_text(file: FileProgress, pace: list[str]) -> Content:
    if file.waiting:
        retry = f", retry in {file.wait_s:.0f} s" if file.wait_s > 1 else ""
        return Content.styled(f"{printable(file.waiting).rstrip('.')}{retry}", "$quiet")
    unit, name = (GB, "GB") if file.total >= GB / 10 else (1_000_000, "MB")
    amount = f"{file.done / unit:5.1f} / {file.total / unit:4.1f} {name}"
    return Content(_COLUMN_GAP.join([amount, *(["✓"] if file.done >= file.total else pace)]))


def _bar(file: FileProgress, text: Content, cells: int) -> Content:
    full = int(_share(file) * cells)
    style = _style(file)
    bar = Content.assemble(("━" * full, style), ("━" * (cells - full), "$rule"), _COLUMN_GAP * bool(cells))
    return Content.assemble((f"{file.role:{_ROLE_CELLS}}{_COLUMN_GAP}", style), bar, text)


def _style(file: FileProgress) -> str:
    return f"${file.role}" if file.role in ("target", "draft") else "$quiet"


def _share(file: FileProgress) -> float:
    return min(1.0, file.done / file.total) if file.total else 1.0
