"""What may happen in a session, as values, and sessions made of it by chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from random import Random

from textual.binding import Binding
from textual.widgets import Input, TextArea

from app.ui.screens.keymap import places


@dataclass(frozen=True, slots=True)
class Key:
    """A key is pressed."""

    key: str


@dataclass(frozen=True, slots=True)
class Type:
    """A text is typed, quickly."""

    text: str


@dataclass(frozen=True, slots=True)
class Word:
    """A word that occurs once is typed where prompts are written; it must not get lost."""

    text: str


@dataclass(frozen=True, slots=True)
class Paste:
    """A text is pasted: `text`, so many times."""

    text: str
    times: int = 1


@dataclass(frozen=True, slots=True)
class Mouse:
    """The mouse does something at a place, in thousandths of the screen; a drag ends at the other one."""

    what: str
    x: int
    y: int
    to_x: int = 0
    to_y: int = 0


@dataclass(frozen=True, slots=True)
class Resize:
    """The terminal has another size."""

    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Engine:
    """The engine goes on; see `MonkeyEngine.go_on`. The text comes so many times."""

    what: str
    text: str = ""
    times: int = 1


@dataclass(frozen=True, slots=True)
class Other:
    """Another program does something to the conversations; or the disk does."""

    what: str


@dataclass(frozen=True, slots=True)
class Pairs:
    """Something happens to the pairs that can be chosen."""

    what: str


@dataclass(frozen=True, slots=True)
class Theme:
    """Another theme is worn."""

    name: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Everything that was begun comes to rest."""


@dataclass(frozen=True, slots=True)
class Reopen:
    """The program is quit, and started again."""


Move = Key | Type | Word | Paste | Mouse | Resize | Engine | Other | Pairs | Theme | Wait | Reopen
Session = Sequence[Move]

_TEXTS = (
    "hello", "what is [red]this[/red]?", "two\nlines", "/help", "/draft off", "/draft auto", "/copy", "/copy code 1",
    "/new", "/save note", "/", "//", "/nonsense", "@", "@file.txt ", "@missing.txt", "@sub/", "é", "שלום", "👨‍👩‍👧 x",
    " ", "w " * 60, "?", "1", "0.5", "quick",
)  # fmt: skip
_PASTES = (
    ("one line", 1), ("line\n", 30), ("\x1b[2J\x1b]0;t\x07a\x00b\x7f", 3),
    ("\u202e\u05e9\u05dc\u05d5\u05dd \u2066x", 20), ("\U0001f468\u200d\U0001f469\u200d\U0001f467e\u0301", 40),
    ("[@click=app.quit]x[/] [/nonsense] $accent", 5), ("long " * 50, 200), ("\r\na\rb\n", 10), ("\t", 3), ("", 1),
    ("─── pasted ───\n", 4), ("@file.txt ", 1), ("\ud800", 1), ("/draft off", 1),
)  # fmt: skip
_SAID = (
    ("word ", 3), ("A sentence that goes on. ", 20), ("\n\n", 1), ("```python\nx = 1\n", 1), ("```\n", 1),
    ("- item\n", 10), ("| a | b |\n|---|---|\n| 1 | 2 |\n", 1), ("[link](http://x.org) **bold** `code` ", 1),
    ("\x1b[2J\x07", 1),
    ("שלום עולם 你好 👨‍👩‍👧 ", 5), ("x" * 300, 3), ("> quote\n\n", 2), ("# Head\n", 1), ("   ", 1),
    ("[/red] [@click=app.quit]", 1), ("line of an answer\n", 120), ("$$x^2$$ ", 1),
)  # fmt: skip
_SIZES = (
    (1, 1), (2, 2), (1, 30), (80, 1), (80, 3), (20, 5), (40, 10), (80, 24), (100, 30), (120, 40), (250, 80), (33, 12),
    (79, 11), (96, 25), (250, 4),
)  # fmt: skip
_OTHER = ("remove", "rename", "draft", "add", "delete")
_PAIRS = ("ready", "fails", "asked", "refuses")
_THEMES = ("tandem-dark", "tandem-light", "textual-dark", "nord", "textual-ansi", "no-such-theme")
_DELETING = {
    "backspace", "delete", "ctrl+w", "ctrl+u", "ctrl+k", "ctrl+x", "ctrl+h", "ctrl+f", "ctrl+underscore", "ctrl+y",
    "ctrl+shift+k", "super+x", "super+z", "super+y", "ctrl+delete", "ctrl+backspace", "alt+backspace", "alt+delete",
    "super+backspace", "ctrl+z", "ctrl+s", "ctrl+a", "ctrl+shift+a", "ctrl+v", "shift+insert", "ctrl+m",
}  # fmt: skip
"""They take away what was typed, or replace it."""


@cache
def keys() -> tuple[str, ...]:
    """Every key that the program, its editors and its lists know; not the one that quits."""
    bindings = [binding for place in places() for binding in place]
    made = Binding.make_bindings([*bindings, *TextArea.BINDINGS, *Input.BINDINGS])
    found = {key.strip() for binding in made for key in binding.key.split(",")}
    return tuple(sorted(found - {"ctrl+q"} | {"tab", "shift+tab", "f9", "space", "x"}))


_USUAL = (
    "enter", "enter", "escape", "escape", "up", "down", "ctrl+n", "ctrl+o", "ctrl+r", "ctrl+up", "f2", "f3", "f4", "f6",
    "f1", "ctrl+p", "ctrl+d", "tab", "pageup", "pagedown", "ctrl+g", "e", "r", "c", "left", "right", "f7", "f5",
)  # fmt: skip


def random_session(seed: int, length: int = 80, *, careful: bool | None = None) -> Session:
    """A session; the same for the same seed.

    Args:
        seed: Of what happens.
        length: How many moves.
        careful: Whether nothing in it takes away what is typed, so that nothing of that may get lost; None tosses.
    """
    random = Random(seed)
    if careful is None:
        careful = random.random() < 0.4
    quiet = random.random() < 0.5
    """Whether no other program is about, and the disk is well."""
    moves: list[Move] = [Engine("end")] if random.random() < 0.8 else []
    while len(moves) < length:
        moves += _next_moves(random, len(moves), careful=careful, quiet=quiet)
    return tuple(moves)


def _next_moves(random: Random, at: int, *, careful: bool, quiet: bool) -> list[Move]:
    match random.choices(range(11), (22, 14, 5, 7, 4, 26, 3, 3, 1, 12, 2))[0]:
        case 0:
            key = random.choice(_USUAL if random.random() < 0.6 else keys())
            if careful and (key in _DELETING or "shift" in key):
                return []
            return [Key(key)] * random.choice((1, 1, 1, 2, 3))
        case 1:
            return [Wait(), (Word if careful else Type)(f"w{at}w "), *([Key("enter")] if random.random() < 0.7 else [])]
        case 2:
            return [] if careful else [Type(random.choice(_TEXTS)), *([Key("enter")] if random.random() < 0.7 else [])]
        case 3:
            what = random.choice(("click", "click", "double", "drag", "scroll up", "scroll down", "move", "right"))
            if careful and what in ("drag", "double"):
                return []
            return [Mouse(what, *(random.randrange(1000) for _ in range(4)))]
        case 4:
            return [Resize(*random.choice(_SIZES))]
        case 5:
            return [_engine(random)] * random.choice((1, 1, 2, 3))
        case 6:
            return [] if careful else [Paste(*random.choice(_PASTES))]
        case 7:
            return [] if quiet else [Other(random.choice(_OTHER if random.random() < 0.9 else ("disk full",)))]
        case 8:
            return [Theme(random.choice(_THEMES))]
        case 9:
            return [Wait()]
        case _:
            return [Reopen() if random.random() < 0.3 else Pairs(random.choice(_PAIRS))]


def _engine(random: Random) -> Engine:
    what = random.choices(("say", "think", "read", "notice", "end", "cut", "fail", "die"), (20, 3, 2, 1, 12, 3, 1, 1))[
        0
    ]
    if what in ("say", "think"):
        return Engine(what, *random.choice(_SAID))
    return Engine(what, "<notice> [red]" if what == "notice" else "")
