"""The question whether a tool call may run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalGroup, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from app.core.printable import one_line, printable
from app.engine.text.tool_calls import shown_call
from app.session.permissions import Permission
from app.session.tool_use import Question
from app.ui.widgets.hint import Hint


class ToolQuestion(VerticalGroup, can_focus=True):
    """Shows a call with all its arguments; a digit answers.

    Up and down scroll long arguments; page up and page down scroll the transcript.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(digit, f"answer('{digit}')", show=False) for digit in "0123456789"),
        Binding("up", "scroll(-1)", show=False),
        Binding("down", "scroll(1)", show=False),
    ]

    DEFAULT_CSS = """
    ToolQuestion {
        display: none;
        padding: 0 1;
        border-top: solid $rule;
        & VerticalScroll { height: auto; max-height: 8; padding-left: 2; }
        & .keys { color: $quiet; }
        &:focus .keys { color: $foreground; }
    }
    """

    @dataclass
    class Answered(Message):
        """The user has answered."""

        permission: Permission

    def __init__(self) -> None:
        super().__init__()
        self._question: Question | None = None
        self._by_key: dict[str, Permission] = {}

    def compose(self) -> ComposeResult:
        yield Static(classes="what")
        with VerticalScroll(can_focus=False):
            yield Static(classes="call")
        yield Static(classes="keys")

    def put(self, question: Question | None) -> bool:
        """Show a question, or hide it for None; return whether it is new."""
        if question == self._question:
            return False
        self._question = question
        self.display = question is not None
        if question is None:
            return False
        no = (Permission.NO, "answer now" if question.tool is None else "no")
        permissions = [*enumerate(_permissions(question), 1), (0, no)]
        self._by_key = {str(n): permission for n, (permission, _) in permissions}
        keys = "  ".join(f"{n} {does}" for n, (_, does) in permissions)
        call = "" if question.call is None else printable(shown_call(question.call))
        for name, text in (("what", _what(question)), ("call", call), ("keys", keys)):
            self.query_one(f".{name}", Static).update(Content(text))
        return True

    @property
    def key_use(self) -> str:
        """Return what keys do while the question has the focus, and how to return."""
        return "a digit answers the question above; typing returns here"

    def action_answer(self, digit: str) -> None:
        if digit in self._by_key:
            self.post_message(self.Answered(self._by_key[digit]))
        else:
            last = len(self._by_key) - 1
            self.post_message(Hint.Requested(f"Press {f'1 to {last}' if last > 1 else '1'} or 0."))

    def action_scroll(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave the arrows to the prompt if there is nothing to scroll."""
        return action != "scroll" or self.query_one(VerticalScroll).max_scroll_y > 0

    def on_click(self) -> None:
        self.focus()


def _what(question: Question) -> str:
    tool = question.tool
    if tool is None:
        return "The model has called tools many times in a row. Let it go on?"
    about = "It says that it only reads." if tool.reads_only else "It may change something."
    about = "It has changed since you allowed it." if question.has_changed else about
    return f"Run {one_line(tool.name)} of {tool.server}? {about}"


def _permissions(question: Question) -> list[tuple[Permission, str]]:
    if question.tool is None:
        return [(Permission.ONCE, "go on")]
    all_reading = [(Permission.READING, f"every reading tool of {question.tool.server}")]
    return [
        (Permission.ONCE, "once"),
        (Permission.CONVERSATION, "this conversation"),
        (Permission.ALWAYS, "always"),
        *(all_reading if question.tool.reads_only else []),
    ]
