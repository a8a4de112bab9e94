"""`tandem pairs check` and `find`: compatible models, from local or remote headers."""

from __future__ import annotations

import argparse
import difflib
import sys
import threading
from typing import Any

from app.cli.known_pairs import catalog, demo_file, registry
from app.cli.output import StatusLine, for_reading, json_for
from app.cli.pair_lines import LABEL, check_lines, parameters
from app.core.errors import AppError, PairError, UsageError
from app.core.printable import printable
from app.core.shell import command
from app.core.units import gigabytes
from app.models.compatibility import PairCheck, check_pair, check_target, remedy_text
from app.models.find_drafts import find_drafts
from app.models.hub.request import RetryPolicy
from app.models.model_facts import ModelFacts
from app.models.pair_names import model_flags
from app.models.progress import Look
from app.models.recommend import USUAL_CONTEXT, every_pair
from app.models.registry import SetUp
from app.models.resolve import facts_of, resolve
from app.models.source import LocalModel, ModelSource, parse_source


def check_models(args: argparse.Namespace, stop: threading.Event) -> int:
    """Print two models and whether they are compatible; exit 1 if not."""
    status = StatusLine(sys.stderr)
    n_ctx = getattr(args, "ctx", USUAL_CONTEXT)
    target, draft = _asked(args.target, getattr(args, "draft", None))
    check = _look(target, draft, stop, status)
    if hasattr(args, "json"):
        print(json_for(sys.stdout, _check_json(check, n_ctx)))
    else:
        more = [printable(remedy_text(check.remedy, target))] if check.remedy is not None else []
        print(for_reading("\n".join(check_lines(check, *more, n_ctx=n_ctx)), sys.stdout, LABEL))
    return 1 if check.problems else 0


def find_models(args: argparse.Namespace, stop: threading.Event) -> int:
    """Print drafts for a target; exit 1 if there is none."""
    status = StatusLine(sys.stderr)
    source = parse_source(args.target)
    target = _facts(source, stop, status)
    problem, remedy = check_target(target, drafted=True)
    if remedy is not None:
        raise PairError(problem, remedy_text(remedy, source))
    pairs, retry = list(catalog().pairs.values()), RetryPolicy(stop.wait, cancelled=stop.is_set)
    drafts = find_drafts(target, pairs, retry, lambda looking: status.show(looking.line))
    found = [candidate for candidate in drafts if not candidate.problem]
    status.clear()
    if hasattr(args, "json"):
        rows = [{"model": c.name, "parameters": c.n_parameters, "size": c.size, "from": c.origin} for c in found]
        print(json_for(sys.stdout, rows))
        return 0 if found else 1
    if not found:
        status.say(f"No draft with the vocabulary of {printable(target.name)} was found.")
        # N-gram drafting gains nothing where recurrent state cannot be rolled back.
        alone = "N-gram drafting needs no draft model" if target.can_rollback else "It works without a draft"
        status.say(f"{alone}: {command(['tandem', 'setup', *model_flags(str(source))])}")
        return 1
    for candidate in found:
        size = f"{gigabytes(candidate.size):>8}"
        grown = parameters(candidate.n_parameters) if candidate.n_parameters else ""
        print(f"{size}  {printable(candidate.name)}  {grown}  ({candidate.origin})")
    words = ["tandem", "setup", *model_flags(str(source), found[0].name)]
    print(printable(f"\nSet one up: {command(words)}"))
    return 0


def _asked(target: str, draft: str | None) -> tuple[ModelSource, ModelSource | None]:
    """Return the models of a named pair, or the named models."""
    known, here = catalog(), registry().read()
    pairs = every_pair(known.pairs, here)
    if target in pairs or target in known.problems:
        if draft is not None:
            raise UsageError(
                f"{target} is a pair, with a draft of its own or none.", f"Leave {draft} out, or name a target model."
            )
        pair = pairs[target] if target not in known.problems else known.get(target)
        # Local files answer without Hugging Face.
        files = here.usable(pair)
        return _on_disk(files) if files is not None else (pair.target, pair.draft)
    try:
        return parse_source(target), parse_source(draft) if draft is not None else None
    except AppError as error:
        close = difflib.get_close_matches(target, pairs, n=1) if draft is None else []
        raise error if not close else UsageError(error.message, f'Did you mean the pair "{close[0]}"?') from None


def _on_disk(files: SetUp) -> tuple[ModelSource, ModelSource | None]:
    return LocalModel(files.target.path), LocalModel(files.draft.path) if files.draft is not None else None


def _look(target: ModelSource, draft: ModelSource | None, stop: threading.Event, status: StatusLine) -> PairCheck:
    """Read the headers of one or two models, wherever they lie."""
    looked_at = _facts(target, stop, status)
    beside = _facts(draft, stop, status, draft=True) if draft is not None else None
    status.clear()
    return check_pair(looked_at, beside)


def _facts(source: ModelSource, stop: threading.Event, status: StatusLine, *, draft: bool = False) -> ModelFacts:
    def look_at(name: str) -> Look:
        return Look(name, lambda looking: status.show(looking.line))

    retry = RetryPolicy(stop.wait, cancelled=stop.is_set)
    resolved = resolve(source, demo_file, draft=draft, retry=retry, watcher=look_at(str(source)))
    return facts_of(resolved, retry, look_at(resolved.name))


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
        "memory": check.memory_bytes(check.context(n_ctx)),
        "context": check.context(n_ctx),
        "compatible": not check.problems,
        "problems": list(check.problems),
        "warnings": list(check.warnings),
    }
