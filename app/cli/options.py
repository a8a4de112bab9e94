"""Turn flags and settings into a pair to load."""

from collections.abc import Sequence

from app.cli.setting_flags import Given, check_automatic, read_flags
from app.core.errors import SettingsError, UsageError
from app.core.fixes import command
from app.core.printable import printable
from app.settings.layers import Origin
from app.settings.live import LiveSettings
from app.settings.table import MODES
from app.worker.known_pairs import KnownPair, ProcessOptions, pair_by_models, pair_by_name
from app.worker.pair_loader import PairLoader, pair_loader

_APPEARANCE_GROUPS = ("appearance", "keys")


def read_pair(given: Given, modes: Sequence[str] = MODES, *, use_recommended: bool = True) -> PairLoader:
    """Combine flags, preset, settings file and the target's recommended sampling for the chosen pair.

    If a command does not support the drafting mode, it uses automatic drafting, unless a flag asked for the mode.
    """
    known, flags = choose_pair(given), read_flags(given)
    live = known.live_settings(flags)
    if not use_recommended:
        live.switch_pair(live.pair)
    _refuse_problems(live)
    settings = live.resolved()
    if settings["draft.mode"] not in modes and settings.origin("draft.mode") is not Origin.FLAG:
        settings = settings.over({"draft.mode": "auto"})
    check_automatic(flags, settings["draft.mode"])
    return pair_loader(settings, known, read_process(given))


def is_chosen(given: Given) -> bool:
    """Return whether options name a pair or models."""
    return any(name in given for name in ("pair", "target", "draft"))


def choose_pair(given: Given) -> KnownPair:
    """Return the pair that options name, else the default pair."""
    if "target" not in given and "draft" not in given:
        if given.get("pair") == "":
            raise UsageError("--pair is empty.", "Name a pair, or leave it out for the default.")
        return pair_by_name(given.get("pair"))
    if "pair" in given:
        raise UsageError("--pair and --target or --draft exclude each other.", "Name a pair, or its two files.")
    if "target" not in given:
        raise UsageError("--draft needs --target.", "Name both files.")
    return pair_by_models(given["target"], given.get("draft"))


def _refuse_problems(live: LiveSettings) -> None:
    """Raise an error for a wrong settings file; commands ignore wrong colors and keys."""
    if live.content.unreadable:
        raise SettingsError(live.content.unreadable, "Fix it, or move it away.")
    wrong = [one for one in live.content.problems if not one.name.startswith(_APPEARANCE_GROUPS)]
    if wrong:
        unset = command(["tandem", "settings", "unset", printable(wrong[0].name)])
        raise UsageError(live.file.sentence(wrong[0]), f"Fix it there, or run: {unset}")


def read_process(given: Given) -> ProcessOptions:
    """Read --isolate and --rpc."""
    named: tuple[str, ...] = given.get("rpc", ())
    if not named:
        return ProcessOptions(given.get("isolate", False))
    from app.hardware.rpc import parse_endpoint

    servers = tuple(map(parse_endpoint, named))
    if len(set(servers)) != len(servers):
        raise UsageError("--rpc names a server twice.", "Name each once; all devices of a server are used.")
    return ProcessOptions(isolate=True, rpc=servers)
