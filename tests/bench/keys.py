"""Measure the latency of a key: python -m tests.bench.keys [--only start|stream]

The program runs in a pseudo terminal of 120 x 40. Letters are typed one at a time, and the time is measured until the
program draws each one. This is done after the first frame, while the demo pair is loaded, and while a fake engine
streams 200 tokens per second at the end of answers of several lengths and kinds, with the store on disk.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from tests.bench.screen import environment
from tests.bench.terminal import PseudoTerminal

_SIZE = (120, 40)
_LETTERS = [chr(code) for first, last in ((0x3B1, 0x3C9), (0x430, 0x44F)) for code in range(first, last)]
"""Greek and Cyrillic, which nothing else on the screen uses."""
_AFTER_START_S = 2.0
_STREAM_S = 60.0
_LENGTHS = (0, 10_000, 50_000)
_KINDS = {
    "mixed": "## A heading\n\nSome **words** with `code` in it.\n\n```python\nx = 1\n```\n\n- one\n- two\n\n",
    "one paragraph": "word and *word* and ",
    "code": "```python\n" + "def f(x):\n    return g(x) + 1  # more\n\n" * 20_000,
    "table": "| name | value |\n|---|---|\n" + "| some name | some value |\n" * 40_000,
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=["start", "stream"])
    parser.add_argument("--stream", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.stream:
        _stream(*args.stream)
        return
    with tempfile.TemporaryDirectory() as folder:
        env = environment(Path(folder))
        if args.only in (None, "start"):
            waits = [wait for _ in range(5) for wait in _after_start(env)]
            _print("while the demo pair is loaded", waits)
        if args.only in (None, "stream"):
            for kind in _KINDS:
                for length in _LENGTHS:
                    _print(f"{kind} after {length:,} tokens", _while_streaming(env, kind, length, folder))


def _print(title: str, waits: Sequence[float]) -> None:
    late = sum(wait > 0.05 for wait in waits)
    ranked = sorted(waits)
    print(
        f"{title:36} median {statistics.median(waits) * 1e3:5.1f} ms, "
        f"95% {ranked[int(len(ranked) * 0.95)] * 1e3:5.1f}, "
        f"worst {ranked[-1] * 1e3:6.1f}; {late} of {len(waits)} above 50",
        flush=True,
    )


def _press(terminal: PseudoTerminal, letters: Sequence[str]) -> list[float]:
    """Type letters at random times; return the seconds until each was drawn."""
    waits = []
    chance = random.Random(1)
    for letter in letters:
        pressed = time.perf_counter()
        terminal.type(letter)
        terminal.until(letter)
        waits.append(time.perf_counter() - pressed)
        time.sleep(chance.uniform(0.02, 0.12))
    return waits


def _after_start(env: dict[str, str]) -> list[float]:
    terminal = PseudoTerminal([sys.executable, "-m", "app", "--pair", "demo"], _SIZE, env)
    terminal.until("Tandem")
    began, waits = time.perf_counter(), []
    for letter in _LETTERS:
        waits += _press(terminal, letter)
        if time.perf_counter() - began > _AFTER_START_S:
            break
    terminal.close()
    return waits


def _while_streaming(env: dict[str, str], kind: str, length: int, folder: str) -> list[float]:
    store = tempfile.mkdtemp(dir=folder)
    command = [sys.executable, "-m", "tests.bench.keys", "--stream", kind, str(length), store]
    terminal = PseudoTerminal(command, _SIZE, env)
    terminal.until("ready")
    terminal.type("go\r")
    # Wait for the first part of the answer.
    time.sleep(3.0)
    waits = _press(terminal, _LETTERS)
    terminal.close()
    return waits


def _stream(kind: str, length: str, store: str) -> None:
    """Run the chat with the fake engine."""
    from app.conversations.store import Store
    from tests.bench.streamer import Streamer
    from tests.ui.fakes import FakeOpener, fake_app

    made = partial(Streamer, seconds=_STREAM_S, text=_KINDS[kind], at_once=int(length), ended=lambda _: os._exit(0))
    app, _ = fake_app(engine=made, opener=FakeOpener(), store=lambda: Store(Path(store) / "conversations.db"))
    app.run()


if __name__ == "__main__":
    main()
