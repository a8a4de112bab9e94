"""`tandem setup`: one command from nothing to a pair that answers."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace

from app.cli.interrupt import cancel_on_interrupt, ended_at_once
from app.cli.known_pairs import DEFAULT_PAIR, catalog, demo_file, demo_is_installed, left_out, newest, of_file, registry
from app.cli.measured_pairs import seen_here
from app.cli.options import Options, context_for_all, open_settings, options_of
from app.cli.output import LOOKING, StatusLine, json_for
from app.cli.pair_lines import LABEL, PROBLEM, check_lines, progress_line
from app.cli.report import pace
from app.conversations.message import Message, Role
from app.core.errors import (
    INTERRUPTED,
    AppError,
    CacheError,
    CatalogError,
    HubError,
    Interrupted,
    PairError,
    UsageError,
)
from app.core.printable import printable
from app.core.shell import command, quoted
from app.core.units import gigabytes
from app.engine.interfaces import Controls
from app.engine.types import Drafting, SamplingParams
from app.hardware.offers import Offer
from app.llama.fitting.does_not_fit import DoesNotFitError
from app.llama.fitting.place import place
from app.models.catalog import Pair
from app.models.expected_speedup import expected_gain, speeds
from app.models.hub import cache
from app.models.pair_names import free_name, model_flags, pair_name, title_of
from app.models.pair_size import UNKNOWN, size_text
from app.models.prepared import Prepared, has_room
from app.models.progress import Progress
from app.models.recommend import Fit, Proposal, every_pair, propose, weigh, why
from app.models.registry import Registered, SetUp
from app.models.resolve import to_come
from app.models.setup import Ready, Setup, Trying
from app.models.source import parse_source
from app.worker.events import Finished, Notice
from app.worker.request import AnswerRequest, LoadedPair
from app.worker.responder import answer

_FLAGS = {"no_trial": "--no-trial", "no_default": "--no-default", "yes": "--yes"}


def setup(args: argparse.Namespace) -> int:
    """Set a pair up; see the module."""
    status = StatusLine(sys.stderr)
    pair = _wanted(args, status)
    if pair is None:
        status.say("Nothing was set up.")
        return 0
    before = registry().read()
    steps = Setup(registry(), demo_file, None if hasattr(args, "no_trial") else trial)
    try:
        with cancel_on_interrupt(steps.cancel):
            ready = _go(steps, pair, args, status)
    except CacheError:
        raise
    except HubError as error:
        more = _as_it_is(before, pair) or _without_download(before.default)
        raise HubError(error.message, "\n".join(filter(None, (error.hint, more)))) from error
    except Interrupted:
        status.say(f"Stopped. What was downloaded is kept; go on with: {_again(args, pair)}")
        return INTERRUPTED
    if ready is None:
        status.say("Nothing was set up.")
        return 0
    _tell(ready, args, status, before)
    return 0


def _as_it_is(before: Registered, pair: Pair) -> str:
    """Return how to open a pair that is already set up, or ""."""
    if before.usable(pair) is None:
        return ""
    return f"{pair.name} is here as it was set up before: {command(['tandem', '--pair', pair.name])}"


def _without_download(default: str | None) -> str:
    """Return how to start without a download, or ""."""
    known = default is not None or not demo_is_installed()
    return "" if known else f"{DEFAULT_PAIR} is on this machine and needs no download: tandem setup {DEFAULT_PAIR}"


def _wanted(args: argparse.Namespace, status: StatusLine) -> Pair | None:
    """Return the pair to set up: named, given by its models, or proposed."""
    given = vars(args)
    if "target" in given or "draft" in given:
        return _of_models(given)
    if "name" in given:
        raise UsageError("--name goes with --target.", "It names a pair that you put together.")
    if "pair" in given and given["pair"] is not None:
        if "/" in given["pair"]:
            raise UsageError(
                f"{given['pair']} is not the name of a pair.",
                f"To set up a model: {command(['tandem', 'setup', '--target', given['pair']])}",
            )
        pair = newest(given["pair"])
        for notice in left_out():
            status.say(notice)
        return pair
    return _proposed(args, status)


def _of_models(given: dict[str, str]) -> Pair:
    if given.get("pair") is not None:
        raise UsageError("A pair's name and --target or --draft exclude each other.", "Give one or the other.")
    if "target" not in given:
        raise UsageError("--draft needs --target.", "Name both models.")
    target = parse_source(given["target"])
    draft = parse_source(given["draft"]) if "draft" in given else None
    pair = Pair(pair_name(target), title_of(target, draft), target, draft)
    known = catalog()
    here = registry().read()
    taken = every_pair(known.pairs, here) | dict.fromkeys((*known.problems, *here.problems))
    if "name" not in given:
        return replace(pair, name=free_name(pair, taken))
    name = given["name"]
    if not name.strip() or not name.isprintable() or "/" in name:
        raise UsageError(f'"{name}" is no name for a pair.', "Take letters, digits, dots and dashes.")
    if name in known.problems:
        raise known.problems[name]
    if name in known.pairs and known.pairs[name].sources != pair.sources:
        raise UsageError(f'"{name}" is the name of another pair, in the catalogue.', "Choose another name.")
    if (other := taken.get(name)) is not None and other.sources != pair.sources:
        raise UsageError(
            f'"{name}" is another pair that was set up here.',
            f"Choose another name, or forget that pair: tandem pairs remove {quoted(name)}",
        )
    return replace(pair, name=name)


def _proposed(args: argparse.Namespace, status: StatusLine) -> Pair | None:
    """Propose pairs for this machine, and return the chosen one."""
    status.show(LOOKING)
    here, seen, known, free = place(), seen_here(), catalog(), cache.free_bytes()
    room = replace(here.room, n_ctx=context_for_all(), measured=speeds(seen))
    proposals = propose(list(known.pairs.values()), room, lambda pair: has_room(to_come(pair), free))
    if not proposals:
        raise AppError("No pair in the catalogue fits into this machine.", "Name models with --target and --draft.")
    status.say(f"This machine: {printable(here.line)} · {gigabytes(free)} of disk free\n")
    gains = {one.pair.name: expected_gain(one.pair, here.room, seen) for one in proposals}
    alike = len(set(gains.values())) == 1
    for number, proposal in enumerate(proposals, start=1):
        status.say(_card(number, proposal, "" if alike else gains[proposal.pair.name]))
    if alike and (gain := gains[proposals[0].pair.name]):
        status.say(f"{printable(gain)}\n")
    status.say(" ".join(filter(None, (printable(why(proposals)), here.room.doubt, "All others: tandem pairs list"))))
    status.say(f"{_without_download(registry().read().default)}\n".lstrip())
    if known.trouble is not None:
        status.say(f"{known.trouble.sentences}\n")
    if hasattr(args, "yes"):
        return proposals[0].pair
    if not status.can_ask:
        raise UsageError("No terminal to ask on.", "Pass a pair name, or --yes for the first.")
    return _ask_which(proposals, status)


def _card(number: int, proposal: Proposal, gain: str) -> str:
    pair = proposal.pair
    size = size_text(pair) if size_text(pair) != UNKNOWN else "size not known yet"
    lines = [f"{number}  {pair.name:16} {pair.title}", f"   {size}, {proposal.word}: {proposal.reason}"]
    if pair.good_at:
        lines.append(f"   good at {pair.good_at}")
    if gain:
        lines.append(f"   {printable(gain)}")
    return "\n".join(lines) + "\n"


def _ask_which(proposals: list[Proposal], status: StatusLine) -> Pair | None:
    while True:
        reply = status.ask(f"Which one? [1-{len(proposals)}, enter takes 1, q none] ")
        if reply is None or reply in ("q", "n", "no", "none"):
            return None
        if reply in ("", "y", "yes"):
            return proposals[0].pair
        if reply.isdigit() and 1 <= int(reply) <= len(proposals):
            return proposals[int(reply) - 1].pair
        status.say(f"Answer with a number from 1 to {len(proposals)}, or q.")


def _go(steps: Setup, pair: Pair, args: argparse.Namespace, status: StatusLine) -> Ready | None:
    status.show(f"Looking at {pair.title}")
    prepared = steps.prepare(pair, lambda looking: status.show(looking.line))
    status.clear()
    lines = check_lines(prepared.check, _download_line(prepared), n_ctx=context_for_all())
    if prepared.check.problems:
        # What stands against the pair is said by the error that follows.
        lines = [line for line in check_lines(prepared.check) if not line.startswith(PROBLEM)]
    for line in lines:
        status.say(line, LABEL)
    for note in prepared.notes:
        status.say(f"note    {note}", LABEL)
    steps.refuse(prepared)
    if prepared.download_bytes and (doubt := _too_big(prepared, status)):
        # Also to a script, which is not asked.
        status.say(f"note    {doubt}", LABEL)
    if prepared.download_bytes and not hasattr(args, "yes") and not _agrees(status):
        return None
    ready = _bring(steps, prepared, args, status)
    if ready.unkept is not None:
        raise CatalogError(ready.unkept.message, f"{ready.unkept.hint}\n{until_then(ready.pair)}".lstrip())
    return ready


def _bring(steps: Setup, prepared: Prepared, args: argparse.Namespace, status: StatusLine) -> Ready:
    tried: Trying | None = None
    default = not hasattr(args, "no_default")
    try:
        for event in steps.bring(prepared, default=default, first=default or hasattr(args, "first")):
            match event:
                case Progress():
                    status.show(progress_line(event))
                case Trying():
                    tried = event
                    status.show("Loading, measuring and trying the pair")
                case Ready():
                    status.clear()
                    return event
    except AppError as error:
        if tried is None:
            raise
        raise failed_trial(error, tried) from error
    except Interrupted:
        if tried is not None and tried.unkept is not None:
            status.say(f"{tried.unkept.sentences}\n{until_then(tried.pair)}")
        raise
    raise AssertionError


def _too_big(prepared: Prepared, status: StatusLine) -> str:
    """Return that a pair does not fit, and one that does, or ""."""
    status.show(LOOKING)
    n_ctx = context_for_all()
    found = weigh(prepared.sized, replace(place(with_speed=False).room, n_ctx=n_ctx))
    if found.fit is not Fit.TOO_BIG:
        return ""
    free = cache.free_bytes()
    # What the catalogue guesses of this very pair is not what its headers have told.
    others = [pair for pair in catalog().pairs.values() if pair.sources != prepared.pair.sources]
    fitting = propose(others, replace(place().room, n_ctx=n_ctx), lambda pair: has_room(to_come(pair), free))
    instead = f" {fitting[0].pair.name} does: {command(['tandem', 'setup', fitting[0].pair.name])}" if fitting else ""
    return f"It does not fit here: it {found.reason}.{instead}"


def _download_line(prepared: Prepared) -> str:
    if not prepared.download_bytes:
        return "Both models are here already." if prepared.draft is not None else "The model is here already."
    return (
        f"{gigabytes(prepared.download_bytes)} to download into {cache.folder()}, "
        f"{gigabytes(prepared.free_bytes)} free."
    )


def _agrees(status: StatusLine) -> bool:
    if not status.can_reply:
        # Named on the command line of a script: that was the answer.
        return True
    if not status.can_ask:
        raise UsageError("No terminal to ask on.", "To download without asking, add --yes.")
    with ended_at_once():
        return status.ask("Download? [Y/n] ") in ("", "y", "yes")


def _again(args: argparse.Namespace, pair: Pair) -> str:
    given = vars(args)
    if "target" in given:
        words = ["tandem", "setup", *model_flags(given["target"], given.get("draft", ""))]
        words += ["--name", given["name"]] if "name" in given else []
    else:
        words = ["tandem", "setup", pair.name]
    words += [flag for name, flag in _FLAGS.items() if name in given]
    return command(words)


def _tell(ready: Ready, args: argparse.Namespace, status: StatusLine, before: Registered) -> None:
    pair, now = ready.pair, registry().read()
    if hasattr(args, "json"):
        print(json_for(sys.stdout, as_json(pair)))
        return
    tried = f" Tried: {ready.line}." if ready.line else ""
    for note in ready.notes:
        status.say(note)
    status.say(f"{pair.pair.name} is set up.{tried}")
    for path in sorted(now.unused.keys() - before.unused.keys()):
        status.say(f"No pair uses {path} now; to delete it: tandem pairs remove --unused")
    name, default, last = quoted(pair.pair.name), now.default, before.default
    if default == pair.pair.name and last is not None and last != default:
        status.say(f"It is the default now; to go back: tandem pairs default {quoted(last)}")
    elif default is None:
        status.say(f"To make it the default: tandem pairs default {name}")
    elif default != pair.pair.name:
        status.say(f"The default is still {default}; to change it: tandem pairs default {name}")
    status.say("Chat with it: tandem" if default == pair.pair.name else f"Chat with it: tandem --pair {name}")


def as_json(pair: SetUp) -> dict[str, object]:
    """Return a pair on this machine as JSON."""
    return {
        "name": pair.pair.name,
        "target": str(pair.target.path),
        "draft": str(pair.draft.path) if pair.draft is not None else None,
        "size": sum(model.size for model in pair.models),
        "default": registry().read().default == pair.pair.name,
    }


def until_then(pair: SetUp) -> str:
    """Return how to open a pair that could not be saved."""
    return f"Until then, chat with it: {command(_by_files(pair))}"


def failed_trial(error: AppError, tried: Trying) -> PairError:
    """Return the error of a failed trial, with the state of the pair.

    Args:
        error: Why.
        tried: The pair, and why it cannot be remembered, if so.
    """
    name, unkept = tried.pair.pair.name, tried.unkept
    if isinstance(error, DoesNotFitError):
        known = f"{name} is set up. " if unkept is None else ""
        words = ["tandem", "--pair", name] if unkept is None else _by_files(tried.pair)
        lost = [f"It is not in the list of pairs. {unkept.sentences}"] if unkept is not None else []
        return PairError(f"{known}{error.message}", "\n".join([*_ways(words, error), *lost]))
    forget = command(["tandem", "pairs", "remove", name])
    more = f"{name} is in the list of pairs still; to forget it: {forget}"
    if unkept is not None:
        more = f"{unkept.sentences}\n{until_then(tried.pair)}"
    return PairError(error.message, f"{error.hint}\n{more}".lstrip())


def _by_files(pair: SetUp) -> list[str]:
    """Return the command that opens an unregistered pair."""
    return ["tandem", *model_flags(*(str(model.path) for model in pair.models))]


def _ways(words: list[str], error: DoesNotFitError) -> list[str]:
    """Return commands that open a pair that does not fit by default."""
    enough = [offer for offer in error.offers if offer.suffices and offer.flags]
    ways = [f"{_command(words, offer)}: {offer.what} ({offer.cost})" for offer in enough]
    return ["Its files stay. Take one of these:", *ways, f"{command([*words, '--fit', 'off'])}: as it is"]


def _command(words: list[str], offer: Offer) -> str:
    """Return the command that takes an offer."""
    match offer.flags:
        case ("--pair", other):
            return command(["tandem", "setup", other])
        case ("--target", *_):
            return command(["tandem", "setup", *offer.flags])
    return command([*words, *offer.flags])


_PROMPT = "Say in one sentence what you can help with."
_TOKENS = 48


def trial(pair: SetUp, cancelled: Callable[[], bool]) -> str:
    """Load and measure a pair, and let it answer once.

    Raises:
        AppError: The pair does not work; a `DoesNotFitError` if it does not fit.
    """
    from app.cli.loading import load
    from app.llama.cancel import CancelFlag

    options = _options(pair)
    loaded = load(options, CancelFlag(), lambda what, share: not cancelled())
    try:
        return _ask(loaded, options.drafting, cancelled)
    finally:
        loaded.close()


def _options(pair: SetUp) -> Options:
    """Return the options that the chat would load."""
    model = of_file(pair.pair, pair)
    live = open_settings({}, pair.pair, model)
    try:
        return options_of(live.resolved(), pair.pair, pair, model)
    except UsageError as error:
        live.leave_placement_out(error.message)
        return options_of(live.resolved(), pair.pair, pair, model)


def _ask(pair: LoadedPair, drafting: Drafting, cancelled: Callable[[], bool]) -> str:
    request = AnswerRequest((Message(Role.USER, _PROMPT),), SamplingParams(temperature=0), drafting, max_tokens=_TOKENS)
    notices = list(pair.notices)
    for event in answer(pair, 0, request, Controls(cancelled)):
        if isinstance(event, Notice):
            notices.append(event.text)
        if isinstance(event, Finished):
            if not (event.text.strip() or event.reasoning.strip()) and not cancelled():
                raise PairError(
                    "The pair loads but its answer is empty.", "Choose another quantization or another model."
                )
            return ". ".join(part.rstrip(".") for part in (pace(event.stats), *notices))
    raise AssertionError
