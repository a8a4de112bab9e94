"""What is told to the worker that is to load a pair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.cli.options import Options
from app.worker.request import LoadedPair

if TYPE_CHECKING:
    from app.worker.commands import CancelSwitch, Progress


@dataclass(frozen=True, slots=True)
class PairLoader:
    """What the worker calls, on its thread, to load a pair; a value, so that the worker may be in another process.

    Attributes:
        options: What the pair is, and where it goes.
    """

    options: Options

    def __call__(self, cancel: CancelSwitch, progress: Progress) -> LoadedPair:
        # What the machine has and llama.cpp can do is first looked at here; whoever asks does not wait for it.
        from app.cli.loading import load

        return load(self.options, cancel, progress)
