"""From flags and settings to what a command is asked for."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from app.cli.known_pairs import FILES, about_catalogue, choose_pair, of_entry, of_file
from app.cli.placement import Placement, read_placement
from app.cli.setting_flags import automatic_flag, read_flags
from app.conversations.message import Message, Role
from app.core.errors import SettingsError, UsageError
from app.core.paths import settings_file
from app.core.printable import printable
from app.core.shell import command
from app.engine.types import AutoDraft, Drafting, DraftParams
from app.hardware.cpu import default_threads
from app.models.catalog import Pair
from app.models.memory_estimate import DEFAULT_CONTEXT
from app.models.registry import SetUp
from app.settings.file import SettingsFile
from app.settings.layers import Layer, Origin, Resolved
from app.settings.live import LiveSettings
from app.settings.model_file import Recommended
from app.settings.params import automatic, drafting, sampling, thinking
from app.settings.table import MODES
from app.settings.thinking import AS_TRAINED, Thinking

_LOOKS = ("appearance", "keys")


@dataclass(frozen=True, slots=True)
class Process:
    """In which process a pair runs, and on which servers.

    Attributes:
        isolate: Whether in a process of its own.
        rpc: Servers whose devices take part, as "host:port"; a pair that uses them is always isolated.
    """

    isolate: bool = False
    rpc: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Options:
    """A pair with everything that settings and catalog say about it.

    Attributes:
        pair: The pair, with the settings over its own parameters.
        files: Where the files of a pair that was set up lie, or None.
        drafting: Automatic, fixed parameters, or None for no draft.
        n_ctx: Asked context length, or None.
        n_threads: CPU threads.
        system: System message, or None.
        max_tokens: Most tokens of an answer, or None.
        stops: Stop strings.
        placement: Where the models go.
        process: Where all of that runs.
        automatic: How automatic drafting takes part in a comparison, whatever `drafting` is.
        tuned_threads: Whether a number of threads that was measured takes the place of `n_threads`.
        notices: What the user should know of it, when it is loaded.
        thinking: Whether the model is to think before it answers.
        typed_thinking: What of that flags ask; settings are for every model, also for one that knows no thinking.
        stop_on_repeat: Whether a loop ends an answer.
    """

    pair: Pair
    files: SetUp | None
    drafting: Drafting
    n_ctx: int | None
    n_threads: int
    system: str | None
    max_tokens: int | None
    stops: tuple[str, ...]
    placement: Placement = field(default_factory=Placement)
    process: Process = field(default_factory=Process)
    automatic: AutoDraft = field(default_factory=AutoDraft)
    tuned_threads: bool = True
    notices: tuple[str, ...] = ()
    thinking: Thinking = AS_TRAINED
    typed_thinking: Thinking = AS_TRAINED
    stop_on_repeat: bool = True

    def conversation(self, *messages: Message) -> tuple[Message, ...]:
        """Return the messages behind the system message, if any."""
        return ((Message(Role.SYSTEM, self.system),) if self.system else ()) + messages


def read_options(args: argparse.Namespace, modes: Sequence[str] = MODES, *, use_recommended: bool = True) -> Options:
    """Put flags, a preset and the settings file over the chosen pair.

    Args:
        args: The flags.
        modes: The modes of drafting that the command can work with; automatic drafting takes the place of another one
            that no flag asked for.
        use_recommended: Whether what the target's file recommends counts, where no one says otherwise.

    Raises:
        UsageError: Flags contradict each other, the settings file is wrong, or there is no such pair.
        CatalogError: The catalogue is wrong.
    """
    pair, files = choose_pair(vars(args))
    flags = read_flags(args)
    model = of_file(pair, files) if use_recommended else Recommended()
    live = open_settings(flags, pair, model)
    refuse_problems(live)
    settings = live.resolved()
    if settings["draft.mode"] not in modes and settings.origin("draft.mode") is not Origin.FLAG:
        settings = open_settings({**flags, "draft.mode": "auto"}, pair, model).resolved()
    mode, origin = str(settings["draft.mode"]), settings.origin("draft.mode")
    if mode != "auto" and (flag := automatic_flag(args, mode)):
        raise UsageError(f"{flag} needs --drafting auto, and draft.mode is {mode} ({origin.value}).")
    return replace(options_of(settings, pair, files, model), process=read_process(args))


def context_for_all() -> int:
    """Return the context size in tokens that the settings give every pair."""
    n_ctx = LiveSettings(SettingsFile(settings_file())).resolved()["model.ctx"]
    return n_ctx if isinstance(n_ctx, int) else DEFAULT_CONTEXT


def open_settings(flags: Layer, pair: Pair, model: Recommended) -> LiveSettings:
    """Open the settings with the user's file.

    Raises:
        UsageError: The flags contradict each other or the pair.
    """
    return LiveSettings(SettingsFile(settings_file()), flags, of_entry(pair), model)


def refuse_problems(live: LiveSettings) -> None:
    """Check the settings file, except appearance and keys.

    Raises:
        SettingsError: It cannot be read.
        UsageError: It holds what cannot be meant.
    """
    if live.content.unreadable:
        raise SettingsError(live.content.unreadable, "Fix it, or move it away.")
    wrong = [problem for problem in live.content.problems if not problem.name.startswith(_LOOKS)]
    if live.file is not None and wrong:
        more = f" ({len(wrong) - 1} more: tandem settings)" if len(wrong) > 1 else ""
        unset = command(["tandem", "settings", "unset", printable(wrong[0].name)])
        raise UsageError(live.file.sentence(wrong[0]), f"Fix it there, or run: {unset}{more}")
    if live.problems:
        raise UsageError(f"{settings_file()}: {live.problems[0].text}", "Fix it there. See: tandem settings")


def options_of(settings: Resolved, pair: Pair, files: SetUp | None, model: Recommended) -> Options:
    """Put settings over a pair, whose target's file is `model`.

    Raises:
        UsageError: Two of them contradict each other, or the pair.
    """
    chosen = drafting(settings)
    if isinstance(chosen, DraftParams) and pair.draft is None:
        if settings.origin("draft.mode") is Origin.FLAG:
            raise UsageError("Fixed drafting needs a draft model.", "Add --draft FILE, or leave the numbers out.")
        # Written down for the pairs that have one.
        chosen = None
    return Options(
        pair=replace(pair, sampling=sampling(settings), draft=None if chosen is None else pair.draft),
        files=files,
        drafting=chosen,
        n_ctx=cast("int | None", settings["model.ctx"]),
        n_threads=cast("int | None", settings["model.threads"]) or default_threads(),
        system=cast("str | None", settings["answer.system"]),
        max_tokens=cast("int | None", settings["answer.max_tokens"]),
        stops=cast("tuple[str, ...]", settings["answer.stop"]),
        stop_on_repeat=settings["answer.stop_on_repeat"] is True,
        thinking=thinking(settings),
        typed_thinking=_typed(settings),
        placement=read_placement(settings),
        automatic=automatic(settings),
        tuned_threads=settings["model.threads"] is None,
        notices=(*((notice,) if (notice := model.under(settings).notice) else ()), *_about(pair)),
    )


def _typed(settings: Resolved) -> Thinking:
    asked, flag = thinking(settings), Origin.FLAG
    return Thinking(
        asked.wanted if settings.origin("answer.thinking") is flag else None,
        asked.effort if settings.origin("answer.reasoning_effort") is flag else None,
    )


def _about(pair: Pair) -> tuple[str, ...]:
    """Return notices about the catalog entry; files have none."""
    return about_catalogue(pair) if pair.name != FILES else ()


def read_process(args: argparse.Namespace) -> Process:
    """Read --isolate and --rpc.

    Raises:
        UsageError: A server is named twice, or what is named is none.
    """
    named: tuple[str, ...] = getattr(args, "rpc", ())
    if not named:
        return Process(getattr(args, "isolate", False))
    from app.hardware.rpc import parse_endpoint

    servers = tuple(str(parse_endpoint(text)) for text in named)
    if len(set(servers)) != len(servers):
        raise UsageError("--rpc names a server twice.", "Name each once; all devices of a server take part.")
    return Process(isolate=True, rpc=servers)
