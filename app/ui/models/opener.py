"""Opens the pair of the chat, another pair, or the changed pair of an offer, with the current settings."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from app.core.errors import AppError
from app.core.fixes import command
from app.models.catalog import Pair
from app.models.model_names import known_as, quantization
from app.settings.layers import Layer
from app.settings.live import LiveSettings
from app.ui.models.state import FitOption, LoadRequest
from app.worker.known_pairs import KnownPair, ProcessOptions, is_here, pair_by_name, pairs_to_open
from app.worker.pair_loader import PairLoader, pair_loader

if TYPE_CHECKING:
    from app.hardware.offers import Offer


class Opener:
    """The pair of the chat and its settings; every request to load comes from here.

    Args:
        is_asked_for: The user asked for the first pair; otherwise it is a placeholder.
        is_fixed: The command line names the first pair, so conversations do not change it.
    """

    def __init__(
        self,
        live: LiveSettings,
        known: KnownPair,
        process: ProcessOptions,
        *,
        is_asked_for: bool = True,
        is_fixed: bool = False,
    ) -> None:
        self.live = live
        self.process = process
        self._known = known
        self._is_asked_for = is_asked_for
        self._is_fixed = is_fixed

    @property
    def current(self) -> Pair | None:
        """Return the requested pair, if any."""
        return self._known.pair if self._is_asked_for else None

    def open(self, known: KnownPair, changes: Layer | None = None) -> LoadRequest:
        """Switch to another pair, with changes of settings that count for every later pair.

        Raises UsageError if the settings contradict the pair; then nothing changes.
        """
        changes, entry, model = changes or {}, known.entry_settings, known.file_settings
        loader = pair_loader(self.live.given(changes, entry, model), known, self.process)
        self._known, self._is_asked_for = known, True
        self.live.give(changes)
        self.live.switch_pair(entry, model)
        return self._request(loader)

    def again(self) -> LoadRequest:
        """Load the same pair again with the current settings. Raises UsageError."""
        return self._request(pair_loader(self.live.resolved(), self._known, self.process))

    def _request(self, loader: PairLoader) -> LoadRequest:
        self.live.loading()
        return LoadRequest(loader, loader.pair.title)

    def written_by(self, models: Mapping[str, object]) -> LoadRequest | None:
        """Open the pair whose models have these names, by role.

        None if its target is open, if the pair of the chat is fixed, or if no pair that is here matches.
        """
        target, draft = models.get("target"), models.get("draft")
        is_open = self._is_asked_for and _model_name(self._known.target_file) == target
        if target is None or self._is_fixed or is_open:
            return None
        with suppress(AppError, OSError):
            named = [each for each in pairs_to_open() if _model_name(each.target_file) == target]
            # Naming the demo's draft could create it, and no other pair has the demo's target.
            drafted = [each for each in named if each.pair.is_demo or _model_name(each.draft_file) == draft]
            for found in (drafted or named)[:1]:
                return self.open(found)
        return None

    def with_offer(self, offer: Offer) -> PairLoader:
        """Return a loader for the pair of an offer with its settings."""
        known = self._pair_of(offer)
        model = self.live.model if known is self._known else known.file_settings
        return pair_loader(self.live.given(offer.settings, known.entry_settings, model), known, self.process)

    def take(self, offer: Offer) -> LoadRequest:
        """Apply the settings of an offer to every later pair, and open its pair."""
        return self.open(self._pair_of(offer), offer.settings)

    def _pair_of(self, offer: Offer) -> KnownPair:
        return pair_by_name(offer.pair) if offer.pair is not None else self._known

    def option(self, offer: Offer) -> FitOption:
        """Return an offer as an option of the chat."""
        try:
            loader = self.with_offer(offer) if offer.settings or offer.pair is not None else None
        except AppError:
            # The files of the pair may be gone.
            loader = None
        if loader is None:
            return FitOption(offer)
        if offer.pair is not None and loader.files is None and not all(map(is_here, loader.pair.sources)):
            return FitOption(offer, command=command(["tandem", "setup", offer.pair]))
        return FitOption(offer, lambda: self.take(offer))


def _model_name(file: Path | None) -> str | None:
    """Return the name of a model in stored answers, unless its header names it differently; None without a file."""
    return f"{known_as(file.name, '')} {quantization(file.name)}" if file is not None else None
