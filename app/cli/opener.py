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
from app.settings.layers import Layer
from app.settings.live import LiveSettings
from app.ui.key_names import key
from app.ui.models.fit_options import FitOption, NoRoomError
from app.ui.models.state import LoadRequest
from app.worker.events import Event, Failed

if TYPE_CHECKING:
    from app.hardware.offers import Offer


class Opener:
    """Opens pairs with the current settings.

    Args:
        live: The settings.
        pair: The first pair.
        files: Its files, if it was set up.
        process: The process that runs it.
        is_asked_for: The user chose this pair; else it is a placeholder until one is opened.
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
        """Switch to another pair; the one before stays if the settings contradict it."""
        before = self._pair, self._files, self.live.pair, self.live.model
        self._pair, self._files = pair, files
        try:
            self.live.switch_pair(of_entry(pair), of_file(pair, files))
            request = self.again()
        except UsageError:
            self._pair, self._files = before[:2]
            self.live.switch_pair(*before[2:])
            raise
        self._is_asked_for = True
        return request

    def again(self) -> LoadRequest:
        """Return the same pair with the current settings. Raises UsageError."""
        options = options_of(self.live.resolved(), self._pair, self._files)
        options = replace(options, process=self.process)
        self.live.loading()
        return LoadRequest(PairLoader(options), applied(ChatSettings(options.pair.title), self.live.resolved()))

    def with_flags(self, flags: Sequence[str]) -> Options:
        """Return the options with these flags added; flags that name models replace the pair."""
        layer, pair, files = self._read(flags)
        model = self.live.model if pair is self._pair else of_file(pair, files)
        settings = self.live.given(layer, of_entry(pair), model)
        return replace(options_of(settings, pair, files), process=self.process)

    def take(self, flags: Sequence[str]) -> LoadRequest:
        """Add these flags for good, and open the pair."""
        self.with_flags(flags)
        layer, pair, files = self._read(flags)
        self.live.give(layer)
        return self.open(pair, files)

    def _read(self, flags: Sequence[str]) -> tuple[Layer, Pair, SetUp | None]:
        args = parse_args(flags)
        if is_chosen(vars(args)):
            return read_flags(args), *choose_pair(vars(args))
        return read_flags(args), self._pair, self._files

    def with_fixes(self, event: Event) -> Event:
        """Return an event for the chat; the error of a pair that does not fit gets the fixes as choices."""
        from app.llama.fitting.fit_pair import DoesNotFitError

        if not isinstance(event, Failed) or not isinstance(event.error, DoesNotFitError):
            return event
        fixes = tuple(map(self.fix, event.error.offers))
        other = f"{key('chat.pairs', 'f6')} chooses another pair."
        hint = "" if fixes else other
        if event.request is not None:
            # The error stays in the conversation, where no choice can be made.
            hint = f"Ask again when there is room for it; {other}"
        return replace(event, error=NoRoomError(event.error.message, fixes, hint))

    def fix(self, offer: Offer) -> FitOption:
        """Return an offer as a choice of the chat."""
        gain = f"frees about {gigabytes(offer.gain_bytes)}" + ("" if offer.suffices else ", not enough alone")
        try:
            options = self.with_flags(offer.flags) if offer.flags else None
        except AppError:
            # Such as a pair whose files are gone.
            options = None
        if options is None:
            return FitOption(offer.what, gain, offer.cost)
        if options.files is None and any(isinstance(source, HubModel) for source in options.pair.sources):
            download = setup_command(options.pair, by_name="--pair" in offer.flags)
            return FitOption(offer.what, gain, offer.cost, command=download)
        return FitOption(offer.what, gain, offer.cost, lambda: self.take(offer.flags))
