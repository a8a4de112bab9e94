"""Themes: the draft is teal, the target is amber, everything else is grey; readable in every other theme too."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from textual.app import App
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from app.core.errors import SettingsError, UsageError
from app.core.printable import printable
from app.settings.live import LiveSettings
from app.settings.table import nearest

MIN_CONTRAST = 4.5
"""Least contrast of text with its background (WCAG 2.1, success criterion 1.4.3)."""
_RULE, _RAISED, _CHOSEN, _MUTED = 0.2, 0.08, 0.2, 0.75
"""Shares of the text's color in lines, in what lies above the rest, in its chosen line, and in muted text there."""
_STEPS = 20
_BLACK, _WHITE = Color(0, 0, 0), Color(255, 255, 255)


@dataclass(frozen=True, slots=True)
class _Palette:
    background: str
    raised: str
    foreground: str
    quiet: str
    rule: str
    draft: str
    target: str


_DARK = _Palette("#14171a", "#272d32", "#d9dcde", "#858d94", "#30363b", "#45c9b4", "#eeb04d")
_LIGHT = _Palette("#fcfbf8", "#e9e6df", "#23282c", "#656d74", "#d8d5cf", "#007872", "#985800")


def _scrollbars(rule: str, quiet: str, background: str) -> dict[str, str]:
    """Return colors for scrollbars as quiet as lines."""
    return {
        "scrollbar": rule,
        "scrollbar-hover": quiet,
        "scrollbar-active": quiet,
        "scrollbar-background": background,
        "scrollbar-background-hover": background,
        "scrollbar-background-active": background,
    }


def _theme(name: str, palette: _Palette, *, dark: bool) -> Theme:
    p = palette
    return Theme(
        name=name,
        dark=dark,
        primary=p.quiet,
        secondary=p.quiet,
        accent=p.foreground,
        foreground=p.foreground,
        background=p.background,
        surface=p.background,
        panel=p.raised,
        variables={
            "text": p.foreground,
            "draft": p.draft,
            "target": p.target,
            "quiet": p.quiet,
            "rule": p.rule,
            **_scrollbars(p.rule, p.quiet, p.background),
            "input-cursor-background": p.foreground,
            "input-cursor-foreground": p.background,
            "link-color": p.foreground,
            "link-color-hover": p.background,
            "link-background-hover": p.foreground,
        },
    )


DARK = _theme("tandem-dark", _DARK, dark=True)
LIGHT = _theme("tandem-light", _LIGHT, dark=False)
_NAMES = tuple(sorted([*BUILTIN_THEMES, DARK.name, LIGHT.name]))


# Settings


def unknown_theme(name: str, known: Collection[str] = _NAMES) -> UsageError | None:
    """Return an error that names the nearest theme if there is none of that name, else None."""
    if name in known:
        return None
    return UsageError(f'There is no theme "{printable(name)}".{nearest(name, known)}', f"Known: {', '.join(known)}.")


def apply_appearance(app: App[Any], live: LiveSettings) -> list[str]:
    """Apply the settings of theme and motion; return what is wrong with them, in sentences."""
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


def save_theme(theme: str, live: LiveSettings) -> str:
    """Save the chosen theme in the settings; return why it was not saved, or ""."""
    if live.resolved()["appearance.theme"] != theme:
        try:
            live.set("appearance.theme", theme)
        except SettingsError as error:
            return f"The theme is not saved: {error.message}"
    return ""


# Colors of other themes


def theme_colors(theme: Theme) -> dict[str, str]:
    """Return Tandem's colors in a theme.

    `raised` lies above the rest, `chosen` is the chosen line there, `ink` and `muted` are text on any of them. Themes
    that are not Tandem's also get `draft`, `target`, `quiet` and `rule`.
    """
    background, foreground = _grounds(theme)
    raised, chosen = background.blend(foreground, _RAISED), background.blend(foreground, _CHOSEN)
    ink, muted = (readable(background.blend(foreground, share), chosen).hex for share in (1.0, _MUTED))
    colors = {"raised": raised.hex, "chosen": chosen.hex, "ink": ink, "muted": muted}
    if not theme.ansi:
        for place in ("input-selection", "screen-selection"):
            colors |= {f"{place}-background": chosen.hex, f"{place}-foreground": ink}
    if "draft" in theme.variables:
        return colors
    palette, rule = _DARK if theme.dark else _LIGHT, background.blend(foreground, _RULE).hex
    for name in ("draft", "target", "quiet"):
        colors[name] = readable(Color.parse(getattr(palette, name)), background).hex
    own_background = theme.to_color_system().generate()["background"]
    return {**colors, "rule": rule, **_scrollbars(rule, colors["quiet"], own_background)}


def _grounds(theme: Theme) -> tuple[Color, Color]:
    """Return the background and the text color of a theme."""
    colors = theme.to_color_system().generate()
    background = Color.parse(colors["background"])
    if background.ansi is not None:
        # The terminal's own color is unknown; the theme says only whether it is dark.
        return (_BLACK, _WHITE) if theme.dark else (_WHITE, _BLACK)
    return background, Color.parse(colors["foreground"])


def readable(color: Color, background: Color) -> Color:
    """Return the color, moved towards black or white until text in it can be read on a background."""
    ink = max(_BLACK, _WHITE, key=lambda end: contrast(end, background))
    mixed = (color.blend(ink, step / _STEPS) for step in range(_STEPS))
    return next((one for one in mixed if contrast(one, background) >= MIN_CONTRAST), ink)


def contrast(one: Color, other: Color) -> float:
    """Return the contrast ratio of two opaque colors, from 1 to 21 (WCAG 2.1)."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def _luminance(color: Color) -> float:
    """Return the relative luminance, from 0 to 1 (WCAG 2.1)."""
    parts = (part / 255 for part in color.rgb)
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return float(0.2126 * red + 0.7152 * green + 0.0722 * blue)
