"""A pair for the chat, with the ways out where it does not fit: each offer's flags, read as if they had been typed."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from app.cli.fitting import DoesNotFitError
from app.cli.options import Options, loader, options_for, read_options
from app.cli.parser import build_parser
from app.errors import AppError
from app.hardware.offers import Offer
from app.responder import LoadedPair
from app.sizes import gigabytes
from app.source import HubModel
from app.ui.settings import ChatSettings
from app.ui.setups import Choice
from app.ui.ways import NoRoomError, Way
from app.worker import CancelSwitch, Progress

_MODELS = ("pair", "target", "draft")


def chat_choice(args: argparse.Namespace, options: Options) -> Choice:
    """A pair as the chat takes it.

    Args:
        args: The flags that the chat was started with.
        options: What they mean for this pair.
    """
    settings = ChatSettings(
        title=options.pair.title,
        sampling=options.pair.sampling,
        drafting=options.drafting,
        system=options.system,
        max_tokens=options.max_tokens,
        stops=options.stops,
    )
    return Choice(ChatLoader(vars(args), options), settings)


@dataclass(frozen=True, slots=True)
class ChatLoader:
    """Loads a pair, and names the ways out where it does not fit; a value, as `PairLoader` is.

    Attributes:
        flags: What the chat was started with, as the parser gives it.
        options: What they mean for this pair.
    """

    flags: dict[str, Any]
    options: Options

    def __call__(self, cancel: CancelSwitch, progress: Progress) -> LoadedPair:
        try:
            return loader(self.options)(cancel, progress)
        except DoesNotFitError as error:
            args = argparse.Namespace(**self.flags)
            ways = tuple(_way(args, self.options, offer) for offer in error.offers)
            raise NoRoomError(error.message, ways, "" if ways else "f6 chooses another pair.") from error


def _way(args: argparse.Namespace, options: Options, offer: Offer) -> Way:
    gain = f"frees about {gigabytes(offer.gain_bytes)}" + ("" if offer.suffices else ", not enough alone")
    try:
        taken = with_flags(args, options, offer.flags) if offer.flags else None
    except AppError:
        # Such as a pair whose files have gone since.
        taken = None
    if taken is None:
        return Way(offer.what, gain, offer.cost)
    if not _is_here(taken):
        named = f"--target {taken.pair.target}" + (f" --draft {taken.pair.draft}" if taken.pair.draft else "")
        command = f"tandem setup {taken.pair.name if '--pair' in offer.flags else named}"
        return Way(offer.what, gain, offer.cost, command=command)
    return Way(offer.what, gain, offer.cost, chat_choice(_merged(args, offer.flags), taken))


def with_flags(args: argparse.Namespace, options: Options, flags: tuple[str, ...]) -> Options:
    """What the chat's flags and these together mean; flags that name models take the place of the pair.

    Raises:
        AppError: They cannot be meant together, or the models are not known.
    """
    merged = _merged(args, flags)
    if any(f"--{name}" in flags for name in _MODELS):
        return read_options(merged)
    return options_for(merged, options.pair, options.files)


def _merged(args: argparse.Namespace, flags: tuple[str, ...]) -> argparse.Namespace:
    given: dict[str, Any] = vars(build_parser().parse_args(list(flags)))
    del given["command"]
    kept = vars(args)
    if any(name in given for name in _MODELS):
        kept = {name: value for name, value in kept.items() if name not in _MODELS}
    if given.get("no_draft"):
        kept = {name: value for name, value in kept.items() if not name.startswith("draft")}
    return argparse.Namespace(**{**kept, **given})


def _is_here(options: Options) -> bool:
    return options.files is not None or not any(isinstance(source, HubModel) for source in options.pair.sources)
