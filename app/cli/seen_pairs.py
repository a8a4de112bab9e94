"""What answers here have shown of the pairs that are set up; nothing heavy is imported where there is none."""

from __future__ import annotations

import logging

from app.cli.known_pairs import registry
from app.core.errors import AppError
from app.models.expected_speedup import Seen

log = logging.getLogger("tandem.memory")


def seen_here() -> dict[str, Seen]:
    """Return earlier measurements of every pair by name, for the placement it would get now."""
    try:
        known = registry().read().pairs
    except AppError as error:
        log.warning("what was measured of pairs cannot be read: %s", error)
        return {}
    pairs = {name: files for name, files in known.items() if files.is_here}
    if not pairs:
        return {}
    # Nobody else has to wait for what it imports.
    from app.cli.measured_pairs import seen

    return seen(pairs)
