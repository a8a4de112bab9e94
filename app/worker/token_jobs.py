"""Jobs about tokens and prompts, without an answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from app.worker.events import Event, JobEnded
from app.worker.request import AnswerRequest, LoadedPair, prompt_of

if TYPE_CHECKING:
    from app.engine.interfaces import Controls


@dataclass(frozen=True, slots=True)
class TokenCount:
    """Count the tokens that the prompt of a request has; the result is a number.

    Attributes:
        loads: Whether a pair that was unloaded is loaded again for it.
    """

    request: AnswerRequest
    loads: bool = True

    def run(self, pair: LoadedPair, number: int, controls: Controls) -> Iterator[Event]:
        yield JobEnded(number, len(prompt_of(pair, self.request).tokens))


@dataclass(frozen=True, slots=True)
class PromptText:
    """Return the prompt of a request as text."""

    request: AnswerRequest
    loads = True

    def run(self, pair: LoadedPair, number: int, controls: Controls) -> Iterator[Event]:
        yield JobEnded(number, pair.detokenize(prompt_of(pair, self.request).tokens))


@dataclass(frozen=True, slots=True)
class Tokenize:
    """Return the tokens of texts and token ids, as ids with their bytes.

    Attributes:
        parts: Texts and token ids in order.
        add_special: Whether BOS stands in front, if the model expects it.
        parse_special: Whether texts of control tokens become those tokens.
    """

    parts: tuple[str | int, ...]
    add_special: bool = False
    parse_special: bool = True
    loads = True

    def run(self, pair: LoadedPair, number: int, controls: Controls) -> Iterator[Event]:
        tokens: list[int] = []
        for n, part in enumerate(self.parts):
            if isinstance(part, int):
                tokens.append(part)
            else:
                special = {"parse_special": self.parse_special, "add_special": self.add_special and n == 0}
                tokens += pair.tokenize(part, **special)
        yield JobEnded(number, tuple((token, pair.token_text(token)) for token in tokens))


@dataclass(frozen=True, slots=True)
class Detokenize:
    """Return the text of tokens."""

    tokens: tuple[int, ...]
    loads = True

    def run(self, pair: LoadedPair, number: int, controls: Controls) -> Iterator[Event]:
        yield JobEnded(number, pair.detokenize(self.tokens))
