"""`tandem setup`: download a pair and check that it answers."""

import sys
from dataclasses import dataclass, replace

from app.cli.compatibility_report import LABEL, check_lines, current_file_offered, projector_lines
from app.cli.output import LOOKING, json_for, status
from app.cli.setting_flags import hint_of
from app.cli.streams import cancel_on_interrupt
from app.compare.measured_pairs import measured_capacity
from app.core.errors import (
    INTERRUPTED,
    AppError,
    CacheError,
    FileChangedError,
    HubError,
    Interrupted,
    PairError,
    UsageError,
)
from app.core.fixes import command, quoted
from app.core.log import guarded_stderr
from app.core.paths import log_file
from app.core.printable import printable
from app.core.units import gigabytes
from app.hardware.recommend import Fit, Proposal, every_pair, propose, weigh, why
from app.llama.fitting.machine_room import machine_capacity
from app.models.catalog import Pair
from app.models.hub import cache
from app.models.pair_summary import UNKNOWN, free_name, has_room, pair_of, size_text
from app.models.registry import SetUp
from app.models.setup import Prepared
from app.models.setup_task import SetupTask
from app.worker.known_pairs import (
    DEFAULT_PAIR,
    KnownPair,
    catalog,
    context_of,
    demo_file,
    demo_is_installed,
    left_out,
    newest,
    registry,
)
from app.worker.loading import trial
from app.worker.pair_loader import pair_loader


@dataclass(frozen=True, slots=True)
class _Options:
    """Options of a setup; see `tandem setup --help`.

    Attributes:
        default: Whether the pair becomes the default; None makes it the default only if it is the first pair.
    """

    target: str | None = None
    draft: str | None = None
    is_named: bool = False
    yes: bool = False
    latest: bool = False
    mmproj: str | None = None
    no_trial: bool = False
    default: bool | None = True


def setup(
    pair: str | None = None,
    target: str | None = None,
    draft: str | None = None,
    name: str | None = None,
    mmproj: str | None = None,
    *,
    yes: bool = False,
    latest: bool = False,
    no_trial: bool = False,
    no_default: bool = False,
    as_json: bool = False,
) -> int:
    """Set a pair up; return the exit code."""
    options = _Options(target, draft, name is not None, yes, latest, mmproj, no_trial, not no_default)
    if target is None and draft is None and name is not None:
        raise UsageError("--name needs --target.", "It names a pair of your own models.")
    if latest and pair is None:
        raise UsageError("--latest needs the name of a pair.", "Leave it out for your own models.")
    if pair is not None and (target is not None or draft is not None):
        raise UsageError("A pair's name and --target or --draft exclude each other.", "Give one or the other.")
    if target is not None or draft is not None:
        return _set_up(pair_of_models(target, draft, name), options, as_json=as_json)
    return _set_up(_proposed(yes=yes) if pair is None else _by_name(pair), options, as_json=as_json)


def add_pairs(name: str, target: str, draft: str | None = None, *, as_json: bool = False) -> int:
    """Add two models as a pair; download them if needed."""
    options = _Options(target, draft, is_named=True, yes=True, no_trial=True, default=None)
    return _set_up(pair_of_models(target, draft, name), options, as_json=as_json)


def _set_up(pair: Pair | None, options: _Options, *, as_json: bool) -> int:
    try:
        done = _run(pair, options) if pair is not None else None
    except CacheError:
        raise
    except HubError as error:
        raise HubError(error.message, f"{error.hint}\n{_without_download()}".strip()) from error
    except Interrupted:
        status.say("Stopped. Downloads are kept; run the same command to continue.")
        return INTERRUPTED
    if done is None:
        status.say("Nothing was set up.")
        return 0
    if as_json:
        print(json_for(sys.stdout, _as_json(done[0])))
    else:
        _report(*done)
    return 0


def _without_download() -> str:
    """Return how to start without a download, if possible."""
    if registry().read().default is not None or not demo_is_installed():
        return ""
    return f"{DEFAULT_PAIR} is on this machine and needs no download: tandem setup {DEFAULT_PAIR}"


def _by_name(name: str) -> Pair:
    if "/" in name:
        fix = command(["tandem", "setup", "--target", name])
        raise UsageError(f"{name} is not the name of a pair.", f"To set up a model: {fix}")
    pair = newest(name)
    for notice in left_out():
        status.say(notice)
    return pair


def pair_of_models(target: str | None, draft: str | None, name: str | None) -> Pair:
    """Return a pair of two models. Raises UsageError."""
    if target is None:
        raise UsageError("--draft needs --target.", "Name both models.")
    pair = pair_of(target, draft)
    name = pair.name if name is None else name
    if not name.strip() or not name.isprintable() or "/" in name:
        raise UsageError(f'"{name}" is not a valid pair name.', "Use letters, digits, dots and dashes.")
    return replace(pair, name=name)


def _named(pair: Pair, *, is_chosen: bool) -> Pair:
    taken = every_pair(catalog().pairs, registry().read())
    name = free_name(pair, taken)
    if is_chosen and name != pair.name:
        raise UsageError(f'"{pair.name}" is the name of another pair.', "Choose another name.")
    return replace(pair, name=name)


def _proposed(*, yes: bool) -> Pair | None:
    status.show(LOOKING)
    (machine, capacity), known, free = measured_capacity(context_of()), catalog(), cache.free_bytes()
    weighed = [weigh(pair, capacity) for pair in known.pairs.values()]
    proposals = propose(weighed, lambda pair: has_room(cache.bytes_to_download(pair), free))
    if not proposals:
        raise AppError("No pair of the catalog fits into this machine.", "Name models with --target and --draft.")
    status.say(f"This machine: {printable(machine)} · {gigabytes(free)} of disk free\n")
    for number, proposal in enumerate(proposals, start=1):
        status.say(_card(number, proposal))
    status.say(f"{printable(why(proposals))} All others: tandem pairs list")
    status.say(f"{_without_download()}\n".lstrip())
    if known.unread is not None:
        status.say(f"{known.unread.sentences}\n")
    if yes:
        return proposals[0].pair
    if not status.can_ask:
        raise UsageError("No terminal to ask on.", "Pass a pair name, or --yes for the first.")
    return _ask_which(proposals)


def _card(number: int, proposal: Proposal) -> str:
    pair = proposal.pair
    size = size_text(pair) if size_text(pair) != UNKNOWN else "size not known yet"
    lines = [f"{number}  {pair.name:16} {pair.title}", f"   {size}, {proposal.word}: {proposal.reason}"]
    if pair.good_at:
        lines.append(f"   good at {pair.good_at}")
    if proposal.drafting:
        lines.append(f"   {printable(proposal.drafting)}")
    return "\n".join(lines) + "\n"


def _ask_which(proposals: list[Proposal]) -> Pair | None:
    while True:
        reply = status.ask(f"Which one? [1-{len(proposals)}, enter takes 1, q none] ")
        if reply is None or reply in ("q", "n", "no", "none"):
            return None
        if reply in ("", "y", "yes"):
            return proposals[0].pair
        if reply.isdigit() and 1 <= int(reply) <= len(proposals):
            return proposals[int(reply) - 1].pair
        status.say(f"Answer with a number from 1 to {len(proposals)}, or q.")


def _run(pair: Pair, options: _Options) -> tuple[SetUp, str] | None:
    """Check a pair, ask, download it and try it.

    Returns the pair and a line about the trial, or None if the user declines.
    """
    status.show(f"Looking at {pair.title}")
    prepared = _prepared(pair, options)
    if options.target is not None:
        prepared = replace(prepared, pair=_named(prepared.pair, is_chosen=options.is_named))
    shown = projector_lines(prepared.models.get("vision"))
    more = [*(f"{line}; to leave it out: --mmproj none" for line in shown), _download_line(prepared)]
    lines = check_lines(prepared.check, *more, n_ctx=context_of(), problems=False)
    for line in lines:
        status.say(line, LABEL)
    prepared.refuse()
    if prepared.download_bytes:
        if too_big := _too_big(prepared):
            status.say(f"note    {too_big}", LABEL)
        # Naming a pair is enough agreement in a script.
        if not options.yes and status.can_ask and status.ask("Download? [Y/n] ") not in ("", "y", "yes"):
            return None
    return _install(prepared, options)


def _prepared(pair: Pair, options: _Options) -> Prepared:
    latest, finds_draft = options.latest, options.target is not None and options.draft is None
    check = SetupTask(registry(), demo_file, lambda: pair, installs=False, finds_draft=finds_draft)
    check = replace(check, finds_projector=options.mmproj != "none")
    try:
        return _checked(replace(check, latest=latest))
    except FileChangedError as error:
        if options.latest or options.target is not None:
            raise
        if not options.yes and status.can_ask:
            status.say(error.message)
            reply = status.ask("Use the current file instead, without a checksum? [y/N] ")
            if reply in ("y", "yes"):
                return _checked(replace(check, latest=True))
        raise current_file_offered(error, pair.name) from error


def _checked(task: SetupTask) -> Prepared:
    with cancel_on_interrupt(task.cancel):
        _follow(task)
    prepared = task.progress.prepared
    assert prepared is not None
    return prepared


def _follow(task: SetupTask) -> None:
    for progress in task.follow():
        if line := progress.line:
            status.show(line)


def _install(prepared: Prepared, options: _Options) -> tuple[SetUp, str]:
    """Download and try a pair, and show the progress.

    The pair is registered before the trial, so that its files are found again if it does not fit. Only a working pair
    becomes the default.
    """
    tries, line, name, default = not options.no_trial, "", prepared.pair.name, options.default
    first_default = False if tries else default
    task = SetupTask(registry(), demo_file, lambda: prepared.pair, prepared, confirmed=True, default=first_default)
    with cancel_on_interrupt(task.cancel):
        _follow(task)
        pair = registry().read().pairs[name]
        if tries:
            status.show("Loading, measuring and trying the pair")
            try:
                known = KnownPair(pair.pair, pair)
                loader = pair_loader(known.live_settings().resolved(), known)
                # A crash is explained from the log.
                with guarded_stderr(log_file()):
                    line = trial(loader, task.is_cancelled)
            except AppError as failure:
                opens, removes = command(["tandem", "--pair", name]), command(["tandem", "pairs", "remove", name])
                more = f"{name} is set up; to open it: {opens}; to remove it: {removes}"
                raise PairError(failure.message, f"{hint_of(failure)}\n{more}".lstrip()) from failure
            if task.is_cancelled():
                raise Interrupted
            registry().add(pair, default=default)
    status.clear()
    return pair, line


def _too_big(prepared: Prepared) -> str | None:
    _, capacity = machine_capacity(with_speed=False)
    capacity = replace(capacity, n_ctx=context_of())
    found = weigh(prepared.sized, capacity)
    if found.fit is not Fit.TOO_BIG:
        return None
    return f"It does not fit here: it {found.reason}. To see pairs that fit: tandem setup"


def _download_line(prepared: Prepared) -> str:
    if not prepared.download_bytes:
        return "Both models are here already." if "draft" in prepared.models else "The model is here already."
    to_download, free = gigabytes(prepared.download_bytes), gigabytes(prepared.free_bytes)
    return f"{to_download} to download into {cache.folder()}, {free} free."


def _report(pair: SetUp, trial_line: str) -> None:
    name = pair.pair.name
    status.say(f"{name} is set up.{f' Tried: {trial_line}.' if trial_line else ''}")
    if registry().read().default == name:
        status.say("Chat with it: tandem")
        return
    status.say(f"To make it the default: tandem pairs default {quoted(name)}")
    status.say(f"Chat with it: tandem --pair {quoted(name)}")


def _as_json(pair: SetUp) -> dict[str, object]:
    return {
        "name": pair.pair.name,
        "target": str(pair.target.path),
        "draft": str(pair.draft.path) if pair.draft is not None else None,
        "size": sum(model.size for model in pair.models),
        "default": registry().read().default == pair.pair.name,
    }
