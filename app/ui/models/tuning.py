"""The settings as the chat has them, and the way to load the models anew with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.settings.live import LiveSettings
from app.ui.models.setups import Choice


@dataclass(frozen=True, slots=True)
class Tuning:
    """What the settings panel needs of the rest of the program.

    Attributes:
        live: The settings.
        reopen: The pair that is open, to be loaded with the settings as they are; may raise UsageError.
    """

    live: LiveSettings
    reopen: Callable[[], Choice]
