"""Measure the cost of the screen: the time to the first frame, and the tokens that drawing takes from the models.

python -m tests.bench.screen [--runs 3] [--tokens 300] [--rate 100] [--only first|pair|fake] [--pair -m FILE ...]

The real program runs in pseudo terminals, with separate folders. A pair answers one prompt greedily, without drafts, in
turn without a screen (`tandem run`) and in a chat of each size; ratios are of consecutive runs. A fake engine that
only sleeps shows what drawing takes at some tokens per second: frames, bytes and CPU time.
"""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from tests.bench.streamer import Streamer
from tests.bench.terminal import PseudoTerminal

_SIZES = {"80x24": (80, 24), "120x40, numbers open": (120, 40), "200x60": (200, 60)}
_F5 = "\x1b[15~"
_PROMPT = "Write a long story about a lighthouse, with a list of its rooms and a table of its ships."
_FLAGS = ["--temp", "0", "--no-draft"]
_READY_TEXT = "Tandem"
_FAKE_S = 15
_QUIET_S = 2.0
"""Seconds without a frame after which an answer has ended."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--only", choices=["first", "pair", "fake"])
    parser.add_argument("--rate", type=int, default=100, help="tokens per second of the fake engine")
    parser.add_argument("--pair", nargs=argparse.REMAINDER, help="flags of the pair; the demo pair without them")
    parser.add_argument("--stream", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.stream:
        _stream(args.stream, args.rate)
        return
    _FLAGS.extend(args.pair or ["--pair", "demo"])
    with tempfile.TemporaryDirectory() as folder:
        env = environment(Path(folder))
        # The first run makes the draft model of the demo and compiles the modules.
        _headless(env, 8)
        if args.only in (None, "first"):
            _first_frames(env, args.runs)
        if args.only in (None, "fake"):
            for name, size in _SIZES.items():
                _fake(name, size, env, Path(folder) / "share", args.rate)
        if args.only in (None, "pair"):
            _pair(env, Path(folder), args.runs, args.tokens)


def environment(folder: Path) -> dict[str, str]:
    """Return environment variables with separate folders; modules are compiled as in an installed program.

    The models write no titles, which one chat would do while another is measured.
    """
    settings = folder / "CONFIG" / "tandem" / "settings.toml"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text("[answer]\ntitles = false\n")
    given = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    homes = {f"XDG_{name}_HOME": str(folder / name) for name in ("CONFIG", "CACHE", "DATA", "STATE")}
    return {**given, **homes, "TERM": "xterm-256color", "COLORTERM": "truecolor"}


def _chat(*flags: str) -> list[str]:
    return [sys.executable, "-m", "app", *_FLAGS, *flags]


def _first_frames(env: dict[str, str], runs: int) -> None:
    for name, size in _SIZES.items():
        times, spent = [], []
        # The first run compiles the remaining modules.
        for run in range(max(5, runs) + 1):
            terminal = PseudoTerminal(_chat(), size, env)
            waited = terminal.until(_READY_TEXT)
            if run:
                times.append(waited * 1e3)
                spent.append(terminal.cpu_seconds() * 1e3)
            terminal.close()
        print(
            f"first frame, {name:28} {statistics.median(times):7.0f} ms, {min(times):.0f} to {max(times):.0f}, "
            f"{statistics.median(spent):.0f} of them CPU time",
            flush=True,
        )


# The pair


def _headless(env: dict[str, str], tokens: int) -> float:
    command = [sys.executable, "-m", "app", "run", *_FLAGS, "--json", "--max-tokens", str(tokens), _PROMPT]
    done = subprocess.run(command, env=env, capture_output=True, check=True, text=True)
    found: float = _find(json.loads(done.stdout), "predicted_per_second")
    return found


def _find(document: object, name: str) -> float:
    """Return a number from anywhere in a JSON object."""
    nested = document.values() if isinstance(document, dict) else ()
    if isinstance(document, dict) and name in document:
        return float(document[name])
    return next((found for value in nested if (found := _find(value, name))), 0.0)


def _pair(env: dict[str, str], folder: Path, runs: int, tokens: int) -> None:
    """Compare each answer of a chat with a run beside it, before or after it; chats that wait are stopped."""
    for number, (name, size) in enumerate(_SIZES.items()):
        data = folder / f"data{number}"
        terminal = PseudoTerminal(_chat("--max-tokens", str(tokens)), size, {**env, "XDG_DATA_HOME": str(data)})
        terminal.until("ready")
        if "open" in name:
            terminal.type(_F5)
        # The first answer of a process is none of those that count.
        _answer(terminal, data)
        terminal.pause()
        ratios, speeds, gaps = list[float](), list[float](), list[float]()
        for run in range(runs):
            alone = _headless(env, tokens) if run % 2 == 0 else 0.0
            terminal.go_on()
            speeds.append(_answer(terminal, data))
            gaps += terminal.frame_gaps
            terminal.pause()
            ratios.append(speeds[-1] / (alone or _headless(env, tokens)))
        terminal.close()
        print(
            f"{name:28} {statistics.median(speeds):7.1f} tok/s, {statistics.median(ratios):.3f} of no screen, "
            f"{min(ratios):.3f} to {max(ratios):.3f}; {1e3 * statistics.median(gaps):.0f} ms between frames",
            flush=True,
        )


def _answer(terminal: PseudoTerminal, data: Path) -> float:
    """Send the prompt in a new conversation; return the speed that the chat measured."""
    terminal.type("\x0e")
    time.sleep(0.5)
    terminal.type(_PROMPT)
    time.sleep(0.5)
    before = len(_stored(data))
    terminal.type("\r")
    while len(stored := _stored(data)) == before:
        # Reading the file takes time from the models.
        terminal.rest(_QUIET_S)
    return _find(json.loads(stored[-1]), "predicted_per_second")


def _stored(data: Path) -> list[str]:
    """Return the numbers of every ended answer; a running answer has no speed yet."""
    found: list[str] = []
    for file in data.rglob("*.db"):
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as db:
            found += [row[0] for row in db.execute("SELECT stats FROM messages ORDER BY id")]
    return [stats for stats in found if _find(json.loads(stats), "predicted_per_second")]


# The fake engine


def _fake(name: str, size: tuple[int, int], env: dict[str, str], result: Path, rate: int) -> None:
    command = [sys.executable, "-m", "tests.bench.screen", "--stream", str(result), "--rate", str(rate)]
    terminal = PseudoTerminal(command, size, env)
    terminal.until("ready")
    if "open" in name:
        terminal.type(_F5)
        terminal.until("f5 more")
    terminal.type("go\r")
    terminal.wait()
    sizes, share = terminal.frame_sizes, float(result.read_text())
    print(
        f"{rate} tok/s, {name:22} {len(sizes) / _FAKE_S:5.1f} frames/s, {statistics.mean(sizes) / 1e3:5.2f} kB and "
        f"{1e3 * share * _FAKE_S / len(sizes):5.2f} ms of CPU time a frame, {share:6.1%} of a core",
        flush=True,
    )


def _stream(result: Path, rate: int) -> None:
    """Run the chat with the fake engine and a list of conversations."""
    from app.conversations.store import Store
    from app.ui.terminal.driver import install_driver
    from tests.ui.driver import fill
    from tests.ui.fakes import FakeOpener, fake_app

    def ended(share: float) -> None:
        result.write_text(str(share))
        # The last frame is on its way.
        time.sleep(0.5)
        os._exit(0)

    install_driver()
    file = Path(tempfile.mkdtemp(dir=result.parent)) / "conversations.db"
    fill(file, *(f"A conversation about {number} things" for number in range(21)))
    made = partial(Streamer, seconds=_FAKE_S, ended=ended, rate=rate)
    app, _ = fake_app(engine=made, opener=FakeOpener(), store=lambda: Store(file))
    app.run()


if __name__ == "__main__":
    main()
