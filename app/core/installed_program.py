"""Programs of the system and of vendors, found where they are installed and nowhere else."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence


def find(name: str, folders: Sequence[str] = ()) -> str | None:
    """The path of a program; None if it is not installed.

    Windows would look into the folder that the user works in before all others, and what somebody has downloaded or
    unpacked there may be called like a program of the system.

    Args:
        name: Without an ending.
        folders: Where else than in those of PATH.
    """
    places = [*os.environ.get("PATH", os.defpath).split(os.pathsep), *folders]
    if sys.platform != "win32":
        return shutil.which(name, path=os.pathsep.join(places))
    files = (os.path.join(place.strip('"'), f"{name}.exe") for place in places)  # noqa: PTH118 - PATH may hold anything
    return next((file for file in files if os.path.isabs(file) and os.path.isfile(file)), None)  # noqa: PTH113, PTH117
