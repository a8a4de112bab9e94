"""Legible colors in every theme, and style sheets that name existing widgets."""

import re
from pathlib import Path

import pytest
from rich.color import Color as RichColor
from rich.color import ColorSystem
from textual import containers
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

import app.ui
from app.ui.themes import DARK, LIGHT, MIN_CONTRAST, contrast, readable, theme_colors
from tests.ui.driver import open_chat

BLACK, WHITE = Color(0, 0, 0), Color(255, 255, 255)
OPAQUE_THEMES = sorted(name for name, theme in BUILTIN_THEMES.items() if not theme.ansi)


def test_a_color_changes_only_until_it_is_readable() -> None:
    assert contrast(BLACK, WHITE) == pytest.approx(21)
    assert readable(WHITE, BLACK) == WHITE
    assert MIN_CONTRAST <= contrast(readable(Color.parse("#eeb04d"), WHITE), WHITE) < MIN_CONTRAST + 0.6


async def test_quiet_text_and_both_models_can_be_read_in_every_theme() -> None:
    async with open_chat() as chat:
        for name in (DARK.name, LIGHT.name, *OPAQUE_THEMES):
            chat.app.theme = name
            await chat.pilot.pause()
            shown = chat.app.theme_variables
            background = Color.parse(shown["background"])
            for text in ("draft", "target", "quiet"):
                assert contrast(Color.parse(shown[text]), background) >= MIN_CONTRAST, (name, text)
            assert contrast(Color.parse(shown["rule"]), background) > 1.25, name
            for text in ("ink", "muted"):
                for behind in ("background", "raised", "chosen"):
                    ratio = contrast(Color.parse(shown[text]), Color.parse(shown[behind]))
                    assert ratio >= MIN_CONTRAST, (name, text, behind)
            assert Color.parse(shown["scrollbar-background"]) == background, name


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
def test_both_models_and_quiet_text_differ_in_sixteen_colors(theme: Theme) -> None:
    names = ("draft", "target", "quiet", "text")
    sixteen = [RichColor.parse(theme.variables[name]).downgrade(ColorSystem.STANDARD).number for name in names]
    assert len(set(sixteen)) == len(names)


@pytest.mark.parametrize("dark", [True, False])
def test_a_terminal_s_own_background_is_taken_for_black_or_white(dark: bool) -> None:
    theme = Theme("own", "ansi_blue", background="ansi_default", foreground="ansi_default", dark=dark, ansi=True)
    quiet = Color.parse(theme_colors(theme)["quiet"])
    assert contrast(quiet, BLACK if dark else WHITE) >= MIN_CONTRAST


_FOLDER = Path(app.ui.__file__).parent
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_SELECTOR = re.compile(r"([^{};]*)\{")
_TYPE = re.compile(r"(?<![\w$.#-])[A-Z]\w+")


def test_every_widget_in_a_style_sheet_exists() -> None:
    code = "\n".join(path.read_text("utf-8") for path in _FOLDER.rglob("*.py"))
    known = {*re.findall(r"^class (\w+)", code, re.MULTILINE), *dir(containers), "Static"}
    styles = _COMMENT.sub("", "\n".join(path.read_text("utf-8") for path in _FOLDER.rglob("*.tcss")))
    named = {name for selector in _SELECTOR.findall(styles) for name in _TYPE.findall(selector)}

    assert len(named) > 10
    assert named <= known
