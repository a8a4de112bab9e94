"""`tandem pairs check` and `find`: compatible models, from local or remote headers."""

from __future__ import annotations

import argparse
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from app.cli.known_pairs import catalog, demo_file, registry
from app.cli.output import StatusLine, for_reading, json_for
from app.cli.pair_lines import LABEL, check_lines, parameters
from app.cli.streams import cancel_on_interrupt
from app.core.errors import AppError, HubError, HubTimeoutError, Interrupted, PairError, UsageError
from app.core.printable import printable
from app.core.shell import command
from app.core.units import gigabytes
from app.models.catalog import Pair
from app.models.compatibility import PairCheck, check_pair, check_target, remedy_text
from app.models.hub.client import search
from app.models.hub.request import LOOKUP_S, look_up
from app.models.memory_estimate import DEFAULT_CONTEXT
from app.models.model_facts import ModelFacts, is_recurrent
from app.models.pair_summary import model_flags
from app.models.progress import HeaderWatcher, Watcher
from app.models.recommend import every_pair
from app.models.resolve import facts_of, resolve
from app.models.source import HubModel, LocalModel, ModelSource, parse_source

_MAX_SHARE = 1 / 3
"""A draft has at most a third of its target's parameters."""
_MAX_HEADERS = 12
_MAX_FOUND = 40
_MAKER = re.compile(r"^[A-Za-z-]+_(?=[A-Za-z])")
"""The original author in the name of a converted model: "google_gemma-3"."""
_FAMILY = re.compile(r"[A-Za-z]+[\d.]*")


class _Reader:
    """Reads headers, with progress on the status line; Ctrl+C raises Interrupted."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self.cancel = self._stop.set
        self.status = StatusLine(sys.stderr)

    def facts(self, source: ModelSource, *, draft: bool = False) -> ModelFacts:
        """Return what the header of a model says."""
        resolved = resolve(source, demo_file, self.watcher(str(source)), draft=draft)
        return facts_of(resolved, self.watcher(resolved.name))

    def watcher(self, name: str) -> Watcher:
        """Return the receiver of the progress of one request."""
        return HeaderWatcher(name, self.status.show, self._stop)

    def end(self) -> None:
        """Clear the status line. Raises Interrupted after Ctrl+C."""
        self.status.clear()
        if self._stop.is_set():
            raise Interrupted


def check_models(args: argparse.Namespace) -> int:
    """Print two models and whether they are compatible; exit 1 if not."""
    n_ctx = getattr(args, "ctx", DEFAULT_CONTEXT)
    target, draft = _sources(args.target, getattr(args, "draft", None))
    reader = _Reader()
    with cancel_on_interrupt(reader.cancel):
        target_facts = reader.facts(target)
        draft_facts = reader.facts(draft, draft=True) if draft is not None else None
        check = check_pair(target_facts, draft_facts)
    reader.end()
    if "json" in args:
        print(json_for(sys.stdout, _check_json(check, n_ctx)))
    else:
        more = [printable(remedy_text(check.remedy, target))] if check.remedy is not None else []
        print(for_reading("\n".join(check_lines(check, *more, n_ctx=n_ctx)), sys.stdout, LABEL))
    return 1 if check.problems else 0


def find_models(args: argparse.Namespace) -> int:
    """Print drafts for a target; exit 1 if there is none."""
    source = parse_source(args.target)
    reader = _Reader()
    with cancel_on_interrupt(reader.cancel):
        target = reader.facts(source)
        problem, remedy = check_target(target, drafted=True)
        if remedy is not None:
            raise PairError(problem, remedy_text(remedy, source))
        pairs = list(catalog().pairs.values())
        found = list(find_drafts(target, pairs, reader.watcher))
    reader.end()
    if "json" in args:
        rows = [{"model": c.name, "parameters": c.n_parameters, "size": c.size, "from": c.origin} for c in found]
        print(json_for(sys.stdout, rows))
    elif found:
        _print_drafts(found, source)
    else:
        reader.status.say(f"No draft with the vocabulary of {printable(target.name)} was found.")
        # N-gram drafting gains nothing where recurrent state cannot be rolled back.
        alone = "N-gram drafting needs no draft model" if target.can_rollback else "It works without a draft"
        reader.status.say(f"{alone}: {command(['tandem', 'setup', *model_flags(str(source))])}")
    return 0 if found else 1


def _print_drafts(found: list[Candidate], target: ModelSource) -> None:
    for candidate in found:
        size, n_parameters = gigabytes(candidate.size), parameters(candidate.n_parameters or 0)
        print(f"{size:>8}  {printable(candidate.name)}  {n_parameters}  ({candidate.origin})")
    words = ["tandem", "setup", *model_flags(str(target), found[0].name)]
    print(printable(f"\nSet one up: {command(words)}"))


def _sources(target: str, draft: str | None) -> tuple[ModelSource, ModelSource | None]:
    """Return the models of a named pair, or the named models."""
    known, here = catalog(), registry().read()
    pairs = every_pair(known.pairs, here)
    if target not in pairs:
        if known.unread is not None and "/" not in target:
            raise known.unread
        return parse_source(target), parse_source(draft) if draft is not None else None
    if draft is not None:
        raise UsageError(f"{target} is a pair and has its own draft.", f"Leave {draft} out, or name a target model.")
    pair = pairs[target]
    files = here.usable(pair)
    if files is None:
        return pair.target, pair.draft
    # Local files answer without Hugging Face.
    return LocalModel(files.target.path), LocalModel(files.draft.path) if files.draft is not None else None


def _check_json(check: PairCheck, n_ctx: int) -> dict[str, Any]:
    return {
        "target": _model_json(check.target),
        "draft": _model_json(check.draft) if check.draft is not None else None,
        "memory": check.memory_bytes(check.context(n_ctx)),
        "context": check.context(n_ctx),
        "compatible": not check.problems,
        "problems": list(check.problems),
        "warnings": list(check.warnings),
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


# Drafts for a target


@dataclass(frozen=True, slots=True)
class Candidate:
    """A compatible draft.

    Attributes:
        name: Argument of `tandem setup --draft`.
        origin: "catalogue" or "hub".
        size: Bytes of its file.
        n_parameters: Number of parameters, or None.
    """

    name: str
    origin: str
    size: int
    n_parameters: int | None


def find_drafts(target: ModelFacts, pairs: Sequence[Pair], watch: Callable[[str], Watcher]) -> Iterator[Candidate]:
    """Read the headers of likely drafts, the catalog's first; each costs a few megabytes.

    Args:
        target: The model that they draft for.
        pairs: The catalog.
        watch: Returns the receiver of the progress of one request by its subject.

    Raises:
        HubError: Nothing was found before Hugging Face stopped answering.
        Interrupted: Canceled.
    """
    failure: HubError | None = None
    found: set[str] = set()
    try:
        for source, origin in islice(_likely(target, pairs, watch), _MAX_HEADERS):
            name = str(source)
            try:
                resolved = resolve(source, Path, watch(name), draft=True)
                if name in found or resolved.size * 2 > target.weight_bytes:
                    continue
                facts = facts_of(resolved, watch(resolved.name))
            except HubTimeoutError:
                raise
            except AppError as error:
                failure = failure or (error if isinstance(error, HubError) else None)
                continue
            if not check_pair(target, facts).problems:
                found.add(name)
                yield Candidate(name, origin, facts.weight_bytes, facts.n_parameters)
    except HubError as error:
        failure = failure or error
    if failure is not None and not found:
        raise failure


def _likely(
    target: ModelFacts, pairs: Sequence[Pair], watch: Callable[[str], Watcher]
) -> Iterator[tuple[HubModel, str]]:
    """Yield drafts of the catalog's pairs of the same family, then small models that a search finds.

    Models of another architecture come last: a dense model can draft for a mixture of experts or a hybrid.
    """
    family = _family(target.name)
    for pair in pairs:
        if isinstance(pair.draft, HubModel) and family in (_family(str(pair.target)), _family(pair.family)):
            yield pair.draft, "catalogue"
    searched = look_up(lambda: search(family, limit=_MAX_FOUND), watch(f"models named {family}"), LOOKUP_S)
    limit = (target.n_parameters or target.weight_bytes) * _MAX_SHARE

    # The most downloaded come first.
    for found in sorted(searched, key=lambda found: found.architecture not in ("", target.architecture)):
        if 0 < found.n_params <= limit and not is_recurrent(found.architecture):
            yield HubModel(found.name), "hub"


def _family(name: str) -> str:
    """Return the beginning of a model's name that its relatives share: "qwen2.5", "llama"."""
    base = _MAKER.sub("", name.rpartition("/")[2]).replace("Meta-", "").replace("_", " ")
    found = _FAMILY.match(base.strip())
    return found[0].rstrip(".").lower() if found else base.lower()
