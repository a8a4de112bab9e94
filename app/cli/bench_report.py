"""The verdict of a benchmark, and its share card."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from app.cli.bench_task import CARD_SUFFIXES
from app.cli.race_session import Session
from app.cli.result_file import write
from app.compare.benchmark import Raced, Row, settled
from app.compare.card import Card, markdown, svg
from app.compare.measure import Measured, Spread, is_clear, measure, outcome, verdict
from app.compare.race import Run
from app.compare.sides import AUTOMATIC, PLAIN
from app.engine.drafting_report import rate, times, why_undrafted
from app.engine.interfaces import Cancelled
from app.models.split_model import parts_here

SERVER = "server"


def answer_lines(raced: Sequence[Raced], table: Sequence[Row]) -> list[str]:
    """Return the verdict of every side, automatic drafting first.

    Args:
        raced: At least one prompt.
        table: Its rows.
    """
    *kinds, whole = table
    _plain, *others = whole.measured
    lines = []
    for m in sorted(others, key=lambda m: m.name != AUTOMATIC):
        lines.append(f"{m.name}: {verdict(m.ratio, work=m.work)}{_speeds(whole, m)}")
        why = raced[-1].rounds[-1][m.name].why
        if m.acceptance is None and why:
            lines.append(f"  {why_undrafted(why)}")
        if extremes := _extremes(kinds, m):
            lines.append(f"  {extremes}")
    names = [m.name for m in others]
    if SERVER in names:
        lines.append(f"{AUTOMATIC} against the server: {verdict(_against_server(raced))}")
        # A text that was cut keeps its last space here, and not on the server.
        same = sum(_said(one.rounds[0][PLAIN]) == _said(one.rounds[0][SERVER]) for one in raced)
        lines.append(f"The server's text equals the baseline's on {same} of {len(raced)} prompts.")
        if other_prompts := _other_prompts(raced):
            lines.append(other_prompts)
    return lines


def tells_all(raced: Sequence[Raced], table: Sequence[Row]) -> bool:
    """Return whether the verdicts and these rows are statistically settled.

    Args:
        raced: Every prompt.
        table: The rows that count.
    """
    races_server = any(SERVER in one.rounds[0] for one in raced)
    return settled(table) and (not races_server or is_clear(_against_server(raced)))


def _against_server(raced: Sequence[Raced]) -> Spread | None:
    """Automatic drafting's speed over the server's."""
    return measure([one.rounds for one in raced], AUTOMATIC, SERVER).ratio


def _other_prompts(raced: Sequence[Raced]) -> str:
    """Return a note if the server's prompts had other lengths, or ""."""
    read = [[_prompt_length(one.rounds[0][name]) for name in (SERVER, PLAIN)] for one in raced]
    others = [(theirs, ours) for theirs, ours in read if theirs != ours]
    if not others:
        return ""
    theirs, ours = others[0]
    return (
        f"The server read another prompt on {len(others)} of {len(raced)}, such as {theirs:,} tokens for {ours:,}: its "
        "chat template differs. --thinking on or off gives both the same."
    )


def _prompt_length(run: Run) -> int:
    return run.stats.cache_n + run.stats.prompt_n


def _said(run: Run) -> tuple[str, str]:
    return run.reasoning.strip(), run.text.strip()


def _speeds(whole: Row, m: Measured) -> str:
    plain = whole.measured[0].tokens_per_second
    if m.tokens_per_second is None or plain is None or outcome(m.ratio, work=m.work) == "same":
        return ""
    return f": {rate(m.tokens_per_second.median)}, no draft {rate(plain.median)}"


def _extremes(kinds: Sequence[Row], m: Measured) -> str:
    """Return the kinds of text with the most and the least speedup, or ""."""
    drafted = [(row.kind, one.ratio) for row in kinds if (one := row.of(m.name)).work == "own"]
    ratios = [(ratio.median, kind) for kind, ratio in drafted if ratio is not None]
    if len(ratios) < 2:
        return ""
    (least, where_least), (most, where_most) = min(ratios), max(ratios)
    return f"most on {where_most}, {times(most)}; least on {where_least}, {times(least)}"


_CHUNK_BYTES = 1 << 24


def write_card(session: Session, name: str, card: Card) -> None:
    """Write a card as Markdown and as a picture.

    Args:
        session: Whose pair was measured; its models are read once more for their digests.
        name: The files' name without a suffix.
        card: What was measured.

    Raises:
        UsageError: A file cannot be written.
    """
    status = session.status
    hashes: dict[str, str] = {}
    for what, file in (("target", session.params.target), ("draft", session.params.draft)):
        if file is not None and not session.cancel():
            status.show(f"Hashing the {what} model for the card")
            hashes |= _hashes(session, what, file)
    status.clear()
    card = replace(card, facts={**card.facts, **hashes})
    for suffix, text in zip(CARD_SUFFIXES, (markdown(card), svg(card)), strict=True):
        write(Path(name + suffix), text)
        status.say(f"{name}{suffix} is written.")


def _hashes(session: Session, what: str, file: Path) -> dict[str, str]:
    """Return the digests of a model's parts; unreadable ones are reported and left out."""
    hashes: dict[str, str] = {}
    for part in (parts := parts_here(file)) or [file]:
        which = f" of {part.name}" if len(parts) > 1 else ""
        try:
            digest = _sha256(part, session.cancel)
        except OSError as error:
            session.status.say(f"{part} cannot be read for its hash: {error.strerror}. The card goes without it.")
            continue
        if digest is not None:
            hashes[f"{what} sha256{which}"] = digest
    return hashes


def _sha256(file: Path, cancelled: Cancelled) -> str | None:
    """None if it was cancelled. Raises OSError."""
    digest = hashlib.sha256()
    with file.open("rb") as source:
        while chunk := source.read(_CHUNK_BYTES):
            if cancelled():
                return None
            digest.update(chunk)
    return digest.hexdigest()
