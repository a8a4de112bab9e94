"""From flags and catalogue to what the worker is asked for."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from app.catalog import DEMO_PREFIX, Catalog, Pair, shipped_file
from app.chat.message import Message, Role
from app.engine.types import AutoDraft, Drafting, DraftParams, SamplingParams
from app.errors import UsageError
from app.hardware.cpu import default_threads
from app.paths import cache_dir, config_dir, memory_dir
from app.responder import LoadedPair
from app.worker import CancelSwitch, Loader, Progress

if TYPE_CHECKING:
    from app.llama.pair import PairParams

_SAMPLING_FLAGS = {
    "temp": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "typical_p": "typical_p",
    "repeat_penalty": "repeat_penalty",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "repeat_last_n": "repeat_last_n",
    "seed": "seed",
}
_DRAFT_FLAGS = {"draft_n_max": "n_max", "draft_n_min": "n_min", "draft_p_min": "p_min"}
_FILES = "files"

T = TypeVar("T", SamplingParams, DraftParams)


@dataclass(frozen=True, slots=True)
class Options:
    """What the flags and the catalogue add up to.

    Attributes:
        pair: The pair, with the flags' parameters over its own.
        drafting: Automatic, fixed parameters, or None for plain decoding.
        n_ctx: Asked context length, or None.
        n_threads: CPU threads.
        system: System message, or None.
        max_tokens: Most tokens of an answer, or None.
        stops: Stop strings.
    """

    pair: Pair
    drafting: Drafting
    n_ctx: int | None
    n_threads: int
    system: str | None
    max_tokens: int | None
    stops: tuple[str, ...]

    def conversation(self, *messages: Message) -> tuple[Message, ...]:
        """The messages with the system message in front, if there is one."""
        return ((Message(Role.SYSTEM, self.system),) if self.system else ()) + messages


def read_options(args: argparse.Namespace) -> Options:
    """Put flags over the chosen pair.

    Raises:
        UsageError: Flags contradict each other or a value is out of range.
        CatalogError: The catalogue is wrong or does not know the pair.
    """
    given = vars(args)
    pair = _choose_pair(given)
    sampling = _overlay(pair.sampling, given, _SAMPLING_FLAGS)
    fixed = _overlay(pair.drafting or DraftParams(), given, _DRAFT_FLAGS)
    drafting = _choose_drafting(given, pair, fixed)
    for flag in ("ctx", "threads", "max_tokens"):
        if given.get(flag, 1) < 1:
            raise UsageError(f"--{flag.replace('_', '-')} must be at least 1.")
    return Options(
        pair=replace(pair, sampling=sampling, draft=None if drafting is None else pair.draft),
        drafting=drafting,
        n_ctx=given.get("ctx"),
        n_threads=given.get("threads") or default_threads(),
        system=given.get("system"),
        max_tokens=given.get("max_tokens"),
        stops=tuple(given.get("stop", ())),
    )


def loader(options: Options) -> Loader:
    """What the worker calls, on its thread, to load the pair; llama.cpp is first imported there."""

    def load(cancel: CancelSwitch, progress: Progress) -> LoadedPair:
        from app.llama.cancel import CancelFlag
        from app.llama.pair import load_pair

        assert isinstance(cancel, CancelFlag)
        return load_pair(pair_params(options), cancel, progress)

    return load


def pair_params(options: Options) -> PairParams:
    """What to load; the demo's draft is made here if it is missing."""
    from app.llama.pair import PairParams

    draft = options.pair.draft
    return PairParams(
        target=_file(options.pair.target),
        draft=_file(draft) if draft is not None else None,
        n_threads=options.n_threads,
        n_ctx=options.n_ctx,
        memory_dir=memory_dir(),
    )


def _file(source: str) -> Path:
    if not source.startswith(DEMO_PREFIX):
        return Path(source)
    from app.llama import demo

    return demo.target_file() if source == f"{DEMO_PREFIX}target" else demo.draft_file(cache_dir())


def _choose_pair(given: dict[str, Any]) -> Pair:
    target, draft = given.get("target"), given.get("draft")
    if target is None and draft is None:
        catalog = Catalog([shipped_file(), config_dir() / "models.toml"])
        return catalog.get(str(given.get("pair", "demo")))
    if "pair" in given:
        raise UsageError("--pair and --target or --draft exclude each other.", "Name a pair, or its two files.")
    if target is None:
        raise UsageError("--draft needs --target.", "A draft model runs ahead of a target model; name both files.")
    return Pair(name=_FILES, title=str(target), target=str(target), draft=None if draft is None else str(draft))


def _choose_drafting(given: dict[str, Any], pair: Pair, fixed: DraftParams) -> Drafting:
    """Automatic unless numbers were given, by flag or by the pair, or drafting was turned off."""
    numbers = any(flag in given for flag in _DRAFT_FLAGS)
    mode = "off" if given.get("no_draft") else given.get("drafting")
    if given.get("no_draft") and given.get("drafting", "off") != "off":
        raise UsageError("--no-draft and --drafting exclude each other.")
    if numbers and mode in ("off", "auto"):
        raise UsageError(f"--draft-n-max, --draft-n-min and --draft-p-min mean fixed drafting, not {mode}.")
    if mode is None:
        mode = "fixed" if numbers or pair.drafting is not None else "auto"
    if mode == "fixed":
        if pair.draft is None:
            raise UsageError("Fixed drafting needs a draft model.", "Add --draft FILE, or leave the numbers out.")
        return fixed
    return AutoDraft(lookup=not given.get("no_lookup", False)) if mode == "auto" else None


def _overlay(params: T, given: dict[str, Any], flags: dict[str, str]) -> T:
    return replace(params, **{field: given[flag] for flag, field in flags.items() if flag in given})
