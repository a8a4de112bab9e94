"""Values that describe pairs and their setup."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from app.core.errors import AppError
from app.hardware.recommend import Standing
from app.models.setup_task import SetupProgress

if TYPE_CHECKING:
    from app.hardware.offers import Offer
    from app.worker.engine_worker import Loader


@dataclass(frozen=True, slots=True)
class PairCard(Standing):
    """A pair and how it suits this machine. Texts may come from outside and are not yet printable.

    Attributes:
        draft: How the draft's name differs from the target's.
        why: Why this pair is recommended, as a sentence, if it is.
        download_bytes: Bytes to download; None if only Hugging Face knows.
        is_open: Whether it is the pair of the chat.
        is_loading: Whether that pair is not loaded yet.
    """

    target: str = ""
    draft: str = ""
    size: str = ""
    why: str | None = None
    download_bytes: int | None = 0
    is_open: bool = False
    is_loading: bool = False

    @property
    def name(self) -> str:
        return self.pair.name

    @property
    def needs_no_download(self) -> bool:
        return self.here or self.set_up or self.is_open

    def matches(self, words: Sequence[str]) -> bool:
        texts = (self.name, self.pair.title, self.target, self.draft, self.pair.good_at, self.pair.license)
        return all(word in " ".join(texts).lower() for word in words)


@dataclass(frozen=True, slots=True)
class PairsState:
    """All pairs at one moment.

    Attributes:
        machine: The machine in one line; None until it is known.
        cards: The pairs, best first; the same object while nothing changes.
        problems: Why pairs are missing or cannot be opened.
        busy: Whether work is running, so that the state will change.
    """

    machine: str | None = None
    cards: tuple[PairCard, ...] = ()
    setups: Mapping[str, SetupProgress] = field(default_factory=dict)
    problems: tuple[AppError, ...] = ()
    busy: bool = False


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """A pair to load in the chat; `stops` a running answer instead of waiting for its end.

    With `is_new_default` it was just set up, and becomes the default pair.
    """

    loader: Loader
    title: str
    stops: bool = False
    is_new_default: bool = False


@dataclass(frozen=True, slots=True)
class FitOption:
    """A change that makes a pair fit.

    Attributes:
        apply: Applies it and returns the pair to load; None if it needs a download first.
    """

    offer: Offer
    apply: Callable[[], LoadRequest] | None = None
    command: str | None = None
