"""Separate reasoning from the answer by the marks of a model family.

Surrogates, lone UTF-16 code units that no text contains, represent marks that are tokens of the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from app.engine.text.segments import Segment, cut, held_back, text_of

_LONGEST_LEAD = 200
"""Longest space or header before a mark, in characters."""
_LONGEST_WORD = 40
"""Longest word of a header, in characters."""
_TOKEN_SURROGATES = range(0xDC00, 0xE000)
"""Surrogates that represent tokens."""
_MESSAGE_SEPARATOR = "\n\n"
"""Text between two reasoning messages, or two messages of the answer."""


class AnswerPart(Enum):
    """Parts of an answer."""

    START = "start"
    """Before or between reasoning and answer."""
    THINKING = "thinking"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class ReasoningMarkup:
    """The marks of a model family.

    If a mark is a token of the vocabulary, the same characters in other tokens are text: a model may write about marks.

    Attributes:
        answer: Begins the answer, unless it follows the reasoning directly.
        end: Ends the answer, if text may follow it.
        headers: Beginnings of headers. A header comes before a mark and is not shown.
        header_words: Words of headers, such as roles; other text there is an answer without a mark.
        think: Appended to a prompt to continue the reasoning.
        conclude: Appended to reasoning to continue with the answer.
        speak: Appended to a prompt to continue the answer.
        reopens: Whether reasoning may come again after the answer has begun.
        calls: Texts that begin tool calls, with or without a header; they belong to the answer.
        marks: A surrogate for each token in a mark; see `with_tokens`.
    """

    open: str
    close: str
    answer: str = ""
    end: str = ""
    headers: tuple[str, ...] = ()
    header_words: tuple[str, ...] = ()
    think: str = ""
    conclude: str = ""
    speak: str = ""
    reopens: bool = False
    calls: tuple[str, ...] = ()
    marks: Mapping[int, str] = field(default_factory=dict)

    def with_tokens(self, tokens: Mapping[str, int]) -> ReasoningMarkup:
        """Return the markup for a vocabulary, given the ids of its tokens by their text."""
        marks = (self.open, self.close, self.answer, self.end, *self.headers)
        found = [text for text in tokens if len(text) > 1 and any(text in mark for mark in marks)]
        found = sorted(found, key=lambda text: (-len(text), text))[: len(_TOKEN_SURROGATES)]
        surrogates = {text: chr(code) for text, code in zip(found, _TOKEN_SURROGATES, strict=False)}

        def encoded(mark: str) -> str:
            for text, surrogate in surrogates.items():
                mark = mark.replace(text, surrogate)
            return mark

        return replace(
            self,
            open=encoded(self.open),
            close=encoded(self.close),
            answer=encoded(self.answer),
            end=encoded(self.end),
            headers=tuple(map(encoded, self.headers)),
            calls=tuple(map(encoded, self.calls)),
            marks={tokens[text]: surrogate for text, surrogate in surrogates.items()},
        )


THINK = ReasoningMarkup("<think>", "</think>", think="<think>\n", conclude="\n</think>\n\n")
"""Marks of most families, and the default."""


@dataclass(frozen=True, slots=True)
class RenderedPrompt:
    """A conversation as token ids.

    Attributes:
        part: Part of an answer in which they end.
        stops: Strings that end the answer: end-of-turn marks that are not tokens.
        tool_marks: Texts of control tokens that belong to tool calls.
    """

    tokens: tuple[int, ...]
    part: AnswerPart = AnswerPart.START
    markup: ReasoningMarkup = THINK
    stops: tuple[str, ...] = ()
    tool_marks: Mapping[int, bytes] = field(default_factory=dict)


class ReasoningSplitter:
    """Splits text into reasoning and answer, beginning in the given part.

    If the text continues an answer (`begun`), leading space belongs to it.
    """

    def __init__(
        self, markup: ReasoningMarkup = THINK, part: AnswerPart = AnswerPart.START, *, begun: bool = False
    ) -> None:
        self.part = part
        self._markup = markup
        self._skip_space = part is AnswerPart.THINKING and not begun
        self._seen: set[AnswerPart] = set()
        self._gap = ""
        self._held: list[Segment] = []
        self._shown: dict[int, str] = {}

    def set_text(self, surrogate: str, text: str) -> None:
        """Set the text of the token that a surrogate represents; it is shown if the token is not a mark."""
        self._shown[ord(surrogate)] = text

    def push(self, segment: Segment) -> list[Segment]:
        pending, self._held = [*self._held, segment], []
        ready: list[Segment] = []
        while pending:
            step = self._find_start if self.part is AnswerPart.START else self._find_end
            passed, pending, is_decided = step(pending)
            ready += passed
            if not is_decided:
                self._held = pending
                break
        return ready

    def flush(self) -> list[Segment]:
        """Return the text held back, except a header."""
        held, self._held = self._held, []
        text = text_of(held)
        match self.part:
            case AnswerPart.START:
                if self._is_header(text.lstrip()) and self._is_complete_header(text, ended=True):
                    return []
                self._move(AnswerPart.ANSWER)
            case AnswerPart.THINKING:
                if self._header_at(text, ended=True) == 0:
                    return []
            case AnswerPart.ANSWER:
                held = cut(held, self._spelled_end_at(text))[0]
        return self._emit(held)

    def _find_start(self, pending: list[Segment]) -> tuple[list[Segment], list[Segment], bool]:
        """Find the start of reasoning or answer; return the text to show, the rest, and whether that is decided."""
        text = text_of(pending)
        rest = text.lstrip()
        lead = len(text) - len(rest)
        # A mark counts only at the beginning; later it is text of the answer.
        if lead <= _LONGEST_LEAD:
            markup = self._markup
            marks = {
                markup.open: AnswerPart.THINKING,
                markup.close: AnswerPart.START if markup.answer else AnswerPart.ANSWER,
                markup.answer: AnswerPart.ANSWER,
            }
            marks.pop("", None)
            reach = _LONGEST_LEAD if self._is_header(rest) else 0
            found = _first(rest, marks)
            call = _first(rest, markup.calls)
            if call is not None and call[0] <= reach and (found is None or call[0] < found[0]):
                # The header of a call is not shown, but the tool's name in it belongs to the call.
                self._move(AnswerPart.ANSWER)
                return [], cut(pending, lead + call[0])[1], True
            if found is not None and found[0] <= reach:
                at, mark = found
                header, rest_segments = cut(cut(pending, lead)[1], at)
                is_header = mark != markup.close and rest.startswith(markup.headers)
                ready = self._text_in_header(header, rest[:at], has_mark=is_header)
                self._pass_mark(marks[mark])
                return ready, cut(rest_segments, len(mark))[1], True
            begins = (*marks, *markup.headers, *markup.calls)
            if (reach and len(rest) <= reach) or any(mark.startswith(rest) for mark in begins):
                return [], pending, False
        self._move(AnswerPart.ANSWER)
        return [], pending, True

    def _find_end(self, pending: list[Segment]) -> tuple[list[Segment], list[Segment], bool]:
        text, markup = text_of(pending), self._markup
        marks: dict[str, AnswerPart] = {}
        if self.part is AnswerPart.THINKING:
            marks = {markup.close: AnswerPart.START if markup.answer else AnswerPart.ANSWER}
            if markup.marks and markup.answer:
                # Some models do not close their reasoning before they answer or reason again.
                marks[markup.answer] = AnswerPart.ANSWER
                if markup.open.endswith(markup.answer):
                    marks[markup.open] = AnswerPart.THINKING
        elif _has_token(markup.end):
            marks = {markup.end: AnswerPart.START}
        elif markup.reopens and _has_token(markup.open):
            marks = {markup.open: AnswerPart.THINKING, markup.close: AnswerPart.ANSWER}
        found = _first(text, marks)
        if found is None:
            if self.part is AnswerPart.THINKING:
                reach = self._header_at(text)
            else:
                reach = min(self._spelled_end_at(text), len(text) - held_back(text, self._spelled_ends))
            ready, held = cut(pending, min(reach, len(text) - held_back(text, marks)))
            return self._emit(ready), held, False
        at, mark = found
        before, rest = cut(pending, at)
        if self.part is AnswerPart.THINKING and mark != markup.close:
            before = cut(before, self._header_at(text[:at]))[0]
        ready = self._emit(before)
        self._pass_mark(marks[mark])
        return ready, cut(rest, len(mark))[1], True

    def _is_header(self, rest: str) -> bool:
        # A token that is a mark is never text, even if the rest of the header is missing.
        return _has_token(rest[:1]) or rest.startswith(self._markup.headers)

    def _is_complete_header(self, header: str, *, ended: bool) -> bool:
        for known in sorted((*self._markup.headers, *self._markup.header_words), key=len, reverse=True):
            header = header.replace(known, " ")
        words = "".join(letter for letter in header if ord(letter) not in _TOKEN_SURROGATES).split()
        return not words or (not ended and len(words) == 1 and len(words[0]) <= _LONGEST_WORD)

    def _header_at(self, text: str, *, ended: bool = False) -> int:
        """Return the start of a header at the end of a text, if it begins with a token; else the text's length."""
        tokens = tuple(header for header in self._markup.headers if _has_token(header[:1]))
        starts = range(max(0, len(text) - _LONGEST_LEAD), len(text)) if tokens else ()
        found = (
            at for at in starts if text.startswith(tokens, at) and self._is_complete_header(text[at:], ended=ended)
        )
        return next(found, len(text))

    def _text_in_header(self, header: list[Segment], text: str, *, has_mark: bool) -> list[Segment]:
        if self._is_complete_header(text, ended=True):
            return []
        length = len(text)
        if has_mark:
            # A header that names a tool has other words too.
            length = at if (at := self._header_at(text)) < length else 0
        if length:
            self._move(AnswerPart.ANSWER)
        return self._emit(cut(header, length)[0])

    @property
    def _spelled_ends(self) -> tuple[str, ...]:
        end = self._markup.end
        return (end,) if end and not _has_token(end) else ()

    def _spelled_end_at(self, text: str) -> int:
        """Return the start of a trailing end mark in text form; else the text's length."""
        kept = text.rstrip()
        if len(text) - len(kept) <= _LONGEST_LEAD and kept.endswith(self._spelled_ends):
            return len(kept) - len(self._markup.end)
        return len(text)

    def _pass_mark(self, part: AnswerPart) -> None:
        self._skip_space = True
        self._move(part)

    def _move(self, part: AnswerPart) -> None:
        self.part = part
        # Earlier reasoning or text is a separate message to the model.
        self._gap = _MESSAGE_SEPARATOR if part in self._seen else ""

    def _emit(self, segments: Iterable[Segment]) -> list[Segment]:
        out = []
        thinking = self.part is AnswerPart.THINKING
        for segment in segments:
            text = segment.text.translate(self._shown) if self._shown else segment.text
            # Templates put blank lines around the marks; they are not part of the text.
            text = text.lstrip() if self._skip_space else text
            if text:
                text, self._gap, self._skip_space = self._gap + text, "", False
                self._seen.add(self.part)
                same = text == segment.text and segment.reasoning == thinking
                out.append(segment if same else replace(segment, text=text, reasoning=thinking))
        return out


def _has_token(text: str) -> bool:
    return any(ord(letter) in _TOKEN_SURROGATES for letter in text)


def _first(text: str, marks: Iterable[str]) -> tuple[int, str] | None:
    found = [(at, -len(mark), mark) for mark in marks if (at := text.find(mark)) >= 0]
    return (min(found)[0], min(found)[2]) if found else None
