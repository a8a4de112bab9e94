"""Terminal capabilities, from the environment."""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from dataclasses import dataclass

# Terminals that ignore OSC 52, the sequence by which a program hands text to the clipboard.
_NO_CLIPBOARD = ("Apple_Terminal",)
_TRUE_COLOUR = 1 << 24


@dataclass(frozen=True, slots=True)
class Terminal:
    """A terminal's abilities.

    Attributes:
        live: Whether output goes to a terminal at all.
        name: What it calls itself.
        columns: Width in characters; 0 if it goes nowhere.
        rows: Height in lines.
        colors: How many it shows; 0 where it has none or the user wants none.
        unicode: Whether it takes any character.
        clipboard: Whether text is likely to come to the clipboard, by it or by a program of the system.
        multiplexer: "tmux" or "screen" in between, or empty.
        has_copier: Whether a program of the system can take it there.
    """

    live: bool
    name: str
    columns: int
    rows: int
    colors: int
    unicode: bool
    clipboard: bool
    multiplexer: str
    has_copier: bool = False


def terminal(env: Mapping[str, str], *, live: bool, size: tuple[int, int], encoding: str, system: str) -> Terminal:
    """Conclude from the environment.

    Args:
        env: Environment variables.
        live: Whether standard output is a terminal.
        size: Columns and rows.
        encoding: Of standard output.
        system: As in `app.hardware.machine.Machine`.
    """
    term = env.get("TERM", "")
    program = env.get("TERM_PROGRAM", "")
    # At the far end of a connection the system's own program would reach the wrong machine's.
    has_copier = system in ("darwin", "windows") and not env.get("SSH_CONNECTION")
    bare = term in ("dumb", "linux") or program in _NO_CLIPBOARD
    return Terminal(
        live=live,
        name=program or ("Windows Terminal" if env.get("WT_SESSION") else term) or "unknown",
        columns=size[0],
        rows=size[1],
        colors=_colors(env, term, system),
        unicode=_is_utf8(encoding) and term not in ("dumb", "linux"),
        clipboard=has_copier or (not bare and (bool(term or program) or bool(env.get("WT_SESSION")))),
        multiplexer="tmux" if env.get("TMUX") else "screen" if env.get("STY") else "",
        has_copier=has_copier,
    )


def _colors(env: Mapping[str, str], term: str, system: str) -> int:
    if env.get("NO_COLOR") or term == "dumb":
        return 0
    if env.get("COLORTERM", "").lower() in ("truecolor", "24bit") or env.get("WT_SESSION"):
        return _TRUE_COLOUR
    if "direct" in term:
        return _TRUE_COLOUR
    if "256color" in term:
        return 256
    if term:
        return 16
    return 16 if system == "windows" else 0


def _is_utf8(encoding: str) -> bool:
    try:
        return codecs.lookup(encoding).name == "utf-8"
    except LookupError:
        return False
