"""The share card of a benchmark, with the digests of the model files that it was measured on."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from app.cli.bench.task import CARD_SUFFIXES
from app.cli.race_session import Session
from app.cli.result_file import write
from app.compare.card import Card, markdown, svg
from app.engine.interfaces import Cancelled
from app.models.split_model import parts_here

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
    """The digests of a model's parts; those that can no longer be read are said and left out."""
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
