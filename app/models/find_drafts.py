"""Find drafts for a target: from the catalog's pairs, then by searching Hugging Face."""

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
from app.models.progress import HeaderWatcher
from app.models.resolve import facts_of, resolve
from app.models.source import HubModel

_MAX_SHARE = 1 / 3
"""A draft has at most a third of its target's parameters."""
_MAX_HEADERS = 12
_MAX_FOUND = 40
_MAKER = re.compile(r"^[A-Za-z-]+_(?=[A-Za-z])")
"""The original author in the name of a converted model: "google_gemma-3"."""
_FAMILY = re.compile(r"[A-Za-z]+[\d.]*")
_SIZE_IN_NAME = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)([bm])(?![a-z])", re.IGNORECASE)


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


def find_drafts(
    target: ModelFacts, pairs: Sequence[Pair], retry: RetryPolicy, on_status: Callable[[str], None] = lambda _: None
) -> Iterator[Candidate]:
    """Read the headers of likely drafts, the catalog's first; each costs a few megabytes.

    Args:
        target: The model that they draft for.
        pairs: The catalog.
        retry: How to wait if Hugging Face does not answer, and whether to stop.
        on_status: Receives the status text.

    Raises:
        HubError: Nothing was found before Hugging Face stopped answering.
        Interrupted: Canceled.
    """
    failures: list[HubError] = []
    found: set[str] = set()
    headers_read = 0
    for source, origin in _likely(target, pairs, failures, retry, on_status):
        name = str(source)
        if name in found or headers_read >= _MAX_HEADERS:
            continue
        headers_read += 1
        try:
            resolved = resolve(source, _no_demo, retry, HeaderWatcher(name, on_status), draft=True)
            if resolved.size * 2 > target.weight_bytes:
                continue
            facts = facts_of(resolved, retry, HeaderWatcher(resolved.name, on_status))
        except HubError as error:
            failures.append(error)
            if isinstance(error, HubTimeoutError):
                break
            continue
        except AppError:
            continue
        if not check_pair(target, facts).problems:
            found.add(name)
            yield Candidate(name, origin, facts.weight_bytes, facts.n_parameters)
    if failures and not found:
        raise failures[0]


def _likely(
    target: ModelFacts,
    pairs: Sequence[Pair],
    failures: list[HubError],
    retry: RetryPolicy,
    on_status: Callable[[str], None],
) -> Iterator[tuple[HubModel, str]]:
    """Yield drafts of the catalog's pairs of the same family, then small models that a search finds.

    Models of another architecture come last: a dense model can draft for a mixture of experts or a hybrid.
    """
    family = _family(target.name)
    for pair in pairs:
        if isinstance(pair.draft, HubModel) and family in (_family(str(pair.target)), _family(pair.family)):
            yield pair.draft, "catalogue"
    try:
        searching = HeaderWatcher(f"models named {family}", on_status)
        searched = look_up(lambda: search(family, limit=_MAX_FOUND), retry, searching, LOOKUP_S)
    except HubError as error:
        failures.append(error)
        return
    limit = (target.n_parameters or target.weight_bytes) * _MAX_SHARE

    def order(found: Found) -> tuple[bool, int]:
        return found.architecture not in ("", target.architecture), -found.downloads

    for found in sorted(searched, key=order):
        n = found.n_params or _parameters_in(found.name)
        if 0 < n <= limit and not is_recurrent(found.architecture):
            yield HubModel(found.name), "hub"


def _no_demo(part: str) -> Path:
    raise AssertionError(f"the demo's {part} is not on Hugging Face")


def _family(name: str) -> str:
    """Return the beginning of a model's name that its relatives share: "qwen2.5", "llama"."""
    base = _MAKER.sub("", name.rpartition("/")[2]).replace("Meta-", "").replace("_", " ")
    found = _FAMILY.match(base.strip())
    return found[0].rstrip(".").lower() if found else base.lower()


def _parameters_in(name: str) -> int:
    found = _SIZE_IN_NAME.search(name)
    return int(float(found[1]) * (1e9 if found[2].lower() == "b" else 1e6)) if found else 0
