"""A loaded pair as values: names, sizes, context and memory per device."""

from __future__ import annotations

from dataclasses import dataclass, field

from app.engine.types import (
    AutoDraft,
    Drafting,
    DraftParams,
    Source,
    taking_part,
)
from app.settings.thinking import Heard


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A loaded model, as people and scripts want it named.

    Attributes:
        name: What it is called; see `app.models.model_names.known_as`.
        file: File name.
        quantization: The file type as files spell it, such as "Q4_K_M".
        size_bytes: Bytes of its tensors.
        n_vocab: Tokens of its vocabulary.
        n_ctx_train: Context that it was trained for, tokens; 0 where its file does not say.
    """

    name: str
    file: str
    quantization: str
    size_bytes: int
    n_vocab: int
    n_ctx_train: int = 0


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Estimated bytes of a pair on one device, or in RAM ("cpu").

    Attributes:
        device: llama.cpp's name.
        n_bytes: What is taken.
        description: What the device is, such as "NVIDIA GeForce RTX 4090"; "" where that is not known.
        total_bytes: All memory that it has; 0 the same.
    """

    device: str
    n_bytes: int
    description: str = ""
    total_bytes: int = 0


@dataclass(frozen=True, slots=True)
class PairInfo:
    """The loaded pair.

    Attributes:
        target: The big model.
        draft: The small one, or None.
        n_ctx: Context length in tokens.
        device: Where the layers are, as a short phrase.
        memory: Of each device that is used; () where it was not counted.
        n_ctx_room: The longest context that memory had room for when it was loaded, tokens; 0 where it was not counted.
        most_drafted: Drafted tokens that the target can take back at once; None for as many as there are.
        wants_draft_model: Whether some could be, if there was a draft model: what that takes is kept for one only.
        hears: Which wishes about its thinking the target hears.
        draft_failed: Whether there was a draft model that kept failing, and is left out until both are loaded again.
    """

    target: ModelInfo
    draft: ModelInfo | None
    n_ctx: int
    device: str
    memory: tuple[DeviceMemory, ...] = ()
    n_ctx_room: int = 0
    most_drafted: int | None = None
    wants_draft_model: bool = False
    hears: Heard = field(default_factory=Heard)
    draft_failed: bool = False

    @property
    def can_draft(self) -> bool:
        """Return whether a rejected draft can be undone in the target."""
        return self.most_drafted != 0

    def sources(self, drafting: Drafting) -> tuple[Source, ...]:
        """Return who may draft: the sources that are wanted, as far as they are there."""
        if drafting is None or not self.can_draft or self._wants_more(drafting):
            return ()
        model, lookup = (drafting.model, drafting.lookup) if isinstance(drafting, AutoDraft) else (True, False)
        return taking_part(model=model and self.draft is not None, ngram=lookup)

    def why_plain(self, drafting: Drafting) -> str:
        """Why no one can draft as it is wanted, as a clause; "" where somebody can, or nothing is wanted."""
        if drafting is None or self.sources(drafting):
            return ""
        if self.wants_draft_model:
            return "only a draft model could draft for it, and there is none"
        if not self.can_draft:
            return "rejected drafts could not be taken back here"
        if isinstance(drafting, DraftParams) and self._wants_more(drafting):
            return (
                f"no draft is as long as n_min {drafting.n_min}, for at most {self.most_drafted} tokens could be taken "
                "back here"
            )
        without_lookup = ", and n-gram drafting was left out" if isinstance(drafting, AutoDraft) else ""
        return f"there is no draft model{without_lookup}"

    def _wants_more(self, drafting: Drafting) -> bool:
        """Return whether no draft of fixed drafting can be long enough to be submitted."""
        most = self.most_drafted
        return isinstance(drafting, DraftParams) and most is not None and drafting.n_min > most
