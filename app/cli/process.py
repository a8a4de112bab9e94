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


def add_process_flags(parser: argparse.ArgumentParser) -> None:
    """Give a command the flags that `read_process` reads."""
    group = parser.add_argument_group("process")
    alone = "run the models in a process of their own, so that Tandem outlives a crash of theirs"
    group.add_argument("--isolate", action="store_true", help=alone)
    add_rpc_flag(group, "; implies --isolate")


def add_rpc_flag(parser: argparse._ActionsContainer, more: str = "") -> None:
    """Give a command the flag that names servers; `more` is said of it besides."""
    parser.add_argument(
        "--rpc",
        action="append",
        metavar="HOST:PORT",
        help=f"use the devices of a ggml-rpc-server too (repeatable){more}. Prompts and weights cross the network as "
        "they are, and the server trusts whoever reaches it: trusted networks only",
    )


def read_process(args: argparse.Namespace) -> Process:
    """What the flags say.

    Raises:
        UsageError: A server is named twice, or what is named is none.
    """
    named: list[str] = getattr(args, "rpc", [])
    if not named:
        return Process(getattr(args, "isolate", False))
    from app.hardware.rpc import parse_endpoint

    servers = tuple(str(parse_endpoint(text)) for text in named)
    if len(set(servers)) != len(servers):
        raise UsageError("--rpc names a server twice.", "Name each once; all devices of a server take part.")
    return Process(isolate=True, rpc=servers)
