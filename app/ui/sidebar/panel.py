"""The side panel: six lines about the answer, and all measurements on a second key press."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static

from app.core.printable import printable
from app.core.units import gigabytes
from app.engine.drafting_report import BRIEF, NO_DRAFT_USED, acceptance, rate_number, source_name
from app.engine.types import Source
from app.models.pair_info import PairInfo
from app.settings.placement import CPU
from app.ui.key_names import key
from app.ui.names import quantization
from app.ui.sidebar.numbers import Numbers, of_document
from app.ui.sidebar.readouts import Readouts
from app.ui.text import cut, percent, tokens

Group = list[Content]
_LABEL = 12
_VALUE = 6
"""Cells of a value in front of its unit or gauge."""
_LAST = "last answer"


class ReadoutPanel(Static):
    """The readouts of the running answer, or the stored numbers of an earlier one.

    Attributes:
        detailed: Whether all measurements are shown.
    """

    detailed: reactive[bool] = reactive(False)

    def __init__(self, readouts: Readouts) -> None:
        super().__init__()
        self._readouts = readouts
        self._pair: PairInfo | None = None
        self._earlier: Mapping[str, Any] | None = None
        self._is_last = False

    def on_mount(self) -> None:
        self._readouts.watch(self._on_changed)

    def watch_detailed(self) -> None:
        self._draw()

    def show_pair(self, pair: PairInfo | None) -> None:
        """Set the loaded models."""
        self._pair = pair
        self._draw()

    def show_earlier(self, document: Mapping[str, Any], *, is_last: bool) -> None:
        """Show the stored numbers of an answer until there are new ones or the panel is clicked."""
        self._earlier, self._is_last = document, is_last
        self._draw()

    def on_click(self) -> None:
        self._earlier = None
        self._draw()

    def on_show(self) -> None:
        self._draw()

    def on_resize(self) -> None:
        self._draw()

    def _on_changed(self) -> None:
        if self._readouts.doing or self._readouts.live:
            self._earlier = None
        self._draw()

    def _draw(self) -> None:
        width, height = self.size
        if not self.display or not width:
            return
        if self._earlier is not None:
            groups = stored_groups(self._earlier, width, is_last=self._is_last)
        elif self.detailed:
            groups = detailed_groups(self._readouts, self._pair, width)
        else:
            groups = brief_groups(self._readouts, width)
        self.update(Content("\n").join(_fitting(groups, width, height)), layout=False)


def brief_groups(shown: Readouts, width: int) -> Iterator[Group]:
    """Yield the activity and six lines: speed, speedup, acceptance, tokens per step, context, TTFT."""
    yield _source(shown)
    yield _activity(shown, width)
    numbers = shown.numbers or Numbers()
    whose = [Content.styled(_LAST, "$quiet")] if shown.unmeasured and shown.stats is not None else []
    rows = [
        *whose,
        *_speed(numbers, shown, width),
        *_speedup(numbers, shown),
        *_reason(numbers, shown),
        *_acceptance(numbers, width),
        *_per_step(numbers),
        *_context(shown),
        *([] if shown.unmeasured else _ttft(numbers)),
    ]
    yield rows
    yield [Content.styled(f"{key('chat.panel', 'f5')} more", "$quiet")]


def detailed_groups(shown: Readouts, pair: PairInfo | None, width: int) -> Iterator[Group]:
    """Yield every measurement of the running or last answer."""
    n_max = [_row("n_max", Content(f"{shown.n_max:>{_VALUE}}"))] if shown.n_max else []
    yield [*_source(shown), *n_max]
    yield _activity(shown, width)
    numbers = shown.numbers
    if numbers is not None:
        whose = [Content.styled(_LAST, "$quiet")] if shown.unmeasured else []
        average = _row("average", _rate(numbers.speed)) if shown.live and numbers.speed is not None else None
        without = numbers.undrafted_speed
        yield [
            *whose,
            *_speed(numbers, shown, width),
            *([average] if average is not None else []),
            *([_row("no draft", _rate(without, "$target"))] if without is not None else []),
            *_speedup(numbers, shown),
            *_reason(numbers, shown),
        ]
        yield [*_acceptance(numbers, width), *_recent_acceptance(numbers, shown, width), *_drafts(numbers)]
    share = (shown.used or 0) / shown.n_ctx if shown.n_ctx else 0.0
    yield [*_context(shown), *([_row("", _gauge(share, width - _LABEL, "$quiet"))] if shown.n_ctx else [])]
    if numbers is not None and not shown.unmeasured:
        yield [*_ttft(numbers), *_prefill(numbers)]
    if pair is not None:
        yield list(_memory(pair))


def stored_groups(document: Mapping[str, Any], width: int, *, is_last: bool) -> Iterator[Group]:
    """Yield the stored numbers of an earlier answer and the models that gave it."""
    numbers = of_document(document)
    yield [Content.styled(_LAST if is_last else "earlier answer", "$quiet")]
    models = ((document.get(role), f"${role}") for role in ("target", "draft"))
    yield [
        line
        for name, style in models
        if isinstance(name, str) and name
        for line in Content.styled(printable(name), style).wrap(width)
    ]
    if numbers == Numbers():
        yield list(Content("No numbers were stored.").wrap(width))
        return
    length = [_row("tokens", Content(f"{numbers.tokens:>{_VALUE},}"))] if numbers.tokens is not None else []
    yield [*_speed(numbers, None, width), *length, *_speedup(numbers, None)]
    yield [*_acceptance(numbers, width), *_drafts(numbers)]
    yield [*_ttft(numbers), *_prefill(numbers)]


def _source(shown: Readouts) -> Group:
    if not shown.source_name:
        return []
    style = "$draft" if shown.is_drafting else "$quiet"
    name = "draft model" if shown.source_name == "model" else shown.source_name
    return [_row("drafting", Content.styled(name, style))]


def _activity(shown: Readouts, width: int) -> Group:
    if not shown.doing:
        return []
    bar = [_gauge(shown.share, width, "$quiet")] if shown.share is not None else []
    return [*Content.styled(shown.doing, "$quiet").wrap(width), *bar]


def _speed(numbers: Numbers, shown: Readouts | None, width: int) -> Iterator[Content]:
    """Yield the current speed with a sparkline, or else the average."""
    now = shown.recent.speed if shown is not None and shown.live else None
    speed = now if now is not None else numbers.speed
    if speed is not None:
        value = _rate(speed)
        bars = shown.recent.bars(width - _LABEL - value.cell_length - 1) if shown is not None else ""
        yield _row("speed", Content.assemble(value, f" {bars}" if bars else ""))


def _speedup(numbers: Numbers, shown: Readouts | None) -> Iterator[Content]:
    if (gain := numbers.speedup) is not None:
        yield _row("speedup", Content.styled(f"{gain.brief:>{_VALUE}}", "bold" if gain.measured else "$quiet"))
    elif shown is not None and not shown.live and shown.drafting is not None and not numbers.drafted:
        yield _row("speedup", Content.styled(NO_DRAFT_USED, "$quiet"))


def _reason(numbers: Numbers, shown: Readouts) -> Iterator[Content]:
    # The reason comes and goes; its line stays.
    if numbers.reason or (numbers.speed is not None and shown.drafting is not None):
        yield cut(Content.styled(printable(numbers.reason), "$quiet"), BRIEF)


def _acceptance(numbers: Numbers, width: int) -> Iterator[Content]:
    if numbers.acceptance is not None:
        text = acceptance(numbers.acceptance * numbers.drafted, numbers.drafted)
        yield _share_row("acceptance", text, numbers.acceptance, width)


def _recent_acceptance(numbers: Numbers, shown: Readouts, width: int) -> Iterator[Content]:
    if not shown.live or numbers.acceptance is None:
        return
    recent = shown.recent.acceptance
    if recent is not None:
        yield _share_row("recent", percent(recent), recent, width)
    else:
        yield _row("recent", Content.styled("nothing drafted", "$quiet"))


def _per_step(numbers: Numbers) -> Iterator[Content]:
    if numbers.per_step is not None:
        yield _row("tokens/step", Content(f"{numbers.per_step:>{_VALUE}.1f}"))


def _drafts(numbers: Numbers) -> Iterator[Content]:
    yield from _per_step(numbers)
    if numbers.draft_length is not None:
        yield _row("draft length", Content.styled(f"{numbers.draft_length:>{_VALUE}.1f} tokens", "$draft"))
    if numbers.model_share is not None:
        shares: tuple[tuple[Source, float], ...] = (
            ("model", numbers.model_share),
            ("ngram", 1 - numbers.model_share),
        )
        texts = [f"{_partial(share)} {source_name(name)}" for name, share in shares if share > 0]
        for label, text in zip(("source", ""), texts, strict=False):
            yield _row(label, Content.styled(text, "$draft"))


def _context(shown: Readouts) -> Iterator[Content]:
    if shown.n_ctx:
        yield _row("context", Content(f"{shown.used_tokens:>{_VALUE}} / {tokens(shown.n_ctx)}"))


def _ttft(numbers: Numbers) -> Iterator[Content]:
    if numbers.first_s is not None:
        yield _row("TTFT", Content(f"{numbers.first_s:>{_VALUE}.{2 if numbers.first_s < 10 else 1}f} s"))


def _prefill(numbers: Numbers) -> Iterator[Content]:
    if numbers.prompt_speed is not None:
        yield _row("prefill", Content(f"{numbers.prompt_speed:>{_VALUE},.0f} tok/s"))


def _memory(pair: PairInfo) -> Iterator[Content]:
    for label, model, style in (("target", pair.target, "$target"), ("draft", pair.draft, "$draft")):
        if model is not None:
            size = f"{gigabytes(model.size_bytes):>{_VALUE + 3}} {printable(quantization(model))}"
            yield _row(label, Content.styled(size, style))
    yield _row("device", Content.styled(printable(pair.device), "$quiet"))
    for at, taken in enumerate(pair.memory):
        where = "RAM" if taken.device == CPU else printable(taken.device)
        text = f"{gigabytes(taken.n_bytes):>{_VALUE + 3}} {where}"
        yield _row("" if at else "memory", Content.styled(text, "$quiet"))


def _rate(speed: float, style: str = "") -> Content:
    return Content.styled(f"{rate_number(speed):>{_VALUE}} tok/s", style)


def _partial(share: float) -> str:
    """Return a share that is neither 0 nor 1 as a percentage that is neither 0% nor 100%."""
    if 0 < share < 1:
        return {"0%": "<1%", "100%": ">99%"}.get(percent(share), percent(share))
    return percent(share)


def _share_row(label: str, text: str, share: float, width: int) -> Content:
    text = f"{text:>{_VALUE}} "
    return _row(label, Content.assemble((text, "$draft"), _gauge(share, width - _LABEL - len(text), "$draft")))


def _gauge(share: float, width: int, style: str) -> Content:
    """Return a bar of `width` cells; any share above 0 fills one."""
    filled = max(0, min(width, max(round(share * width), int(share > 0))))
    return Content.assemble(("━" * filled, style), ("━" * (width - filled), "$rule"))


def _row(label: str, value: Content) -> Content:
    return Content.assemble((f"{label:{_LABEL}}", "$quiet"), value)


def _fitting(groups: Iterable[Group], width: int, height: int) -> list[Content]:
    """Return the lines of the groups that fit, with a blank line between them if there is room."""
    wrapped = [
        [part for line in group for part in (line.wrap(width) if line.cell_length > width else [line])]
        for group in groups
    ]
    filled = [group for group in wrapped if group]
    gap = [Content("")] if sum(len(group) + 1 for group in filled) <= height + 1 else []
    lines: list[Content] = []
    for group in filled:
        more = [*(gap if lines else []), *group]
        if len(lines) + len(more) <= height:
            lines += more
    return lines
