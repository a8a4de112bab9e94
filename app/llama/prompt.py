"""From a conversation to token ids, such that no message can forge a control token."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

from app.conversations.message import Begun, Message, Role
from app.core.errors import TemplateError
from app.engine.text.reasoning import Place, ReasoningMarkup
from app.engine.text.stream import TextStream
from app.engine.types import Origin
from app.llama.model import Model
from app.llama.reasoning_markup import markup_of
from app.llama.template import CHATML_MARKS, ChatTemplate, TemplateBudgetError
from app.settings.thinking import AS_TRAINED, EFFORTS, Heard, Thinking

_OPEN, _CLOSE = "\ue000", "\ue001"
"""Private-use characters around the number of a taken text while the template is rendered."""
_MARK = re.compile(f"{_OPEN}([0-9]{{1,9}}){_CLOSE}")
_LEDGE = "\x01"
"""Character that no vocabulary merges with others."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """Rendered conversation.

    Attributes:
        tokens: Token ids, ready for the target.
        place: Where in an answer it ends.
        markup: What the model writes around its thinking.
        stops: Texts that end the answer. Markup that a model was not trained on has no end token in its vocabulary,
            and what it writes of it is text.
        marked: Whether the last mark in it, of those that the model writes, begins the answer.
    """

    tokens: tuple[int, ...]
    place: Place
    markup: ReasoningMarkup
    stops: tuple[str, ...] = ()
    marked: bool = False


class PromptBuilder:
    """Renders and tokenizes conversations for one model.

    The whole rendered text is tokenized with special tokens recognized, as the model was trained. A message that
    contains the text of a control token would end its own turn or speak for somebody else; such texts are taken out
    before rendering and come back as ordinary characters.

    Attributes:
        hears: Thinking settings that change the model's prompt.

    Raises:
        TemplateError: The model's template is no valid Jinja, its prompts would not say what was asked, or it spent
            the budget that all renderings in here share.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._template = ChatTemplate(model.chat_template, self._text(model.bos), self._text(model.eos))
        if self._template.leaves_out:
            raise TemplateError(
                "The model's chat template leaves out what is asked.", "The model file may be faulty; try another."
            )
        self._stops = CHATML_MARKS if self._template.is_chatml else ()
        # A message's own marks would be read as ours, so they are taken out as well.
        self._forgeries = _Forgeries([*model.control_tokens, _OPEN, _CLOSE])
        self._control = frozenset(model.control_tokens.values())
        self._written = markup_of(model.chat_template)
        self._markup = self._written.with_tokens(model.control_tokens)
        self.hears = self._hears()

    def build(
        self,
        messages: Sequence[Message],
        begun: Begun | None = None,
        known: Sequence[int] = (),
        thinking: Thinking = AS_TRAINED,
    ) -> Prompt:
        """The prompt for the next answer, or for the rest of one.

        The begun answer follows what the template writes in front of any answer, as llama-server does it: templates
        trim finished answers, drop their thinking and end their turn.

        Args:
            messages: The conversation, ending with the user.
            begun: The answer to go on with; None for a new one.
            known: Tokens that the cache holds.
            thinking: Whether the model is to think; to an answer that was thought about already it does not matter.

        Raises:
            TemplateError: The model's template cannot render the conversation.
            UsageError: It is longer than any context.
        """
        self._template.renew_budget()
        return self._build(messages, begun, known, thinking)

    def _build(
        self,
        messages: Sequence[Message],
        begun: Begun | None = None,
        known: Sequence[int] = (),
        thinking: Thinking = AS_TRAINED,
    ) -> Prompt:
        if begun is not None and begun.reasoning.strip() and thinking.wanted is False:
            thinking = replace(thinking, wanted=None)
        prompt = self._render(messages, thinking)
        if thinking.wanted is False:
            # Where the template knows no such wish, or leaves the choice to the model.
            prompt = self._spoken(prompt)
        return prompt if begun is None else self._go_on(prompt, begun, known)

    def _hears(self) -> Heard:
        def asked(wanted: bool | None = None, effort: str | None = None) -> tuple[int, ...] | None:
            try:
                return self._build([Message(Role.USER, "a")], thinking=Thinking(wanted, effort)).tokens
            except TemplateBudgetError:
                raise
            except TemplateError:
                return None

        def weighs(wanted: bool | None = None) -> bool:
            return len({asked(wanted, effort) for effort in EFFORTS}) > 1

        if asked() is None:
            # The error is reported when a prompt is built.
            return Heard()
        # Some templates leave thinking off, and what is said of it out, unless they are told that it is wanted.
        effort = weighs()
        return Heard(asked(wanted=True) != asked(wanted=False), effort, effort or weighs(wanted=True))

    def _render(self, messages: Sequence[Message], thinking: Thinking) -> Prompt:
        taken: list[str] = []

        def hide(text: str) -> str:
            out: list[str] = []
            end = 0
            for start, stop in self._forgeries.find(text):
                out += text[end:start], f"{_OPEN}{len(taken)}{_CLOSE}"
                taken.append(text[start:stop])
                end = stop
            return "".join([*out, text[end:]])

        hidden = [replace(m, content=hide(m.content), reasoning=hide(m.reasoning)) for m in messages]
        text = self._template.render(hidden, thinking)
        tokens: list[int] = []
        for index, part in enumerate(_MARK.split(text)):
            # The template may have marks of its own; they stand for nothing.
            if index % 2 == 1 and int(part) < len(taken):
                tokens += self._literally(taken[int(part)])
            elif index % 2 == 0 and part:
                tokens += self._model.tokenize(part, parse_special=True)
        if self._model.add_bos and self._model.bos is not None and tokens[:1] != [self._model.bos]:
            tokens.insert(0, self._model.bos)
        if not tokens:
            raise TemplateError(
                "The model's chat template leaves nothing of this conversation.",
                "The model file may be faulty; try another.",
            )
        place = self._place_behind(text)
        return Prompt(tuple(tokens), place, self._markup, self._stops, marked=place is Place.ANSWER)

    def _place_behind(self, text: str) -> Place:
        """Return the place in an answer where a rendered prompt ends."""
        behind, marks = text.rstrip(), self._written
        if behind.endswith(marks.open):
            return Place.THINKING
        return Place.ANSWER if marks.answer and behind.endswith(marks.answer) else Place.START

    def _go_on(self, prompt: Prompt, begun: Begun, known: Sequence[int]) -> Prompt:
        begun = replace(begun, text=begun.text.lstrip())
        length, asked = len(prompt.tokens), prompt.tokens
        behind = known[length:] if tuple(known[:length]) == asked else ()
        own = spelled(behind, self._model.piece, begun, markup=self._markup, place=prompt.place, marked=prompt.marked)
        prompt = replace(prompt, tokens=(*asked, *behind[: own.n_tokens]), place=own.place, marked=own.marked)
        rest = own.rest
        if rest.reasoning:
            if prompt.place is not Place.THINKING:
                think = self._model.tokenize(self._written.think, parse_special=True)
                prompt = replace(prompt, tokens=(*prompt.tokens, *think), place=Place.THINKING, marked=False)
            prompt = self._with(prompt, rest.reasoning)
        if rest.text:
            prompt = replace(self._with(self._spoken(prompt), rest.text), place=Place.ANSWER)
        return prompt

    def _spoken(self, prompt: Prompt) -> Prompt:
        """Return the prompt with the markup that leads the model to its answer."""
        marks = self._written
        said = {Place.START: marks.speak, Place.THINKING: marks.conclude, Place.ANSWER: ""}[prompt.place]
        if not said:
            return prompt
        tokens = (*prompt.tokens, *self._model.tokenize(said, parse_special=True))
        # Some models think even after an empty thought.
        return replace(prompt, tokens=tokens, place=Place.ANSWER if marks.answer else Place.START, marked=True)

    def _with(self, prompt: Prompt, text: str) -> Prompt:
        """Return the prompt with a text appended as ordinary characters."""
        return replace(prompt, tokens=(*prompt.tokens, *self._behind(prompt.tokens, text)))

    def _behind(self, tokens: Sequence[int], text: str) -> list[int]:
        """The ids of a text that follows tokens, as ordinary characters."""
        return self._literally(text, begins=bool(self._control.intersection(tokens[-1:])))

    def _literally(self, text: str, *, begins: bool = True) -> list[int]:
        """The ids of a text as ordinary characters.

        llama.cpp makes some control tokens also when it is told not to (the "user-defined" ones); no part of such a
        text is long enough for that. What stands between them is read in one go, as the model has learned to.

        Args:
            text: Any text.
            begins: Whether nothing stands in front of it, or a control token.
        """
        tokens = self._plainly(text, begins=begins)
        if not self._control.intersection(tokens):
            return tokens
        out: list[int] = []
        cuts = [0, *chain.from_iterable(self._forgeries.find(text)), len(text)]
        for start, stop in pairwise(cuts):
            part = text[start:stop]
            while self._control.intersection(tokens := self._plainly(part, begins=begins and not out)):
                head, part = part[0], part[1:]
                out += (t for t in self._plainly(head, begins=begins and not out) if t not in self._control)
            out += tokens
        return out

    def _plainly(self, text: str, *, begins: bool) -> list[int]:
        """Tokenize a text without special tokens."""
        if begins or not text or self._model.vocab.kind != "llama":
            return self._model.tokenize(text, parse_special=False)
        # SentencePiece puts a space in front of what begins a text, and this does not.
        ledge = self._model.tokenize(_LEDGE, parse_special=False)
        return self._model.tokenize(_LEDGE + text, parse_special=False)[len(ledge) :]

    def _text(self, token: int | None) -> str:
        return "" if token is None else self._model.text_of(token)


class _Forgeries:
    """Finds any of thousands of texts in a long one, in about one look at each place where one could begin."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._texts = {text for text in texts if text}
        self._lengths: dict[str, list[int]] = {}
        for text in self._texts:
            self._lengths.setdefault(text[:2], []).append(len(text))
        self._lengths = {start: sorted(set(lengths), reverse=True) for start, lengths in self._lengths.items()}
        starts = sorted(self._lengths, key=len, reverse=True)
        # Looking ahead, because places may overlap.
        self._starts = re.compile(f"(?=({'|'.join(map(re.escape, starts))}))") if starts else re.compile(r"(?!)")

    def find(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the spans of these texts, the longest at each place, without overlap."""
        end = 0
        for match in self._starts.finditer(text):
            start = match.start()
            if start < end:
                continue
            for length in self._lengths[match[1]]:
                if text[start : start + length] in self._texts:
                    end = start + length
                    yield start, end
                    break


@dataclass(frozen=True, slots=True)
class Spelled:
    """Part of an answer that cached tokens spell.

    Attributes:
        n_tokens: How many of them belong to it.
        rest: What they leave of it.
        place: Where in the answer they end.
        marked: Whether the last mark in front of that begins the answer.
    """

    n_tokens: int
    rest: Begun
    place: Place
    marked: bool = False


def spelled(
    tokens: Sequence[int],
    piece: Callable[[int], bytes],
    begun: Begun,
    *,
    markup: ReasoningMarkup,
    place: Place,
    marked: bool = False,
) -> Spelled:
    """Count the cached tokens that spell the beginning of an answer and nothing else.

    Args:
        tokens: What the cache holds behind the prompt.
        piece: The bytes that a token shows as; empty for control tokens.
        begun: The answer.
        markup: What the model writes around its thinking.
        place: Where the prompt ends.
        marked: Whether the last mark in it begins the answer.
    """
    stream = TextStream(markup=markup, place=place, marked=marked)
    found = Spelled(0, begun, place, marked)
    text = thought = ""
    for n, token in enumerate(tokens, 1):
        shown = piece(token)
        if not shown and token not in markup.marks:
            break
        for segment in stream.push(shown, Origin.TARGET, token):
            if segment.reasoning:
                thought += segment.text
            else:
                text = (text + segment.text).lstrip()
        if stream.holds:
            continue
        whole = thought.rstrip() == begun.reasoning.rstrip()
        if not (whole or (stream.place is Place.THINKING and begun.reasoning.startswith(thought))):
            break
        if not begun.text.startswith(text):
            break
        rest = Begun(begun.text[len(text) :], "" if whole else begun.reasoning[len(thought) :])
        found = Spelled(n, rest, stream.place, stream.marked)
    return found
