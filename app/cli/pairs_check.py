"""`tandem pairs check` and `find`: compatible models, from local or remote headers."""

from __future__ import annotations

import argparse
import sys
import threading
from typing import Any

from app.cli.known_pairs import catalog, demo_file, registry
from app.cli.output import StatusLine, for_reading, json_for
from app.cli.pair_lines import LABEL, check_lines, parameters
from app.cli.streams import cancel_on_interrupt
from app.core.errors import Interrupted, PairError, UsageError
from app.core.printable import printable
from app.core.shell import command
from app.core.units import gigabytes
from app.models.compatibility import PairCheck, check_pair, check_target, remedy_text
from app.models.find_drafts import Candidate, find_drafts
from app.models.hub.request import RetryPolicy
from app.models.model_facts import ModelFacts
from app.models.pair_names import model_flags
from app.models.progress import HeaderWatcher
from app.models.recommend import USUAL_CONTEXT, every_pair
from app.models.resolve import facts_of, resolve
from app.models.source import LocalModel, ModelSource, parse_source


class _Reader:
    """Reads headers, with progress on the status line; Ctrl+C raises Interrupted."""

    def __init__(self) -> None:
        self._stop = threading.Event()
        self.cancel = self._stop.set
        self.retry = RetryPolicy(self._stop.wait, cancelled=self._stop.is_set)
        self.status = StatusLine(sys.stderr)

    def facts(self, source: ModelSource, *, draft: bool = False) -> ModelFacts:
        """Return what the header of a model says."""
        resolved = resolve(source, demo_file, self.retry, self._watcher(str(source)), draft=draft)
        return facts_of(resolved, self.retry, self._watcher(resolved.name))

    def _watcher(self, name: str) -> HeaderWatcher:
        return HeaderWatcher(name, self.status.show)

    def end(self) -> None:
        """Clear the status line. Raises Interrupted after Ctrl+C."""
        self.status.clear()
        if self._stop.is_set():
            raise Interrupted


def check_models(args: argparse.Namespace) -> int:
    """Print two models and whether they are compatible; exit 1 if not."""
    n_ctx = getattr(args, "ctx", USUAL_CONTEXT)
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
        found = list(find_drafts(target, pairs, reader.retry, reader.status.show))
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
    if target not in pairs and target not in known.problems:
        return parse_source(target), parse_source(draft) if draft is not None else None
    if draft is not None:
        raise UsageError(f"{target} is a pair and has its own draft.", f"Leave {draft} out, or name a target model.")
    pair = pairs[target] if target not in known.problems else known.get(target)
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
