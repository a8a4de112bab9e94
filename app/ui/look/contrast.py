"""Our colors for themes that do not know them, so that they can be read on any background."""

from __future__ import annotations

from textual.color import Color
from textual.theme import Theme

TEXT = 4.5
"""Least contrast of text with what is behind it (WCAG 2.1, success criterion 1.4.3)."""
_RULE = 0.2
"""How much of the text's color a line has."""
_RAISED, _CHOSEN = 0.08, 0.2
"""The same of what lies above everything else, and of the chosen line there."""
_CHOSEN_OF_SIXTEEN = 0.35
"""The same of that line where a terminal may have sixteen colors and must find another one for it."""
_MUTED = 0.75
"""The same of text that is there to be looked up."""
_STEPS = 20
_BLACK, _WHITE = Color(0, 0, 0), Color(255, 255, 255)


def contrast(one: Color, other: Color) -> float:
    """Contrast ratio of two opaque colors, from 1 to 21 (WCAG 2.1)."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def readable(color: Color, background: Color) -> Color:
    """The color, moved no further towards black or white than text must be to be read on a background."""
    ink = max(_BLACK, _WHITE, key=lambda end: contrast(end, background))
    mixed = (color.blend(ink, step / _STEPS) for step in range(_STEPS))
    return next((one for one in mixed if contrast(one, background) >= TEXT), ink)


def adapted(wanted: dict[str, str], theme: Theme) -> dict[str, str]:
    """Colors by name as text of these names can be read in a theme, and `rule` for its lines.

    Args:
        wanted: The colors as they are meant to be.
        theme: Whose background they stand on.
    """
    background, foreground = _grounds(theme)
    found = {name: readable(Color.parse(color), background).hex for name, color in wanted.items()}
    return {**found, "rule": background.blend(foreground, _RULE).hex}


def surfaces(theme: Theme) -> dict[str, str]:
    """Return what lies above the rest in a theme: `raised`, `chosen`, and `ink` and `muted` for text on any of them."""
    background, foreground = _grounds(theme)
    shares = (_RAISED, _CHOSEN_OF_SIXTEEN if theme.ansi else _CHOSEN)
    raised, chosen = (background.blend(foreground, share) for share in shares)
    ink, muted = (readable(background.blend(foreground, share), chosen) for share in (1.0, _MUTED))
    return {"raised": raised.hex, "chosen": chosen.hex, "ink": ink.hex, "muted": muted.hex}


def _grounds(theme: Theme) -> tuple[Color, Color]:
    """Background and text of a theme."""
    colors = theme.to_color_system().generate()
    background = Color.parse(colors["background"])
    if background.ansi is not None:
        # The terminal's own, which is not told; the theme says only whether it is dark.
        return (_BLACK, _WHITE) if theme.dark else (_WHITE, _BLACK)
    return background, Color.parse(colors["foreground"])


def _luminance(color: Color) -> float:
    """Relative luminance, from 0 to 1 (WCAG 2.1)."""
    red, green, blue = (_linear(part / 255) for part in color.rgb)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else float(((part + 0.055) / 1.055) ** 2.4)
