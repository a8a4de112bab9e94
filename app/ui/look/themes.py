"""Two colors carry meaning: the draft is teal, the target is amber. Everything else is grey."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from textual.theme import BUILTIN_THEMES, Theme

from app.core.errors import UsageError
from app.core.printable import printable
from app.settings.table import nearest
from app.ui.look.contrast import adapted, surfaces


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
    """Scrollbars as quiet as lines."""
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
            "footer-foreground": p.quiet,
            "footer-background": p.background,
            "footer-key-foreground": p.foreground,
            "footer-description-foreground": p.quiet,
            "input-cursor-background": p.foreground,
            "input-cursor-foreground": p.background,
            "link-color": p.foreground,
            "link-color-hover": p.background,
            "link-background-hover": p.foreground,
        },
    )


DARK = _theme("tandem-dark", _DARK, dark=True)
LIGHT = _theme("tandem-light", _LIGHT, dark=False)
NAMES = tuple(sorted([*BUILTIN_THEMES, DARK.name, LIGHT.name]))


def unknown_theme(name: str, known: Collection[str] = NAMES) -> UsageError | None:
    """There is no theme of that name, and the sentence names the nearest; None if there is."""
    if name in known:
        return None
    return UsageError(f'There is no theme "{printable(name)}".{nearest(name, known)}', f"Known: {', '.join(known)}.")


def _above(theme: Theme) -> dict[str, str]:
    """Return what lies above the rest, and what is selected; the terminal's own colors have theirs."""
    shades = surfaces(theme)
    if theme.ansi:
        return shades
    places = ("input-selection", "screen-selection")
    selected = {f"{place}-background": shades["chosen"] for place in places}
    return {**shades, **selected, **{f"{place}-foreground": shades["ink"] for place in places}}


def our_names(theme: Theme) -> dict[str, str]:
    """Our colors in a theme; of one that knows them only those that follow from the others."""
    if "draft" in theme.variables:
        return _above(theme)
    palette = _DARK if theme.dark else _LIGHT
    colors = adapted({name: getattr(palette, name) for name in ("draft", "target", "quiet")}, theme)
    background = theme.to_color_system().generate()["background"]
    return {**colors, **_above(theme), **_scrollbars(colors["rule"], colors["quiet"], background)}
