"""The screen that adds a pair from any source, checked before anything is downloaded."""

from __future__ import annotations

import asyncio
from asyncio import wrap_future
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.getters import query_one
from textual.suggester import Suggester
from textual.widgets import Input, Static

from app.core.errors import AppError, UsageError
from app.core.printable import printable
from app.core.program import in_background
from app.core.units import gigabytes
from app.models.setup_task import SetupTask
from app.models.source import FoundRepository, parse_source
from app.ui.actions import bindings
from app.ui.base_screen import SubScreen
from app.ui.key_names import for_pairs, key
from app.ui.models.downloads import UPDATE_S
from app.ui.models.service import PairService
from app.ui.text import MARK, cell
from app.ui.widgets.choice_list import ChoiceList
from app.ui.widgets.inputs import SourceInput
from app.ui.widgets.path_completion import continued_path

if TYPE_CHECKING:
    from app.models.setup import Prepared

_SOURCE_EXAMPLES = "owner/repo, owner/repo:Q4_K_M, a huggingface.co URL, a .gguf file, or words to search for"
_ROLE_CELLS, _SIZE_CELLS = 8, 11
_ON_DISK = "  here"
"""Marks models that need no download."""
_NAME_CELLS = 60
_BILLION = 1_000_000_000
_NO_DRAFT = "empty: the target's draft layers; none: n-grams"


class RepositoryList(ChoiceList[FoundRepository]):
    """Lists repositories, most downloaded first, with the size and architecture of their models."""

    def line(self, at: int, width: int) -> Content:
        found, chosen = self.rows[at], at == self.index
        name = cell(
            Content.styled(printable(found.name), "bold" if chosen else ""), min(_NAME_CELLS, max(1, width - 24))
        )
        size = f"{found.n_params / _BILLION:.1f} B" if found.n_params else ""
        about = Content.styled(f"{size:>8}  {printable(found.architecture)}", "$quiet")
        return Content.assemble(f" {MARK} " if chosen else "   ", name, "  ", about)


class AddPairScreen(SubScreen[str | None]):
    """Enter two models, check them, and add them; the result is the name of the new pair."""

    HEADING = "Add a pair"
    AUTO_FOCUS = "#target"
    CSS_PATH = "setup.tcss"
    BINDINGS: ClassVar[list[BindingType]] = bindings("add.next", "add.leave")

    target = query_one("#target", SourceInput)
    draft = query_one("#draft", SourceInput)
    results = query_one(RepositoryList)
    findings = query_one("#findings", Static)

    def __init__(self, pairs: PairService) -> None:
        super().__init__()
        self._service = pairs
        self._check: SetupTask | None = None
        """The check of the sources in the fields."""
        self._searched: str | None = None
        """Search words of the displayed results."""

    def compose_body(self) -> ComposeResult:
        yield Static(Content(_SOURCE_EXAMPLES), id="examples")
        for role, placeholder in (("target", "the model that answers"), ("draft", _NO_DRAFT)):
            with Horizontal(classes="field"):
                yield Static(role, classes=f"role {role}")
                yield SourceInput(placeholder, "line.submit", id=role, suggester=ModelFileSuggester())
        yield RepositoryList(select_at_once=True)
        yield Static(id="findings")

    def on_mount(self) -> None:
        self.results.display = False
        self._timer = self.set_interval(UPDATE_S, self._update, pause=True)

    def on_unmount(self) -> None:
        self._end_check()

    @on(Input.Changed)
    def _on_changed(self) -> None:
        if self._searched is not None and self.target.value.strip() != self._searched:
            self._end_search()
        if self._check is not None and self._sources != self._checked:
            self._end_check()
            self._show()

    @on(Input.Submitted)
    def _submit(self) -> None:
        # The message may lack the last characters of a quick typist.
        target, _ = self._sources
        if not target:
            self.target.focus()
            self.hint.say("Type the target first.")
        elif self._searched == target and self.results.row is not None:
            self._take()
        elif _is_search(target):
            self._search(target)
        elif self.focused is self.target and self._check is None:
            self.set_focus(self.draft)
        elif self._check is None or self._check.progress.error is not None:
            self._start_check()
        elif (prepared := self._check.progress.prepared) is not None:
            self._add(prepared)

    def action_next(self) -> None:
        """Complete the path in the field, or go to the other field."""
        if not (isinstance(self.focused, SourceInput) and self.focused.accept_suggestion()):
            self.focus_next()

    @work(exclusive=True)
    async def _search(self, words: str) -> None:
        self.findings.update(Content.styled(f"Searching Hugging Face for {printable(words)} …", "$quiet"))
        try:
            found = await wrap_future(in_background(partial(self._service.search, words), "search"))
        except AppError as error:
            self.findings.update(Content(for_pairs(error.sentences)))
            return
        if words == self.target.value.strip():
            self._searched = words
            self.results.show_rows(found, 0)
            self.results.display = bool(found)
            nothing = "No repository with GGUF files has these words in its name."
            self.findings.update("" if found else nothing)

    @on(RepositoryList.Selected)
    def _take(self) -> None:
        if self.results.row is not None:
            self.target.value = self.results.row.name
            self.target.cursor_position = len(self.target.value)
            self._end_search()

    def _end_search(self) -> None:
        self._searched = None
        self.results.display = False
        self.results.show_rows((), 0)

    @property
    def _sources(self) -> tuple[str, str]:
        return self.target.value.strip(), self.draft.value.strip()

    def _start_check(self) -> None:
        self._end_check()
        self._checked, self._check = self._sources, self._service.check(*self._sources)
        self._update()
        self._timer.resume()

    def _end_check(self) -> None:
        if self._check is not None:
            self._check.cancel()
            self._check = None

    def _update(self) -> None:
        if self._check is None or not self._check.progress.running:
            self._timer.pause()
        self._show()

    def _add(self, prepared: Prepared) -> None:
        if prepared.check.remedy is not None:
            self.hint.say(prepared.check.remedy.value)
        else:
            self.dismiss(self._service.add(prepared))

    def _show(self) -> None:
        now, lines = self._check.progress if self._check is not None else None, list[Content]()
        if now is not None and now.error is not None:
            error = now.error
            lines = [
                Content(for_pairs(error.message)),
                Content.styled(for_pairs(error.hint), "$quiet"),
            ]
        elif now is not None and now.prepared is not None:
            lines = list(report_lines(now.prepared, self._service.fit(now.prepared), self.findings.size.width))
        elif now is not None:
            texts = ("Checking the models; nothing is downloaded yet", printable(now.header_progress or ""))
            lines = [Content.styled(line, "$quiet") for line in texts if line]
        self.findings.update(Content("\n").join(lines))


def _is_search(text: str) -> bool:
    """Return whether a text names no source, so that it must be search words."""
    try:
        parse_source(text)
    except UsageError:
        return not any(character in text for character in "/\\~")
    return False


class ModelFileSuggester(Suggester):
    """Suggests folders and model files for a path."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)

    async def get_suggestion(self, value: str) -> str | None:
        return await asyncio.to_thread(continued_path, value, Path(), ".gguf")


def report_lines(prepared: Prepared, fit: str | None, room: int) -> Iterator[Content]:
    """Yield the models, whether they are compatible, and details, in lines of `room` cells."""
    check, n_missing = prepared.check, prepared.download_bytes
    facts = [facts for facts in (check.target, check.draft) if facts is not None]
    names = [Content(printable(f"{model.name} {model.quant}".strip())) for model in facts]
    width = min(max(name.cell_length for name in names), max(0, room - _ROLE_CELLS - _SIZE_CELLS - len(_ON_DISK)))
    for (role, files), name in zip(prepared.models.items(), names, strict=False):
        named = Content.assemble(f"{role:{_ROLE_CELLS}}", cell(name, width)).stylize(f"${role}")
        yield named + f"{gigabytes(files.size):>{_SIZE_CELLS}}" + _ON_DISK * (files.path is not None)
    if (projector := prepared.models.get("vision")) is not None:
        here = _ON_DISK * (projector.path is not None)
        yield Content(f"{'vision':{_ROLE_CELLS}}{projector.name}  {gigabytes(projector.size)}{here}")
    if check.draft_name and check.draft is None:
        yield Content.styled(f"{'draft':{_ROLE_CELLS}}{check.draft_name}", "$draft")
    yield Content("")
    if check.problems:
        yield from (Content(printable(problem)) for problem in check.problems)
    else:
        verb = "download" if n_missing else "add"
        enter = key("line.submit").capitalize()
        found = ": ".join(filter(None, ("Compatible", check.draft_name))) if len(names) > 1 else "Usable"
        yield Content(f"{found}. Press {enter} to {verb}.")
    yield Content("")
    is_gated = any(files.gated for files in prepared.models.values())
    disk = f"{gigabytes(n_missing)} to download, {gigabytes(prepared.free_bytes)} of disk free"
    texts = (
        fit,
        f"license {prepared.pair.license}" if prepared.pair.license else "",
        "Gated model: your account has access." if is_gated else "",
        disk if n_missing else "",
        *check.warnings,
    )
    yield from (Content.styled(printable(text), "$quiet") for text in texts if text)
