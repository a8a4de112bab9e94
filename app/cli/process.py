"""In which process a pair runs, and on whose machines: flags alone say that, never a file."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from app.core.errors import UsageError


@dataclass(frozen=True, slots=True)
class Process:
    """Where a pair runs.

    Attributes:
        isolate: Whether in a process of its own.
        rpc: Servers whose devices take part, as "host:port"; a pair that uses them is always isolated.
    """

    isolate: bool = False
    rpc: tuple[str, ...] = ()


def read_process(args: argparse.Namespace) -> Process:
    """What the flags say.

    Raises:
        UsageError: A server is named twice, or what is named is none.
    """
    named: tuple[str, ...] = getattr(args, "rpc", ())
    if not named:
        return Process(getattr(args, "isolate", False))
    from app.hardware.rpc import parse_endpoint

    servers = tuple(str(parse_endpoint(text)) for text in named)
    if len(set(servers)) != len(servers):
        raise UsageError("--rpc names a server twice.", "Name each once; all devices of a server take part.")
    return Process(isolate=True, rpc=servers)
