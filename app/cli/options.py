"""From settings and catalogue to what the worker is asked for."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from app.catalog import Catalog, Pair, shipped_file
from app.chat.message import Message, Role
from app.cli.fitting import fitted, kept_here, memory_rooms, with_remote
from app.cli.flags import read_flags
from app.cli.placement import Placement, read_placement
from app.cli.process import Process, read_process
from app.cli.scarcity import present, ran_out
from app.engine.text import printable
from app.engine.types import Drafting, DraftParams
from app.errors import ModelFileError, NoMemoryError, PairError, UsageError
from app.hardware.cpu import default_threads, thread_candidates
from app.paths import cache_dir, config_dir, memory_dir, pairs_file, settings_file
from app.registry import Registry, SetUp
from app.responder import LoadedPair
from app.settings.build import drafting, of_pair, sampling
from app.settings.desk import Desk
from app.settings.file import SettingsFile
from app.settings.layers import Layer, Origin, Resolved
from app.settings.tree import MODES
from app.source import DemoModel, HubModel, LocalModel, ModelSource, parse_source
from app.worker import CancelSwitch, Loader, Progress

if TYPE_CHECKING:
    from app.hardware.rpc import RpcServer
    from app.llama.pair import PairParams

_FILES = "files"
_LOOKS = ("appearance", "keys")
DEFAULT_PAIR = "demo"
"""What is taken before any pair was set up."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the settings and the catalogue add up to.

    Attributes:
        pair: The pair, with the settings over its own parameters.
        files: Where the files of a pair that was set up lie, or None.
        drafting: Automatic, fixed parameters, or None for plain decoding.
        n_ctx: Asked context length, or None.
        n_threads: CPU threads.
        system: System message, or None.
        max_tokens: Most tokens of an answer, or None.
        stops: Stop strings.
        placement: Where the models go.
        process: Where all of that runs.
        tuned_threads: Whether a number of threads that was measured takes the place of `n_threads`.
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
    tuned_threads: bool = True

    def conversation(self, *messages: Message) -> tuple[Message, ...]:
        """The messages with the system message in front, if there is one."""
        return ((Message(Role.SYSTEM, self.system),) if self.system else ()) + messages


def read_options(args: argparse.Namespace, modes: Sequence[str] = MODES) -> Options:
    """Put flags, a preset and the settings file over the chosen pair.

    Args:
        args: The flags.
        modes: The modes of drafting that the command can work with; automatic drafting takes the place of another one
            that no flag asked for.

    Raises:
        UsageError: Flags contradict each other, or something in the settings file is wrong: whoever runs a command in a
            script must not get an answer made with other settings than were written down.
        CatalogError: The catalogue is wrong or does not know the pair.
    """
    pair, files = choose_pair(vars(args))
    flags = read_flags(args)
    desk = open_desk(flags, pair)
    refuse_problems(desk)
    settings = desk.resolved()
    if settings["draft.mode"] not in modes and settings.origin("draft.mode") is not Origin.FLAG:
        settings = open_desk({**flags, "draft.mode": "auto"}, pair).resolved()
    return replace(options_of(settings, pair, files), process=read_process(args))


def open_desk(flags: Layer, pair: Pair) -> Desk:
    """The settings with the file of this machine's user.

    Raises:
        UsageError: The flags contradict each other or the pair.
    """
    return Desk(SettingsFile(settings_file()), flags, of_pair(pair.sampling, pair.drafting))


def refuse_problems(desk: Desk) -> None:
    """Raise UsageError if the file holds anything wrong that concerns answers; looks and keys do not."""
    if desk.content.unreadable:
        raise UsageError(desk.content.unreadable, "Mend it, or move it away.")
    wrong = [problem for problem in desk.content.problems if not problem.name.startswith(_LOOKS)]
    if desk.file is not None and wrong:
        more = f" ({len(wrong) - 1} more: tandem settings)" if len(wrong) > 1 else ""
        raise UsageError(
            desk.file.sentence(wrong[0]), f"Mend it there, or: tandem settings unset {printable(wrong[0].name)}{more}"
        )
    if desk.problems:
        raise UsageError(f"{settings_file()}: {desk.problems[0].text}", "Mend it there, or with: tandem settings")


def options_of(settings: Resolved, pair: Pair, files: SetUp | None) -> Options:
    """Put settings over a pair.

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
        placement=read_placement(settings),
        tuned_threads=settings["model.threads"] is None,
    )


@dataclass(frozen=True, slots=True)
class PairLoader:
    """What the worker calls, on its thread, to load a pair; a value, so that the worker may be in another process.

    Attributes:
        options: What the pair is, and where it goes.
    """

    options: Options

    def __call__(self, cancel: CancelSwitch, progress: Progress) -> LoadedPair:
        # llama.cpp is first imported here.
        from app.llama.cancel import CancelFlag
        from app.llama.pair import load_pair

        assert isinstance(cancel, CancelFlag)
        params, pair = pair_params(self.options), self.options.pair
        try:
            return load_pair(params, cancel, progress)
        except NoMemoryError as error:
            wanted = wanted_params(self.options)
            raise ran_out(wanted, (pair.target, pair.draft), known_pairs(), error) from error


def loader(options: Options) -> Loader:
    """Loads the pair of these options."""
    return PairLoader(options)


def pair_params(options: Options) -> PairParams:
    """What to load and where to; the demo's draft is made here if it is missing.

    Raises:
        PairError: A file has not been downloaded yet, or the pair does not fit into this machine.
        RemoteError: A server of remote devices cannot be used.
    """
    params = wanted_params(options)
    servers: tuple[RpcServer, ...] = ()
    if options.process.rpc:
        from app.cli.remote import reach

        servers = reach(options.process.rpc)
        params = kept_here(replace(params, rpc=tuple(server.address for server in servers)))
    if options.placement.stored:
        params = present(params, with_remote(memory_rooms(), servers))
    if options.placement.fit:
        params = fitted(params, (options.pair.target, options.pair.draft), known_pairs(), servers)
    return with_threads(params) if options.tuned_threads else params


def known_pairs() -> list[Pair]:
    """What the catalogue has."""
    return list(catalog().pairs.values())


def with_threads(params: PairParams) -> PairParams:
    """The same pair with the numbers of threads that `tandem tune` has measured, if it has."""
    from app import thread_store
    from app.llama.identity import thread_file

    file = thread_file(params, thread_candidates())
    chosen = thread_store.load(file) if file is not None else None
    if chosen is None:
        return params
    return replace(params, n_threads=chosen.generation, n_threads_batch=chosen.prompt)


def wanted_params(options: Options) -> PairParams:
    """What was asked for, before it is held against the machine; see `pair_params`.

    Raises:
        PairError: A file has not been downloaded yet.
    """
    from app.llama.pair import PairParams

    pair, files = options.pair, options.files
    target = files.target.path if files is not None else _file(pair.target, pair)
    draft = None
    if pair.draft is not None:
        draft = files.draft.path if files is not None and files.draft is not None else _file(pair.draft, pair)
    placement = options.placement
    return PairParams(
        target=target,
        draft=draft,
        n_threads=options.n_threads,
        n_ctx=options.n_ctx,
        memory_dir=memory_dir(),
        model=placement.model,
        draft_model=placement.draft_model,
        kv_type=placement.kv_type,
        draft_kv_type=placement.draft_kv_type,
        flash_attention=placement.flash_attention,
    )


def catalog() -> Catalog:
    """The pairs that ship, under the user's own."""
    return Catalog([shipped_file(), config_dir() / "models.toml"])


def registry() -> Registry:
    """The pairs that were set up here."""
    return Registry(pairs_file())


def demo_file(part: str) -> Path:
    """A file of the demo pair; the draft is made when it is asked for first."""
    from app.llama import demo

    return demo.target_file() if part == "target" else demo.draft_file(cache_dir())


def demo_is_installed() -> bool:
    """Whether the demo's model came with this installation."""
    from app.llama import demo

    try:
        return demo.target_file().is_file()
    except ModelFileError:
        return False


def _file(source: ModelSource, pair: Pair) -> Path:
    match source:
        case LocalModel(path):
            return path
        case DemoModel(part):
            return demo_file(part)
        case HubModel():
            how = f"tandem setup {pair.name}" if pair.name != _FILES else f"tandem setup {_as_flags(pair)}"
            raise PairError(f"{source} is not on this machine yet.", f"Bring it with: {how}")


def _as_flags(pair: Pair) -> str:
    return f"--target {pair.target}" + (f" --draft {pair.draft}" if pair.draft is not None else "")


def choose_pair(given: dict[str, Any]) -> tuple[Pair, SetUp | None]:
    """The pair that the flags mean: a named one, two files, or the default."""
    target, draft = given.get("target"), given.get("draft")
    if target is None and draft is None:
        return _named(given.get("pair"))
    if "pair" in given:
        raise UsageError("--pair and --target or --draft exclude each other.", "Name a pair, or its two files.")
    if target is None:
        raise UsageError("--draft needs --target.", "A draft model runs ahead of a target model; name both files.")
    sources = parse_source(target), parse_source(draft) if draft is not None else None
    for known in registry().read().pairs.values():
        if (known.pair.target, known.pair.draft) == sources and known.is_here:
            return known.pair, known
    return Pair(name=_FILES, title=str(sources[0]), target=sources[0], draft=sources[1]), None


def _named(name: str | None) -> tuple[Pair, SetUp | None]:
    known = registry().read()
    name = name or known.default or DEFAULT_PAIR
    files = known.pairs.get(name)
    pair = catalog().pairs.get(name)
    if files is not None and pair is None:
        pair = files.pair
    if pair is None:
        pair = catalog().get(name)
    # An entry that was changed since it was set up means other files.
    if files is not None and pair.sources != files.pair.sources:
        files = None
    if files is not None and not files.is_here:
        raise PairError(
            f"The files of {name} are gone from {files.target.path.parent}.", f"Bring them back: tandem setup {name}"
        )
    return pair, files
