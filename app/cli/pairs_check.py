"""`tandem pairs check` and `find`: check compatibility, search for drafts, and check the catalog's files."""

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from app.cli.compatibility_report import LABEL, check_lines, current_file_offered, parameters, projector_lines
from app.cli.output import print_result, status
from app.cli.setting_flags import in_flags
from app.cli.streams import cancel_on_interrupt
from app.core.errors import AppError, FileChangedError, HubError, Interrupted, PairError, UsageError
from app.core.printable import printable
from app.core.units import gigabytes
from app.engine.sources import IN_TARGET, Source
from app.hardware.recommend import every_pair
from app.models.catalog import Pair
from app.models.compatibility import PairCheck, check_pair, check_target, kind_of, remedy_text
from app.models.hub.client import search
from app.models.hub.request import LOOKUP_S, interruptible_lookup
from app.models.memory_estimate import DEFAULT_CONTEXT
from app.models.model_facts import ModelFacts, is_recurrent
from app.models.pair_summary import SAME_FILE, setup_models
from app.models.pinned_files import NEWER, RENAMED, STATES, UNCHANGED, FileCheck, check_files, sources_of
from app.models.progress import HeaderWatcher, Watcher
from app.models.resolve import ResolvedModel, compatible_drafts, facts_of, own_draft, resolve
from app.models.source import DEFAULT_REVISION, HubModel, LocalModel, ModelSource, parse_source
from app.worker.known_pairs import catalog, demo_file, file_here, registry

_MAX_SHARE = 1 / 3
"""A draft has at most a third of its target's parameters."""
_MAX_HEADERS = 12
_MAX_FOUND = 40
_AUTHOR_PREFIX = re.compile(r"^[A-Za-z-]+_(?=[A-Za-z])")
"""The original author in the name of a converted model: "google_gemma-3"."""
_FAMILY_NAME = re.compile(r"[A-Za-z]+[\d.]*")


@contextmanager
def _reading() -> Iterator[Watcher]:
    stop = threading.Event()
    with cancel_on_interrupt(stop.set):
        yield HeaderWatcher(status.show, stop)
    status.clear()
    if stop.is_set():
        raise Interrupted


def _found(source: ModelSource, watcher: Watcher, *, draft: bool = False) -> tuple[ResolvedModel, ModelFacts]:
    resolved = resolve(source, demo_file, watcher, draft=draft)
    return resolved, facts_of(resolved, watcher)


def check_pairs(
    target: str | None = None,
    draft: str | None = None,
    ctx: int = DEFAULT_CONTEXT,
    *,
    everything: bool = False,
    as_json: bool = False,
) -> int:
    """Print whether two models are compatible, or the state of the catalog's files; return 1 if not."""
    if everything:
        if target is not None:
            raise UsageError("--all checks every pair of the catalog.", f"Leave {target} out, or --all.")
        return _check_all(as_json=as_json)
    if target is None:
        raise UsageError("Name what to check.", "A pair, two models, or --all for every file of the catalog.")
    source, draft_source, is_pair = _sources(target, draft)
    warnings: list[str] = []
    try:
        with _reading() as watcher:
            model, facts = _found(source, watcher)
            found = _found(draft_source, watcher, draft=True) if draft_source is not None else None
            if found is None and not is_pair:
                found = own_draft(model, facts, watcher, warnings)
    except FileChangedError as error:
        if not is_pair:
            raise
        raise current_file_offered(error, target) from error
    check = check_pair(facts, found[1] if found is not None else None)
    check = replace(check, warnings=(*check.warnings, *warnings))
    projector = model.projector
    more = projector_lines(projector)
    more += [printable(remedy_text(check.remedy, source))] if check.remedy is not None else []
    found_json = {**_check_json(check, ctx), "projector": projector.files[0].path if projector is not None else None}
    print_result(found_json, check_lines(check, *more, n_ctx=ctx), as_json=as_json, hang=LABEL)
    return 1 if check.problems else 0


def find_pairs(target: str, *, measure: bool = False, as_json: bool = False) -> int:
    """Print drafts for a target; return 1 if there is none."""
    source = parse_source(target)
    with _reading() as watcher:
        model, facts = _found(source, watcher)
        problem, remedy = check_target(facts, drafted=True)
        if problem is not None and remedy is not None:
            raise PairError(problem, remedy_text(remedy, source))
        pairs = list(catalog().pairs.values())
        has_mtp = check_pair(facts).draft_kind is Source.MTP
        mtp = {"model": str(source), "parameters": None, "size": 0, "from": SAME_FILE, "kind": Source.MTP}
        found: list[dict[str, Any]] = [mtp] if has_mtp else []
        try:
            found += find_drafts(facts, pairs, watcher, model.beside)
        except HubError:
            if not found:
                raise
    if measure and found:
        return _measure(target, found[has_mtp:], has_mtp=has_mtp, as_json=as_json)
    if as_json or found:
        rows = [f"{'':>8}  {IN_TARGET}: no other draft is needed"] if has_mtp else map(_found_line, found)
        draft = found[0]["model"] if found and not has_mtp else None
        use = f"Set {'it' if has_mtp else 'one'} up: {setup_models(str(source), draft)}"
        print_result(found, [*rows, "", printable(use)], as_json=as_json)
    else:
        status.say(f"No draft with the vocabulary of {printable(facts.name)} was found.")
        # N-gram drafting gains nothing where recurrent state cannot be rolled back.
        alone = "N-gram drafting needs no draft model" if facts.can_rollback else "It works without a draft"
        status.say(f"{alone}: {setup_models(str(source))}")
    return 0 if found else 1


def _found_line(row: dict[str, Any]) -> str:
    kind = Source(row["kind"])
    label = parameters(row["parameters"] or 0) if kind is Source.MODEL else kind.label
    return f"{gigabytes(row['size']):>8}  {printable(row['model'])}  {label}  ({row['from']})"


def _measure(target: str, found: Sequence[dict[str, Any]], *, has_mtp: bool, as_json: bool) -> int:
    """Compare the drafts that are on this machine, and the target's MTP layer."""
    # This import loads llama.cpp, which reading headers does not need.
    from app.cli.draft_comparison import compare_drafts

    here = []
    for row in found:
        try:
            here.append(str(file_here(parse_source(row["model"]))))
        except PairError as error:
            status.say(error.message)
    if not here and not has_mtp:
        fix = setup_models(target, found[0]["model"])
        raise PairError("None of the drafts can be measured.", f"Download one: {fix}")
    return compare_drafts({"target": target}, here, as_json=as_json)


def _sources(target: str, draft: str | None) -> tuple[ModelSource, ModelSource | None, bool]:
    known, here = catalog(), registry().read()
    pairs = every_pair(known.pairs, here)
    if target not in pairs:
        if known.unread is not None and "/" not in target:
            raise known.unread
        return parse_source(target), parse_source(draft) if draft is not None else None, False
    if draft is not None:
        raise UsageError(f"{target} is a pair and has its own draft.", f"Leave {draft} out, or name a target model.")
    pair = pairs[target]
    files = here.usable(pair)
    if files is None:
        return pair.target, pair.draft, True
    # Local files need no request to Hugging Face.
    return LocalModel(files.target.path), LocalModel(files.draft.path) if files.draft is not None else None, True


def _check_json(check: PairCheck, n_ctx: int) -> dict[str, Any]:
    return {
        "target": _model_json(check.target),
        "draft": _model_json(check.draft) if check.draft is not None else None,
        "memory": check.memory_bytes(check.context(n_ctx)),
        "context": check.context(n_ctx),
        "compatible": not check.problems,
        "problems": list(map(in_flags, check.problems)),
        "warnings": list(map(in_flags, check.warnings)),
        "draft_kind": check.draft_kind,
    }


def _model_json(facts: ModelFacts) -> dict[str, Any]:
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
        "recommended": dict(facts.recommended),
    }


def find_drafts(
    target: ModelFacts, pairs: Sequence[Pair], watcher: Watcher, beside: Sequence[HubModel] = ()
) -> Iterator[dict[str, Any]]:
    """Yield compatible drafts as JSON objects: draft layers `beside` the target first, then drafts of the catalog.

    Raises HubError if nothing was found before Hugging Face stopped answering.
    """
    refused: list[AppError] = []
    found = False
    in_catalog = {pair.draft for pair in pairs}
    try:
        sources = islice(chain(beside, _likely(target, pairs, watcher)), _MAX_HEADERS)
        for model, facts in compatible_drafts(target, sources, watcher, refused):
            found = True
            yield {
                "model": str(model.source),
                "parameters": facts.n_parameters,
                "size": facts.weight_bytes,
                "from": "catalog" if model.source in in_catalog else "hub",
                "kind": kind_of(facts),
            }
    except HubError as error:
        refused.append(error)
    failure = next((error for error in refused if isinstance(error, HubError)), None)
    if failure is not None and not found:
        raise failure


def _likely(target: ModelFacts, pairs: Sequence[Pair], watcher: Watcher) -> Iterator[HubModel]:
    """Yield drafts from catalog pairs of the target's family, and small models found by a search.

    Models of another architecture come last: a dense model can draft for a mixture of experts or a hybrid.
    """
    family = _family(target.name)
    for pair in pairs:
        if isinstance(pair.draft, HubModel) and family in (_family(str(pair.target)), _family(pair.family)):
            yield pair.draft
    watcher.begin(f"models named {family}")
    searched = interruptible_lookup(lambda: search(family, limit=_MAX_FOUND), watcher, LOOKUP_S)
    limit = (target.n_parameters or target.weight_bytes) * _MAX_SHARE

    # The search returns the most downloaded models first.
    for found in sorted(searched, key=lambda found: found.architecture not in ("", target.architecture)):
        if 0 < found.n_params <= limit and not is_recurrent(found.architecture):
            yield HubModel(found.name)


def _family(name: str) -> str:
    """Return the beginning of a model's name that its relatives share: "qwen2.5", "llama"."""
    base = _AUTHOR_PREFIX.sub("", name.rpartition("/")[2]).replace("Meta-", "").replace("_", " ")
    found = _FAMILY_NAME.match(base.strip())
    return found[0].rstrip(".").lower() if found else base.lower()


# Every file of the catalog

_STATE_COLUMNS = 10
"""Width of a state."""


def _check_all(*, as_json: bool) -> int:
    known, stop = catalog(), threading.Event()
    if known.unread is not None:
        raise known.unread
    sources = sources_of(known.pairs.values())
    found: list[FileCheck] = []
    with cancel_on_interrupt(stop.set):
        status.show(f"Asking Hugging Face for {len(sources)} files")
        for one in check_files(sources, stop):
            found.append(one)
            status.show(f"Asking Hugging Face: {len(found)} of {len(sources)} files")
    status.clear()
    found.sort(key=lambda one: (STATES.index(one.state), one.pairs, str(one.source)))
    rows = [
        {"pairs": list(each.pairs), "model": str(each.source), "state": each.state, "detail": each.detail}
        for each in found
    ]
    print_result(rows, _file_lines(found), as_json=as_json, hang=_STATE_COLUMNS)
    return 0 if all(one.state in (UNCHANGED, NEWER, RENAMED) for one in found) else 1


def _file_lines(found: list[FileCheck]) -> list[str]:
    different = [one for one in found if one.state != UNCHANGED]
    lines = []
    for one in different:
        # A commit hash would fill half of the line.
        model = replace(one.source, revision=DEFAULT_REVISION)
        lines.append(f"{one.state:{_STATE_COLUMNS}}{', '.join(one.pairs)}: {model}: {one.detail}")
    counts = [(sum(one.state == state for one in found), state) for state in reversed(STATES)]
    summary = ", ".join(f"{n} {state}" for n, state in counts if n) or "none"
    n_hashes = sum(one.source.sha256 is not None for one in found)
    lines.append(f"{len(found)} files: {summary}; {n_hashes} with a checksum in the catalog, the others by size.")
    return list(map(printable, lines))
