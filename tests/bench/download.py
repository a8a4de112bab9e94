"""Measure downloads from a loopback hub against curl: `python -m tests.bench.download --megabytes 1000`.

The hub runs in a separate process. Both write to the same disk, in turn.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import tempfile
import time
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from app.models.hub.client import repository
from app.models.hub.download import Download
from app.models.progress import Watcher
from tests.models.hub.client import point_at
from tests.models.hub.loopback import LoopbackHub

REPO, NAME = "owner/big-GGUF", "big-Q4_K_M.gguf"


def serve(content: Path, pipe: Connection) -> None:
    """Run the hub until the other end of the pipe is closed; send its address first."""
    with LoopbackHub() as hub:
        hub.add(REPO, {NAME: content.read_bytes()})
        pipe.send(hub.endpoint)
        try:
            pipe.recv()
        except EOFError:
            return


def timed_curl(url: str, out: Path) -> float:
    started = time.perf_counter()
    subprocess.run(["curl", "-sSfL", "-o", out, url], check=True)
    return time.perf_counter() - started


def timed_fetch(cache: Path) -> float:
    listed = repository(REPO, "main")
    request = Download(listed.files[0], Watcher())
    started = time.perf_counter()
    request.run()
    seconds = time.perf_counter() - started
    shutil.rmtree(cache)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--megabytes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=None, help="folder for all files")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        content = folder / "content"
        with content.open("wb") as file:
            file.truncate(args.megabytes * 1_000_000)
        parent, child = get_context("spawn").Pipe()
        process = get_context("spawn").Process(target=serve, args=(content, child))
        process.start()
        child.close()
        endpoint = parent.recv()
        point_at(endpoint, folder / "hf", patch)
        url, copy = f"{endpoint}/{REPO}/resolve/main/{NAME}", folder / "copy"
        seconds: dict[str, list[float]] = {"curl": [], "tandem": []}
        for _ in range(args.rounds):
            seconds["curl"].append(timed_curl(url, copy))
            copy.unlink()
            seconds["tandem"].append(timed_fetch(folder / "hf"))
        parent.close()
        process.join()
    speeds = {name: args.megabytes / statistics.median(times) for name, times in seconds.items()}
    for name, speed in speeds.items():
        print(f"{name:8}{speed:8.0f} MB/s")
    print(f"ratio   {speeds['tandem'] / speeds['curl']:8.2f}")


if __name__ == "__main__":
    main()
