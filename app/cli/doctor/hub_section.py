"""The way to the hub for `tandem doctor`: where downloads come from, and what in the environment stands against it."""

from __future__ import annotations

from app.errors import HubError
from app.hardware.checks import Line, Section
from app.hub.environment import check_way, hub_address, named_by
from app.hub.folder import unfinished
from app.sizes import gigabytes

_SHOWN = 5


def hub_section() -> Section:
    """The hub itself is not asked."""
    return Section("downloads", (_way(), *_unfinished()))


def _way() -> Line:
    try:
        check_way()
    except HubError as error:
        return Line("warning", "hub", error.message, hint=(error.hint,))
    named = named_by()
    return Line("untried", "hub", hub_address() + (f", by {named}" if named else ""))


def _unfinished() -> list[Line]:
    left = unfinished()
    if not left:
        return []
    files = f"{len(left)} files that have" if len(left) > 1 else "a file that has"
    what_to_do = (
        "The same set-up goes on behind it. What nobody wants any more can be deleted:",
        "  tandem pairs remove NAME",
        *(f"  {path}" for path in list(left)[:_SHOWN]),
    )
    return [Line("warning", "begun", f"{gigabytes(sum(left.values()))} of {files} not come whole", hint=what_to_do)]
