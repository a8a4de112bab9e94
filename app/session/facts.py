"""The loaded pair, and the current facts of a chat, for its readers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from app.conversations.tree import Node
from app.core.errors import UsageError
from app.engine.types import Drafting
from app.models.pair_info import PairInfo
from app.session.active_conversations import ActiveConversations, Mark
from app.session.answering import Answering
from app.session.conversation import Conversation
from app.session.library import Library, StoreOpener
from app.session.state import Blocked, BlockedError, Change, DraftState, Outcome, Phase, model_names
from app.session.tool_use import Question, ToolUse
from app.settings.layers import Resolved, drafting
from app.settings.live import LiveSettings
from app.worker.request import AnswerRequest, with_seed

if TYPE_CHECKING:
    from app.worker.engine_worker import Engine, Loader


class PairState:
    """Holds the loaded pair, and turns its drafts on and off.

    Args:
        title: Name of the pair, shown until it is loaded.
        first: Loads it; None if the user chooses a pair first.

    Attributes:
        was_requested: Whether a pair was loaded, will be loaded or failed to load.
        next: A pair that waits for the first frame or for the end of the running answer, and its title.
        drafts: Whether the setting and the user allow drafts; the pair may have no draft source.
    """

    def __init__(self, engine: Engine, title: str, first: Loader | None) -> None:
        self._engine = engine
        self.title = title
        self.info: PairInfo | None = None
        self.models: dict[str, str] = {}
        self.was_requested = first is not None
        self._n_unfinished = 0
        self.next = None if first is None else (first, title)
        self._mode: Drafting = None
        self.drafts = False

    # Loading

    def load_next(self) -> bool:
        """Load the waiting pair; return whether there is one."""
        if self.next is None:
            return False
        (loader, self.title), self.next = self.next, None
        if self._n_unfinished:
            self._engine.cancel()
        self._n_unfinished += 1
        self.was_requested = True
        self.info = None
        self._engine.load(loader)
        return True

    @property
    def is_loading(self) -> bool:
        return self._n_unfinished > 0

    def end_load(self) -> bool:
        """Count the end of a load; return whether another load has begun since."""
        self._n_unfinished = max(0, self._n_unfinished - 1)
        return self.is_loading

    def take(self, info: PairInfo) -> None:
        """Set the loaded or changed pair."""
        self.info, self.models = info, model_names(info)

    # Drafts

    def use_mode(self, mode: Drafting, *, again: bool = False) -> None:
        """Apply the setting; a new setting, or another pair (`again`), turns the drafts on if it allows them."""
        if again or mode != self._mode:
            self._mode, self.drafts = mode, mode is not None


_COMPARED_TOKENS = 256
"""Tokens of a compared answer: enough for a steady speed, few enough to compare several times."""


class ChatFacts:
    """A chat with a pair and an open conversation; another conversation may be answered meanwhile.

    Args:
        title: Name of the pair, shown until it is loaded.
        open_store: Opens the conversations; None keeps them in memory only.
        first: Loads the pair at the first `load_next`; None if the user chooses a pair first.

    Attributes:
        is_behind: Whether a request of another program is answered before the prompt.
    """

    def __init__(
        self,
        engine: Engine,
        title: str,
        live: LiveSettings,
        tools: ToolUse,
        open_store: StoreOpener | None = None,
        first: Loader | None = None,
    ) -> None:
        self.engine = engine
        self.library = Library(open_store)
        self.is_behind = False
        self._active = ActiveConversations(self.library, lambda: self.models)
        self.phase = Phase.UNLOADED if first is None else Phase.LOADING
        self._pair = PairState(engine, title, first)
        self._live = live
        self._pair.use_mode(drafting(self.settings), again=True)
        self.answering = Answering(engine, self._active, self._settings_of, tools)
        self.tools = tools
        self._what = Change.NOTHING
        self._ended: Outcome | None = None

    @property
    def conversation(self) -> Conversation:
        """Return the open conversation."""
        return self._active.open

    @property
    def title(self) -> str:
        """Return the name of the pair that is loaded or being loaded."""
        return self._pair.title

    @property
    def waiting(self) -> str | None:
        """Return the prompt at the end of the branch that waits for the models, if any."""
        here = self.conversation
        return here.queued[0] if self.phase is Phase.LOADING and here.queued and here.running is None else None

    @property
    def queued(self) -> tuple[str, ...]:
        """Return further queued prompts of the open conversation, in order."""
        return self.conversation.queued[self.waiting is not None :]

    @property
    def messages(self) -> tuple[Node, ...]:
        """Return the active branch; a prompt that waits for the models is at its end with negative ids."""
        waiting, here = self.waiting, self.conversation
        return here.messages if waiting is None else here.messages_with(waiting)

    @property
    def is_compacting(self) -> bool:
        """Return whether earlier messages are being summarized for the answer."""
        return self.answering.n_kept is not None

    @property
    def is_answering(self) -> bool:
        """Return whether an answer in the open conversation is being written, or waits for a tool."""
        return self.conversation.running is not None or (
            self.phase is Phase.ANSWERING and self._active.answered is self.conversation
        )

    @property
    def question(self) -> Question | None:
        """Return what the user must answer before the open conversation continues, if anything."""
        return self.tools.question if self.is_answering else None

    @property
    def tool_offer(self) -> str:
        """Return how many tools the last prompt offered the model, except tools of servers that are now off."""
        return self.tools.offer(self.settings["answer.tools"])

    @property
    def tool_activity(self) -> str | None:
        """Return the tool activity that the turn waits for, if any."""
        return self.tools.activity if self.is_answering else None

    @property
    def active_settings(self) -> tuple[str, ...]:
        """Return the settings that change answers, such as a preset."""
        preset = self._live.preset
        system = ("system prompt",) if self.settings["answer.system"] else ()
        return system if preset is None else (*system, f"preset {preset}")

    @property
    def pair(self) -> PairInfo | None:
        return self._pair.info

    @property
    def models(self) -> dict[str, str]:
        return self._pair.models

    @property
    def will_load(self) -> bool:
        """Return whether the requested pair is being loaded, or waits for the end of an answer."""
        return self.phase is Phase.LOADING or self._pair.next is not None

    @property
    def has_asked_for_pair(self) -> bool:
        """Return whether a pair was loaded, will be loaded or failed to load."""
        return self._pair.was_requested

    @property
    def answered_elsewhere(self) -> int | None:
        """Return the conversation that is being answered, if it is not the open conversation."""
        answered = self._active.answered
        return answered.number if self.phase is Phase.ANSWERING and answered is not self.conversation else None

    @property
    def asks_elsewhere(self) -> bool:
        """Return whether the answered conversation, which is not open, waits for the user."""
        return self.tools.question is not None and self.answered_elsewhere is not None

    @property
    def marks(self) -> dict[int, Mark]:
        """Return what happens in conversations that are not open, by id."""
        running = Mark.ASKING if self.asks_elsewhere else Mark.ANSWERING
        return self._active.marks(running if self.phase is Phase.ANSWERING else None)

    @property
    def settings(self) -> Resolved:
        """Return the settings of the next answer in the open conversation."""
        return self._settings_of(self.conversation)

    def _settings_of(self, conversation: Conversation) -> Resolved:
        return self._live.resolved(None if conversation is self.conversation else conversation.settings)

    @property
    def drafting(self) -> DraftState:
        return DraftState.of(drafting(self.settings), self.pair, switched_on=self._pair.drafts)

    @property
    def can_switch_running(self) -> bool:
        """Return whether turning drafting on or off affects the running answer."""
        return self.conversation.running is not None and self.answering.can_switch

    @property
    def _can_answer(self) -> bool:
        return self.phase is Phase.READY and not self._active.has_waiting

    @property
    def can_regenerate(self) -> bool:
        return self._can_answer and self.conversation.turn.prompt is not None

    @property
    def _blocked(self) -> Blocked | None:
        phase, here = self.phase, self.conversation
        reasons = (
            (phase is Phase.UNLOADED, Blocked.UNLOADED),
            (bool(here.queued), Blocked.WAITING),
            (self.is_answering, Blocked.ANSWERING),
            (phase is Phase.ANSWERING or self._active.has_waiting, Blocked.ELSEWHERE),
            (phase is Phase.LOADING, Blocked.LOADING),
        )
        return next((why for holds, why in reasons if holds), None)

    @property
    def is_busy(self) -> bool:
        """Return whether the open conversation has a prompt without an answer."""
        return self.is_answering or bool(self.conversation.queued)

    def refuse_if_blocked(self) -> None:
        """Raise BlockedError if no answer can begin in the open conversation."""
        if (why := self._blocked) is not None:
            raise BlockedError(why)

    def refuse_if_busy(self) -> None:
        """Raise BlockedError if `is_busy`."""
        if self.is_busy:
            self.refuse_if_blocked()

    @property
    def expects_events(self) -> bool:
        """Return whether more events will come without a further command."""
        return self.phase in (Phase.LOADING, Phase.ANSWERING) or self.answering.measure_job is not None

    def comparable(self, typed: str) -> AnswerRequest:
        """Return the request for the typed prompt, or else the last prompt, for a comparison. Raises UsageError."""
        last = self.conversation.turn.prompt
        if drafting(self.settings) is None:
            raise UsageError("Drafting is off in the settings, so there is nothing to compare.")
        if not self.drafting.is_available:
            raise UsageError(f"There is nothing to compare. {self.drafting.reason}")
        prompt = typed.strip() or (last.text if last is not None else "")
        if not prompt or self.pair is None:
            raise UsageError("There is no prompt to compare yet; type one.")
        read = self.conversation.read_before(None if typed.strip() else last)
        request = self.answering.request_for(self.conversation, prompt, read)
        most = min(request.max_tokens or _COMPARED_TOKENS, _COMPARED_TOKENS)
        return replace(request, sampling=with_seed(request.sampling), max_tokens=most)
