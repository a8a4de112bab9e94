"""A pair between two steps of its set-up: known, checked, and not yet brought."""

from __future__ import annotations

from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING

from app.core.printable import printable
from app.core.units import MAX_SIZE
from app.models.catalog import Pair
from app.models.pairing.cells import longest_trained
from app.models.pairing.check import PairCheck
from app.models.pairing.weight import with_size

if TYPE_CHECKING:
    # The screens need no client of Hugging Face to show a pair.
    from app.models.pairing.resolve import Resolved

TARGET, DRAFT = "target", "draft"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A pair whose files are known and whose headers have been read.

    Attributes:
        pair: What was asked for.
        target: Its files.
        draft: The draft's, or None.
        check: What the headers say.
        download_bytes: What has still to come.
        free_bytes: Of the disk it comes to, beside what other downloads have still to bring.
    """

    pair: Pair
    target: Resolved
    draft: Resolved | None
    check: PairCheck
    download_bytes: int
    free_bytes: int

    @property
    def models(self) -> tuple[tuple[str, Resolved], ...]:
        """Role and files of each model."""
        return ((TARGET, self.target),) if self.draft is None else ((TARGET, self.target), (DRAFT, self.draft))

    @property
    def notes(self) -> tuple[str, ...]:
        """What is not as it seems, in sentences."""
        damaged = [file.path.rsplit("/", 1)[-1] for _, model in self.models for file in model.damaged]
        return tuple(f"{name} is here, but damaged: it is to be downloaded anew." for name in damaged)

    @property
    def sized(self) -> Pair:
        """The pair with the sizes of its files."""
        target, draft = with_size(self.pair.target, self.target.size), None
        if self.pair.draft is not None and self.draft is not None:
            draft = with_size(self.pair.draft, self.draft.size)
        return replace(self.pair, target=target, draft=draft)


def completed(pair: Pair, target: Resolved, check: PairCheck) -> Pair:
    """The pair with what the catalogue leaves out, such as the licence that the hub names, and what the headers say."""
    licence, facts, working = pair.licence or printable(target.licence), check.target, check.working
    mixture = facts.bytes_per_token if facts.expert_share < 1 else 0
    return replace(
        pair,
        licence=licence,
        bytes_per_token=pair.bytes_per_token or mixture,
        context=pair.context or (longest_trained(facts.n_ctx_train) if facts.n_ctx_train else 0),
        # A header may tell of layers that no machine could hold, and no catalogue.
        working=working if max(astuple(working)) <= MAX_SIZE else pair.working,
    )
