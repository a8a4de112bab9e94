"""Check conversations that were read from a file, in the shape of Tandem's JSON, and build them."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from types import UnionType
from typing import Any, NoReturn

from app.conversations.rows import ROLES, STATES, dump
from app.conversations.titles import make_title, one_line
from app.conversations.tree import Document, Node, StoredConversation, Summary, Tree, tag_of
from app.core.errors import AppError
from app.core.pictures import PictureData, read_picture
from app.core.printable import printable, storable

_LAST_SECOND = 32_503_679_999.0
"""The end of the year 2999; later local times fail on some systems."""


def refuse(reason: str) -> NoReturn:
    """Raise the error for a file that cannot be imported."""
    raise ValueError(reason)


def conversation(raw: dict[str, Any], now: float) -> StoredConversation:
    """Return a checked conversation; `now` is the time of messages without one. Raises ValueError with the reason."""
    nodes: dict[int, Node] = {}
    numbers: dict[Any, int] = {}
    for number, each in enumerate(list_of(raw.get("messages"), "messages"), 1):
        message = typed(each, dict, "a message is not an object")
        key, parent = _id(message.get("id")), message.get("parent")
        if key in numbers:
            refuse("two messages have the same id")
        if parent is not None and _id(parent) not in numbers:
            refuse("a message replies to one that is missing or comes later")
        numbers[key] = number
        nodes[number] = _node(message, number, None if parent is None else numbers[parent], now)
    leaf = raw.get("leaf")
    if leaf is not None and _id(leaf) not in numbers:
        refuse("its active message is missing")
    tree = Tree(nodes, numbers[leaf] if leaf is not None else next(reversed(nodes), None))
    title, created = one_line(_text(raw.get("title", ""), "a title")), _time(raw.get("created"), now)
    is_named, is_pinned = bool(title) and raw.get("named", True) is True, raw.get("pinned") is True
    updated, tags = _time(raw.get("updated"), created), tuple(_tags(raw.get("tags") or []))
    summary = Summary(0, title or make_title(tree.first_prompt), is_named, is_pinned, created, updated, tags)
    settings, pictures = document(raw.get("settings"), "settings"), dict(_pictures(raw.get("pictures") or []))
    unsent = _text(raw.get("draft", ""), "unsent text")
    return StoredConversation(summary, tree, settings, unsent, pictures, retitled=raw.get("retitled") is True)


def _tags(raw: Any) -> Iterator[str]:
    for each in list_of(raw, "tags"):
        if isinstance(each, str) and (tag := tag_of(each)):
            yield tag


def _pictures(raw: Any) -> Iterator[tuple[str, PictureData]]:
    for each in list_of(raw, "pictures"):
        with suppress(AppError):
            found = read_picture(b64decode(typed(each, str, "a picture is not text"), validate=True))
            yield found.digest, found


def _node(raw: dict[str, Any], number: int, parent: int | None, now: float) -> Node:
    role, state = raw.get("role"), raw.get("state", "complete")
    if not isinstance(role, str) or role not in ROLES:
        refuse("a message has an unknown role")
    if not isinstance(state, str) or state not in STATES:
        refuse("a message has an unknown state")
    text, reasoning = _text(raw.get("text"), "a text"), _text(raw.get("reasoning", ""), "a reasoning")
    created, stats = _time(raw.get("created"), now), document(raw.get("stats"), "stats")
    node = Node(number, parent, ROLES[role], text, reasoning, STATES[state], created, stats)
    return replace(node, state=node.ended_state)


def _text(raw: Any, what: str) -> str:
    return printable(storable(typed(raw, str, f"{what} of it is not text")))


def _time(raw: Any, now: float) -> float:
    if raw is None:
        return now
    refusal = "a time is not a number of seconds, or out of range"
    if not 0 <= typed(raw, int | float, refusal) <= _LAST_SECOND:
        refuse(refusal)
    return float(raw)


def document(raw: Any, what: str) -> Document:
    """Return an object; None counts as an empty object."""
    found: Document = typed({} if raw is None else raw, dict, f"{what} is not an object")
    # This refuses numbers that JSON does not have.
    dump(found)
    return found


def _id(raw: Any) -> Any:
    return typed(raw, int | str, "an id is neither a number nor text")


def list_of(raw: Any, what: str) -> list[Any]:
    """Return a list; refuse any other value."""
    found: list[Any] = typed(raw, list, f"its {what} are not a list")
    return found


def typed(raw: Any, kind: type | UnionType, refusal: str) -> Any:
    """Return a value of this type; refuse any other value."""
    if isinstance(raw, bool) or not isinstance(raw, kind):
        refuse(refusal)
    return raw
