"""What helps where two models cannot ride together; the screens know it without reading a header."""

from __future__ import annotations

from enum import Enum


class WayOut(Enum):
    """What helps where two models cannot ride together."""

    OTHER_TARGET = "another target"
    NO_DRAFT = "no draft"
    OTHER_DRAFT = "another draft"
