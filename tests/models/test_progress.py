"""Check the line that shows the progress of a download."""

from __future__ import annotations

import pytest

from app.core.units import GB
from app.models.progress import DownloadProgress, FileProgress


@pytest.mark.parametrize(("bytes_per_s", "speed"), [(120_000, "120 kB/s"), (2_000_000, "2 MB/s"), (3, "")])
def test_the_line_has_the_speed(bytes_per_s: float, speed: str) -> None:
    line = DownloadProgress((FileProgress("target", 0, 2 * GB),), bytes_per_s, None).line

    assert line == f"target 0 MB of 2.0 GB  {speed}".rstrip()
