"""What is compared: the prompt and, as far as there is room for that, how it is answered and behind what."""

from __future__ import annotations

from textual.content import Content
from textual.widget import Widget

from app.compare.report import how, seen
from app.conversations.attached import question_of
from app.conversations.titles import fit, in_brief
from app.core.printable import printable
from app.worker.request import AnswerRequest

_GAP = 2


class AskedLines(Widget):
    """The prompt stands there whole if that leaves room for anything else, and has half of its line at least.

    Below it stands what every side is given besides: whoever compares in a conversation goes on with that.

    Args:
        request: What is asked.
    """

    def __init__(self, request: AnswerRequest) -> None:
        super().__init__()
        # What it includes stands in front of a question, which names it.
        self._prompt = " ".join(printable(question_of(request.messages[-1].content)).split())
        self._how = printable(how(request))
        self._seen = f"{seen(request).capitalize()}; the conversation stays as it is"

    def render(self) -> Content:
        width = self.size.width
        rooms = (width - Content(self._prompt).cell_length - _GAP, width // 2 - _GAP)
        shortened = ((in_brief(self._how, room), room) for room in rooms)
        brief = next((brief for brief, room in shortened if len(brief) <= room), "")
        prompt = Content(fit(self._prompt, width - len(brief) - _GAP))
        first = Content.assemble(prompt, " " * (width - prompt.cell_length - len(brief)), (brief, "$quiet"))
        return Content("\n").join([first, Content.styled(fit(in_brief(self._seen, width), width), "$quiet")])
