"""One conversation as the chat sees it: what was said, what is being answered, what may be asked next."""

from __future__ import annotations

from enum import Enum, auto
from typing import cast

from app.conversations.message import Begun, Message, Role
from app.engine.types import DraftParams
from app.models.context_limit import context_limit, meant
from app.models.pair_info import PairInfo
from app.session.chat_settings import ChatSettings, applied
from app.settings.live import LiveSettings
from app.settings.tree import BY_NAME
from app.ui.key_names import key
from app.worker.request import AnswerRequest


class Phase(Enum):
    """What the engine is busy with, as far as the user is concerned."""

    LOADING = auto()
    READY = auto()
    ANSWERING = auto()
    UNLOADED = auto()
    """Loading failed; there is nobody to talk to."""


class ChatSession:
    """The state behind the chat screen.

    An exchange enters the conversation when its answer has text. One that failed, or was stopped before the first
    word, leaves the conversation as it was.

    Args:
        settings: What the chat was started with.
        live: What answers are asked with from then on; None leaves that as it is.
        has_pairs: Whether there are pairs to choose from.
    """

    def __init__(self, settings: ChatSettings, live: LiveSettings | None = None, *, has_pairs: bool = False) -> None:
        self._live = live
        self._has_pairs = has_pairs
        self._opened_with = settings
        """What was measured with the pair since it was loaded."""
        self.phase = Phase.LOADING
        self.pair: PairInfo | None = None
        self.drafting = settings.drafting is not None
        """Whether answers are drafted, the running one too; see `Engine.draft`."""
        self._mode = settings.drafting
        self.waiting: str | None = None
        """A prompt sent while the models load."""
        self.reading: str | None = None
        """What was sent, as typed, while the files that it names are read; "" for what still stands in the line."""
        self.request: int | None = None
        """The number of the running answer."""
        self._can_switch = False
        self.asked: str | None = None
        """The last prompt that an answer was asked for."""
        self._said: tuple[Message, ...] = ()
        self._answered = False
        """Whether the conversation ends with that prompt and its answer."""
        self._fallback: tuple[tuple[Message, ...], str | None, bool] | None = None

    @property
    def settings(self) -> ChatSettings:
        """How the next answer is asked for."""
        return applied(self._opened_with, self._live.resolved()) if self._live is not None else self._opened_with

    @settings.setter
    def settings(self, settings: ChatSettings) -> None:
        """Another pair was chosen."""
        self._opened_with, self._mode = settings, settings.drafting

    @property
    def is_on_its_way(self) -> bool:
        """Whether something was asked whose place in the conversation must stay until it is answered, or taken back."""
        return self.phase is Phase.ANSWERING or self.waiting is not None or self.reading is not None

    @property
    def refusal(self) -> str | None:
        """Why a prompt cannot be sent now, or None if it can."""
        if self.phase is Phase.ANSWERING:
            return f"An answer is being written; {key('chat.stop', 'esc')} stops it."
        if self.phase is Phase.UNLOADED:
            pairs, leaves = key("chat.pairs", "f6"), key("app.quit", "ctrl+q")
            return f"No model is loaded; {f'{pairs} chooses one' if self._has_pairs else f'{leaves} quits'}."
        if self.waiting is not None:
            return f"A prompt already waits for the models; {key('chat.stop', 'esc')} takes it back."
        if self.reading is not None:
            return f"Files are still being read; {key('chat.stop', 'esc')} stops that."
        return None

    @property
    def ctx_to_come(self) -> int:
        """The context that the pair gets when it is loaded anew, tokens; 0 where it stays, or cannot be so long."""
        live, pair = self._live, self.pair
        if live is None or pair is None or BY_NAME["model.ctx"] not in live.waiting:
            return 0
        n_ctx = meant(pair, cast("int | None", live.resolved()["model.ctx"]))
        return n_ctx if n_ctx <= context_limit(pair).n_ctx else 0

    @property
    def lacks_draft(self) -> bool:
        """Whether the draft model was left out because it kept failing, so that loading anew could bring it back."""
        return self.pair is not None and self.pair.draft_failed

    @property
    def can_draft(self) -> bool:
        """Whether there is something to draft with, as far as is known."""
        drafting = self.settings.drafting
        return drafting is not None if self.pair is None else bool(self.pair.sources(drafting))

    @property
    def why_plain(self) -> str:
        """Why there is nothing to draft with, as a sentence."""
        if self._live is not None and self.settings.drafting is None:
            return "Drafting is off in the settings; /draft auto turns it on."
        why = self.pair.why_plain(self.settings.drafting) if self.pair is not None else ""
        return f"{why[:1].upper()}{why[1:]}." if why else "There is no draft model."

    @property
    def whether_drafted(self) -> str:
        """What the user's last word about drafting means, as a sentence."""
        how = "drafted" if self.drafting else "decoded plainly"
        runs = self.phase is Phase.ANSWERING and self._can_switch
        return f"This answer is {how} from here on." if runs else f"The next answer is {how}."

    @property
    def source(self) -> str:
        """What the next answer is drafted by, in a word or two; see `is_drafting`."""
        if not self.can_draft:
            return "no draft"
        if not self.drafting:
            return "draft off"
        drafting = self.settings.drafting
        if isinstance(drafting, DraftParams):
            return "model" if drafting.n_max else "none: n_max is 0"
        return "automatic"

    @property
    def is_drafting(self) -> bool:
        return self.can_draft and self.drafting

    @property
    def n_max(self) -> int:
        """Most tokens of a draft of the next answer where that is fixed, else 0."""
        drafting = self.settings.drafting
        return drafting.n_max if isinstance(drafting, DraftParams) and self.is_drafting else 0

    @property
    def said(self) -> tuple[Message, ...]:
        """The conversation so far."""
        return self._said

    @property
    def unanswered(self) -> str | None:
        """The last prompt, if nothing came of it."""
        return None if self._answered else self.asked

    @property
    def can_ask_again(self) -> bool:
        return self.phase is Phase.READY and self.asked is not None and self.reading is None

    def ask(self, prompt: str) -> AnswerRequest:
        """The request for an answer to a new prompt."""
        self.asked, self._answered, self._fallback = prompt, False, None
        return self._request(prompt, self._said)

    def would_ask(self, prompt: str) -> AnswerRequest | None:
        """The request for the answer to a prompt, or with "" to the last one; nothing is asked. None without any."""
        asked = prompt or self.asked
        return self._request(asked, self._said if prompt else self._before_last) if asked is not None else None

    def ask_again(self) -> AnswerRequest:
        """The request for another answer to the last prompt."""
        assert self.asked is not None
        return self.go_back(self._before_last, self.asked)

    @property
    def _before_last(self) -> tuple[Message, ...]:
        """What was said before the last prompt, answered or not."""
        return self._said[:-2] if self._answered else self._said

    def go_back(self, said: tuple[Message, ...], asked: str, begun: Begun | None = None) -> AnswerRequest:
        """The request for another answer to an earlier prompt, or for the rest of one.

        Args:
            said: What was said before that prompt; what follows it comes back if nothing comes of the answer.
            asked: The prompt.
            begun: The answer that is to go on; None for a new one.
        """
        self._fallback = self._said, self.asked, self._answered
        self._said, self.asked, self._answered = said, asked, False
        return self._request(asked, said, begun)

    def started(self, request: int) -> None:
        self.phase, self.request = Phase.ANSWERING, request

    def ended(self, text: str, reasoning: str) -> bool:
        """The running answer has ended; returns whether the exchange entered the conversation."""
        self.phase, self.request = Phase.READY, None
        fallback, self._fallback = self._fallback, None
        if not text.strip() or self.asked is None:
            if fallback is not None:
                self._said, self.asked, self._answered = fallback
            return False
        self._answered = True
        self._said += (Message(Role.USER, self.asked), Message(Role.ASSISTANT, text.rstrip(), reasoning.strip()))
        return True

    def settings_changed(self) -> None:
        """Another way of drafting turns drafting on or off; until then the user's key for it counts."""
        mode = self.settings.drafting
        if mode != self._mode:
            self._mode, self.drafting = mode, mode is not None

    def restart(self, said: tuple[Message, ...] = (), asked: str | None = None, *, answered: bool = False) -> None:
        """Forget what was said; a running answer belongs to nobody from here on.

        Args:
            said: What was said in the conversation to go on with.
            asked: The last prompt in it, answered or not.
            answered: Whether what was said ends with it and its answer.
        """
        self.asked, self._answered, self.request = asked, answered, None
        self._said, self._fallback = said, None
        if self.phase is Phase.ANSWERING:
            self.phase = Phase.READY

    def _request(self, prompt: str, said: tuple[Message, ...], begun: Begun | None = None) -> AnswerRequest:
        settings = self.settings
        self._can_switch = settings.drafting is not None
        # A conversation from a file may begin with a system message of its own; templates take one, in front.
        own = said[:1] if said and said[0].role is Role.SYSTEM else ()
        system = (Message(Role.SYSTEM, settings.system),) if settings.system else own
        system = own if own and settings.system_yields else system
        turns = (message for message in said if message.role is not Role.SYSTEM)
        return AnswerRequest(
            messages=(*system, *turns, Message(Role.USER, prompt)),
            sampling=settings.sampling,
            drafting=settings.drafting,
            max_tokens=settings.max_tokens,
            stops=settings.stops,
            begun=begun,
            thinking=settings.thinking,
            stop_on_repeat=settings.stop_on_repeat,
        )
