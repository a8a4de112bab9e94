"""Turn flags and settings into the options of a command: a pair, its placement and its answers."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from app.cli.known_pairs import FILES, about_catalog, choose_pair, has_mtp_layers, of_entry, of_file
from app.cli.setting_flags import check_automatic, read_flags
from app.core.errors import SettingsError, UsageError
from app.core.paths import settings_file
from app.core.printable import printable
from app.core.shell import command
from app.engine.types import DraftParams
from app.hardware.cpu import default_threads
from app.llama.params import ModelParams, PairParams
from app.models.catalog import Pair
from app.models.memory_estimate import DEFAULT_CONTEXT
from app.models.registry import SetUp
from app.session.chat_settings import ChatSettings, chat_settings
from app.settings.file import SettingsFile
from app.settings.kinds import Overrides
from app.settings.layers import AS_TRAINED, Layer, Origin, Resolved, Thinking, thinking
from app.settings.live import LiveSettings
from app.settings.placement import ALL_LAYERS, TUNED, needs_flash_attention
from app.settings.table import MODES

AUTO = "auto"
_APPEARANCE_GROUPS = ("appearance", "keys")


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    """The process that runs a pair, and the servers ("host:port") whose devices it uses; these imply isolation."""

    isolate: bool = False
    rpc: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Options:
    """A pair with everything that settings and catalog say about it.

    Attributes:
        files: The files of the pair, if it was set up.
        params: How to load it; `app.cli.loading` adds its files.
        fit: Whether to plan the placement.
        typed_thinking: The reasoning that flags ask for; settings also hold for models without reasoning.
        automatic: Settings of the placement that have no value.
    """

    pair: Pair
    files: SetUp | None
    answers: ChatSettings
    params: PairParams
    fit: bool = True
    process: ProcessOptions = field(default_factory=ProcessOptions)
    typed_thinking: Thinking = AS_TRAINED
    automatic: frozenset[str] = frozenset()


def read_options(args: argparse.Namespace, modes: Sequence[str] = MODES, *, use_recommended: bool = True) -> Options:
    """Put flags, a preset, the settings file and what the target's file recommends over the chosen pair.

    Automatic drafting replaces a mode that the command lacks, unless a flag asked for it.
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
    return context_of(LiveSettings(SettingsFile(settings_file())))


def context_of(live: LiveSettings) -> int:
    """Return the context size in tokens that settings ask for."""
    n_ctx = live.resolved()["model.ctx"]
    return n_ctx if isinstance(n_ctx, int) else DEFAULT_CONTEXT


def open_settings(flags: Layer, pair: Pair, model: Layer) -> LiveSettings:
    """Open the settings with the user's file."""
    return LiveSettings(SettingsFile(settings_file()), flags, of_entry(pair), model)


def _refuse_problems(live: LiveSettings) -> None:
    """Raise an error for a wrong settings file; wrong colors and keys do not matter to a command."""
    if live.content.unreadable:
        raise SettingsError(live.content.unreadable, "Fix it, or move it away.")
    wrong = [problem for problem in live.content.problems if not problem.name.startswith(_APPEARANCE_GROUPS)]
    if wrong:
        unset = command(["tandem", "settings", "unset", printable(wrong[0].name)])
        raise UsageError(live.file.sentence(wrong[0]), f"Fix it there, or run: {unset}")


def options_of(settings: Resolved, pair: Pair, files: SetUp | None) -> Options:
    """Put settings over a pair."""
    answers = chat_settings(pair.title, settings)
    # N-grams have no probabilities for p_min to judge.
    has_draft = settings["draft.type"] != "ngram" and (pair.draft is not None or has_mtp_layers(pair, files))
    if isinstance(answers.drafting, DraftParams) and not has_draft:
        if settings.origin("draft.mode") is Origin.FLAG:
            fix = "Add --draft FILE, or use --drafting auto for n-grams."
            raise UsageError("Fixed drafting needs a draft model.", fix)
        # The settings file means the pairs that have one.
        answers = replace(answers, drafting=None)
    params, asked = read_params(settings), thinking(settings)
    return Options(
        pair=replace(pair, draft=None if answers.drafting is None else pair.draft),
        files=files,
        answers=answers,
        params=params if pair.name == FILES else replace(params, notices=about_catalog(pair)),
        fit=settings["model.fit"] == AUTO,
        automatic=frozenset(name for name in TUNED if settings.origin(name) is Origin.DEFAULT),
        typed_thinking=Thinking(
            asked.enabled if settings.origin("answer.thinking") is Origin.FLAG else None,
            asked.effort if settings.origin("answer.reasoning_effort") is Origin.FLAG else None,
        ),
    )


def read_params(settings: Resolved) -> PairParams:
    """Return how the settings load a pair, without its files."""
    now: Any = settings
    kv_types = ["f16" if now[name] == AUTO else now[name] for name in ("model.kv_type", "draft.kv_type")]
    for flag, kv_type in zip(("--kv-type", "--draft-kv-type"), kv_types, strict=True):
        if now["model.flash_attn"] == "off" and needs_flash_attention(kv_type):
            raise UsageError(
                f"{flag} {kv_type} needs flash attention, which --flash-attn off turns off.",
                "Leave --flash-attn out, or use the KV type f16.",
            )
    return PairParams(
        target=Path(),
        draft=None,
        n_threads=now["model.threads"] or default_threads(),
        yields_cpu=now["model.threads"] is None,
        n_ctx=now["model.ctx"],
        model=_model_params(
            now,
            "model",
            tensor_split=now["model.tensor_split"] or (),
            overrides=Overrides().read(now["model.override_tensor"]),
            cpu_experts=now["model.n_cpu_moe"],
        ),
        draft_model=_model_params(now, "draft", split=False),
        kv_type=kv_types[0],
        draft_kv_type=kv_types[1],
        flash_attention=now["model.flash_attn"],
        swa_full={"on": True, "off": False}.get(now["model.swa_full"]),
        cache_ram_mib=now["model.cache_ram"],
        cache_disk_mib=now["model.cache_disk"],
        unload_after_min=now["model.unload_after"],
        draft_type=now["draft.type"],
        op_offload_min_batch=now["model.offload_min_batch"],
    )


def _model_params(now: Any, table: str, **more: Any) -> ModelParams:
    layers = now[f"{table}.gpu_layers"]
    return ModelParams(layers if isinstance(layers, int) else ALL_LAYERS, now[f"{table}.device"] or (), **more)


def read_process(args: argparse.Namespace) -> ProcessOptions:
    """Read --isolate and --rpc."""
    named: tuple[str, ...] = getattr(args, "rpc", ())
    if not named:
        return ProcessOptions(getattr(args, "isolate", False))
    from app.hardware.rpc import parse_endpoint

    servers = tuple(map(parse_endpoint, named))
    if len(set(servers)) != len(servers):
        raise UsageError("--rpc names a server twice.", "Name each once; all devices of a server are used.")
    return ProcessOptions(isolate=True, rpc=servers)
