"""A conversation as a tree of messages: edits and new answers are branches, and one path is active."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any

from app.conversations.attached import with_marks
from app.conversations.message import Compaction, Ending, Message, ResultOf, Role, calls_in, pictures_as_text
from app.core.pictures import PictureData, without_marks
from app.engine.stats import GenerationStats
from app.engine.text.tool_calls import ToolCall

Document = Mapping[str, Any]
"""A small JSON object: the settings of a conversation or the numbers of an answer."""


class State(Enum):
    """The state of a message."""

    WRITING = "writing"
    """A running answer, here or in another Tandem."""
    COMPLETE = "complete"
    STOPPED = "stopped"
    """The user stopped the answer."""
    CUT = "cut"
    """Tandem ended before the answer did."""
    FAILED = "failed"

    @property
    def can_continue(self) -> bool:
        """Return whether the answer ended early."""
        return self in (State.STOPPED, State.CUT, State.FAILED)


NOT_RUN = "This call was not run."
_LONGEST_NAME = 200
"""Limit for a model name in characters; an imported file may hold more."""


@dataclass(frozen=True, slots=True)
class Node:
    """A message of the tree.

    Attributes:
        id: Greater than the parent's id.
        parent: Id of the message it replies to; None for the first message.
        stats: Numbers of an answer; of a prompt, its compaction, or why it has no answer. Unchecked.
    """

    id: int
    parent: int | None
    role: Role
    text: str
    reasoning: str = ""
    state: State = State.COMPLETE
    created: float = 0.0
    stats: Document = field(default_factory=dict, hash=False)

    @property
    def ending(self) -> Ending:
        """Why an answer is incomplete, or why a prompt has no answer, if known."""
        return Ending() if self.state is State.WRITING else Ending.read(self.stats)

    @property
    def model(self) -> str | None:
        """Name of the target model that wrote an answer, if known."""
        name = self.stats.get("target") if self.role is Role.ASSISTANT else None
        return name[:_LONGEST_NAME] if isinstance(name, str) and name else None

    @property
    def numbers(self) -> GenerationStats:
        return GenerationStats.read(self.stats)

    @property
    def compaction(self) -> Compaction | None:
        """The messages that the model reads before this prompt, if the context was full."""
        return Compaction.read(self.stats) if self.role is Role.USER else None

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls that an answer ends with."""
        return calls_in(self.stats) if self.role is Role.ASSISTANT else ()

    @property
    def ended_state(self) -> State:
        """The state to write into a file, where no process continues the answer."""
        return State.CUT if self.state is State.WRITING else self.state


@dataclass(frozen=True)
class Tree:
    """The messages of a conversation and its active branch.

    Attributes:
        nodes: Messages by id: parents before their children, siblings in order of creation.
        leaf: Id of the last message of the active branch; None if there are no messages.
    """

    nodes: Mapping[int, Node] = field(default_factory=dict)
    leaf: int | None = None

    @cached_property
    def path(self) -> tuple[Node, ...]:
        """The active branch, first message first."""
        return self.path_to(self.leaf)

    def path_to(self, node_id: int | None) -> tuple[Node, ...]:
        """Return the path to a message, including it. Raises KeyError for an unknown message."""
        found = []
        while node_id is not None:
            node = self.nodes[node_id]
            found.append(node)
            node_id = node.parent
        return tuple(reversed(found))

    def siblings(self, node_id: int) -> tuple[Node, ...]:
        """Return all replies to a message's parent, including the message, oldest first."""
        return tuple(self._children[self.nodes[node_id].parent])

    def answer_before(self, node_id: int) -> Node | None:
        """Return the nearest answer above a message in its branch, if any."""
        parent = self.nodes[node_id].parent
        while parent is not None and self.nodes[parent].role is not Role.ASSISTANT:
            parent = self.nodes[parent].parent
        return self.nodes[parent] if parent is not None else None

    def replies(self, node_id: int) -> tuple[Node, ...]:
        """Return the replies to a message, oldest first."""
        return tuple(self._children.get(node_id, ()))

    @property
    def open_calls(self) -> tuple[ToolCall, ...] | None:
        """Return the unanswered tool calls at the end of the active branch; None if it ends with no call or result."""
        last = next((at for at, node in enumerate(reversed(self.path)) if node.role is not Role.TOOL), 0)
        calls = self.path[-1 - last].calls if self.path else ()
        done = {ResultOf.read(node.stats).call for node in self.path[len(self.path) - last :]}
        return tuple(call for call in calls if call.id not in done) if calls or last else None

    @property
    def first_prompt(self) -> str:
        """Return the first prompt of the active branch, which gives the title."""
        return next((node.text for node in self.path if node.role is Role.USER), "")

    def switched(self, node_id: int) -> Tree:
        """Return the tree with the newest branch through a message active; unchanged if it is active."""
        if self.nodes[node_id] in self.path:
            return self
        while children := self._children.get(node_id):
            node_id = children[-1].id
        return replace(self, leaf=node_id)

    def with_node(self, node: Node) -> Tree:
        """Return the tree with a new active message, or with the message of the same id replaced."""
        is_new = node.id not in self.nodes
        return Tree({**self.nodes, node.id: node}, node.id if is_new else self.leaf)

    def without(self, node_id: int, leaf: int | None) -> Tree:
        """Return the tree without a message that has no replies, and with another active leaf."""
        return Tree({key: node for key, node in self.nodes.items() if key != node_id}, leaf)

    def without_message(self, node_id: int) -> Tree:
        """Return the tree without a prompt and its answers, or without an answer that has no replies.

        An answer with replies, and the result of a tool, are removed with their prompt, so that roles still alternate.
        Later messages move below the previous message.
        """
        node = self.nodes[node_id]
        is_inside = node.role is Role.TOOL or (node.role is Role.ASSISTANT and self.replies(node_id))
        if is_inside and node.parent is not None:
            return self.without_message(node.parent)
        gone = {node_id}
        for other in self.nodes.values() if node.role is Role.USER else ():
            if other.parent in gone and other.role in (Role.ASSISTANT, Role.TOOL):
                gone.add(other.id)
        nodes = {
            key: replace(other, parent=node.parent) if other.parent in gone else other
            for key, other in self.nodes.items()
            if key not in gone
        }
        if self.leaf in nodes:
            return Tree(nodes, self.leaf)
        if node.parent is not None:
            return Tree(nodes, None).switched(node.parent)
        return Tree(nodes, next(reversed(nodes), None))

    @cached_property
    def _children(self) -> dict[int | None, list[Node]]:
        found: dict[int | None, list[Node]] = {}
        for node in self.nodes.values():
            found.setdefault(node.parent, []).append(node)
        return found


_TAG_PATTERN = re.compile(r"#?([\w-]{1,30})")


def tag_of(text: str) -> str | None:
    """Return the tag that a word names, with or without "#"; None if it cannot be a tag."""
    found = _TAG_PATTERN.fullmatch(text)
    return found[1].casefold() if found else None


@dataclass(frozen=True, slots=True)
class Summary:
    """A line in the list of conversations.

    Attributes:
        id: 0 outside a store.
        title: One line; "" if there are no messages.
        created: Seconds since 1970; `updated` is the time of the last message.
        tags: Words that sort conversations, without "#".
    """

    id: int
    title: str
    named: bool = False
    pinned: bool = False
    created: float = 0.0
    updated: float = 0.0
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoredConversation:
    """A conversation; `settings` are unchecked, and `unsent_text` was typed but not sent.

    `pictures` are the pictures of its texts by digest, for a file; a store has them elsewhere. `retitled` says that the
    user changed the title in the imported file.
    """

    summary: Summary
    tree: Tree = field(default_factory=Tree)
    settings: Document = field(default_factory=dict)
    unsent_text: str = ""
    pictures: Mapping[str, PictureData] = field(default_factory=dict, repr=False)
    retitled: bool = field(default=False, compare=False)

    @property
    def texts(self) -> Iterator[str]:
        """The texts that may refer to pictures."""
        yield from (node.text for node in self.tree.nodes.values())
        yield self.unsent_text


def as_message(role: Role, text: str, reasoning: str = "") -> Message:
    """Return a stored text as a message for the model; only prompts have pictures."""
    content, pictures = with_marks(text) if role is Role.USER else (without_marks(text), ())
    return Message(role, content.rstrip(), without_marks(reasoning).strip(), pictures=pictures)


def as_messages(nodes: Iterable[Node]) -> tuple[Message, ...]:
    """Return messages for the model, without empty messages and trailing spaces; every call has a result."""
    found: list[Message] = []
    pending: list[ToolCall] = []
    for node in nodes:
        if node.role is Role.TOOL:
            call = ResultOf.read(node.stats).call
            if any(one.id == call for one in pending):
                pending = [one for one in pending if one.id != call]
                found.append(replace(as_message(node.role, node.text), tool_call_id=call))
            continue
        found += _results_of(pending)
        pending = list(node.calls)
        if pending or node.text.strip():
            found.append(replace(as_message(node.role, node.text, node.reasoning), tool_calls=node.calls))
    return (*found, *_results_of(pending))


def _results_of(calls: Iterable[ToolCall]) -> Iterator[Message]:
    """Yield results of calls that never ran, since templates refuse a call without a result."""
    yield from (Message(Role.TOOL, NOT_RUN, tool_call_id=call.id) for call in calls)


def readable(path: Sequence[Node]) -> tuple[str, Sequence[Node]]:
    """Return the last summary of a branch and the messages that the model still reads.

    In messages before the summary, names replace the pictures.
    """
    for at in range(len(path) - 1, -1, -1):
        if path[at].stats and (compaction := path[at].compaction) is not None:
            return compaction.summary, (*map(_without_pictures, path[max(0, at - compaction.n_kept) : at]), *path[at:])
    return "", path


def _without_pictures(node: Node) -> Node:
    return (
        replace(node, text=pictures_as_text(as_message(node.role, node.text)).content)
        if node.role is Role.USER
        else node
    )
