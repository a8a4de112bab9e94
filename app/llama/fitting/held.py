"""The memory that a loaded pair gives back before another one is loaded."""

from __future__ import annotations

from collections.abc import Mapping

import psutil

from app.hardware.device_room import MAIN
from app.models.pair_info import PairInfo


def held(pair: PairInfo | None) -> Mapping[str, int]:
    """Bytes that a pair holds of each device, as it was counted before it was loaded.

    Of RAM only what no one else could have while it is loaded: weights that are mapped from their files count
    as available for the system already.

    Args:
        pair: What is loaded here, or in a child of this process; None for nothing.
    """
    counted = {taken.device.lower(): taken.n_bytes for taken in pair.memory} if pair is not None else {}
    if MAIN in counted:
        counted[MAIN] = min(counted[MAIN], _own_bytes())
    return counted


def _own_bytes() -> int:
    """Memory of this process and its children that no file stands behind; where that is not told, all of it."""
    try:
        me = psutil.Process()
        found = [one.memory_info() for one in (me, *me.children(recursive=True))]
    except (OSError, psutil.Error):
        return 0
    return sum(int(info.rss - getattr(info, "shared", 0)) for info in found)
