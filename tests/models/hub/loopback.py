"""A stand-in for huggingface.co on the loopback interface: it speaks the protocol of the real hub to any client."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from types import TracebackType
from typing import Any

from tests.models.hub.content import HubRepo
from tests.models.hub.faults import Faults
from tests.models.hub.server import Exchange, Origin
from tests.models.hub.site import Site
from tests.models.hub.wire import Journal, Request


class LoopbackHub(Site):
    """A running hub with its CDN on a second port; a context manager."""

    def __init__(self) -> None:
        super().__init__()
        self.faults = Faults()
        self.journal = Journal()
        self._hub = Origin("hub", self.journal, self._serve)
        self._cdn = Origin("cdn", self.journal, self._serve)
        self.endpoint = self._hub.endpoint
        self.cdn_endpoint = self._cdn.endpoint

    def __enter__(self) -> LoopbackHub:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes both ports; every connection is ended, and every thread."""
        self.faults.release()
        self._hub.close()
        self._cdn.close()

    def add(self, repo: str, files: Mapping[str, bytes], **options: Any) -> HubRepo:
        """A repository with these files; the options are `HubRepo`'s: gated, license, downloads and gguf"""
        held = HubRepo(repo, **options)
        held.change(files)
        self.repos[repo] = held
        return held

    def replace(self, repo: str, path: str, content: bytes) -> None:
        """Commit another version of a file; the old commit keeps the old one."""
        self.repos[repo].change({path: content})

    @property
    def requests(self) -> list[Request]:
        """Everything asked so far, answered or not."""
        return self.journal.snapshot()

    @property
    def errors(self) -> list[BaseException]:
        """Errors of the servers themselves; always empty."""
        return self._hub.errors + self._cdn.errors

    def asked(self, path: str = "*", *, method: str = "*", origin: str = "*") -> list[Request]:
        """The requests whose path or file fits this glob, once they are answered (or held back by a fault)."""
        self.journal.settle()
        return [
            request
            for request in self.requests
            if method in ("*", request.method)
            and origin in ("*", request.origin)
            and any(fnmatchcase(name, path) for name in (request.path, request.file or ""))
        ]

    def _serve(self, exchange: Exchange, request: Request) -> None:
        request.file = self.file_of(request)
        fault = self.faults.take(request)
        fault.deliver(exchange, fault.alter(request, self.answer(request)))
