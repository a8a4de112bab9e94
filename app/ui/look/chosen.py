"""The settings that concern the screen itself: theme, motion and keys."""

from __future__ import annotations

from typing import Any

from textual.app import App

from app.errors import SettingsError
from app.settings.desk import Desk
from app.settings.tree import nearest


def wear(app: App[Any], desk: Desk) -> list[str]:
    """Look as the settings say; returns what is wrong with them, in sentences."""
    now = desk.resolved()
    # Moving text costs the models their processor, and a screen that jumps at once is easier to follow.
    app.animation_level = "none" if now["appearance.reduced_motion"] else "full"
    theme = str(now["appearance.theme"])
    told = list(desk.sentences())
    if theme in app.available_themes:
        app.theme = theme
    else:
        told.append(f'There is no theme "{theme}".{nearest(theme, app.available_themes)}')
    return told


def take_keys(app: App[Any], desk: Desk) -> list[str]:
    """Put the user's keys in place; returns which cannot be, in sentences. Loads every screen if there are any."""
    wishes = desk.content.keys
    if not wishes:
        return []
    from app.ui.keys.own import keymap, places

    met, told = keymap(wishes, places())
    app.set_keymap(met)
    return told


def keep_theme(theme: str, desk: Desk) -> str:
    """Write down that this theme was chosen; returns why it was not, or ""."""
    if desk.resolved()["appearance.theme"] == theme:
        return ""
    try:
        desk.set("appearance.theme", theme)
    except SettingsError as error:
        return f"The theme is not kept: {error.message}"
    return ""
