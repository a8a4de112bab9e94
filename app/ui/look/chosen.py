"""The settings that concern the screen itself: theme and motion."""

from __future__ import annotations

from typing import Any

from textual.app import App

from app.core.errors import SettingsError
from app.settings.live import LiveSettings
from app.ui.look.themes import unknown_theme


def wear(app: App[Any], live: LiveSettings) -> list[str]:
    """Look as the settings say; returns what is wrong with them, in sentences."""
    now = live.resolved()
    # Moving text costs the models their processor, and a screen that jumps at once is easier to follow.
    app.animation_level = "none" if now["appearance.reduced_motion"] else "full"
    theme = str(now["appearance.theme"])
    told = list(live.sentences())
    if (unknown := unknown_theme(theme, app.available_themes)) is None:
        app.theme = theme
    else:
        told.append(unknown.message)
    return told


def keep_theme(theme: str, live: LiveSettings) -> str:
    """Write down that this theme was chosen; returns why it was not, or what else came of that, or ""."""
    if live.resolved()["appearance.theme"] == theme:
        return ""
    try:
        live.set("appearance.theme", theme)
    except SettingsError as error:
        return f"The theme is not kept: {error.message}"
    return ""
