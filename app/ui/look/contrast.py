"""Our colours for themes that do not know them, so that they can be read on any background."""

from __future__ import annotations

from textual.color import Color
from textual.theme import Theme

TEXT = 4.5
"""Least contrast of text with what is behind it (WCAG 2.1, success criterion 1.4.3)."""
_RULE = 0.2
"""How much of the text's colour a line has."""
_STEPS = 20
_BLACK, _WHITE = Color(0, 0, 0), Color(255, 255, 255)


def contrast(one: Color, other: Color) -> float:
    """Contrast ratio of two opaque colours, from 1 to 21 (WCAG 2.1)."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def readable(colour: Color, background: Color) -> Color:
    """The colour, moved no further towards black or white than text must be to be read on a background."""
    ink = max(_BLACK, _WHITE, key=lambda end: contrast(end, background))
    mixed = (colour.blend(ink, step / _STEPS) for step in range(_STEPS))
    return next((one for one in mixed if contrast(one, background) >= TEXT), ink)


def adapted(wanted: dict[str, str], theme: Theme) -> dict[str, str]:
    """Colours by name as text of these names can be read in a theme, and `rule` for its lines.

    Args:
        wanted: The colours as they are meant to be.
        theme: Whose background they stand on.
    """
    colours = theme.to_color_system().generate()
    background = Color.parse(colours["background"])
    foreground = Color.parse(colours["foreground"])
    if background.ansi is not None:
        # The terminal's own, which is not told; the theme says only whether it is dark.
        background, foreground = (_BLACK, _WHITE) if theme.dark else (_WHITE, _BLACK)
    found = {name: readable(Color.parse(colour), background).hex for name, colour in wanted.items()}
    return {**found, "rule": background.blend(foreground, _RULE).hex}


def _luminance(colour: Color) -> float:
    """Relative luminance, from 0 to 1 (WCAG 2.1)."""
    red, green, blue = (_linear(part / 255) for part in colour.rgb)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)
