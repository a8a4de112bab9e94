"""What the readout panel says, as groups of lines for a given width."""

from __future__ import annotations

from collections.abc import Iterator

from textual.content import Content

from app.core.printable import printable
from app.core.sizes import gigabytes
from app.engine.drafting_report import NO_DRAFT_USED, acceptance, rate_number, source_name
from app.engine.types import Source
from app.models.pair_info import PairInfo
from app.settings.gpu_layers import CPU
from app.ui.names import quantisation
from app.ui.sidebar.numbers import Numbers
from app.ui.sidebar.state import Readouts
from app.ui.text import percent, tokens

Group = list[Content]
_LINE = "━"
_LABEL = 12
_VALUE = 6
"""Cells of a value in front of its gauge."""
_SOURCE_STYLES = ("$draft", "$quiet")
_CENTISECONDS_BELOW_S = 10.0
_LAST = "the last answer"
_NOTHING_KEPT = "No numbers were kept of this answer."


def live_groups(shown: Readouts, pair: PairInfo | None, width: int) -> Iterator[Group]:
    """The running answer, or the last one; the most wanted group first.

    Args:
        shown: What is known of it.
        pair: The models that are loaded.
        width: Cells.
    """
    most = f", up to {shown.n_max}" if shown.n_max else ""
    if shown.source_name:
        yield [_row("drafting", Content.styled(shown.source_name + most, _SOURCE_STYLES[not shown.is_drafting]))]
    if shown.doing:
        yield list(_doing(shown, width))
    numbers = shown.numbers
    if numbers is not None:
        whose = [Content.styled(_LAST, "$quiet")] if shown.unmeasured else []
        # A reason comes and goes; its row stays.
        reason = [_reason(numbers)] if numbers.reason or shown.drafting is not None else []
        yield [*whose, *_speeds(numbers, shown, width), *reason]
        yield list(_drafts(numbers, shown, width))
    yield list(_context(shown, width))
    if numbers is not None and not shown.unmeasured:
        yield list(_prompt(numbers))
    if pair is not None:
        yield list(_memory(pair))


def earlier_groups(numbers: Numbers, models: tuple[str, str], width: int, *, is_last: bool) -> Iterator[Group]:
    """An answer that was given before.

    Args:
        numbers: What the store has of it.
        models: Names of the target and the draft that gave it, "" where they are not known.
        width: Cells.
        is_last: Whether no other was given since.
    """
    target, draft = (printable(name) for name in models)
    yield [Content.styled(_LAST if is_last else "an earlier answer", "$quiet")]
    names = [Content.styled(target, "$target"), Content.styled(draft, "$draft")]
    # Whole, for the end may be all that tells the draft from its target.
    yield [line for name in names if name for line in name.wrap(width)]
    if numbers == Numbers():
        yield list(Content(_NOTHING_KEPT).wrap(width))
    yield list(_speeds(numbers, None, width))
    yield list(_drafts(numbers, None, width))
    yield list(_prompt(numbers))


def in_a_line(numbers: Numbers) -> str:
    """The numbers of an answer where there is one line for them."""
    parts = (
        numbers.length,
        numbers.pace if numbers.speed is not None else "",
        str(numbers.speedup) if numbers.speedup is not None else "",
        numbers.drafted_by,
        numbers.accepted,
        f"{numbers.per_step:.1f} tokens per step" if numbers.per_step is not None else "",
    )
    return ", ".join(part for part in parts if part) or _NOTHING_KEPT


def _doing(shown: Readouts, width: int) -> Iterator[Content]:
    yield from Content.styled(shown.doing, "$quiet").wrap(width)
    if shown.share is not None:
        yield _gauge(shown.share, width, "$quiet")


def _speeds(numbers: Numbers, shown: Readouts | None, width: int) -> Iterator[Content]:
    """Return rows for current and average speed, speed without drafts, and speedup."""
    now = shown.recent.speed if shown is not None and shown.live else None
    speeds = [("speed" if now is None else "average", numbers.speed)]
    for at, (label, speed) in enumerate(speeds if now is None else [("now", now), *speeds]):
        if speed is not None:
            yield _row(label, _rate(speed))
        # They belong to the number above them: the newest one.
        if at == 0 and shown is not None and (bars := shown.recent.bars(width - _LABEL)):
            yield _row("", Content.styled(bars, "$quiet"))
    if numbers.undrafted_speed is not None:
        yield _row("no draft", _rate(numbers.undrafted_speed, "$target"))
    if shown is None and numbers.tokens is not None:
        yield _row("tokens", Content(f"{numbers.tokens:>{_VALUE},}"))
    if shown is not None and not shown.live and shown.drafting is not None and not numbers.drafted:
        yield _row("speedup", Content.styled(NO_DRAFT_USED, "$quiet"))
    if (gain := numbers.speedup) is not None:
        yield _row("speedup", Content.styled(f"{gain.brief:>{_VALUE}}", "bold" if gain.measured else "$quiet"))


def _rate(speed: float, style: str = "") -> Content:
    return Content.styled(f"{rate_number(speed):>{_VALUE}} tok/s", style)


def _reason(numbers: Numbers) -> Content:
    """Return the current draft source and the reason."""
    return Content.styled(printable(numbers.reason), "$quiet")


def _drafts(numbers: Numbers, shown: Readouts | None, width: int) -> Iterator[Content]:
    """What became of the drafts; everything in the draft's colour."""
    recent = shown.recent if shown is not None and shown.live else None
    recent_acceptance = recent.acceptance if recent is not None else None
    for label, share in (("acceptance", numbers.acceptance), ("recent", recent_acceptance)):
        if share is not None:
            text = percent(share)
            if label == "acceptance":
                text = acceptance(share * numbers.drafted, numbers.drafted)
            text = f"{text:>{_VALUE}} "
            gauge = _gauge(share, width - _LABEL - len(text), "$draft")
            yield _row(label, Content.assemble((text, "$draft"), gauge))
        elif recent is not None and label == "recent" and numbers.acceptance is not None:
            # It comes and goes with every other round; its row stays.
            yield _row(label, Content.styled("nothing drafted", "$quiet"))
    if numbers.per_step is not None:
        yield _row("tokens/step", Content(f"{numbers.per_step:>{_VALUE}.1f}"))
    if numbers.draft_length is not None:
        # Over the whole answer, as the number above it.
        yield _row("draft length", Content.styled(f"{numbers.draft_length:>{_VALUE}.1f} tokens", "$draft"))
    if numbers.model_share is not None:
        shares: tuple[tuple[Source, float], ...] = (
            ("model", numbers.model_share),
            ("look-up", 1 - numbers.model_share),
        )
        said = [f"{_part(share)} {source_name(name)}" for name, share in shares if share > 0]
        for label, what in zip(("source", ""), said, strict=False):
            yield _row(label, Content.styled(what, "$draft"))


def _context(shown: Readouts, width: int) -> Iterator[Content]:
    if shown.n_ctx:
        yield _row("context", Content(f"{shown.used_tokens:>{_VALUE}} / {tokens(shown.n_ctx)}"))
        yield _row("", _gauge((shown.used or 0) / shown.n_ctx, width - _LABEL, "$quiet"))


def _prompt(numbers: Numbers) -> Iterator[Content]:
    if numbers.first_s is not None:
        digits = 2 if numbers.first_s < _CENTISECONDS_BELOW_S else 1
        yield _row("TTFT", Content(f"{numbers.first_s:>{_VALUE}.{digits}f} s"))
    if numbers.prompt_speed is not None:
        yield _row("prefill", Content(f"{numbers.prompt_speed:>{_VALUE},.0f} tok/s"))


def _memory(pair: PairInfo) -> Iterator[Content]:
    for label, model, style in (("target", pair.target, "$target"), ("draft", pair.draft, "$draft")):
        if model is not None:
            size = f"{gigabytes(model.size_bytes):>{_VALUE + 3}} {printable(quantisation(model))}"
            yield _row(label, Content.styled(size, style))
    yield _row("device", Content.styled(printable(pair.device), "$quiet"))
    for at, taken in enumerate(pair.memory):
        where = "main" if taken.device == CPU else printable(taken.device)
        text = f"{gigabytes(taken.n_bytes):>{_VALUE + 3}} {where}"
        yield _row("" if at else "memory", Content.styled(text, "$quiet"))


def _part(share: float) -> str:
    """A share of something that has another one: neither is nothing, nor all of it."""
    if 0 < share < 1:
        return {"0%": "<1%", "100%": ">99%"}.get(percent(share), percent(share))
    return percent(share)


def _gauge(share: float, width: int, style: str) -> Content:
    """A share of 1 as a line of so many cells; anything above nothing shows."""
    filled = max(0, min(width, max(round(share * width), int(share > 0))))
    return Content.assemble((_LINE * filled, style), (_LINE * (width - filled), "$rule"))


def _row(label: str, value: Content) -> Content:
    return Content.assemble((f"{label:{_LABEL}}", "$quiet"), value)
