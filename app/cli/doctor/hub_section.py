"""The way to the hub for `tandem doctor`: where downloads come from, and what in the environment stands against it."""

from __future__ import annotations

from app.errors import HubError
from app.hardware.checks import Line, Section
from app.hub.environment import check_way, hub_address, named_by


def hub_section() -> Section:
    """One line; the hub itself is not asked."""
    try:
        check_way()
    except HubError as error:
        return Section("downloads", (Line("warning", "hub", error.message, hint=(error.hint,)),))
    named = named_by()
    address = hub_address() + (f", by {named}" if named else "")
    return Section("downloads", (Line("untried", "hub", address),))
