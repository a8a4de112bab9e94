"""Open pairs for the chat with the current settings, and offer fixes when one does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from app.cli.command_line import parse_args
from app.cli.engine import PairLoader
from app.cli.known_pairs import choose_pair, is_chosen, of_entry, of_file
from app.cli.options import Options, Process, options_of
from app.cli.setting_flags import read_flags
from app.core.errors import AppError, UsageError
from app.core.units import gigabytes
from app.models.catalog import Pair
from app.models.pair_names import setup_command
from app.models.registry import SetUp
from app.models.source import HubModel
from app.session.chat_settings import ChatSettings, applied
from app.settings.layers import Layer, Resolved
from app.settings.live import LiveSettings
from app.settings.model_file import Recommended
from app.ui.key_names import key
from app.ui.models.fit_options import FitOption, NoRoomError
from app.ui.models.state import LoadRequest
from app.worker.events import Event, Failed

if TYPE_CHECKING:
    from app.hardware.offers import Offer


class Opener:
    """Opens pairs with the settings as they are then.

    Args:
        live: The settings.
        pair: What is opened first.
        files: Where its files are, or None.
        process: Where everything runs.
        is_asked_for: Whether somebody has asked for that pair; else it only stands for one until then.
    """

    def __init__(
        self, live: LiveSettings, pair: Pair, files: SetUp | None, process: Process, *, is_asked_for: bool = True
    ) -> None:
        self.live = live
        self.process = process
        self._pair = pair
        self._files = files
        self._is_asked_for = is_asked_for

    @property
    def current(self) -> tuple[Pair, SetUp | None] | None:
        """Return the requested pair and its files; None before any request."""
        return (self._pair, self._files) if self._is_asked_for else None

    def open(self, pair: Pair, files: SetUp | None) -> LoadRequest:
        """Take another pair from here on.

        Raises:
            UsageError: The settings cannot be meant with it; the pair before it stays.
        """
        before = self._pair, self._files, self.live.pair, self.live.model
        self._pair, self._files = pair, files
        try:
            self.live.switch_pair(of_entry(pair), of_file(pair, files))
            choice = self.again()
        except UsageError:
            self._pair, self._files = before[:2]
            self.live.switch_pair(*before[2:])
            raise
        self._is_asked_for = True
        return choice

    def again(self) -> LoadRequest:
        """Return the same pair with the current settings; contradictions in the file are dropped.

        Raises:
            UsageError: The flags contradict each other.
        """
        try:
            options = self._options(self.live.resolved(), self._pair, self._files, self.live.model)
        except UsageError as error:
            self.live.leave_placement_out(error.message)
            options = self._options(self.live.resolved(), self._pair, self._files, self.live.model)
        self.live.loading()
        return LoadRequest(PairLoader(options), applied(ChatSettings(options.pair.title), self.live.resolved()))

    def with_flags(self, flags: Sequence[str]) -> Options:
        """Return the options after adding these flags; flags that name models replace the pair.

        Raises:
            AppError: They cannot be meant together, or the models are not known.
        """
        layer, pair, files = self._meant(flags)
        model = self.live.model if pair is self._pair else of_file(pair, files)
        return self._options(self.live.given(layer, of_entry(pair), model), pair, files, model)

    def take(self, flags: Sequence[str]) -> LoadRequest:
        """Take these flags as well, from here on; see `with_flags`."""
        self.with_flags(flags)
        layer, pair, files = self._meant(flags)
        self.live.give(layer)
        return self.open(pair, files)

    def _options(self, settings: Resolved, pair: Pair, files: SetUp | None, model: Recommended) -> Options:
        return replace(options_of(settings, pair, files, model), process=self.process)

    def _meant(self, flags: Sequence[str]) -> tuple[Layer, Pair, SetUp | None]:
        args = parse_args(flags)
        layer = read_flags(args)
        if is_chosen(vars(args)):
            return layer, *choose_pair(vars(args))
        return layer, self._pair, self._files

    def with_ways(self, event: Event) -> Event:
        """An event as the chat shows it: a pair that does not fit comes with the ways out of that.

        One that did fit, was lost, and has no room any more fails what it is loaded again for. That is kept, and read
        again where there is nothing to be taken, so it says by itself what to do.
        """
        if not isinstance(event, Failed):
            return event
        from app.llama.fitting.does_not_fit import DoesNotFitError

        if not isinstance(event.error, DoesNotFitError):
            return event
        ways = tuple(self.way(offer) for offer in event.error.offers)
        other = f"{key('chat.pairs', 'f6')} chooses another pair."
        hint = "" if ways else other
        if event.request is not None:
            hint = f"Ask again when there is room for it; {other}"
        return replace(event, error=NoRoomError(event.error.message, ways, hint))

    def way(self, offer: Offer) -> FitOption:
        """Return an offer as the chat shows it."""
        gain = f"frees about {gigabytes(offer.gain_bytes)}" + ("" if offer.suffices else ", not enough alone")
        try:
            taken = self.with_flags(offer.flags) if offer.flags else None
        except AppError:
            # Such as a pair whose files have gone since.
            taken = None
        if taken is None:
            return FitOption(offer.what, gain, offer.cost)
        if not _is_here(taken):
            brings = setup_command(taken.pair, by_name="--pair" in offer.flags)
            return FitOption(offer.what, gain, offer.cost, command=brings)
        return FitOption(offer.what, gain, offer.cost, lambda: self.take(offer.flags))


def _is_here(options: Options) -> bool:
    return options.files is not None or not any(isinstance(source, HubModel) for source in options.pair.sources)
