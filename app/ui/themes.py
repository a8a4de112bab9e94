"""Themes: the draft is teal, the target is amber, code has a quiet palette, everything else is gray."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from textual.app import App
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from app.core.errors import SettingsError, UsageError
from app.core.printable import printable
from app.settings.live import LiveSettings
from app.settings.table import nearest

MIN_CONTRAST = 4.5
"""Lowest contrast of text with its background (WCAG 2.1, success criterion 1.4.3)."""
_RULE_SHARE, _RAISED_SHARE, _CHOSEN_SHARE, _MUTED_SHARE = 0.2, 0.08, 0.2, 0.75
"""Shares of the text's color in lines, in raised areas, in their chosen line, and in their muted text."""
_BLEND_STEPS = 20
_SYNTAX_COLORS = ("syntax-keyword", "syntax-string", "syntax-name", "syntax-number")
_OWN_COLORS = ("draft", "target", "quiet", *_SYNTAX_COLORS)
_ANSI_SYNTAX = dict(zip(_SYNTAX_COLORS, ("ansi_magenta", "ansi_green", "ansi_blue", "ansi_red"), strict=True))
"""The terminal's own colors of code."""
_BLACK, _WHITE = Color(0, 0, 0), Color(255, 255, 255)


def _theme(name: str, *, dark: bool, background: str, raised: str, foreground: str, **own: str) -> Theme:
    quiet = own["quiet"]
    return Theme(
        name=name,
        dark=dark,
        primary=quiet,
        secondary=quiet,
        accent=foreground,
        foreground=foreground,
        background=background,
        surface=background,
        panel=raised,
        variables={
            **own,
            "text": foreground,
            "scrollbar-corner-color": background,
            "input-cursor-background": foreground,
            "input-cursor-foreground": background,
            "link-color": foreground,
            "link-color-hover": background,
            "link-background-hover": foreground,
        },
    )


DARK = _theme(
    "tandem-dark",
    dark=True,
    background="#14171a",
    raised="#272d32",
    foreground="#d9dcde",
    quiet="#858d94",
    rule="#30363b",
    draft="#45c9b4",
    target="#eeb04d",
    **{"syntax-keyword": "#b4a0dc", "syntax-string": "#a3b58a", "syntax-name": "#8fb0dd", "syntax-number": "#d598ac"},
)
LIGHT = _theme(
    "tandem-light",
    dark=False,
    background="#fcfbf8",
    raised="#e9e6df",
    foreground="#23282c",
    quiet="#656d74",
    rule="#d8d5cf",
    draft="#007872",
    target="#985800",
    **{"syntax-keyword": "#6b4fa0", "syntax-string": "#55692f", "syntax-name": "#35609c", "syntax-number": "#9c4463"},
)
_THEME_NAMES = tuple(sorted([*BUILTIN_THEMES, DARK.name, LIGHT.name]))


# Settings


def unknown_theme(name: str, known: Collection[str] = _THEME_NAMES) -> UsageError | None:
    """Return an error with the nearest theme if the name is unknown, else None."""
    if name in known:
        return None
    return UsageError(f'There is no theme "{printable(name)}".{nearest(name, known)}', f"Known: {', '.join(known)}.")


def apply_appearance(app: App[Any], live: LiveSettings) -> list[str]:
    """Apply the settings of theme and motion; return their errors as sentences."""
    now = live.resolved()
    # Moving text takes CPU time from the models.
    app.animation_level = "none" if now["appearance.reduced_motion"] else "full"
    theme = str(now["appearance.theme"])
    problems = list(live.sentences())
    if (unknown := unknown_theme(theme, app.available_themes)) is None:
        app.theme = theme
    else:
        problems.append(unknown.message)
    return problems


def save_theme(theme: str, live: LiveSettings) -> str | None:
    """Save the chosen theme in the settings; return why it was not saved, if so."""
    if live.resolved()["appearance.theme"] != theme:
        try:
            live.set("appearance.theme", theme)
        except SettingsError as error:
            return f"The theme is not saved: {error.message}"
    return None


# Colors of other themes


def theme_colors(theme: Theme) -> dict[str, str]:
    """Return Tandem's colors in a theme.

    `raised` is the background of raised areas, `chosen` of their chosen line; `ink` and `muted` are text on any of
    them. Themes that are not Tandem's also get `draft`, `target`, `quiet`, `rule` and the colors of code.
    """
    background, foreground = _grounds(theme)
    raised, chosen = background.blend(foreground, _RAISED_SHARE), background.blend(foreground, _CHOSEN_SHARE)
    ink, muted = (readable(background.blend(foreground, share), chosen).hex for share in (1.0, _MUTED_SHARE))
    colors = {"raised": raised.hex, "chosen": chosen.hex, "ink": ink, "muted": muted}
    if not theme.ansi:
        for place in ("input-selection", "screen-selection"):
            colors |= {f"{place}-background": chosen.hex, f"{place}-foreground": ink}
    if "draft" in theme.variables:
        own = theme.variables
    else:
        shipped = (DARK if theme.dark else LIGHT).variables
        own = {name: readable(Color.parse(shipped[name]), background).hex for name in _OWN_COLORS}
        if theme.ansi:
            own |= _ANSI_SYNTAX
        own["rule"] = background.blend(foreground, _RULE_SHARE).hex
        colors |= own
    # Scrollbars as quiet as lines
    rule, quiet, behind = own["rule"], own["quiet"], theme.to_color_system().generate()["background"]
    for state, color in (("", rule), ("-hover", quiet), ("-active", quiet)):
        colors |= {f"scrollbar{state}": color, f"scrollbar-background{state}": behind}
    return colors


def _grounds(theme: Theme) -> tuple[Color, Color]:
    colors = theme.to_color_system().generate()
    background = Color.parse(colors["background"])
    if background.ansi is not None:
        # The terminal's own color is unknown; the theme says only whether it is dark.
        return (_BLACK, _WHITE) if theme.dark else (_WHITE, _BLACK)
    return background, Color.parse(colors["foreground"])


def readable(color: Color, background: Color) -> Color:
    """Return the color, moved towards black or white until its text is readable on a background."""
    ink = max(_BLACK, _WHITE, key=lambda end: contrast(end, background))
    mixed = (color.blend(ink, step / _BLEND_STEPS) for step in range(_BLEND_STEPS))
    return next((one for one in mixed if contrast(one, background) >= MIN_CONTRAST), ink)


def contrast(one: Color, other: Color) -> float:
    """Return the contrast ratio of two opaque colors, from 1 to 21 (WCAG 2.1)."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(color: Color) -> float:
    parts = (part / 255 for part in color.rgb)
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return float(0.2126 * red + 0.7152 * green + 0.0722 * blue)
