"""Settings, actions and offers in the words of the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from app.cli.setting_flags import flags_of
from app.core.errors import AppError
from app.core.fixes import worded
from app.core.shell import command, quoted
from app.settings.table import BY_NAME

if TYPE_CHECKING:
    from app.hardware.offers import Offer

_COMMANDS = {
    "doctor": ("doctor",),
    "pairs": ("pairs", "list"),
    "pairs.find": ("pairs", "find"),
    "setup": ("setup",),
    "setup.latest": ("setup",),
    "setup.models": ("setup",),
    "tune": ("tune",),
}
"""Words of the commands that do an action."""
_SHORTCUTS: dict[tuple[str, ...], str] = {("draft.mode", "off"): "--no-draft"}
_OPTIONS = ("draft", "isolate", "rpc", "target")
_INDENT = "\n        "


def in_flags(text: str) -> str:
    """Return a text whose fixes are flags and commands."""
    return worded(text, _words)


def _words(name: str, arguments: list[str]) -> str | None:
    if (setting := BY_NAME.get(name)) is not None:
        flag = setting.flags[-1] if setting.flags else setting.key
        shortcut = _SHORTCUTS.get((name, *arguments))
        return shortcut or " ".join([flag, *map(quoted, arguments)])
    if name == "setup.models":
        arguments = [word for pair in zip(("--target", "--draft"), arguments, strict=False) for word in pair]
    if name == "setup.latest":
        arguments = [*(arguments or ["NAME"]), "--latest"]
    if name == "install":
        from app.hardware.installation import install_command

        return install_command(*arguments)
    if name in _COMMANDS:
        return command(["tandem", *_COMMANDS[name], *arguments])
    if name in _OPTIONS:
        return f"--{name}"
    return None


def error_in_flags(error: AppError) -> AppError:
    """Return an error whose fixes are flags and commands."""
    offers: tuple[Offer, ...] = getattr(error, "offers", ())
    lines = ["Choose one of these, or load it anyway with --fit off:", *map(offer_line, offers)]
    hint = _INDENT.join(lines) if offers else in_flags(error.hint)
    worded = AppError(in_flags(error.message), hint)
    worded.exit_code = error.exit_code
    return worded


def offer_line(offer: Offer) -> str:
    """Return an offer in one line, with the flags that choose it."""
    flags = ["--pair", offer.pair] if offer.pair is not None else flags_of(offer.settings)
    what = f"{' '.join(flags)}: {offer.what}" if flags else offer.what
    return f"{what}, {offer.gain} ({offer.cost})"
