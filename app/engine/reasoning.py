"""What a model thinks, told apart from what it answers by the marks that its family writes around both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from app.engine.text import Segment, cut, held_back, text_of

_LONGEST_LEAD = 200
"""Characters of space or of a header before a mark: a model that writes nothing else is shown doing so."""
_FIRST_MARK = 0xDC00
"""Half a character each, which no text of a model can hold."""
_HALVES = range(_FIRST_MARK, 0xE000)
_BETWEEN = "\n\n"


class Place(Enum):
    """Where in an answer a text is."""

    START = "start"
    """Before thinking and answer, or between them: what comes next has a mark of its own, or is the answer."""
    THINKING = "thinking"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class ReasoningMarkup:
    """What a family of models writes around its thinking and its answer.

    Marks that are tokens of the vocabulary count as these tokens only: a model may well write about them.

    Attributes:
        open: Begins the thinking.
        close: Ends it.
        answer: Begins the answer; "" where whatever follows the thinking is the answer.
        end: Ends the answer, where anything may follow it.
        headers: What begins that which stands in front of a mark and is no text.
        think: What is written behind a prompt to go on with a thought.
        conclude: What is written behind a thought to go on with the answer.
        speak: What is written behind a prompt to go on with the answer.
        marks: Half a character for each token that is, or is part of, a mark; see `with_tokens`.
    """

    open: str
    close: str
    answer: str = ""
    end: str = ""
    headers: tuple[str, ...] = ()
    think: str = ""
    conclude: str = ""
    speak: str = ""
    marks: Mapping[int, str] = field(default_factory=dict)

    def with_tokens(self, tokens: Mapping[str, int]) -> ReasoningMarkup:
        """The same where some texts are tokens of a vocabulary.

        Args:
            tokens: Ids of tokens by their text.
        """
        written = (self.open, self.close, self.answer, self.end, *self.headers)
        found = [text for text in tokens if len(text) > 1 and any(text in mark for mark in written)]
        found = sorted(found, key=lambda text: (-len(text), text))[: len(_HALVES)]
        halves = {text: chr(half) for text, half in zip(found, _HALVES, strict=False)}

        def known(mark: str) -> str:
            for text, half in halves.items():
                mark = mark.replace(text, half)
            return mark

        return replace(
            self,
            open=known(self.open),
            close=known(self.close),
            answer=known(self.answer),
            end=known(self.end),
            headers=tuple(map(known, self.headers)),
            marks={tokens[text]: half for text, half in halves.items()},
        )


THINK = ReasoningMarkup("<think>", "</think>", think="<think>\n", conclude="\n</think>\n\n")
"""What most families write, and what is looked for where nothing else is known."""


class ReasoningSplitter:
    """Tells thinking from answering.

    Args:
        markup: The marks.
        place: Where the text begins.
        begun: Whether part of a thought came before, so that space at its beginning belongs to it.
    """

    def __init__(self, markup: ReasoningMarkup = THINK, place: Place = Place.START, *, begun: bool = False) -> None:
        self.place = place
        self._markup = markup
        self._skip_space = place is Place.THINKING and not begun
        self._has_passed_mark = False
        self._seen: set[Place] = set()
        self._gap = ""
        self._held: list[Segment] = []
        self._shown: dict[int, str] = {}

    @property
    def holds(self) -> bool:
        """Whether text waits for what follows it, or a mark of the answer must still come."""
        return bool(self._held) or (self.place is Place.START and self._has_passed_mark)

    def name(self, half: str, text: str) -> None:
        """Say how the token behind half a character shows where it is no mark."""
        self._shown[ord(half)] = text

    def push(self, segment: Segment) -> list[Segment]:
        pending, self._held = [*self._held, segment], []
        ready: list[Segment] = []
        while pending:
            step = self._find_start if self.place is Place.START else self._find_end
            passed, pending, is_decided = step(pending)
            ready += passed
            if not is_decided:
                self._held = pending
                break
        return ready

    def flush(self) -> list[Segment]:
        """What was held back, when no more text follows."""
        held, self._held = self._held, []
        if self.place is Place.START and self._is_header(text_of(held).lstrip()):
            return []
        return self._emit(held)

    def _find_start(self, pending: list[Segment]) -> tuple[list[Segment], list[Segment], bool]:
        """Look for what begins thinking or answer; returns what is shown, what is left, and whether that is decided."""
        text = text_of(pending)
        rest = text.lstrip()
        lead = len(text) - len(rest)
        # A mark counts at the very beginning only: further on it is the answer's own text.
        if lead <= _LONGEST_LEAD:
            markup = self._markup
            marks = {
                markup.open: Place.THINKING,
                markup.close: Place.START if markup.answer else Place.ANSWER,
                markup.answer: Place.ANSWER,
            }
            marks.pop("", None)
            reach = _LONGEST_LEAD if self._is_header(rest) else 0
            found = _first(rest, marks)
            if found is not None and found[0] <= reach:
                at, mark = found
                self._pass_mark(marks[mark])
                return [], cut(pending, lead + at + len(mark))[1], True
            if (reach and len(rest) <= reach) or any(m.startswith(rest) for m in (*marks, *markup.headers)):
                return [], pending, False
        self._move(Place.ANSWER)
        return [], pending, True

    def _find_end(self, pending: list[Segment]) -> tuple[list[Segment], list[Segment], bool]:
        """Look for what ends thinking or answer; likewise."""
        text, markup = text_of(pending), self._markup
        if self.place is Place.THINKING:
            marks = {markup.close: Place.START if markup.answer else Place.ANSWER}
            if markup.marks:
                # Some models forget to end their thinking before they answer.
                marks[markup.answer] = Place.ANSWER
        else:
            marks = {markup.end: Place.START}
        marks.pop("", None)
        found = _first(text, marks)
        if found is None:
            ready, held = cut(pending, len(text) - held_back(text, marks))
            return self._emit(ready), held, False
        at, mark = found
        before, rest = cut(pending, at)
        ready = self._emit(before)
        self._pass_mark(marks[mark])
        return ready, cut(rest, len(mark))[1], True

    def _is_header(self, rest: str) -> bool:
        # A mark that is a token is no text, even where what should follow it does not come.
        return bool(rest) and (ord(rest[0]) in _HALVES or rest.startswith(self._markup.headers))

    def _pass_mark(self, place: Place) -> None:
        self._skip_space = self._has_passed_mark = True
        self._move(place)

    def _move(self, place: Place) -> None:
        self.place = place
        # What was thought or said before is another message to the model.
        self._gap = _BETWEEN if place in self._seen else ""

    def _emit(self, segments: Iterable[Segment]) -> list[Segment]:
        out = []
        thinking = self.place is Place.THINKING
        for segment in segments:
            text = segment.text.translate(self._shown) if self._shown else segment.text
            # Templates put blank lines around the marks; they belong to neither side.
            text = text.lstrip() if self._skip_space else text
            if text:
                text, self._gap, self._skip_space = self._gap + text, "", False
                self._seen.add(self.place)
                same = text == segment.text and segment.reasoning == thinking
                out.append(segment if same else replace(segment, text=text, reasoning=thinking))
        return out


def _first(text: str, marks: Iterable[str]) -> tuple[int, str] | None:
    """Where the first of some marks stands, and which; of two at one place the longer one."""
    found = [(at, -len(mark), mark) for mark in marks if (at := text.find(mark)) >= 0]
    return (min(found)[0], min(found)[2]) if found else None
