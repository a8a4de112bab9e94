"""Parts of a message: Markdown, token text, attachments and reasoning; the text of an empty conversation."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from time import monotonic

from textual import events
from textual.app import ComposeResult
from textual.containers import VerticalGroup
from textual.content import Content
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from app.conversations.attached import Attachment
from app.core.printable import printable
from app.ui.reading.token_rows import COLORLESS, STYLES, Run, TokenDocument
from app.ui.text import size
from app.ui.widgets.rows_view import RowsView

AT_ONCE = 16_000
"""Characters of Markdown that are read before keys have their turn: about 50 ms."""


class ModelMarkdown(RowsView):
    """Markdown that grows; a long text is read in pieces, so that keys do not wait for it."""

    def __init__(self) -> None:
        # The first frame need not wait for the Markdown parser.
        from app.ui.reading.document import MarkdownDocument

        super().__init__()
        self._document = MarkdownDocument()
        self._unread = ""

    def append(self, text: str) -> None:
        """Show more text."""
        is_reading = bool(self._unread)
        self._unread += text
        if not is_reading:
            self._read()

    def on_mount(self) -> None:
        if self._unread:
            self.call_after_refresh(self._read)

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


_MOST_LINES, _MOST_COLUMNS = 100, 400
"""Shown of an attachment."""


class Folding(VerticalGroup):
    """A summary line; a click shows or hides what is below it."""

    open: reactive[bool] = reactive(False, toggle_class="-open")

    def __init__(self) -> None:
        super().__init__()
        self._summary = Static(classes="summary")

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
        self._summary.update(Content(f"{'▾' if self.open else '▸'} {text}"))

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
    """

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self._view: ModelMarkdown | None = None
        self.text = self._unread = ""
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
        self.text += text
        self._unread += text
        self.set_class(bool(self.text.strip()), "-begun")

    def draw(self) -> None:
        seconds = self._latest - self._began
        time = f", {seconds:,.0f} s" if seconds >= 1 else ""
        words = len(self.text.split())
        self.summarize(f"thinking, {words:,} word{'s' * (words != 1)}{time}")
        if self.open and self.is_attached and self._unread:
            if self._view is None:
                self._view = ModelMarkdown()
                self.mount(self._view)
            self._view.append(self._unread)
            self._unread = ""


_WHO = Content.from_markup(
    "The [$draft]draft[/] model guesses the next tokens; the [$target]target[/] checks them in one pass. "
    "Same quality, faster."
)
_KEYS = (
    ("chat.compare", "compare with and without the draft"),
    ("chat.tokens", "color tokens by source"),
    ("chat.settings", "settings"),
    ("chat.pairs", "models"),
    ("app.keys", "all keys"),
)
_KEY = 5
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
        named = [(keys[identity], does) for identity, does in _KEYS if identity in keys]
        # Keys of the user's own may be longer.
        column = max([_KEY, *(len(shown) + 2 for shown, _ in named)])
        rows = [Content.assemble((f"{shown:{column}}", "$foreground"), does) for shown, does in named]
        return [*_WHO.wrap(max(1, width - 1)), Content(""), *(row.truncate(width, ellipsis=True) for row in rows)]
