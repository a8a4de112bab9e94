"""What a download is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.core.errors import HubError, Interrupted
from app.models.hub.checksum import Checksum
from app.models.hub.choose import RemoteFile
from app.models.hub.retry import RetryPolicy
from app.models.hub.watcher import Watcher


@dataclass(frozen=True, slots=True)
class DownloadRequest:
    """One file that somebody wants.

    Attributes:
        repo: `owner/name`.
        commit: Its revision, as a commit, so that all requests mean the same bytes.
        file: What to bring.
        watcher: Told how it goes.
        cancelled: Read between two chunks.
        retry: How to wait, and how often.
        doubted: Whether what is here of it was found damaged, so that it is read again before it is taken.
    """

    repo: str
    commit: str
    file: RemoteFile
    watcher: Watcher
    cancelled: Callable[[], bool]
    retry: RetryPolicy
    doubted: bool = False

    def stop_if_cancelled(self) -> None:
        """Raise Interrupted if nobody wants it any more."""
        if self.cancelled():
            raise Interrupted

    def check(self, checksum: Checksum, sha256: str | None) -> bool:
        """Whether the file on disk is the one that is meant.

        Args:
            checksum: Of the file on disk.
            sha256: What it should be; a hub that names none is believed.

        Raises:
            Interrupted: Cancelled.
        """
        if sha256 is None:
            return True

        def say(share: float) -> None:
            self.watcher.waiting(f"{share:.0%} checked", 0)
            self.stop_if_cancelled()

        found = checksum.hexdigest(self.file.size, say)
        self.watcher.waiting("", 0)
        return found == sha256

    @property
    def damaged(self) -> HubError:
        """What to raise when it is another one."""
        return HubError(
            f"{self.file.path} arrives damaged: its checksum is not the one that the hub names.",
            "Something on the way changes it, such as a proxy or a failing disk. Try another network.",
        )
