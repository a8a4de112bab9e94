"""What of the pairs is here and what would have to be downloaded: said above the lines, and before anything comes."""

from __future__ import annotations

from collections.abc import Iterator

from textual.content import Content
from textual.widgets import Static

from app.core.printable import printable
from app.core.units import gigabytes
from app.models.pair_size import NO_FILE
from app.models.recommend import Fit
from app.ui.key_names import key
from app.ui.models.state import PairCard, SetupProgress, Stage

_LOOKING = "To download: seeing what this machine can run …"


class PairSection(Static):
    """The line above pairs that are here, or above those that are not.

    Args:
        here: Which of the two.
    """

    def __init__(self, here: bool) -> None:
        super().__init__()
        self.here = here

    def show(self, *, below: bool, looking: bool, first: bool) -> None:
        """Say what is below.

        Args:
            below: Whether there is anything.
            looking: Whether nobody knows yet what there will be to download.
            first: Whether nothing is above.
        """
        self.display = below or (looking and not self.here)
        self.set_class(not first, "-below-others")
        to_come = _LOOKING if looking else "To download, the best for this machine first"
        self.update("On this machine" if self.here else to_come)


def question(card: PairCard, job: SetupProgress | None) -> str:
    """What has to be agreed to before a pair is set up; "" for nothing, or where it was said already."""
    if card.here or job is not None:
        return ""
    what = f"downloads {gigabytes(card.to_come)}" if card.to_come else "sets it up"
    if card.fit is Fit.TOO_BIG:
        return f"It {card.reason}. {_enter().capitalize()} again {what} all the same."
    return f"{_enter().capitalize()} again {what}, {key('pairs.leave', 'esc')} does not." if card.to_come else ""


def before_start(card: PairCard, job: SetupProgress | None) -> Iterator[Content]:
    """What enter would do with a pair that is not set up yet."""
    if job is not None and job.stage is Stage.ASKING:
        to_come, free = gigabytes(job.to_come), gigabytes(job.free)
        again = f"{_enter().capitalize()} again downloads {to_come}{_besides(job.came)}; {free} of disk are free."
        yield Content.styled(again, "bold")
    elif job is not None:
        return
    elif card.here:
        yield Content(f"Already on this machine: {_enter()} opens it, nothing is downloaded.")
    elif card.size == NO_FILE:
        yield Content("A file of it is not where it was: put it back there, or choose another pair.")
    elif card.to_come:
        to_come = f"{gigabytes(card.to_come)} to download{_besides(card.came)}"
        yield Content(f"{to_come}; {_enter()} asks once more before it begins.")
    elif card.to_come is None:
        yield Content(f"Not on this machine; {_enter()} asks the hub how large it is, and you before it is downloaded.")


def _besides(came: int) -> str:
    """What need not come any more, as the middle of a sentence."""
    return f", {gigabytes(came)} are here already" if came else ""


def _enter() -> str:
    return key("pairs.choose", "enter")


def without_hub(ready: str) -> str:
    """How to start where the hub cannot be reached.

    Args:
        ready: A pair that is here; "" if there is none.
    """
    own = f"{key('pairs.add', 'ctrl+a')} takes GGUF files of this machine."
    return f"Without the hub: {printable(ready)}, the first line, needs no download; {own}" if ready else own
