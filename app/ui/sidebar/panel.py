"""The side panel; `app.ui.sidebar.status_line` replaces it in narrow windows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from app.core.printable import printable
from app.core.units import gigabytes, memory_size
from app.engine.drafting_report import BRIEF, NO_DRAFT, NO_DRAFT_USED, acceptance, rate_number
from app.engine.types import SOURCE_NAMES
from app.models.pair_info import PairInfo
from app.session.snapshot import DraftState
from app.settings.placement import CPU
from app.ui.key_names import key
from app.ui.sidebar.numbers import Numbers, of_document
from app.ui.sidebar.readouts import Readouts
from app.ui.text import cut, percent, tokens

Lines = Iterator[tuple[bool, Content]]
"""Lines that stand together, and whether each is shown without details."""
_LABEL = 12
_VALUE = 6
"""Cells of a value in front of its unit or gauge."""
_LAST = "last answer"


class ReadoutPanel(Widget):
    """Six lines about the running answer or the stored numbers of an earlier one; all of them if `detailed`."""

    detailed: reactive[bool] = reactive(False)
    pair: reactive[PairInfo | None] = reactive(None)

    def __init__(self, readouts: Readouts) -> None:
        super().__init__()
        self._readouts = readouts
        self._earlier: Mapping[str, Any] | None = None
        self._is_last = False

    def on_mount(self) -> None:
        self._readouts.watch(self._on_changed)

    def show_earlier(self, document: Mapping[str, Any], *, is_last: bool) -> None:
        """Show the stored numbers of an answer until there are new ones or the panel is clicked."""
        self._earlier, self._is_last = document, is_last
        self.refresh()

    def on_click(self) -> None:
        self._earlier = None
        self.refresh()

    def _on_changed(self) -> None:
        if self._readouts.doing or self._readouts.live:
            self._earlier = None
        self.refresh()

    def render(self) -> Content:
        width, height = self.size
        if self._earlier is not None:
            groups = stored_groups(self._earlier, width, is_last=self._is_last)
        else:
            groups = live_groups(self._readouts, self.pair, width, detailed=self.detailed)
        return Content("\n").join(fitting_lines(groups, width, height))


def live_groups(shown: Readouts, pair: PairInfo | None, width: int, *, detailed: bool) -> Iterator[list[Content]]:
    """Yield the readouts of the running or last answer: six lines, or all of them."""
    answer = [list(lines) for lines in _answer(shown.numbers or Numbers(), shown, width)]
    whose = [Content.styled(_LAST, "$quiet")] if shown.unmeasured and shown.stats is not None else []
    yield _next_draft(shown.next_draft, detailed=detailed)
    if shown.doing:
        gauge = [_gauge(shown.share, width, "$quiet")] if shown.share is not None else []
        yield [Content.styled(shown.doing, "$quiet"), *gauge]
    if not detailed:
        yield whose + [line for group in answer for is_brief, line in group if is_brief]
        yield [Content.styled(f"{key('chat.panel', 'f5')} more", "$quiet")]
        return
    yield whose
    for group in answer:
        yield [line for _, line in group]
    if pair is not None:
        yield list(_models(pair))


def stored_groups(document: Mapping[str, Any], width: int, *, is_last: bool) -> Iterator[list[Content]]:
    """Yield the stored numbers of an earlier answer and the models that gave it."""
    numbers = of_document(document)
    yield [Content.styled(_LAST if is_last else "earlier answer", "$quiet")]
    models = ((document.get(role), f"${role}") for role in ("target", "draft"))
    yield [Content.styled(printable(name), style) for name, style in models if isinstance(name, str) and name]
    if numbers == Numbers():
        yield [Content("No numbers were stored.")]
    for group in _answer(numbers, Readouts(), width):
        yield [line for _, line in group]


def _next_draft(draft: DraftState, *, detailed: bool) -> list[Content]:
    style = "$draft" if draft.is_on else "$quiet"
    lines = [_row("drafting", Content.styled(draft.mode, style))] if draft.mode else []
    return [*lines, _row("n_max", Content(f"{draft.n_max:>{_VALUE}}"))] if draft.n_max and detailed else lines


def _answer(numbers: Numbers, shown: Readouts, width: int) -> Iterator[Lines]:
    """Yield the groups of an answer; the readouts of a stored one are empty."""
    yield _speed(numbers, shown, width)
    yield _drafts(numbers, shown, width)
    yield _context(shown, width)
    if not shown.unmeasured:
        yield _prompt(numbers)


def _speed(numbers: Numbers, shown: Readouts, width: int) -> Lines:
    now = shown.recent.speed if shown.live else None
    speed = now if now is not None else numbers.speed
    if speed is not None:
        value = _rate(speed)
        bars = shown.recent.bars(width - _LABEL - value.cell_length - 1)
        yield True, _row("speed", Content.assemble(value, f" {bars}" if bars else ""))
    if shown.live and numbers.speed is not None:
        yield False, _row("average", _rate(numbers.speed))
    if shown.stats is None and numbers.tokens is not None:
        yield False, _row("tokens", Content(f"{numbers.tokens:>{_VALUE},}"))
    if numbers.undrafted_speed is not None:
        yield False, _row("no draft", _rate(numbers.undrafted_speed, "$target"))
    if (gain := numbers.speedup) is not None:
        yield True, _row("speedup", Content.styled(f"{gain.brief:>{_VALUE}}", "bold" if gain.measured else "$quiet"))
    elif not shown.live and shown.drafting is not None and not numbers.drafted:
        yield True, _row("speedup", Content.styled(NO_DRAFT_USED, "$quiet"))
    # The reason comes and goes; its line stays.
    if numbers.reason:
        yield True, cut(Content.styled(printable(numbers.reason), "$quiet"), BRIEF)
    elif shown.drafting is not None and numbers.speed is not None:
        source = shown.drafting.source
        name, style = (NO_DRAFT, "$quiet") if source == "off" else (SOURCE_NAMES[source], "$draft")
        yield True, _row("source", Content.styled(name, style))


def _drafts(numbers: Numbers, shown: Readouts, width: int) -> Lines:
    if numbers.acceptance is not None:
        text = acceptance(numbers.acceptance * numbers.drafted, numbers.drafted)
        yield True, _share_row("acceptance", text, numbers.acceptance, width)
        if shown.live and (recent := shown.recent.acceptance) is not None:
            yield False, _share_row("recent", percent(recent), recent, width)
    if numbers.per_step is not None:
        yield True, _row("tokens/step", Content(f"{numbers.per_step:>{_VALUE}.1f}"))
    if numbers.draft_length is not None:
        yield False, _row("draft length", Content.styled(f"{numbers.draft_length:>{_VALUE}.1f} tokens", "$draft"))
    if (share := numbers.model_share) is not None:
        sources = [f"{_partial(share)} {SOURCE_NAMES[numbers.drafter]}"] * (share > 0)
        sources += [f"{_partial(1 - share)} {SOURCE_NAMES['ngram']}"] * (share < 1)
        for label, text in zip(("sources", ""), sources, strict=False):
            yield False, _row(label, Content.styled(text, "$draft"))


def _context(shown: Readouts, width: int) -> Lines:
    if shown.n_ctx:
        yield True, _row("context", Content(f"{shown.used_tokens:>{_VALUE}} / {tokens(shown.n_ctx)}"))
        yield False, _row("", _gauge((shown.used or 0) / shown.n_ctx, width - _LABEL, "$quiet"))


def _prompt(numbers: Numbers) -> Lines:
    if numbers.first_s is not None:
        yield True, _row("TTFT", Content(f"{numbers.first_s:>{_VALUE}.{2 if numbers.first_s < 10 else 1}f} s"))
    if numbers.prompt_speed is not None:
        yield False, _row("prefill", Content(f"{numbers.prompt_speed:>{_VALUE},.0f} tok/s"))


def _models(pair: PairInfo) -> Iterator[Content]:
    for label, model, style in (("target", pair.target, "$target"), ("draft", pair.draft, "$draft")):
        if model is not None:
            size = f"{gigabytes(model.size_bytes):>{_VALUE + 3}} {printable(model.quantization)}"
            yield _row(label, Content.styled(size, style))
    yield _row("device", Content.styled(printable(pair.device), "$quiet"))
    for at, taken in enumerate(pair.memory):
        where = "RAM" if taken.device == CPU else printable(taken.device)
        text = f"{memory_size(taken.n_bytes):>{_VALUE + 3}} {where}"
        yield _row("" if at else "memory", Content.styled(text, "$quiet"))


def _rate(speed: float, style: str = "") -> Content:
    return Content.styled(f"{rate_number(speed):>{_VALUE}} tok/s", style)


def _partial(share: float) -> str:
    """Return a share that is neither 0 nor 1 as a percentage that is neither 0% nor 100%."""
    text = percent(share)
    return {"0%": "<1%", "100%": ">99%"}.get(text, text) if 0 < share < 1 else text


def _share_row(label: str, text: str, share: float, width: int) -> Content:
    text = f"{text:>{_VALUE}} "
    return _row(label, Content.assemble((text, "$draft"), _gauge(share, width - _LABEL - len(text), "$draft")))


def _gauge(share: float, width: int, style: str) -> Content:
    """Return a bar of `width` cells; any share above 0 fills one."""
    filled = max(0, min(width, max(round(share * width), int(share > 0))))
    return Content.assemble(("━" * filled, style), ("━" * (width - filled), "$rule"))


def _row(label: str, value: Content) -> Content:
    return Content.assemble((f"{label:{_LABEL}}", "$quiet"), value)


def fitting_lines(groups: Iterable[list[Content]], width: int, height: int) -> list[Content]:
    """Return the lines of the groups that fit, with a blank line between them if there is room."""
    wrapped = [[part for line in group for part in line.wrap(width)] for group in groups if group]
    gap = [Content("")] if sum(len(group) + 1 for group in wrapped) <= height + 1 else []
    lines: list[Content] = []
    for group in wrapped:
        more = [*(gap if lines else []), *group]
        if len(lines) + len(more) <= height:
            lines += more
    return lines
