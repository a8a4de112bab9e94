"""Drafts for a given target: from the families of the catalogue, and from the hub by search."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from app.core.errors import AppError, HubError, HubTimeoutError
from app.models.catalog import Pair
from app.models.compatibility import check_pair
from app.models.hub.client import Found, search
from app.models.hub.request import LOOKUP_S, RetryPolicy, look_up
from app.models.model_facts import ModelFacts, is_recurrent
from app.models.progress import Look, Looking
from app.models.resolve import Resolved, facts_of, resolve
from app.models.source import HubModel, ModelSource

_SMALLEST_SHARE = 3
"""A draft has at most this part of its target's parameters: a third."""
_LOOKED_AT = 12
_SEARCHED = 40
_MAKER = re.compile(r"^[A-Za-z-]+_(?=[A-Za-z])")
"""Who made it, as those write it who convert models of many makers: "google_gemma-3"."""
_FAMILY = re.compile(r"[A-Za-z]+[\d.]*")
_SIZE_IN_NAME = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)([bm])(?![a-z])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that might draft for the target.

    Attributes:
        name: As `tandem setup --draft` takes it.
        origin: "catalogue" or "hub".
        size: Bytes of its file.
        n_parameters: Or None.
        problem: Why it cannot; "" if it can.
    """

    name: str
    origin: str
    size: int
    n_parameters: int | None
    problem: str


def find_drafts(
    target: ModelFacts,
    pairs: Sequence[Pair],
    retry: RetryPolicy,
    tell: Callable[[Looking], None] = lambda _: None,
) -> Iterator[Candidate]:
    """Look at the headers of likely drafts, catalogue first; each costs a few megabytes.

    Args:
        target: What they are to draft for.
        pairs: The catalogue.
        retry: How to wait where the hub does not answer, and whether to stop.
        tell: Told how the headers come.

    Raises:
        HubError: Nothing was found before the hub stopped answering.
        Interrupted: Cancelled.
    """
    seen: set[str] = set()
    troubles: list[HubError] = []
    n_found = 0
    for source, origin in _likely(target, pairs, troubles, retry, tell):
        if str(source) in seen or len(seen) >= _LOOKED_AT:
            continue
        seen.add(str(source))
        try:
            resolved = _small_enough(source, target, retry, tell)
            if resolved is None:
                continue
            facts = facts_of(resolved, retry, Look(resolved.name, tell))
        except HubError as error:
            troubles.append(error)
            if isinstance(error, HubTimeoutError):
                break
            continue
        except AppError:
            continue
        problems = check_pair(target, facts).problems
        n_found += not problems
        yield Candidate(str(source), origin, facts.weight_bytes, facts.n_parameters, problems[0] if problems else "")
    if troubles and not n_found:
        raise troubles[0]


def _likely(
    target: ModelFacts,
    pairs: Sequence[Pair],
    troubles: list[HubError],
    retry: RetryPolicy,
    tell: Callable[[Looking], None],
) -> Iterator[tuple[ModelSource, str]]:
    """Drafts of the catalogue by likeness of name to the target, then small models that a search finds.

    A search that fails adds to the troubles, and takes nothing from what the catalogue gave. Relatives of another
    architecture come last, for theirs is the vocabulary that counts: a dense model drafts for a mixture of experts or
    for a hybrid.
    """
    family = _family(target.name)
    drafts = {str(pair.draft): pair for pair in pairs if isinstance(pair.draft, HubModel)}
    for pair in sorted(drafts.values(), key=lambda pair: _family(str(pair.target)) != family):
        if _family(str(pair.target)) == family or _family(pair.family) == family:
            assert pair.draft is not None
            yield pair.draft, "catalogue"
    try:
        searching = Look(f"the models that are called {family}", tell)
        searched = look_up(lambda: list(search(family, limit=_SEARCHED)), retry, searching, LOOKUP_S)
    except HubError as error:
        troubles.append(error)
        return
    for found in sorted(searched, key=lambda found: (_is_foreign(found, target), -found.downloads)):
        n = found.n_params or _parameters_in(found.name)
        limit = (target.n_parameters or target.weight_bytes) / _SMALLEST_SHARE
        if 0 < n <= limit and not is_recurrent(found.architecture):
            yield HubModel(found.name), "hub"


def _is_foreign(found: Found, target: ModelFacts) -> bool:
    return found.architecture not in ("", target.architecture)


def _small_enough(
    source: ModelSource, target: ModelFacts, retry: RetryPolicy, tell: Callable[[Looking], None]
) -> Resolved | None:
    resolved = resolve(source, _no_demo, draft=True, retry=retry, watcher=Look(str(source), tell))
    return resolved if resolved.size * 2 <= target.weight_bytes else None


def _no_demo(part: str) -> Path:
    raise AssertionError(f"the demo's {part} is not on the hub")


def _family(name: str) -> str:
    """The beginning of a model's name that its relatives share: "Qwen2.5", "Llama", "Mistral"."""
    base = _MAKER.sub("", name.rpartition("/")[2]).replace("Meta-", "").replace("_", " ")
    found = _FAMILY.match(base.strip())
    return found[0].rstrip(".").lower() if found else base.lower()


def _parameters_in(name: str) -> int:
    found = _SIZE_IN_NAME.search(name)
    return int(float(found[1]) * (1e9 if found[2].lower() == "b" else 1e6)) if found else 0
