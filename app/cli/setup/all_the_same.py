"""What is said of a pair that has come and that failed its trial, or that cannot be remembered: how to open it."""

from __future__ import annotations

from app.core.errors import AppError, PairError
from app.core.shell import command
from app.hardware.offers import Offer
from app.llama.fitting.does_not_fit import DoesNotFitError
from app.models.pair_names import model_flags
from app.models.registry import SetUp
from app.models.setup import Trying


def until_then(pair: SetUp) -> str:
    """How to chat with a pair as long as it cannot be remembered."""
    return f"Until then, chat with it: {command(_by_files(pair))}"


def failed_trial(error: AppError, tried: Trying) -> PairError:
    """Why a trial failed, with what has become of the pair.

    Args:
        error: Why.
        tried: The pair, and why it cannot be remembered, if so.
    """
    name, unkept = tried.pair.pair.name, tried.unkept
    if isinstance(error, DoesNotFitError):
        known = f"{name} is set up. " if unkept is None else ""
        words = ["tandem", "--pair", name] if unkept is None else _by_files(tried.pair)
        lost = [f"It is not in the list of pairs. {unkept.sentences}"] if unkept is not None else []
        return PairError(f"{known}{error.message}", "\n".join([*_ways(words, error), *lost]))
    forget = command(["tandem", "pairs", "remove", name])
    more = f"{name} is in the list of pairs all the same; to forget it: {forget}"
    if unkept is not None:
        more = f"{unkept.sentences}\n{until_then(tried.pair)}"
    return PairError(error.message, f"{error.hint}\n{more}".lstrip())


def _by_files(pair: SetUp) -> list[str]:
    """The words that open a pair which no list knows."""
    return ["tandem", *model_flags(*(str(model.path) for model in pair.models))]


def _ways(words: list[str], error: DoesNotFitError) -> list[str]:
    """How a pair that does not fit is opened, where these words open one that does."""
    enough = [offer for offer in error.offers if offer.suffices and offer.flags]
    ways = [f"{_command(words, offer)}: {offer.what} ({offer.cost})" for offer in enough]
    return ["Its files stay. Take one of these:", *ways, f"{command([*words, '--fit', 'off'])}: as it is"]


def _command(words: list[str], offer: Offer) -> str:
    """The command that takes an offer: of other models it brings them."""
    match offer.flags:
        case ("--pair", other):
            return command(["tandem", "setup", other])
        case ("--target", *_):
            return command(["tandem", "setup", *offer.flags])
    return command([*words, *offer.flags])
