"""From flags and settings to the options of a command: a pair, its placement and its answers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from app.cli.known_pairs import FILES, about_catalog, choose_pair, of_entry, of_file
from app.cli.setting_flags import check_automatic, read_flags
from app.core.errors import SettingsError, UsageError
from app.core.paths import settings_file
from app.core.printable import printable
from app.core.shell import command
from app.engine.types import DraftParams
from app.hardware.cpu import default_threads
from app.llama.params import ModelParams
from app.models.catalog import Pair
from app.models.memory_estimate import DEFAULT_CONTEXT
from app.models.registry import SetUp
from app.session.chat_settings import ChatSettings, applied
from app.settings.file import SettingsFile
from app.settings.kinds import Value
from app.settings.layers import Layer, Origin, Resolved, thinking
from app.settings.live import LiveSettings
from app.settings.placement import ALL_LAYERS, needs_flash_attention
from app.settings.table import MODES
from app.settings.thinking import AS_TRAINED, Thinking

AUTO = "auto"
_APPEARANCE = ("appearance", "keys")


@dataclass(frozen=True, slots=True)
class Process:
    """The process that runs a pair, and the servers ("host:port") whose devices it uses; these imply isolation."""

    isolate: bool = False
    rpc: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Placement:
    """Placement settings; the defaults leave it to the plan, which `fit` turns off."""

    model: ModelParams = field(default_factory=ModelParams)
    draft_model: ModelParams = field(default_factory=lambda: ModelParams(split=False))
    kv_type: str = "f16"
    draft_kv_type: str = "f16"
    flash_attention: str = AUTO
    fit: bool = True
    cache_ram_mib: int | None = None
    cache_disk_mib: int | None = None
    unload_after_min: int | None = None


@dataclass(frozen=True, slots=True)
class Options:
    """A pair with everything that settings and catalog say about it.

    Attributes:
        pair: The pair; settings override its own parameters.
        files: Its files, if it was set up.
        answers: Settings of answers.
        tuned_threads: Prefer a measured number of threads to `n_threads`.
        typed_thinking: The reasoning that flags ask for; settings also hold for models without reasoning.
    """

    pair: Pair
    files: SetUp | None
    answers: ChatSettings
    n_ctx: int | None
    n_threads: int
    placement: Placement = field(default_factory=Placement)
    process: Process = field(default_factory=Process)
    tuned_threads: bool = True
    notices: tuple[str, ...] = ()
    typed_thinking: Thinking = AS_TRAINED


def read_options(args: argparse.Namespace, modes: Sequence[str] = MODES, *, use_recommended: bool = True) -> Options:
    """Put flags, a preset and the settings file over the chosen pair.

    Args:
        args: The flags.
        modes: Drafting modes of the command; automatic drafting replaces any other that no flag asked for.
        use_recommended: Use the settings that the target's file recommends.
    """
    pair, files = choose_pair(vars(args))
    flags = read_flags(args)
    model = of_file(pair, files) if use_recommended else {}
    live = open_settings(flags, pair, model)
    _refuse_problems(live)
    settings = live.resolved()
    if settings["draft.mode"] not in modes and settings.origin("draft.mode") is not Origin.FLAG:
        settings = open_settings({**flags, "draft.mode": AUTO}, pair, model).resolved()
    check_automatic(flags, settings["draft.mode"])
    return replace(options_of(settings, pair, files), process=read_process(args))


def context_for_all() -> int:
    """Return the context size in tokens that the settings give every pair."""
    n_ctx = LiveSettings(SettingsFile(settings_file())).resolved()["model.ctx"]
    return n_ctx if isinstance(n_ctx, int) else DEFAULT_CONTEXT


def open_settings(flags: Layer, pair: Pair, model: Layer) -> LiveSettings:
    """Open the settings with the user's file."""
    return LiveSettings(SettingsFile(settings_file()), flags, of_entry(pair), model)


def _refuse_problems(live: LiveSettings) -> None:
    """Raise an error for a wrong settings file; wrong colors and keys do not matter to a command."""
    if live.content.unreadable:
        raise SettingsError(live.content.unreadable, "Fix it, or move it away.")
    wrong = [problem for problem in live.content.problems if not problem.name.startswith(_APPEARANCE)]
    if wrong:
        unset = command(["tandem", "settings", "unset", printable(wrong[0].name)])
        raise UsageError(live.file.sentence(wrong[0]), f"Fix it there, or run: {unset}")
    if live.problems:
        raise UsageError(f"{settings_file()}: {live.problems[0].text}", "Fix it there. See: tandem settings")


def options_of(settings: Resolved, pair: Pair, files: SetUp | None) -> Options:
    """Put settings over a pair."""
    answers = applied(ChatSettings(pair.title), settings)
    if isinstance(answers.drafting, DraftParams) and pair.draft is None:
        if settings.origin("draft.mode") is Origin.FLAG:
            raise UsageError("Fixed drafting needs a draft model.", "Add --draft FILE, or leave the numbers out.")
        # The settings file means the pairs that have one.
        answers = replace(answers, drafting=None)
    return Options(
        pair=replace(pair, draft=None if answers.drafting is None else pair.draft),
        files=files,
        answers=answers,
        n_ctx=cast("int | None", settings["model.ctx"]),
        n_threads=cast("int | None", settings["model.threads"]) or default_threads(),
        typed_thinking=_typed_thinking(settings),
        placement=read_placement(settings),
        tuned_threads=settings["model.threads"] is None,
        notices=about_catalog(pair) if pair.name != FILES else (),
    )


def _typed_thinking(settings: Resolved) -> Thinking:
    asked, flag = thinking(settings), Origin.FLAG
    return Thinking(
        asked.enabled if settings.origin("answer.thinking") is flag else None,
        asked.effort if settings.origin("answer.reasoning_effort") is flag else None,
    )


def read_placement(settings: Resolved) -> Placement:
    """Return where the settings put a pair."""
    kv_type, draft_kv_type = (_kv_type(settings[name]) for name in ("model.kv_type", "draft.kv_type"))
    flash_attention = str(settings["model.flash_attn"])
    for flag, chosen in (("--kv-type", kv_type), ("--draft-kv-type", draft_kv_type)):
        if flash_attention == "off" and needs_flash_attention(chosen):
            raise UsageError(
                f"{flag} {chosen} needs flash attention, which --flash-attn off turns off.",
                "Leave --flash-attn out, or use the KV type f16.",
            )
    return Placement(
        model=ModelParams(
            n_gpu_layers=_layers(settings["model.gpu_layers"]),
            devices=cast("tuple[str, ...]", settings["model.device"] or ()),
            tensor_split=cast("tuple[float, ...]", settings["model.tensor_split"] or ()),
        ),
        draft_model=ModelParams(
            n_gpu_layers=_layers(settings["draft.gpu_layers"]),
            devices=cast("tuple[str, ...]", settings["draft.device"] or ()),
            split=False,
        ),
        kv_type=kv_type,
        draft_kv_type=draft_kv_type,
        flash_attention=flash_attention,
        fit=settings["model.fit"] == AUTO,
        cache_ram_mib=cast("int | None", settings["model.cache_ram"]),
        cache_disk_mib=cast("int | None", settings["model.cache_disk"]),
        unload_after_min=cast("int | None", settings["model.unload_after"]),
    )


def _layers(value: Value) -> int:
    return value if isinstance(value, int) else ALL_LAYERS


def _kv_type(value: Value) -> str:
    return "f16" if value == AUTO else str(value)


def read_process(args: argparse.Namespace) -> Process:
    """Read --isolate and --rpc."""
    named: tuple[str, ...] = getattr(args, "rpc", ())
    if not named:
        return Process(getattr(args, "isolate", False))
    from app.hardware.rpc import parse_endpoint

    servers = tuple(str(parse_endpoint(text)) for text in named)
    if len(set(servers)) != len(servers):
        raise UsageError("--rpc names a server twice.", "Name each once; all devices of a server are used.")
    return Process(isolate=True, rpc=servers)
