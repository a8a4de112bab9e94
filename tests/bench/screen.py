"""What the screen costs: the time to its first frame, and the tokens that drawing takes from the models.

python -m tests.bench.screen [--runs 3] [--tokens 300] [--only first|pair|fake]

The real program runs in pseudo terminals, with folders of its own. The demo pair answers one prompt greedily, without
drafts, in turn without a screen (`tandem run`) and in chats of two sizes; ratios are of runs that follow each other. An
engine that only sleeps tells what share of a core drawing takes at 200 tokens a second.
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
import threading
import time
from collections.abc import Callable
from pathlib import Path

from app.engine.stats import GenerationStats
from app.engine.text import Segment
from app.engine.types import DraftingStatus, FinishReason, Origin
from app.events import AnswerPlan, Event, Finished, Loaded, StepCompleted
from app.responder import AnswerRequest
from app.worker import Job, Loader
from tests.bench.terminal import PseudoTerminal

_SIZES = {"chat 80x24": (80, 24), "chat 200x60, panels open": (200, 60)}
_PROMPT = "Write a long story about a lighthouse, with a list of its rooms and a table of its ships."
_FLAGS = ("--pair", "demo", "--temp", "0", "--no-draft")
_SEEN = "Tandem"
_FAKE_PER_SECOND, _FAKE_PER_ROUND, _FAKE_S = 200, 4, 15
_TEXT = (
    "## A heading\n\nSome **words** of an answer with `code` in it, and more words that fill the line.\n\n"
    "```python\ndef total(items):\n    return sum(item.price for item in items)\n```\n\n- one\n- two\n\n"
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--only", choices=["first", "pair", "fake"])
    parser.add_argument("--stream", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.stream:
        _stream(args.stream)
        return
    with tempfile.TemporaryDirectory() as folder:
        environment = _environment(Path(folder))
        # The draft of the demo is made, and every module compiled, before anything is measured.
        _headless(environment, 8)
        if args.only in (None, "first"):
            _first_frames(environment, args.runs)
        if args.only in (None, "fake"):
            for name, size in _SIZES.items():
                _fake(name, size, environment, Path(folder) / "cost.json")
        if args.only in (None, "pair"):
            _pair(environment, Path(folder), args.runs, args.tokens)


def _environment(folder: Path) -> dict[str, str]:
    homes = {f"XDG_{name}_HOME": str(folder / name) for name in ("CONFIG", "CACHE", "DATA", "STATE")}
    return {**os.environ, **homes, "TERM": "xterm-256color", "COLORTERM": "truecolor"}


def _chat(*flags: str) -> list[str]:
    return [sys.executable, "-m", "app", *_FLAGS, *flags]


def _first_frames(environment: dict[str, str], runs: int) -> None:
    for name, size in _SIZES.items():
        times = []
        for _ in range(max(5, runs)):
            terminal = PseudoTerminal(_chat(), size, environment)
            times.append(terminal.until(_SEEN) * 1e3)
            terminal.close()
        print(
            f"first frame, {name:28} {statistics.median(times):7.0f} ms, {min(times):.0f} to {max(times):.0f}",
            flush=True,
        )


# The pair


def _headless(environment: dict[str, str], tokens: int) -> float:
    command = [sys.executable, "-m", "app", "run", *_FLAGS, "--json", "--max-tokens", str(tokens), _PROMPT]
    done = subprocess.run(command, env=environment, capture_output=True, check=True, text=True)
    found: float = _find(json.loads(done.stdout), "predicted_per_second")
    return found


def _find(document: object, name: str) -> float:
    """A number wherever it stands in a JSON object."""
    nested = document.values() if isinstance(document, dict) else ()
    if isinstance(document, dict) and name in document:
        return float(document[name])
    return next((found for value in nested if (found := _find(value, name))), 0.0)


def _pair(environment: dict[str, str], folder: Path, runs: int, tokens: int) -> None:
    chats: dict[str, tuple[PseudoTerminal, Path]] = {}
    for number, (name, size) in enumerate(_SIZES.items()):
        data = folder / f"data{number}"
        own = {**environment, "XDG_DATA_HOME": str(data)}
        chats[name] = PseudoTerminal(_chat("--max-tokens", str(tokens)), size, own), data
    contenders: dict[str, Callable[[], float]] = {"no screen": lambda: _headless(environment, tokens)}
    for name, (terminal, data) in chats.items():
        terminal.until("ready")
        contenders[name] = lambda terminal=terminal, data=data: _answer(terminal, data)  # type: ignore[misc]
    speeds: dict[str, list[float]] = {name: [] for name in contenders}
    for run in range(runs):
        for name in list(contenders) if run % 2 == 0 else list(reversed(contenders)):
            speeds[name].append(contenders[name]())
    for terminal, _ in chats.values():
        terminal.close()
    for name, own_speeds in speeds.items():
        ratios = [mine / theirs for mine, theirs in zip(own_speeds, speeds["no screen"], strict=True)]
        print(
            f"{name:28} {statistics.median(own_speeds):7.1f} t/s, {statistics.median(ratios):.3f} of no screen, "
            f"{min(ratios):.3f} to {max(ratios):.3f}",
            flush=True,
        )


def _answer(terminal: PseudoTerminal, data: Path) -> float:
    """Put the prompt in a new conversation; the speed that the chat has measured and kept."""
    before = len(_kept(data))
    terminal.type("\x0e")
    time.sleep(0.5)
    terminal.type(_PROMPT)
    time.sleep(0.5)
    terminal.type("\r")
    while len(kept := _kept(data)) == before:
        time.sleep(0.5)
    return _find(json.loads(kept[-1]), "predicted_per_second")


def _kept(data: Path) -> list[str]:
    """The numbers of every answer that has ended."""
    found: list[str] = []
    for file in data.rglob("*.db"):
        with sqlite3.connect(f"file:{file}?mode=ro", uri=True) as db:
            found += [row[0] for row in db.execute("SELECT stats FROM messages WHERE stats != '{}' ORDER BY id")]
    return found


# The engine that only sleeps


def _fake(name: str, size: tuple[int, int], environment: dict[str, str], result: Path) -> None:
    command = [sys.executable, "-m", "tests.bench.screen", "--stream", str(result)]
    terminal = PseudoTerminal(command, size, environment)
    terminal.until("ready")
    terminal.type("go\r")
    terminal.wait()
    cost = json.loads(result.read_text())
    print(
        f"{_FAKE_PER_SECOND} tokens/s, {name:28} {cost['share']:6.1%} of a core, {cost['looks']:.1f} frames/s",
        flush=True,
    )


class _Sleeper:
    """Satisfies `app.ui.app.Engine`; says a fixed text at a fixed speed, then writes what it cost and ends all."""

    def __init__(self, emit: Callable[[Event], None], result: Path) -> None:
        self._emit = emit
        self._result = result

    def load(self, loader: Loader) -> None:
        from tests.ui.fakes import PAIR

        self._emit(Loaded(PAIR))

    def answer(self, request: AnswerRequest) -> int:
        threading.Thread(target=self._say, daemon=True).start()
        return 1

    def run(self, job: Job) -> int:
        raise AssertionError

    def cancel(self) -> None:
        """Nothing runs that would have to be stopped."""

    def close(self, timeout: float | None = None) -> bool:
        return True

    def _say(self) -> None:
        words = [_TEXT[at : at + 4] for at in range(0, len(_TEXT), 4)]
        stats = GenerationStats(predicted_n=1, prompt_n=50)
        drafting = DraftingStatus("model", "the draft model is right 82% of the time it goes on", "winning", 3.1)
        began, spent = time.perf_counter(), time.process_time()
        rounds = _FAKE_S * _FAKE_PER_SECOND // _FAKE_PER_ROUND
        for number in range(rounds):
            time.sleep(max(0.0, began + number * _FAKE_PER_ROUND / _FAKE_PER_SECOND - time.perf_counter()))
            said = "".join(words[(number * _FAKE_PER_ROUND + at) % len(words)] for at in range(_FAKE_PER_ROUND))
            stats.observe_step(_FAKE_PER_ROUND, _FAKE_PER_ROUND - 1, _FAKE_PER_ROUND)
            stats.predicted_n += _FAKE_PER_ROUND
            stats.predicted_ns = int((time.perf_counter() - began) * 1e9)
            self._emit(StepCompleted(1, (Segment(said, Origin.DRAFT),), stats.snapshot(), drafting))
        share = (time.process_time() - spent - time.thread_time()) / (time.perf_counter() - began)
        self._emit(Finished(1, FinishReason.STOP, "x", "", stats.snapshot(), AnswerPlan("auto", "model", None, None)))
        self._result.write_text(json.dumps({"share": share, "looks": _looks / (time.perf_counter() - began)}))
        os._exit(0)


_looks = 0


def _stream(result: Path) -> None:
    """The chat over the engine that only sleeps."""
    from app.ui.app import make_app
    from app.ui.readouts import Readouts
    from app.ui.settings import ChatSettings

    measured = Readouts.measured

    def counted(*args: object, **more: object) -> None:
        global _looks
        _looks += 1
        measured(*args, **more)  # type: ignore[arg-type]

    Readouts.measured = counted  # type: ignore[method-assign]

    def nothing(cancel: object, progress: object) -> object:
        raise AssertionError

    make_app(lambda emit: _Sleeper(emit, result), nothing, ChatSettings("A pair")).run()  # type: ignore[arg-type]


if __name__ == "__main__":
    main()
