"""The way of a store into memory, where the disk refuses, and back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from app.chat.database import Database
from app.chat.opening import move_into_memory
from app.chat.parting import Parting, part
from app.chat.recovery import Writers
from app.chat.rescue import rescue
from app.chat.tree import Transcript
from app.errors import RescuedError, StoreError


class Retreat:
    """For one store.

    Args:
        database: The store's.
        writers: This store among others.
    """

    def __init__(self, database: Database, writers: Writers) -> None:
        self._database = database
        self._writers = writers
        self._parting: Parting | None = None
        self.waits_for_end = False
        """Whether only the end can write what is in memory."""

    def from_copy(self, file: Path) -> None:
        """What is in memory is a copy of a file; what nobody writes any longer is cut in it."""
        self._writers.stand_beside(file)
        parting = part(self._database, file)
        self._writers.recover(self._database)
        self._parting = parting.begun(self._database)

    def from_nothing(self, file: Path) -> None:
        """What is in memory is all that there is to go into a file."""
        self._writers.stand_beside(file)
        self._parting = Parting(file, {}, set(), set(), {})
        self.waits_for_end = self._parting.is_damaged

    def leave(self) -> None:
        """Go on with a copy in memory. Raises StoreError where none can be made."""
        file = self._database.file
        move_into_memory(self._database)
        if file is not None:
            self._parting = part(self._database, file)
            self.waits_for_end = self._parting.is_damaged

    def come_back(self) -> bool:
        """Write what has changed since, and go on in the file; see `Parting.go_back`. Raises StoreError."""
        if self._parting is None:
            return False
        # For those who find an answer on its way in the file.
        self._writers.sign()
        back = self._parting.go_back(self._database)
        self.waits_for_end = back is None
        if back is None:
            return False
        self._database.replace(back.connection, back.file)
        self._parting = None
        return True

    def end(self, transcript: Callable[[int], Transcript]) -> None:
        """Write what has changed since; see `Parting.bring_back`. A second time does nothing.

        Raises:
            StoreError: The disk still refuses; it says where else it is.
        """
        parting, self._parting = self._parting, None
        if parting is None:
            return
        try:
            parting.bring_back(self._database, transcript)
        except StoreError as error:
            raise self._rescued(error, [transcript(number) for number in parting.unwritten(self._database)]) from error

    def _rescued(self, error: StoreError, transcripts: Sequence[Transcript]) -> StoreError:
        """Why the disk has not taken these, and what became of them."""
        if not transcripts:
            return error
        file = rescue(transcripts)
        if file is None:
            return StoreError(f"{error.message} What was said since is lost.", error.hint)
        return RescuedError(f"{error.message} What was said since is in {file}.", file)
