"""The screen that adds a pair from any source, checked before anything is downloaded."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.getters import query_one
from textual.suggester import Suggester
from textual.widgets import Input, Static

from app.core.errors import AppError
from app.core.printable import printable
from app.core.units import gigabytes
from app.models.compatibility import Remedy
from app.ui.base_screen import SubScreen
from app.ui.key_names import key
from app.ui.keys.footer import KeyBar
from app.ui.models.downloads import LOOK_S
from app.ui.models.state import PairReport, PairService, SourceCheck
from app.ui.widgets.filter_input import SourceInput
from app.ui.widgets.header import HeaderLine
from app.ui.widgets.hint import Hint
from app.ui.widgets.path_completion import PathCompletion

_EXAMPLES = "owner/repo, owner/repo:Q4_K_M, a huggingface.co URL, or a .gguf file"
_ROLE, _SIZE = 8, 11
_HERE = "  here"
"""Marks models that need no download."""
_REMEDIES = {
    Remedy.OTHER_TARGET: "This model cannot chat; choose another target.",
    Remedy.NO_DRAFT: "Incompatible; leave the draft empty.",
    Remedy.OTHER_DRAFT: "Incompatible; choose another draft, or none.",
}
_NO_DRAFT = "none: n-gram drafting only"


class AddPairScreen(SubScreen[str | None]):
    """Enter two models, check them, and add them; the result is the name of the new pair."""

    BINDING_GROUP_TITLE = "Another pair"
    AUTO_FOCUS = "#target"
    CSS_PATH = "setup.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "next", "next", id="add.next", tooltip="Complete the path, or next field"),
        Binding("escape", "leave", "back", key_display="esc", id="add.leave", tooltip="Back to the pairs"),
    ]
    SHOWN_FIRST = ("line.submit", "add.next", "add.leave", "app.quit")

    target = query_one("#target", SourceInput)
    draft = query_one("#draft", SourceInput)
    findings = query_one("#findings", Static)
    hint = query_one(Hint)

    def __init__(self, pairs: PairService) -> None:
        super().__init__()
        self._pairs = pairs
        self._asked: tuple[str, str] | None = None
        self._inquiry: SourceCheck | None = None
        self._looking = False
        self._at_draft = False
        """Whether the user was asked for a draft; the focus moves later."""

    def compose(self) -> ComposeResult:
        yield HeaderLine("Add models")
        yield Static(Content(_EXAMPLES), id="examples")
        for role, placeholder in (("target", "the model that answers"), ("draft", _NO_DRAFT)):
            with Horizontal(classes="field"):
                yield Static(role, classes=f"role {role}")
                yield SourceInput(placeholder, id=role, suggester=ModelFileSuggester())
        yield Static(id="findings")
        yield Hint()
        yield KeyBar()

    def on_unmount(self) -> None:
        self._pairs.drop()

    @on(Input.Changed)
    def _on_changed(self) -> None:
        if self._asked is not None and self._texts != self._asked:
            self._pairs.drop()
            self._asked = self._inquiry = None
            self._show()

    @on(Input.Submitted)
    def _submit(self) -> None:
        # The message may lack the last characters of a quick typist.
        target, _ = self._texts
        if not target:
            self.target.focus()
            self.hint.say("Type the target first.")
        elif not self._at_draft and not self.draft.has_focus:
            self._at_draft = True
            self.draft.focus()
        elif self._asked is None or (self._inquiry is not None and self._inquiry.error is not None):
            self._ask()
        elif self._inquiry is not None and self._inquiry.report is not None:
            self._take(self._inquiry.report)

    def action_next(self) -> None:
        """Complete the path in the field, or go to the other field."""
        if not (isinstance(self.focused, SourceInput) and self.focused.accept_suggestion()):
            self.focus_next()

    def action_leave(self) -> None:
        self.dismiss(None)

    @property
    def _texts(self) -> tuple[str, str]:
        return self.target.value.strip(), self.draft.value.strip()

    def _ask(self) -> None:
        self._asked, self._at_draft = self._texts, True
        self._pairs.ask(*self._texts)
        self._inquiry = SourceCheck()
        self._show()
        if not self._looking:
            self._looking = True
            self.set_timer(LOOK_S, self._look)

    def _look(self) -> None:
        self._looking = False
        if self._asked is None:
            return
        self._inquiry = self._pairs.look().inquiry
        self._show()
        if self._inquiry is not None and self._inquiry.running:
            self._looking = True
            self.set_timer(LOOK_S, self._look)
        elif self._inquiry is not None and (role := self._inquiry.role_to_correct):
            self.query_one(f"#{role}", SourceInput).focus()

    def _take(self, report: PairReport) -> None:
        if report.remedy is not None:
            self.hint.say(_REMEDIES[report.remedy])
            return
        try:
            name = self._pairs.add()
        except AppError as error:
            self.hint.say(printable(error.sentences))
        else:
            self.dismiss(name)

    def _show(self) -> None:
        inquiry = self._inquiry
        if inquiry is None:
            lines: list[Content] = []
        elif inquiry.running:
            now = ("Checking the models; nothing is downloaded yet", printable(inquiry.looking))
            lines = [Content.styled(line, "$quiet") for line in now if line]
        elif inquiry.error is not None:
            lines = [Content(printable(inquiry.error.message)), Content.styled(printable(inquiry.error.hint), "$quiet")]
        else:
            assert inquiry.report is not None
            lines = list(report_lines(inquiry.report, self.findings.size.width))
        self.findings.update(Content("\n").join(lines))


class ModelFileSuggester(Suggester):
    """Suggest folders and model files for a path."""

    def __init__(self) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._paths = PathCompletion(Path(), ".gguf")

    async def get_suggestion(self, value: str) -> str | None:
        return await asyncio.to_thread(self._paths.continued, value)


def report_lines(report: PairReport, room: int) -> Iterator[Content]:
    """Yield the models, whether they are compatible, and details, in lines of `room` cells."""
    names = [Content(printable(f"{model.name} {model.quant}".strip())) for model in report.models]
    width = min(max(name.cell_length for name in names), max(0, room - _ROLE - _SIZE - len(_HERE)))
    for model, name in zip(report.models, names, strict=True):
        cut = name.truncate(width, ellipsis=True)
        named = Content.assemble(f"{model.role:{_ROLE}}", cut.pad_right(width - cut.cell_length))
        yield named.stylize(f"${model.role}") + f"{gigabytes(model.size):>{_SIZE}}" + _HERE * model.here
    yield Content("")
    yield from _verdict(report)
    yield Content("")
    if report.word:
        yield Content.styled(printable(f"{report.word}: {report.reason}"), "$quiet")
    if report.licence:
        yield Content.styled(printable(f"license {report.licence}"), "$quiet")
    if report.gated:
        yield Content.styled("Gated model: your account has access.", "$quiet")
    if report.download_bytes:
        to_come, free = gigabytes(report.download_bytes), gigabytes(report.free_bytes)
        yield Content.styled(f"{to_come} to download, {free} of disk free", "$quiet")
    for warning in report.warnings:
        yield Content.styled(printable(warning), "$quiet")


def _verdict(report: PairReport) -> Iterator[Content]:
    if report.problems:
        yield from (Content(printable(problem)) for problem in report.problems)
    else:
        verb = "download" if report.download_bytes else "add"
        enter = key("line.submit", "enter").capitalize()
        yield Content(f"{'Compatible.' if len(report.models) > 1 else 'Usable.'} Press {enter} to {verb}.")
