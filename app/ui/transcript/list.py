"""The active branch of a conversation on the screen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from textual import events, on
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive

from app.conversations.message import Role
from app.conversations.tree import Node, State, Tree, readable
from app.core.errors import AppError
from app.engine.text.segments import Segment
from app.models.pair_info import PairInfo
from app.ui.reading.rows import BriefRow, Row
from app.ui.reading.token_rows import COLORLESS, STYLES, TokenStyles
from app.ui.transcript.answer import AnswerMessage, remark_on
from app.ui.transcript.foldings import PicturePreview
from app.ui.transcript.message import Item, MessageItem, ToolMessage, UserMessage, error_parts, notice
from app.ui.transcript.navigation import MessageNavigation
from app.ui.transcript.parts import QUIET, MessagePart, TokenPart

_BY_MODEL = "The [$draft]draft[/] model proposes the next tokens; the [$target]target[/] verifies them in one pass."
_BY_NGRAM = (
    "[$draft]N-grams[/] (repeated text) propose the next tokens; the [$target]target[/] verifies them in one pass."
)
_PROMISE_SENTENCE = "The answers stay the same, and Tandem drafts only where that is faster."
_MESSAGE_KEYS = (
    ("chat.compare", "compare with and without the draft"),
    ("chat.tokens", "color tokens by source"),
    ("chat.settings", "settings"),
    ("chat.pairs", "choose a pair"),
    ("app.keys", "all keys"),
)
_KEY_CELLS = 5
"""Width of a key and the gap after it."""
_N_LINES_AROUND, _MIN_LINES = 8, 3
"""Lines of the window around the welcome text, and the fewest that it takes."""


class Welcome(Item):
    """Legend of the two colors, and the next steps."""

    def __init__(self) -> None:
        super().__init__([MessagePart(style=QUIET, n_below=1)])

    def draw(self, keys: Mapping[str, str], width: int, height: int, *, has_draft: bool) -> None:
        """Show the drafting of answers and the keys by binding id, for a window of this height."""
        about = Content.from_markup(f"{_BY_MODEL if has_draft else _BY_NGRAM} {_PROMISE_SENTENCE}")
        named = [(keys[identity], does) for identity, does in _MESSAGE_KEYS if identity in keys]
        # The user's own keys may be longer.
        column = max([_KEY_CELLS, *(len(shown) + 2 for shown, _ in named)])
        steps = (Content.assemble((f"{shown:{column}}", "$foreground"), does) for shown, does in named)
        rows = [*map(Row, about.wrap(max(1, width - 1))), Row(), *map(BriefRow, steps)]
        self.parts[0].put(0, rows[: max(_MIN_LINES, height - _N_LINES_AROUND)])


class MessageList(MessageNavigation):
    """All messages and notices, newest at the bottom.

    Attributes:
        greets: Whether an empty conversation shows the welcome text.
    """

    greets: reactive[bool] = reactive(True)

    @dataclass
    class PreviewRequested(Message):
        """The bytes of a picture of a message are needed."""

        message: MessageItem
        preview: PicturePreview

    def __init__(self) -> None:
        super().__init__()
        self._welcome = Welcome()
        self._tree = Tree()
        self._pair: PairInfo | None = None
        self._shown: object = None
        """The branch and the running answer of the last `show`."""
        self._unread: set[int] = set()
        """Messages that the model no longer reads."""
        self._model = ""
        self._is_running = self._is_answering = False
        self._shows_tokens = self._shows_reasoning = False

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self._draw_welcome())
        self._draw_welcome()

    @on(events.Resize)
    def watch_greets(self) -> None:
        self._draw_welcome()

    def _draw_welcome(self) -> None:
        """Show the welcome text while there is nothing but notices, which do not replace it."""
        is_empty = self.greets and all(item.is_notice or item is self._welcome for item in self.items)
        if is_empty is not (self._welcome in self.items):
            self.items = [self._welcome, *self.items] if is_empty else self.items[1:]
        if is_empty:
            active = self.screen.active_bindings.values()
            keys = {one.binding.id: self.app.get_key_display(one.binding) for one in active if one.binding.id}
            has_draft = self._pair is None or bool(self._pair.draft or self._pair.draft_kind)
            self._welcome.draw(keys, self._width, self.app.size.height, has_draft=has_draft)
            self.settle()

    # Messages

    def show(
        self, path: Sequence[Node], running: int | None = None, *, replace: bool = False, follow: bool = False
    ) -> None:
        """Show a branch by replacing only the messages that differ.

        Args:
            running: Id of the answer that is being written here, if any.
            replace: Whether this is another conversation, which replaces all items.
            follow: Whether to go to the end.
        """
        # The text of a running answer arrives as events.
        now = (path if running is None else (*path[:-1], running), running)
        if not (replace or follow) and now == self._shown:
            return
        self._shown = now
        was_running, last = self._is_running, path[-1] if path else None
        self._is_running = last is not None and last.state is State.WRITING and (last.id == running or last.id < 0)
        shown = [] if replace else self.messages
        ended = shown[-1] if was_running and shown else None
        n_same = 0
        branch = list(_branch(path))
        for old, (node, is_answer) in zip(shown, branch, strict=False):
            is_live = old is ended or (self._is_running and node is last)
            if isinstance(old, AnswerMessage) is not is_answer or not _is_same(old.node, node, is_live=is_live):
                break
            old.node = node
            n_same += 1
        same, fresh = shown[:n_same], [self._new(node, is_answer, last) for node, is_answer in branch[n_same:]]
        leaving = self._leaving(same, fresh, replace=replace)
        self.items += fresh
        self._take_out(leaving)
        if follow:
            self._anchor = None
        answer = self.answer
        if answer is not None and last is not None and not fresh and was_running != self._is_running:
            answer.resume() if self._is_running else answer.end(last)
        elif fresh and isinstance(ended, AnswerMessage) and ended in same:
            # The next prompt was queued until the end of this answer.
            ended.end(ended.node)
        self._draw_welcome()
        self.settle()

    def _new(self, node: Node, is_answer: bool, last: Node | None) -> MessageItem:
        if not is_answer:
            return (ToolMessage if node.role is Role.TOOL else UserMessage)(node)
        is_running = self._is_running and node is last and node.role is Role.ASSISTANT
        answer = AnswerMessage(node, is_running=is_running)
        answer.show_tokens(self._token_styles)
        answer.show_reasoning(shown=self._shows_reasoning)
        return answer

    def _leaving(self, same: Sequence[MessageItem], fresh: Sequence[MessageItem], *, replace: bool) -> set[Item]:
        if replace:
            return {item for item in self.items if item is not self._welcome}
        leaving: set[Item] = set(self.messages[len(same) :])
        resumes = self._is_running and not fresh
        switches = bool(fresh and leaving) and not self._is_running
        if resumes or switches or (fresh and isinstance(fresh[0], AnswerMessage)):
            # Notices leave with their branch, and none stands between a prompt and its answer.
            return set(self.items[self.items.index(same[-1]) + 1 if same else 0 :]) - {self._welcome}
        return leaving

    def _take_out(self, leaving: set[Item]) -> None:
        """Remove items. If the anchor is removed, its successor becomes the anchor."""
        if not leaving:
            return
        if self.chosen in leaving:
            self.choose(None)
        if self.text_selection is not None:
            self.screen.clear_selection()
        anchor = self._anchor
        at = sum(item not in leaving for item in self.items[: self.items.index(anchor[0])]) if anchor else 0
        self.items = [item for item in self.items if item not in leaving]
        if anchor is not None and anchor[0] in leaving:
            self._anchor = (self.items[min(at, len(self.items) - 1)], anchor[1]) if self.items else None

    @property
    def answer(self) -> AnswerMessage | None:
        """Return the answer at the end of the branch."""
        last = next((item for item in reversed(self.items) if isinstance(item, MessageItem)), None)
        return last if isinstance(last, AnswerMessage) else None

    def add(self, segments: Sequence[Segment]) -> None:
        """Append text to the answer at the end of the branch."""
        if (answer := self.answer) is not None:
            answer.add(segments)
            self.update(answer)

    def note(self, answer: AnswerMessage, text: str | None) -> None:
        """Show an activity for an answer below it; None removes it."""
        answer.note(text)
        self.update(answer)

    # Notices

    def notice(self, text: str) -> None:
        """Show a notice at the end, or, while an answer is awaited, above its prompt."""
        self._insert(notice(text), before=self._unanswered)

    def fail(self, error: AppError) -> None:
        """Show an error that belongs to no answer."""
        self._insert(Item(error_parts(error)))

    def _insert(self, item: Item, before: Item | None = None) -> None:
        self.items.insert(self.items.index(before) if before is not None else len(self.items), item)
        self._draw_welcome()
        self.settle()

    @property
    def _unanswered(self) -> Item | None:
        messages = self.messages
        is_empty = self.answer is None or not self.answer.has_grown
        return messages[-2] if self._is_running and is_empty and len(messages) > 1 else None

    # Branches and models

    def mark(self, tree: Tree, pair: PairInfo | None, model: str, *, is_answering: bool) -> None:
        """Update the branch numbers and the model names of all messages; `model` is the current model."""
        if tree is self._tree and pair is self._pair and is_answering == self._is_answering:
            return
        self._tree, self._pair, self._model, self._is_answering = tree, pair, model, is_answering
        self._unread = {node.id for node in tree.path} - {node.id for node in readable(tree.path)[1]}
        for message in self.messages:
            if message.is_laid_out:
                self._mark(message)
        self._draw_welcome()
        self.settle()

    def lay_out(self, item: Item) -> None:
        if isinstance(item, MessageItem):
            item.pair = self._pair
            item.lay_out()
            self._mark(item)
            for folding in item.foldings:
                if isinstance(folding, PicturePreview):
                    self.post_message(self.PreviewRequested(item, folding))

    def _mark(self, message: MessageItem) -> None:
        message.pair = self._pair
        node = self._tree.nodes.get(message.id) if message.id is not None else None
        if node is None:
            message.place(1, 1, can_go_on=False, model="")
            return
        siblings = [sibling.id for sibling in self._tree.siblings(node.id)]
        is_open = node.id == self._tree.leaf and self._tree.open_calls is not None and not self._is_answering
        ended_early = node.state.can_continue and node.role is not Role.TOOL and not self._tree.replies(node.id)
        model = (node.model if self._is_other_model(node) else None) or ""
        message.place(siblings.index(node.id) + 1, len(siblings), can_go_on=is_open or ended_early, model=model)
        if message.is_unread != (node.id in self._unread):
            message.is_unread = not message.is_unread
            for part in message.parts:
                part.redraw()

    def _is_other_model(self, node: Node) -> bool:
        """Return whether an answer's model differs from the loaded model or from the previous answer's."""
        before = self._tree.answer_before(node.id)
        known = (self._model, before.model if before is not None else None)
        return any(model and model != node.model for model in known)

    # Reasoning and tokens

    @property
    def answers(self) -> list[AnswerMessage]:
        return [item for item in self.items if isinstance(item, AnswerMessage)]

    def open_thoughts(self) -> bool:
        """Unfold all reasoning, or fold it if any is unfolded; return whether there is any."""
        answers = [answer for answer in self.answers if answer.node.reasoning or answer.foldings]
        self._shows_reasoning = not any(folding.is_open for answer in answers for folding in answer.foldings)
        for answer in self.answers:
            answer.show_reasoning(shown=self._shows_reasoning)
        self.settle()
        return bool(answers)

    @property
    def _token_styles(self) -> TokenStyles | None:
        return (COLORLESS if self.app.no_color else STYLES) if self._shows_tokens else None

    def show_tokens(self, shown: bool) -> None:
        """Show or hide token sources in every answer generated in this run."""
        self._shows_tokens = shown
        for answer in self.answers:
            answer.show_tokens(self._token_styles)
        self.settle()

    @property
    def turn_tokens(self) -> list[tuple[AnswerMessage, TokenPart]]:
        """Return the answers since the last prompt, before and after each tool call, and their tokens."""
        turn = takewhile(lambda message: not isinstance(message, UserMessage), reversed(self.messages))
        answers = [message for message in turn if isinstance(message, AnswerMessage)]
        return [(answer, answer.tokens) for answer in reversed(answers) if answer.tokens is not None]

    def mark_tokens(self, start: int, end: int) -> None:
        """Mark characters of the tokens of the last turn, counted through all its answers."""
        for answer, tokens in self.turn_tokens:
            tokens.mark_characters(start, end)
            self.update(answer)
            start, end = start - len(tokens.plain), end - len(tokens.plain)


def _branch(path: Sequence[Node]) -> Iterator[tuple[Node, bool]]:
    """Yield each message, and whether an answer shows it; a prompt without an answer is repeated with the reason."""
    for node in path:
        yield node, node.role is Role.ASSISTANT
    if path and path[-1].role in (Role.USER, Role.TOOL) and (remark_on(path[-1]) or path[-1].ending.failure):
        yield path[-1], True


def _is_same(before: Node, now: Node, *, is_live: bool) -> bool:
    """Return whether a message's item can show another message; live text is compared with nothing."""
    return before.id == now.id and (
        is_live or (before.state, before.text, before.stats) == (now.state, now.text, now.stats)
    )
