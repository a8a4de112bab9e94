"""`tandem pairs`: what is known, what is here, what could ride together."""

from __future__ import annotations

import argparse
import difflib
import json
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from app.catalog import Pair
from app.cli import INTERRUPTED
from app.cli.interrupt import cancel_on_interrupt
from app.cli.known_pairs import catalog, demo_file, demo_is_installed, registry
from app.cli.output import StatusLine
from app.cli.pair_choice import DEFAULT_PAIR
from app.cli.pair_lines import check_lines, parameters
from app.engine.text import printable
from app.errors import AppError, Interrupted, UsageError
from app.fitting.place import place
from app.hub import store
from app.hub.retry import RetryPolicy
from app.pairing.check import PairCheck, check_pair
from app.pairing.find import Candidate, find_drafts
from app.pairing.gain import expected_gain
from app.pairing.order import Standing, every_pair, in_order
from app.pairing.propose import USUAL_CONTEXT, Room, propose, weigh
from app.pairing.remove import Removal, plan_removal, remove_files
from app.pairing.resolve import cached_file, facts_of, resolve
from app.pairing.weight import OVER, UNKNOWN, pair_bytes, size_text, with_files
from app.registry import Registered, SetUp
from app.sizes import gigabytes
from app.source import DemoModel, HubModel, LocalModel, ModelSource, parse_source

Say = Callable[[str], None]
_STOPPABLE = ("check", "find", "add")
"""Actions that look at whether they are to stop; the others are Python's to interrupt."""


def pairs(args: argparse.Namespace) -> int:
    """Run one action; see the module."""
    stop = threading.Event()
    action: Callable[[argparse.Namespace, threading.Event], int] = {
        "list": _list,
        "show": _show,
        "check": _check,
        "find": _find,
        "add": _add,
        "remove": _remove,
        "default": _default,
    }[args.action]
    try:
        with cancel_on_interrupt(stop.set) if args.action in _STOPPABLE else nullcontext():
            code = action(args, stop)
    except Interrupted:
        return INTERRUPTED
    return INTERRUPTED if stop.is_set() else code


def _list(args: argparse.Namespace, _: threading.Event) -> int:
    from app.cli.measured_pairs import seen_here

    known, here, space = catalog().pairs, registry().read(), place().room
    pairs = every_pair(known, here)
    seen = seen_here()
    rows: list[dict[str, Any]] = []
    shown: list[str] = []
    standings = [_standing(pair, here, space) for pair in pairs.values()]
    for one in in_order(standings, propose(list(pairs.values()), space)):
        pair, files, proposal = one.pair, _files(here, one.pair), one.proposal
        assert proposal is not None
        rows.append(
            {
                "name": pair.name,
                "title": pair.title,
                "here": one.here,
                "default": pair.name == (here.default or DEFAULT_PAIR),
                "disk": sum(m.size for m in files.models) if files is not None else 0,
                "download": proposal.download_bytes,
                "size": pair_bytes(pair, files),
                "fit": proposal.word,
                "reason": proposal.reason,
                "expected_tokens_per_second": round(proposal.speed, 1) if proposal.speed is not None else None,
                "drafting": expected_gain(pair, space, seen),
            }
        )
        shown.append(size_text(pair, files))
    if hasattr(args, "json"):
        print(json.dumps(rows, ensure_ascii=False))
        return 0
    width = max(len(str(row["name"])) for row in rows)
    fit = max(len(str(row["fit"])) for row in rows)
    for row, size_shown in zip(rows, shown, strict=True):
        mark = "*" if row["default"] else "+" if row["here"] else " "
        print(f"{mark} {row['name']:{width}}  {size_shown:>8}  {row['fit']:{fit}}  {printable(str(row['title']))}")
    print(f"\n* default  + on this machine  in {printable(str(store.folder()))}")
    if any(text.startswith((UNKNOWN, OVER)) for text in shown):
        print(f"{UNKNOWN} {OVER} the catalogue lacks the size of a model, the hub has it: tandem pairs check NAME")
    return 0


def _standing(pair: Pair, here: Registered, space: Room) -> Standing:
    files = _files(here, pair)
    return Standing(
        pair,
        weigh(pair if files is None else with_files(pair, files), space),
        set_up=files is not None,
        here=files is not None or all(map(_exists, pair.sources)),
        is_default=pair.name == here.default,
    )


def _files(here: Registered, pair: Pair) -> SetUp | None:
    """The files of a pair that can be opened; an entry that was changed since it was set up means other files."""
    one = here.pairs.get(pair.name)
    return one if one is not None and one.is_here and one.pair.sources == pair.sources else None


def _exists(source: ModelSource) -> bool:
    match source:
        case LocalModel(path):
            return path.is_file()
        case DemoModel():
            return demo_is_installed()
        case HubModel():
            return cached_file(source) is not None


def _show(args: argparse.Namespace, _: threading.Event) -> int:
    from app.cli.measured_pairs import seen_here

    pair, here = _known(args.pair)
    space = place().room
    proposal = weigh(pair, space)
    facts: dict[str, Any] = {
        "name": pair.name,
        "title": pair.title,
        "target": str(pair.target),
        "draft": str(pair.draft) if pair.draft is not None else None,
        "family": pair.family,
        "good_at": pair.good_at,
        "licence": pair.licence,
        "context": pair.context,
        "tested_with": pair.tested_with,
        "fit": f"{proposal.word}: {proposal.reason}",
        "drafting": expected_gain(pair, space, seen_here()),
        "download": gigabytes(proposal.download_bytes) if proposal.download_bytes else "",
        "files": [str(model.path) for model in here.models] if here is not None else [],
        "on_disk": gigabytes(sum(m.size for m in here.models)) if here is not None and here.is_here else "",
    }
    if hasattr(args, "json"):
        print(json.dumps(facts, ensure_ascii=False))
        return 0
    for key, value in facts.items():
        if value:
            shown = "\n            ".join(value) if isinstance(value, list) else str(value)
            print(f"{key.replace('_', ' '):11} {shown}")
    return 0


def _check(args: argparse.Namespace, stop: threading.Event) -> int:
    status = StatusLine(sys.stderr)
    n_ctx = getattr(args, "ctx", USUAL_CONTEXT)
    if n_ctx < 1:
        raise UsageError("--ctx must be at least 1.")
    check = look(*_asked(args.target, getattr(args, "draft", None)), stop, status)
    if hasattr(args, "json"):
        print(json.dumps(_check_json(check, n_ctx), ensure_ascii=False))
    else:
        print("\n".join(check_lines(check, n_ctx=n_ctx)))
    return 1 if check.problems else 0


def _asked(target: str, draft: str | None) -> tuple[ModelSource, ModelSource | None]:
    """The models that are meant: both of a pair, by its name, or those that are named one by one."""
    pairs = {name: one.pair for name, one in registry().read().pairs.items()} | catalog().pairs
    if target in pairs:
        if draft is not None:
            raise UsageError(
                f"{target} is a pair, with a draft of its own or none.", f"Leave {draft} out, or name a target model."
            )
        return pairs[target].target, pairs[target].draft
    try:
        return parse_source(target), parse_source(draft) if draft is not None else None
    except AppError as error:
        close = difflib.get_close_matches(target, pairs, n=1) if draft is None else []
        raise error if not close else UsageError(error.message, f'Did you mean the pair "{close[0]}"?') from None


def look(target: ModelSource, draft: ModelSource | None, stop: threading.Event, status: StatusLine) -> PairCheck:
    """Read the headers of one or two models, wherever they lie."""
    facts = []
    for source, is_draft in ((target, False), (draft, True)):
        if source is not None:
            status.show(f"Looking at {printable(str(source))}")
            resolved = resolve(source, demo_file, draft=is_draft)
            facts.append(facts_of(resolved, stop.is_set, RetryPolicy(stop.wait)))
    status.clear()
    return check_pair(facts[0], facts[1] if draft is not None else None)


def _check_json(check: PairCheck, n_ctx: int) -> dict[str, Any]:
    def model(facts: Any) -> dict[str, Any] | None:
        if facts is None:
            return None
        return {
            "name": facts.name,
            "architecture": facts.architecture,
            "quantisation": facts.quant,
            "parameters": facts.n_parameters,
            "layers": facts.n_layers,
            "context": facts.n_ctx_train,
            "size": facts.weight_bytes,
            "vocabulary": len(facts.vocab.tokens),
            "chat_template": facts.has_chat_template,
            "recommended": dict(facts.recommended.values),
        }

    return {
        "target": model(check.target),
        "draft": model(check.draft),
        "memory": check.memory_bytes(n_ctx),
        "context": n_ctx,
        "compatible": not check.problems,
        "problems": list(check.problems),
        "warnings": list(check.warnings),
    }


def _find(args: argparse.Namespace, stop: threading.Event) -> int:
    status = StatusLine(sys.stderr)
    status.show(f"Looking at {printable(args.target)}")
    source = parse_source(args.target)
    target = facts_of(resolve(source, demo_file), stop.is_set, RetryPolicy(stop.wait))
    found: list[Candidate] = []
    for candidate in find_drafts(target, list(catalog().pairs.values()), stop.is_set, RetryPolicy(stop.wait)):
        status.show(f"Looking at {printable(candidate.name)}")
        if not candidate.problem:
            found.append(candidate)
    status.clear()
    if hasattr(args, "json"):
        rows = [{"model": c.name, "parameters": c.n_parameters, "size": c.size, "from": c.origin} for c in found]
        print(json.dumps(rows, ensure_ascii=False))
        return 0 if found else 1
    if not found:
        status.say(f"No draft with the vocabulary of {printable(target.name)} was found.")
        status.say("Drafting by look-up needs none: set the target up alone.")
        return 1
    for candidate in found:
        size = f"{gigabytes(candidate.size):>8}"
        grown = parameters(candidate.n_parameters) if candidate.n_parameters else ""
        print(f"{size}  {printable(candidate.name)}  {grown}  ({candidate.origin})")
    print(f"\nSet one up: tandem setup --target {source} --draft {printable(found[0].name)}")
    return 0


def _add(args: argparse.Namespace, _: threading.Event) -> int:
    from app.cli.setup import setup

    given = argparse.Namespace(target=args.target, name=args.name, yes=True, no_trial=True, no_default=True)
    if getattr(args, "draft", None) is not None:
        given.draft = args.draft
    if hasattr(args, "json"):
        given.json = True
    return setup(given)


def _remove(args: argparse.Namespace, _: threading.Event) -> int:
    here = registry().read()
    one = here.pairs.get(args.pair)
    status = StatusLine(sys.stderr)
    if one is None:
        pair, _files = _known(args.pair)
        raise UsageError(
            f"{pair.name} is not set up here, so there is nothing to remove.",
            "Pairs of your own models.toml are removed by deleting their lines there.",
        )
    keep, everything = hasattr(args, "keep_files"), hasattr(args, "all_files")
    plan = plan_removal(one, [other for name, other in here.pairs.items() if name != args.pair], here.downloaded)
    doomed = [] if keep else [r for r in plan if r.deletable and (r.ours or everything)]
    for removal in doomed:
        status.say(f"delete  {gigabytes(removal.size):>8}  {removal.path}")
    for removal in plan:
        if removal not in doomed and not keep and removal.path.exists():
            status.say(f"keep    {gigabytes(removal.size):>8}  {removal.path}  ({_why(removal)})")
    if doomed and not hasattr(args, "yes") and not _sure():
        status.say("Nothing was removed.")
        return 0
    registry().remove(args.pair)
    freed = remove_files(doomed)
    registry().release([removal.path for removal in doomed])
    status.say(f"{args.pair} is forgotten." + (f" {gigabytes(freed)} freed." if freed else ""))
    return 0


def _why(removal: Removal) -> str:
    if removal.shared:
        return "another pair uses it"
    if not removal.deletable:
        return "it is your own file"
    return "tandem did not download it; --all-files deletes it too"


def _sure() -> bool:
    if not sys.stdin.isatty():
        raise UsageError("Nobody can be asked here.", "Add --yes, or --keep-files to only forget the pair.")
    try:
        return input("Delete these files? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False


def _default(args: argparse.Namespace, _: threading.Event) -> int:
    here: Registered = registry().read()
    if args.pair not in here.pairs:
        pair, _files = _known(args.pair)
        raise UsageError(f"{pair.name} is not set up yet.", f"Bring it with: tandem setup {pair.name}")
    registry().set_default(args.pair)
    StatusLine(sys.stderr).say(f"{args.pair} is taken when no pair is named.")
    return 0


def _known(name: str) -> tuple[Pair, SetUp | None]:
    here = registry().read().pairs.get(name)
    known = catalog()
    if here is not None and name not in known.pairs:
        return here.pair, here
    return known.get(name), here
