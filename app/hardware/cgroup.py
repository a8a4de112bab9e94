"""Control groups of Linux: the limits that a container puts on this process."""

from __future__ import annotations

import re
from collections.abc import Callable

ROOT = "/sys/fs/cgroup"
Read = Callable[[str], str]
"""The text of a file; empty if it cannot be read."""


def folders(read: Read) -> list[str]:
    """Folders of the groups that this process is in, inner ones first, the root last (version 2)."""
    return _inside(ROOT, r"0::", read)


def older_folders(read: Read, controller: str) -> list[str]:
    """The same for version 1, where each controller has groups of its own, such as "cpu" and "memory"."""
    return _inside(f"{ROOT}/{controller}", rf"[0-9]+:(?:[^:\n]*,)?{controller}(?:,[^:\n]*)?:", read)


def _inside(root: str, hierarchy: str, read: Read) -> list[str]:
    membership = re.search(rf"^{hierarchy}(/.*)$", read("/proc/self/cgroup"), re.MULTILINE)
    group = membership.group(1).rstrip("/") if membership else ""
    # Inside a container the path may be the host's and not exist here; the root is then the container's own group.
    inner = [root + group[:end] for end in range(len(group), 0, -1) if group[end : end + 1] in ("", "/")]
    return [*inner, root]


def cpu_quota(read: Read) -> float | None:
    """Processors' worth of time that is granted, the tightest of all groups; None without a limit."""
    texts = [read(f"{folder}/cpu.max") for folder in folders(read)]
    # In the older layout -1 is no limit.
    for folder in older_folders(read, "cpu"):
        texts.append(" ".join(read(f"{folder}/cpu.cfs_{name}_us").strip() for name in ("quota", "period")))
    found = [re.fullmatch(r"([1-9][0-9]{0,14}) ([1-9][0-9]{0,14})", text.strip()) for text in texts]
    return min((int(one[1]) / int(one[2]) for one in found if one is not None), default=None)


def throttled_share(read: Read) -> float | None:
    """Share of time slices that were cut short because the quota was used up; None where nothing is limited."""
    for folder in (*folders(read), *older_folders(read, "cpu")):
        counters = dict(re.findall(r"^(nr_\w+) ([0-9]{1,18})$", read(f"{folder}/cpu.stat"), re.MULTILINE))
        if periods := int(counters.get("nr_periods", 0)):
            return int(counters.get("nr_throttled", 0)) / periods
    return None
