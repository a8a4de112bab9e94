"""Between rows of the store and values."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

from app.conversations.ending import UNKNOWN, ending_in
from app.conversations.message import Role
from app.conversations.tree import TELLING, Document, Node, State, Summary, model_in
from app.core.errors import StoreError

SUMMARY = "id, title, named, pinned, created, updated"
"""The columns that `to_summary` takes."""
NODE = "id, parent, role, text, reasoning, state, created, stats"
"""The columns that `to_node` takes."""
LAST_SECOND = 32_503_679_999.0
"""The end of the year 2999: a little later Windows tells no local time, and much later Python tells none."""
_NUMBERS = int | float
_NOTHING = "{}"
_ROLES = {role.value: role for role in Role}
_STATES = {state.value: state for state in State}


def to_summary(row: Sequence[Any]) -> Summary:
    """A line of the list, as well as it can be read: a disk or a hand may have changed it."""
    number, title, named, pinned, created, updated = row
    return Summary(number, to_text(title), bool(named), bool(pinned), to_seconds(created), to_seconds(updated))


def to_state(raw: Any) -> State:
    """How far a message is; one that is broken is not whole."""
    return _STATES.get(raw, State.CUT)


def to_node(row: Sequence[Any]) -> Node:
    """A message, as well as it can be read: one that is broken must not take the others with it."""
    number, parent, raw_role, text, reasoning, raw_state, created, stats = row
    role, state = _ROLES.get(raw_role, Role.USER), to_state(raw_state)
    numbers = {} if stats == _NOTHING else to_document(stats)
    return Node(
        number,
        parent,
        role,
        to_text(text),
        to_text(reasoning),
        state,
        to_seconds(created),
        ending_in(numbers) if numbers and (role is Role.USER or state in TELLING) else UNKNOWN,
        model_in(numbers) if role is Role.ASSISTANT else "",
    )


def to_document(text: Any) -> Document:
    """What `dump` wrote; nothing if that can no longer be read."""
    try:
        found = json.loads(to_text(text))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def decoded(text: bytes) -> str:
    """What SQLite holds as text, with a mark for what is none."""
    return text.decode("utf-8", "replace")


def to_text(value: Any) -> str:
    """A text, whatever SQLite holds in its place."""
    return decoded(value) if isinstance(value, bytes) else str(value)


def to_seconds(value: Any) -> float:
    """A time; the beginning of all if it is none."""
    return float(value) if isinstance(value, _NUMBERS) and 0 <= value <= LAST_SECOND else 0.0


def dump(document: Document | None) -> str:
    """A document as text. Raises ValueError for what JSON does not have, such as NaN."""
    return storable(json.dumps(dict(document or {}), ensure_ascii=False, allow_nan=False, separators=(",", ":")))


def storable(text: str) -> str:
    """The text as UTF-8 can hold it: half a character, as a terminal may paste it, becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


def gone() -> StoreError:
    """For what was in the store when the caller last looked."""
    return StoreError("This conversation, or this message, is no longer there.", "Another Tandem has removed it.")


def change(db: sqlite3.Connection, sql: str, *values: object) -> None:
    """Change what must be there; the caller holds the transaction. Raises StoreError where no row was changed."""
    if not db.execute(sql, values).rowcount:
        raise gone()
