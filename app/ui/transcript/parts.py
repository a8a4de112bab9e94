"""Parts of a message: Markdown, token text, attachments and reasoning; the text of an empty conversation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from time import monotonic

from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalGroup
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from app.conversations.attached import Attachment
from app.core.printable import printable
from app.ui.key_names import code_key
from app.ui.reading.rows import CodeStart, Row
from app.ui.reading.token_rows import COLORLESS, LINE_END, STYLES, Run, TokenDocument
from app.ui.text import size
from app.ui.widgets.rows_view import Passage, RowsView, n_leading

_MARKED_BAR_STYLE = "bold $foreground"
"""Style of the bar of the marked code block."""
AT_ONCE = 16_000
"""Characters of Markdown that are read before keys have their turn: about 50 ms."""


class ModelMarkdown(RowsView):
    """Markdown that grows; a long text is read in pieces, so that keys do not wait for it.

    Args:
        has_code_keys: Whether code blocks are labeled with the keys that copy them.
    """

    @dataclass
    class LabelClicked(Message):
        """The label of a code block was clicked; `number` is from 1."""

        number: int

    def __init__(self, *, has_code_keys: bool = False, classes: str = "") -> None:
        # The first frame need not wait for the Markdown parser.
        from app.ui.reading.document import MarkdownDocument

        super().__init__()
        self.set_classes(classes)
        self._begin = partial(MarkdownDocument, code_key if has_code_keys else None)
        self._document = self._begin()
        self._unread = ""
        self._unmarked: tuple[int, Sequence[Row]] = (0, ())
        """The first row of the marked code block, and its rows without the mark."""

    def clear(self) -> None:
        """Remove the text."""
        self._document = self._begin()
        self._unread = ""
        self.put(0, ())

    def append(self, text: str) -> None:
        """Show more text."""
        is_reading = bool(self._unread)
        self._unread += text
        if not is_reading:
            self._read()

    def on_mount(self) -> None:
        if self._unread:
            self.call_after_refresh(self._read)

    def read_all(self) -> None:
        """Read the rest at once."""
        while self._unread:
            self._read()

    def mark_code(self, number: int) -> int:
        """Mark the code block with a number from 1 and no other; return its first screen line. 0 marks none."""
        self.read_all()
        at, before = self._unmarked
        rows = [*self.rows[:at], *before, *self.rows[at + len(before) :]]
        starts = [index for index, row in enumerate(rows) if isinstance(row, CodeStart)]
        at = starts[number - 1] if 1 <= number <= len(starts) else 0
        end = at + 1 + n_leading(type(row) is Row and row.source is not None for row in rows[at + 1 :])
        self._unmarked = (at, rows[at:end] if number else ())
        for index in range(at, end if number else at):
            row = rows[index]
            rows[index] = replace(
                row, first=row.first.stylize(_MARKED_BAR_STYLE), rest=row.rest.stylize(_MARKED_BAR_STYLE)
            )
        self.put(0, rows)
        return self.line_of_row(at)

    def on_click(self, event: events.Click) -> None:
        starts = [(at, row.label.cell_length) for at, row in enumerate(self.rows) if isinstance(row, CodeStart)]
        for number, (at, cells) in enumerate(starts, start=1):
            if self.line_of_row(at) == event.y and event.x >= self.size.width - cells:
                event.stop()
                self.post_message(self.LabelClicked(number))

    def _read(self) -> None:
        piece, self._unread = self._unread[:AT_ONCE], self._unread[AT_ONCE:]
        document = self._document
        n_frozen = len(document.frozen)
        document.append(piece)
        self.put(n_frozen, [*document.frozen[n_frozen:], *document.open])
        if self.is_attached:
            self.on_mount()


class TokenView(RowsView):
    """The plain text of an answer, in the color of each token's source."""

    @dataclass
    class CharacterClicked(Message):
        """A character of the text was clicked."""

        view: TokenView
        at: int

    def __init__(self, runs: Iterable[Run]) -> None:
        super().__init__()
        self._document = TokenDocument(COLORLESS if self.app.no_color else STYLES)
        self.append(runs)

    def append(self, runs: Iterable[Run]) -> None:
        """Show more text."""
        document = self._document
        n_frozen = len(document.frozen)
        document.append(runs)
        self.put(n_frozen, [*document.frozen[n_frozen:], *document.open])

    @property
    def plain(self) -> str:
        """The whole text."""
        return "".join(map(_plain, self.rows))

    def mark(self, start: int, end: int) -> int:
        """Mark the characters from one to another and no others; return their first screen line."""
        rows = [*self._document.frozen, *self._document.open]
        at, first = 0, 0
        for number, row in enumerate(rows):
            begin, stop = max(start - at, 0), min(end - at, len(_plain(row)))
            if begin < stop:
                first = first or number
                rows[number] = replace(row, content=row.content.stylize("reverse", begin, stop))
            at += len(_plain(row))
        self.put(0, rows)
        return self.line_of_row(first)

    def on_click(self, event: events.Click) -> None:
        _, offset = self.screen.get_widget_and_offset_at(event.screen_x, event.screen_y)
        if offset is not None and offset.y < len(self.rows) and not self.screen.get_selected_text():
            event.stop()
            self.post_message(self.CharacterClicked(self, sum(map(len, map(_plain, self.rows[: offset.y]))) + offset.x))


def _plain(row: Row) -> str:
    return (row.source or "") + "\n" * row.content.plain.endswith(LINE_END)


_MOST_LINES, _MOST_COLUMNS = 100, 400
"""Shown of an attachment."""


class Folding(VerticalGroup):
    """A summary line; a click shows or hides what is below it."""

    open: reactive[bool] = reactive(False, toggle_class="-open")

    def __init__(self) -> None:
        super().__init__()
        self._summary = Passage(classes="summary")

    def compose(self) -> ComposeResult:
        yield self._summary

    def on_mount(self) -> None:
        self.draw()

    def watch_open(self) -> None:
        if self.is_mounted:
            self.draw()

    def on_click(self, event: events.Click) -> None:
        event.stop()
        self.open = not self.open

    def summarize(self, text: str) -> None:
        """Show the summary line."""
        self._summary.write(f"{'▾' if self.open else '▸'} {text}")

    def draw(self) -> None:
        """Update the summary line, and the contents if they are open."""
        raise NotImplementedError


class FoldedText(Folding):
    """A title; open, the first lines of a text."""

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title = title
        self._text = text
        self._contents = Static(classes="contents")

    def compose(self) -> ComposeResult:
        yield from super().compose()
        yield self._contents

    def draw(self) -> None:
        self.summarize(self._title)
        if self.open:
            self._contents.update(Content(_beginning(self._text)))


def folded_attachment(attachment: Attachment) -> FoldedText:
    """Return an attachment under its name and size."""
    about = f"  {size(attachment.size)}" if attachment.is_file else ""
    return FoldedText(f"{printable(attachment.name)}{about}", attachment.text)


def folded_summary(text: str) -> FoldedText:
    """Return what stands for the dimmed messages, which the model no longer reads."""
    n = len(text.split())
    title = f"the dimmed messages as a summary, {n:,} word{'s' * (n != 1)}; /summary changes it"
    return FoldedText(title if text else "the model no longer reads the dimmed messages", text)


def _beginning(text: str) -> str:
    lines = iter(printable(text).split("\n"))
    shown = [line[:_MOST_COLUMNS] for line in islice(lines, _MOST_LINES)]
    rest = sum(1 for _ in lines)
    return "\n".join([*shown, *([f"… {rest:,} more line{'s' * (rest != 1)}"] if rest else [])])


class Reasoning(Folding):
    """Number of words and duration of the reasoning; open, its text.

    Attributes:
        text: The whole reasoning.
        view: Shows it; None until it was opened.
    """

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self.view: ModelMarkdown | None = None
        self.text = self._unread = ""
        self._n_words = 0
        self._began = self._latest = 0.0
        self._add(text)

    def add(self, text: str) -> None:
        """Add text that the model generates now."""
        self._add(text)
        if self.has_class("-begun"):
            self._latest = monotonic()
            self._began = self._began or self._latest
        self.draw()

    def _add(self, text: str) -> None:
        continues_word = bool(self.text[-1:].strip() and text[:1].strip())
        self._n_words += len(text.split()) - continues_word
        self.text += text
        self._unread += text
        self.set_class(self._n_words > 0, "-begun")

    def draw(self) -> None:
        seconds = self._latest - self._began
        time = f", {seconds:,.0f} s" if seconds >= 1 else ""
        words = self._n_words
        self.summarize(f"reasoning, {words:,} word{'s' * (words != 1)}{time}")
        if self.open and self.is_attached and self._unread:
            if self.view is None:
                self.view = ModelMarkdown()
                self.mount(self.view)
            self.view.append(self._unread)
            self._unread = ""


_HOW_IT_WORKS = Content.from_markup(
    "The [$draft]draft[/] model proposes the next tokens; the [$target]target[/] verifies them in one pass. "
    "The answers stay the same and come sooner."
)
_MESSAGE_KEYS = (
    ("chat.compare", "compare with and without the draft"),
    ("chat.tokens", "color tokens by source"),
    ("chat.settings", "settings"),
    ("chat.pairs", "choose a pair"),
    ("app.keys", "all keys"),
)
_KEY_CELLS = 5
"""Cells for a key, and what is between it and what it does."""
_AROUND, _FEWEST = 8, 3
"""Rows of the window that are around it, and the least that it takes: it is seen from its beginning."""


class Welcome(Widget):
    """Legend of the two colors, and the next steps."""

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self.refresh(layout=self.display))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return min(len(self._lines(width)), max(_FEWEST, viewport.height - _AROUND))

    def render(self) -> Content:
        return Content("\n").join(line.stylize_before("$quiet") for line in self._lines(self.size.width))

    def _lines(self, width: int) -> list[Content]:
        keys = {one.binding.id: self.app.get_key_display(one.binding) for one in self.screen.active_bindings.values()}
        named = [(keys[identity], does) for identity, does in _MESSAGE_KEYS if identity in keys]
        # Keys of the user's own may be longer.
        column = max([_KEY_CELLS, *(len(shown) + 2 for shown, _ in named)])
        rows = [Content.assemble((f"{shown:{column}}", "$foreground"), does) for shown, does in named]
        return [
            *_HOW_IT_WORKS.wrap(max(1, width - 1)),
            Content(""),
            *(row.truncate(width, ellipsis=True) for row in rows),
        ]
