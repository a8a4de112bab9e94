"""Conversations from a file. Whatever wrote it, nothing in it is believed before it was checked.

What Tandem can write it can read: there is no limit but the memory that is free, and writing took as much of that.
"""

from __future__ import annotations

import heapq
import json
import math
import re
import sys
import time
from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

from app.conversations.export import FORMAT, VERSION, cut_again
from app.conversations.markdown import from_markdown
from app.conversations.message import Role
from app.conversations.rows import LAST_SECOND, dump, storable
from app.conversations.textfile import marked_encoding, sentences
from app.conversations.titles import make_title, one_line
from app.conversations.tree import Conversation, Document, Node, State, Summary, Transcript, Tree
from app.core import regular_file
from app.core.errors import AppError
from app.core.printable import printable
from app.core.units import gigabytes

MAX_DOCUMENT = 4 << 20
"""Characters of one settings or numbers document; the longest settings that can be made are shorter."""
_COPIES = 2
"""Of a text at any moment: the file's and the values in it, and then these and what is made of them."""
_VALUE = 100
"""Bytes that a value takes in memory besides its text; 30 to 135 were seen."""
_MESSAGE = 500
"""Bytes that a message or a conversation takes besides its texts; 410 to 490 were seen."""
_BEGINS_VALUE = re.compile(r'[,\[{](?:[^",\[{]++|"[^"\\]*+(?:\\.[^"\\]*+)*+"?+)*+', re.DOTALL)
"""What can begin another value of JSON, and what follows up to the next one; there is none within a string."""
_MOST_DIGITS = 40
_MARKDOWN = (".md", ".markdown", ".txt")
_NO_CONVERSATION = (
    'it is no conversation: neither JSON, nor a Markdown file (.md) in which headings such as "## You" and '
    '"## Answer" tell who speaks'
)
_ROLES = {role.value: role for role in Role}
_STATES = {state.value: state for state in State}


def read_file(file: Path, now: float | None = None, memory: int = sys.maxsize) -> tuple[Transcript, ...]:
    """Read a Markdown or JSON file.

    Args:
        file: Its name says which it is.
        now: Seconds since 1970, for messages that say no time.
        memory: Bytes that are free.

    Raises:
        AppError: It cannot be read, is not what it should be, or does not fit into the memory.
    """
    try:
        return _transcripts(*_raw(file, memory), time.time() if now is None else now)
    except UnicodeDecodeError as error:
        reason = f"it is not {error.encoding.upper()} text"
    except json.JSONDecodeError as error:
        reason = f"it is not JSON, from line {error.lineno} on" if file.suffix.lower() == ".json" else _NO_CONVERSATION
    except RecursionError:
        reason = "it is nested too deeply"
    except ValueError as error:
        reason = printable(str(error))
    raise AppError(f"{file} was not imported: {reason}.", "Tandem reads its own exports, as Markdown and as JSON.")


def _raw(file: Path, memory: int) -> tuple[list[Any], int]:
    """What the file says of its conversations, unchecked, and for how many of them and of their messages there is
    memory."""
    text, is_markdown = _text_of(file, memory), file.suffix.lower() in _MARKDOWN
    most = (memory - _needed(text, memory, is_markdown=is_markdown)) // _MESSAGE
    return from_markdown(text, most) if is_markdown else _from_json(text), most


def _text_of(file: Path, memory: int) -> str:
    with sentences(str(file)):
        size = regular_file.status(file).st_size
    _check_memory(size, memory)
    with sentences(str(file)):
        data = regular_file.read_bytes(file, size + 1)
    if len(data) > size:
        _refuse("something is still being written into it")
    return data.decode(marked_encoding(data) or "utf-8")


def _needed(text: str, memory: int, *, is_markdown: bool) -> int:
    """Bytes that reading a text takes, besides what its messages do. Raises ValueError if there are not so many."""
    needed = _COPIES * sys.getsizeof(text)
    _check_memory(needed, memory)
    n_values = text.count("\n") if is_markdown else sum(map(text.count, ",[{"))
    if not is_markdown and needed + n_values * _VALUE > memory // 2:
        # Tables and programs are full of such characters, which begin nothing there; telling that takes longer.
        most = (memory - needed) // _VALUE + 1
        n_values = sum(1 for _ in islice(_BEGINS_VALUE.finditer(text), most))
    needed += n_values * _VALUE
    _check_memory(needed, memory)
    return needed


def _check_memory(needed: int, memory: int) -> None:
    if needed > memory:
        _refuse(f"it takes {gigabytes(needed)} of memory or more, and {gigabytes(memory)} are free")


def _refuse(reason: str) -> NoReturn:
    raise ValueError(reason)


def _from_json(text: str) -> list[Any]:
    """The conversations of our own format, or the one of a plain list of messages as chat programs exchange it."""
    raw = json.loads(text, parse_constant=lambda name: _refuse(f"{name} is not a number"), parse_int=_whole)
    if isinstance(raw, dict) and "format" in raw:
        if raw["format"] != FORMAT:
            _refuse("it is of another format")
        if type(raw.get("version")) is not int or raw["version"] > VERSION:
            _refuse("a newer Tandem wrote it")
        return _list(raw.get("conversations"), "conversations")
    messages = _list(raw.get("messages") if isinstance(raw, dict) else raw, "messages")
    chain = []
    for index, message in enumerate(messages):
        fields = _object(message, "a message")
        words = fields.get("text", fields.get("content"))
        chain.append({"role": fields.get("role"), "text": words, "id": index, "parent": index - 1 if index else None})
    return [{"messages": chain}]


def _whole(digits: str) -> int:
    """A whole number; Python itself speaks of its interpreter when one has too many digits."""
    return int(digits) if len(digits) <= _MOST_DIGITS else _refuse(f"a number in it has {len(digits):,} digits")


def _transcripts(raw: Sequence[Any], most: int, now: float) -> tuple[Transcript, ...]:
    if not raw:
        _refuse("there is no conversation in it")
    found = [_object(each, "a conversation") for each in raw]
    n = len(found) + sum(len(_list(each.get("messages"), "messages")) for each in found)
    if n > most:
        _refuse(f"there are {n:,} conversations and messages in it, and the memory that is free is for {most:,}")
    return tuple(_transcript(each, now) for each in found)


def _transcript(raw: Mapping[str, Any], now: float) -> Transcript:
    messages = [_object(each, "a message") for each in _list(raw.get("messages"), "messages")]
    places = {_id(message.get("id")): place for place, message in enumerate(messages)}
    if len(places) < len(messages):
        _refuse("two messages have the same id")
    parents = [_parent(message, places) for message in messages]
    nodes: dict[int, Node] = {}
    stats: dict[int, Document] = {}
    numbers: dict[int | None, int | None] = {None: None}
    for number, place in enumerate(_parents_first(parents), 1):
        numbers[place] = number
        nodes[number] = _node(messages[place], number, numbers[parents[place]], now)
        if numbers_of_answer := _document(messages[place].get("stats"), "stats"):
            stats[number] = numbers_of_answer
    leaf = raw.get("leaf")
    if leaf is not None and _id(leaf) not in places:
        _refuse("its active message is missing")
    active = numbers[places[_id(leaf)]] if leaf is not None else next(reversed(nodes), None)
    title = one_line(_text(raw.get("title", ""), "a title"))
    tree = Tree(nodes, active)
    title = cut_again(title, tree)
    named = bool(title) and raw.get("named", True) is True
    made, created = make_title(tree.opening), _time(raw.get("created"), now)
    summary = Summary(0, title or made, named, raw.get("pinned") is True, created, _time(raw.get("updated"), created))
    settings = _document(raw.get("settings"), "settings")
    draft = _text(raw.get("draft", ""), "a draft")
    return Transcript(Conversation(summary, tree, settings, draft), stats)


def _parents_first(parents: Sequence[int | None]) -> list[int]:
    """The places of the messages, each after its parent and otherwise as they came. Raises ValueError for a circle."""
    replies: dict[int | None, list[int]] = {}
    for place, parent in enumerate(parents):
        replies.setdefault(parent, []).append(place)
    ready = replies.get(None, [])
    order = []
    while ready:
        place = heapq.heappop(ready)
        order.append(place)
        for reply in replies.get(place, ()):
            heapq.heappush(ready, reply)
    if len(order) < len(parents):
        _refuse("some of its messages reply to each other in a circle")
    return order


def _parent(message: Mapping[str, Any], places: Mapping[int | str, int]) -> int | None:
    parent = message.get("parent")
    if parent is None:
        return None
    if _id(parent) not in places:
        _refuse("a message replies to one that is missing")
    return places[_id(parent)]


def _node(raw: Mapping[str, Any], number: int, parent: int | None, now: float) -> Node:
    role, state = raw.get("role"), raw.get("state", "complete")
    if not isinstance(role, str) or role not in _ROLES:
        _refuse("a message is from neither system, user nor assistant")
    if not isinstance(state, str) or state not in _STATES:
        _refuse("a message has an unknown state")
    return Node(
        number,
        parent,
        _ROLES[role],
        _text(raw.get("text"), "a text"),
        _text(raw.get("reasoning", ""), "a reasoning"),
        State.CUT if state == "writing" else _STATES[state],
        _time(raw.get("created"), now),
    )


def _text(raw: Any, what: str) -> str:
    if not isinstance(raw, str):
        _refuse(f"{what} of it is not text")
    return printable(storable(raw))


def _time(raw: Any, now: float) -> float:
    if raw is None:
        return now
    if isinstance(raw, bool) or not isinstance(raw, int | float) or not math.isfinite(raw):
        _refuse("a time is not a number of seconds")
    if not 0 <= raw <= LAST_SECOND:
        _refuse("a time is out of range")
    return float(raw)


def _document(raw: Any, what: str) -> Document:
    if raw is None:
        return {}
    document = _object(raw, what)
    if len(dump(document)) > MAX_DOCUMENT:
        _refuse(f"its {what} are longer than {MAX_DOCUMENT:,} characters")
    return document


def _id(raw: Any) -> int | str:
    if isinstance(raw, bool) or not isinstance(raw, int | str):
        _refuse("an id is neither a number nor text")
    return raw


def _object(raw: Any, what: str) -> dict[str, Any]:
    if not isinstance(raw, dict):
        _refuse(f"{what} is not an object")
    return raw


def _list(raw: Any, what: str) -> list[Any]:
    if not isinstance(raw, list):
        _refuse(f"its {what} are not a list")
    return raw
