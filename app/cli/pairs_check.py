"""`tandem pairs check` and `find`: compatible models, from local or remote headers."""

from __future__ import annotations

import argparse
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain, islice
from typing import Any

from app.cli.output import ProgressLine, for_reading, json_for
from app.cli.streams import cancel_on_interrupt
from app.core.errors import AppError, FileChangedError, HubError, Interrupted, PairError, UsageError
from app.core.printable import printable
from app.core.shell import command
from app.core.units import gigabytes, memory_size
from app.engine.sources import IN_TARGET, Source
from app.hardware.recommend import every_pair
from app.models.catalog import Pair
from app.models.compatibility import PairCheck, check_pair, check_target, kind_of, remedy_text
from app.models.hub.client import search
from app.models.hub.request import LOOKUP_S, interruptible_lookup
from app.models.memory_estimate import DEFAULT_CONTEXT
from app.models.model_facts import ModelFacts, is_recurrent
from app.models.pair_summary import setup_models
from app.models.progress import HeaderWatcher, Watcher
from app.models.resolve import ResolvedModel, compatible_drafts, facts_of, own_draft, resolve
from app.models.source import HubModel, LocalModel, ModelSource, parse_source
from app.settings.checking import in_one_line
from app.worker.known_pairs import catalog, demo_file, file_here, registry

LABEL = 8
"""Columns of a line's label."""
_MAX_SHARE = 1 / 3
"""A draft has at most a third of its target's parameters."""
_MAX_HEADERS = 12
_MAX_FOUND = 40
_AUTHOR_PREFIX = re.compile(r"^[A-Za-z-]+_(?=[A-Za-z])")
"""The original author in the name of a converted model: "google_gemma-3"."""
_FAMILY_NAME = re.compile(r"[A-Za-z]+[\d.]*")


@contextmanager
def _reading() -> Iterator[tuple[Callable[[str], Watcher], ProgressLine]]:
    """Read headers, with the progress of each request on the progress line. Raises Interrupted after Ctrl+C."""
    stop, status = threading.Event(), ProgressLine(sys.stderr)
    with cancel_on_interrupt(stop.set):
        yield lambda subject: HeaderWatcher(subject, status.show, stop), status
    status.clear()
    if stop.is_set():
        raise Interrupted


def _found(
    source: ModelSource, watch: Callable[[str], Watcher], *, draft: bool = False
) -> tuple[ResolvedModel, ModelFacts]:
    resolved = resolve(source, demo_file, watch(str(source)), draft=draft)
    return resolved, facts_of(resolved, watch(resolved.name))


def check_models(args: argparse.Namespace) -> int:
    """Print two models and whether they are compatible, or the state of the catalog's files; exit 1 if they are not."""
    if "all" in args:
        # Asks for every file, which no other check needs.
        from app.cli.pairs_check_all import check_all

        return check_all(args)
    if "target" not in args:
        raise UsageError("Name what to check.", "A pair, two models, or --all for every file of the catalog.")
    n_ctx = getattr(args, "ctx", DEFAULT_CONTEXT)
    target, draft, is_pair = _sources(args.target, getattr(args, "draft", None))
    warnings: list[str] = []
    try:
        with _reading() as (watch, _):
            model, facts = _found(target, watch)
            found = _found(draft, watch, draft=True) if draft is not None else None
            if found is None and not is_pair:
                found = own_draft(model, facts, watch, warnings)
    except FileChangedError as error:
        if not is_pair:
            raise
        raise current_file_offered(error, args.target) from error
    check = check_pair(facts, found[1] if found is not None else None)
    check = replace(check, warnings=(*check.warnings, *warnings))
    if "json" in args:
        print(json_for(sys.stdout, _check_json(check, n_ctx)))
    else:
        more = [printable(remedy_text(check.remedy, target))] if check.remedy is not None else []
        print(for_reading("\n".join(check_lines(check, *more, n_ctx=n_ctx)), sys.stdout, LABEL))
    return 1 if check.problems else 0


def current_file_offered(error: FileChangedError, name: str) -> FileChangedError:
    """Return the error for a pair, with the command that uses what the repository holds now."""
    fix = command(["tandem", "setup", name, "--latest"])
    return FileChangedError(error.message, f"To use the current file, without a checksum: {fix}")


def find_models(args: argparse.Namespace) -> int:
    """Print drafts for a target; exit 1 if there is none."""
    source = parse_source(args.target)
    with _reading() as (watch, status):
        model, target = _found(source, watch)
        problem, remedy = check_target(target, drafted=True)
        if problem is not None and remedy is not None:
            raise PairError(problem, remedy_text(remedy, source))
        pairs = list(catalog().pairs.values())
        has_mtp = check_pair(target).draft_kind is Source.MTP
        found = [_mtp_row(source)] if has_mtp else []
        try:
            found += find_drafts(target, pairs, watch, model.beside)
        except HubError:
            if not found:
                raise
    if "measure" in args and found:
        return _measure(args, found[has_mtp:], has_mtp=has_mtp)
    if "json" in args:
        print(json_for(sys.stdout, found))
    elif has_mtp:
        print(f"{'':>8}  {IN_TARGET}: no other draft is needed")
        print(printable(f"\nSet it up: {setup_models(str(source))}"))
    elif found:
        for row in found:
            label = parameters(row["parameters"] or 0) if row["kind"] == "model" else Source(row["kind"]).label
            print(f"{gigabytes(row['size']):>8}  {printable(row['model'])}  {label}  ({row['from']})")
        print(printable(f"\nSet one up: {setup_models(str(source), found[0]['model'])}"))
    else:
        status.say(f"No draft with the vocabulary of {printable(target.name)} was found.")
        # N-gram drafting gains nothing where recurrent state cannot be rolled back.
        alone = "N-gram drafting needs no draft model" if target.can_rollback else "It works without a draft"
        status.say(f"{alone}: {setup_models(str(source))}")
    return 0 if found else 1


def _measure(args: argparse.Namespace, found: Sequence[dict[str, Any]], *, has_mtp: bool) -> int:
    """Measure the found drafts that are on this machine, and the target's MTP layer."""
    # Loads llama.cpp, which reading headers does not need.
    from app.cli.tune import compare_drafts

    here = []
    for row in found:
        try:
            here.append(str(file_here(parse_source(row["model"]))))
        except PairError as error:
            ProgressLine(sys.stderr).say(error.message)
    if not here and not has_mtp:
        fix = setup_models(args.target, found[0]["model"])
        raise PairError("None of the drafts can be measured.", f"Download one: {fix}")
    return compare_drafts(args, here)


def _mtp_row(target: ModelSource) -> dict[str, Any]:
    return {"model": str(target), "parameters": None, "size": 0, "from": "the same file", "kind": "mtp"}


def _sources(target: str, draft: str | None) -> tuple[ModelSource, ModelSource | None, bool]:
    """Return the models of a named pair, or the named models, and whether it is a pair."""
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
    # Local files answer without Hugging Face.
    return LocalModel(files.target.path), LocalModel(files.draft.path) if files.draft is not None else None, True


def _check_json(check: PairCheck, n_ctx: int) -> dict[str, Any]:
    return {
        "target": _model_json(check.target),
        "draft": _model_json(check.draft) if check.draft is not None else None,
        "memory": check.memory_bytes(check.context(n_ctx)),
        "context": check.context(n_ctx),
        "compatible": not check.problems,
        "problems": list(check.problems),
        "warnings": list(check.warnings),
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


# Checks as lines


def check_lines(check: PairCheck, *more: str, n_ctx: int = DEFAULT_CONTEXT, problems: bool = True) -> list[str]:
    """Return the result of a check as lines with a memory estimate for a context, and `more` at the end."""
    lines = [_model_line("target", check.target)]
    if check.draft is not None:
        lines.append(_model_line("draft", check.draft))
        if check.draft.head is not None and check.draft.head.follows_target():
            lines.append("device  the target's: these draft layers share tensors with it")
    elif check.draft_name:
        lines.append(f"draft   {check.draft_name}")
    # The recommendations of a draft do not matter: only the target is sampled from.
    if check.target.recommended:
        lines.append(f"makers  recommend {in_one_line(check.target.recommended)}")
    n_ctx = check.context(n_ctx)
    lines.append(f"memory  {memory_size(check.memory_bytes(n_ctx))} with a context of {n_ctx:,} tokens")
    lines += [f"note    {printable(warning)}" for warning in check.warnings]
    if problems:
        lines += [f"problem {printable(problem)}" for problem in check.problems]
    if check.draft is not None and check.draft_kind is not None:
        match = f"the draft is {check.draft_kind.with_article} for this target"
        lines.append(f"Compatible: {'the vocabularies match' if check.draft_kind is Source.MODEL else match}.")
    return [*lines, *more]


def _model_line(role: str, model: ModelFacts) -> str:
    parts = [model.architecture, parameters(model.n_parameters or 0), model.quant]
    parts += [f"{model.n_layers} layers", gigabytes(model.weight_bytes)]
    if model.n_ctx_train:
        parts.append(f"trained for {model.n_ctx_train:,} tokens")
    parts.append(f"vocabulary {len(model.vocab.tokens):,}")
    if not model.has_chat_template:
        parts.append("no chat template")
    return f"{role:7} {printable(model.name)}: {', '.join(filter(None, parts))}"


def parameters(n: int) -> str:
    """Return a parameter count such as "1.5B parameters"; "" for 0, which means unknown."""
    if not n:
        return ""
    return f"{n / 1e9:.1f}B parameters" if n >= 1e9 else f"{n / 1e6:.0f}M parameters"


# Drafts for a target


def find_drafts(
    target: ModelFacts, pairs: Sequence[Pair], watch: Callable[[str], Watcher], beside: Sequence[HubModel] = ()
) -> Iterator[dict[str, Any]]:
    """Yield compatible drafts as JSON objects: first draft layers `beside` the target, then drafts of the catalog.

    Raises HubError if nothing was found before Hugging Face stopped answering.
    """
    refused: list[AppError] = []
    found = False
    in_catalog = {pair.draft for pair in pairs}
    try:
        sources = islice(chain(beside, _likely(target, pairs, watch)), _MAX_HEADERS)
        for model, facts in compatible_drafts(target, sources, watch, refused):
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


def _likely(target: ModelFacts, pairs: Sequence[Pair], watch: Callable[[str], Watcher]) -> Iterator[HubModel]:
    """Yield drafts of the catalog's pairs of the target's family, and small models of a search.

    Models of another architecture come last: a dense model can draft for a mixture of experts or a hybrid.
    """
    family = _family(target.name)
    for pair in pairs:
        if isinstance(pair.draft, HubModel) and family in (_family(str(pair.target)), _family(pair.family)):
            yield pair.draft
    searched = interruptible_lookup(lambda: search(family, limit=_MAX_FOUND), watch(f"models named {family}"), LOOKUP_S)
    limit = (target.n_parameters or target.weight_bytes) * _MAX_SHARE

    # The most downloaded come first.
    for found in sorted(searched, key=lambda found: found.architecture not in ("", target.architecture)):
        if 0 < found.n_params <= limit and not is_recurrent(found.architecture):
            yield HubModel(found.name)


def _family(name: str) -> str:
    """Return the beginning of a model's name that its relatives share: "qwen2.5", "llama"."""
    base = _AUTHOR_PREFIX.sub("", name.rpartition("/")[2]).replace("Meta-", "").replace("_", " ")
    found = _FAMILY_NAME.match(base.strip())
    return found[0].rstrip(".").lower() if found else base.lower()
