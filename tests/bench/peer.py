"""A llama-server of the same llama.cpp source, for comparison."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil


class LlamaServer:
    """One server process on loopback; use it as a context manager."""

    def __init__(self, binary: Path, target: Path, threads: int, n_ctx: int, extra: Sequence[object] = ()) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.address = ("127.0.0.1", port)
        self._url = f"http://127.0.0.1:{port}"
        arguments = ["-m", target, "-c", n_ctx, "-t", threads, "-tb", threads, "-np", 1, "--host", "127.0.0.1"]
        arguments += ["--port", port, "--no-webui", *extra]
        self._command = [str(binary), *map(str, arguments)]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> LlamaServer:
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(600):
            if self._process.poll() is not None:
                raise RuntimeError(f"llama-server ended with {self._process.returncode}: {' '.join(self._command)}")
            try:
                with urllib.request.urlopen(f"{self._url}/health", timeout=2):
                    return self
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        raise RuntimeError("llama-server did not become ready")

    def __exit__(self, *_: object) -> None:
        if self._process is None:
            return
        # A server that is asked to end writes the rest of its log first; a killed server loses it.
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def cpu_seconds(self) -> float:
        """Return the CPU seconds so far."""
        if self._process is None or self._process.poll() is not None:
            return 0.0
        times = psutil.Process(self._process.pid).cpu_times()
        return times.user + times.system

    @property
    def cpu_ns(self) -> int:
        """Return the nanoseconds of CPU time of its threads so far. Linux only."""
        assert self._process is not None
        tasks = Path(f"/proc/{self._process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks)

    def pause(self) -> None:
        """Stop the process."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue the process."""
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    @staticmethod
    def greedy(tokens: Sequence[int], n_predict: int) -> dict[str, Any]:
        """Return the body of a request for a greedy completion without a cached prompt."""
        return {
            "prompt": list(tokens),
            "n_predict": n_predict,
            "temperature": 0,
            "top_k": 1,
            "cache_prompt": False,
            "return_tokens": True,
        }
