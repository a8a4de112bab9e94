"""The log file tells what a process wrote before it ended."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

from app.core.log import logged_to, written_by


def test_messages_of_long_ago_are_left_out(tmp_path: Path) -> None:
    file = tmp_path / "tandem.log"
    began = time.time()
    with logged_to(file) as log:
        os.write(log, b"2026-01-01 10:00:00,123 tandem.llama: failed to parse grammar\n")
        logging.getLogger("tandem.llama").error("CUDA error: out of memory")
        os.write(log, b"ggml-cuda.cu:103: CUDA error\n")

    lines = written_by(os.getpid(), file, began).splitlines()

    assert [line.rpartition(" tandem.llama: ")[2] for line in lines] == [
        "CUDA error: out of memory",
        "ggml-cuda.cu:103: CUDA error",
    ]


def test_a_process_that_wrote_nothing_has_no_text(tmp_path: Path) -> None:
    assert written_by(1, tmp_path / "tandem.log", 0.0) == ""


def test_an_earlier_process_with_the_same_number_is_another(tmp_path: Path) -> None:
    file = tmp_path / "tandem.log"
    file.write_text(f"2026-01-01 10:00:00 tandem: process {os.getpid()}\nggml-cuda.cu:103: CUDA error\n")

    assert written_by(os.getpid(), file, time.time()) == ""
