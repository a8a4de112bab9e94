"""Jobs: answer, name a conversation, measure or reload a pair, and describe tokens and prompts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from app.conversations.titles import make_title
from app.core.errors import AppError, Interrupted
from app.core.pictures import MARK, PictureData
from app.engine.types import AutoDraft, Drafting, FinishReason
from app.worker.events import Event, Finished, JobEnded, Measuring
from app.worker.request import AnswerRequest, LoadedPair, prompt_of, readable_by

if TYPE_CHECKING:
    from app.engine.interfaces import Cancelled, Controls


_IDLE_S = 1.0
"""Wait for this long without a request before measuring: an agent sends its next request sooner."""
_PICTURE_MARKER = "<__media__>"
"""llama-server's mark of a picture in a prompt."""


class Job:
    """Work with the loaded pair, described by a frozen value; for a child process, the value must be picklable.

    Attributes:
        loads: Whether a lost pair is loaded again for it; otherwise the job ends with the result None.
        gives_way: Whether any later command that does not give way itself stops it.
    """

    __slots__ = ()
    loads = True
    gives_way = False

    def run(self, pair: LoadedPair, number: int, controls: Controls) -> Iterator[Event]:
        """Do the work.

        Every event has `number` as `request`; the last event is `JobEnded` or `Finished`, even after a stop.
        """
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class AnswerJob(Job):
    """Answer a request; the last event is `Finished`."""

    request: AnswerRequest

    def run(self, pair: LoadedPair, number: int, controls: Controls) -> Iterator[Event]:
        # Imported on the worker's thread, so that the first frame of the screen does not wait for it.
        from app.worker.responder import answer

        return answer(pair, number, self.request, controls)


@dataclass(frozen=True, slots=True)
class ReloadJob(Job):
    """Load the pair of a lost engine process before it is needed."""

    def run(self, pair: LoadedPair, number: int, controls: Controls) -> Iterator[Event]:
        yield JobEnded(number, None)


@dataclass(frozen=True, slots=True)
class Query(Job):
    """Returns a function's result about the pair.

    Attributes:
        function: For a child process, it must be picklable.
    """

    function: Callable[[LoadedPair], object]
    loads: bool = True

    def run(self, pair: LoadedPair, number: int, controls: Controls) -> Iterator[Event]:
        yield JobEnded(number, self.function(pair))


def token_count(request: AnswerRequest, pair: LoadedPair) -> int:
    """Return the number of tokens in the prompt of a request."""
    return len(prompt_of(pair, readable_by(pair, request)).tokens)


@dataclass(frozen=True, slots=True)
class PromptSize:
    """Tokens of a prompt, and of each picture in it beside its digest."""

    n_tokens: int
    pictures: tuple[tuple[str, int], ...] = ()


def prompt_size(request: AnswerRequest, pair: LoadedPair) -> PromptSize:
    """Return the tokens of a request's prompt and of its pictures."""
    return PromptSize(token_count(request, pair), picture_sizes(request.pictures, pair))


def picture_sizes(pictures: Sequence[PictureData], pair: LoadedPair) -> tuple[tuple[str, int], ...]:
    """Return the digest of each picture with its tokens; nothing if the pair reads no pictures."""
    if (encoder := pair.pictures) is None:
        return ()
    return tuple((each.digest, encoder.n_picture_tokens(each.width, each.height)) for each in pictures)


def prompt_text(request: AnswerRequest, pair: LoadedPair) -> str:
    """Return the prompt of a request as text, with llama-server's marker for each picture."""
    request = readable_by(pair, request)
    messages = tuple(
        replace(each, content=each.content.replace(MARK, _PICTURE_MARKER), pictures=()) if each.pictures else each
        for each in request.messages
    )
    return pair.model.detokenize(prompt_of(pair, replace(request, messages=messages)).tokens)


def text_of(tokens: Sequence[int], pair: LoadedPair) -> str:
    """Return the text of tokens."""
    return pair.model.detokenize(tokens)


def tokens_of(
    parts: Sequence[str | int], pair: LoadedPair, *, add_special: bool, parse_special: bool
) -> tuple[tuple[int, bytes], ...]:
    """Return the tokens of texts and token ids, as ids with their bytes.

    Args:
        parts: Texts and token ids in order.
        add_special: Whether to prepend BOS, if the model expects it.
        parse_special: Whether texts of control tokens become these tokens.
    """
    tokens: list[int] = []
    for n, part in enumerate(parts):
        if isinstance(part, int):
            tokens.append(part)
        else:
            tokens += pair.tokenize(part, parse_special=parse_special, add_special=add_special and n == 0)
    return tuple((token, pair.token_text(token)) for token in tokens)


@dataclass(frozen=True, slots=True)
class TitleJob(Job):
    """Ask the model for a title of a conversation; the result is "" if it was stopped, failed or is too long.

    The prefill of the request opens a quotation that the title ends.
    """

    request: AnswerRequest
    loads = False
    gives_way = True

    def run(self, pair: LoadedPair, number: int, controls: Controls) -> Iterator[Event]:
        title = ""
        try:
            for event in AnswerJob(self.request).run(pair, number, controls):
                if isinstance(event, Finished) and event.reason is FinishReason.STOP:
                    begun = self.request.prefill.text if self.request.prefill is not None else ""
                    title = make_title(event.text.removeprefix(begun)).strip(" \"'“”.")
        except AppError:
            # The title of the first prompt stays.
            pass
        yield JobEnded(number, title)


@dataclass(frozen=True, slots=True)
class MeasureJob(Job):
    """Measure a pair if automatic drafting needs that; the result is False if the job was stopped early."""

    drafting: Drafting
    after_s: float = _IDLE_S
    loads = False
    gives_way = True

    def run(self, pair: LoadedPair, number: int, controls: Controls) -> Iterator[Event]:
        if needs_measuring(pair, self.drafting) and not controls.waits(self.after_s):
            with pair.caches.lend():
                yield from measure(pair, number, controls.cancelled)
        yield JobEnded(number, not controls.cancelled())


def needs_measuring(pair: LoadedPair, drafting: Drafting) -> bool:
    """Return whether automatic drafting has no measured costs, or needs another measurement."""
    if not isinstance(drafting, AutoDraft) or not pair.info.sources(drafting):
        return False
    known = pair.memory
    return known is None or known.is_estimated or bool(known.why_remeasure)


def measure(pair: LoadedPair, number: int, cancelled: Cancelled) -> Iterator[Event]:
    """Measure a pair, on empty caches, and save the result; a stopped measurement continues at the next call."""
    known = pair.memory
    why = known.why_remeasure if known is not None and not known.is_estimated else None
    began, first = time.monotonic(), None
    try:
        for share in pair.measure_costs(cancelled):
            # A stopped measurement does not restart at 0.
            first = share if first is None else first
            spent_s, done = time.monotonic() - began, share - first
            yield Measuring(number, share, why, spent_s * (1 - share) / done if done > 0 else None)
    except Interrupted:
        # No prompt begins with this text.
        pair.target.rollback(0)
    else:
        pair.remember()
