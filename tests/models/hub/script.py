"""The script of faults: which request meets which fault, and how often."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TypeVar

from tests.models.hub.faults import Fault
from tests.models.hub.wire import Request

F = TypeVar("F", bound=Fault)


@dataclass
class _Rule:
    fault: Fault
    path: str
    method: str
    origin: str
    when: Callable[[Request], bool] | None
    left: int | None

    def fits(self, request: Request) -> bool:
        return (
            self.left != 0
            and self.method in ("*", request.method)
            and self.origin in ("*", request.origin)
            and any(fnmatchcase(name, self.path) for name in (request.path, request.file or ""))
            and (self.when is None or self.when(request))
        )


class Faults:
    """The script: the first fault that fits a request is applied, and used up after its times."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rules: list[_Rule] = []

    def add(
        self,
        fault: F,
        path: str = "*",
        *,
        method: str = "*",
        origin: str = "*",
        times: int | None = 1,
        when: Callable[[Request], bool] | None = None,
    ) -> F:
        """Adds a fault.

        Args:
            path: A glob on the decoded path of the request, or on the name of the repository file it is about (which
                also finds requests to the CDN).
            method: "GET", "HEAD" and so on.
            origin: "hub" or "cdn".
            times: For how many requests; None for all.
            when: A condition on top.
        """
        with self._lock:
            self._rules.append(_Rule(fault, path, method, origin, when, times))
        return fault

    def take(self, request: Request) -> Fault:
        with self._lock:
            rule = next((rule for rule in self._rules if rule.fits(request)), None)
            if rule is None:
                return Fault()
            if rule.left is not None:
                rule.left -= 1
            return rule.fault

    def clear(self) -> None:
        """Forgets the script and lets go of what is held back."""
        self.release()
        with self._lock:
            self._rules.clear()

    def release(self) -> None:
        with self._lock:
            faults = [rule.fault for rule in self._rules]
        for fault in faults:
            fault.release()
