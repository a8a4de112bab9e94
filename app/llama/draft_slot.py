"""The draft of a loaded target: check it, load it, and free it again.

A damaged or incompatible draft is left out with a notice. `app.models.compatibility` decides which drafts are
compatible, and `app.hardware.fit.beside` where their layers must be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from app.core.errors import DamagedFileError, ModelLoadError
from app.engine.cache import TokenCache
from app.engine.draft_model import HiddenDrafter, ModelDrafter
from app.engine.draft_source import DraftSource
from app.engine.interfaces import Verdict
from app.engine.sources import Source
from app.engine.vocab_compatibility import incompatibility, replace_unknown
from app.hardware.fit import beside
from app.llama.cancel import CancelFlag
from app.llama.checks import ModelFile, open_model_file
from app.llama.child import SafeFiles, try_file
from app.llama.context import Context
from app.llama.loading import devices_of
from app.llama.model import Model
from app.llama.mtp_chain import head_context
from app.llama.params import PairParams
from app.llama.reserve import reserve
from app.models.compatibility import NO_ROLLBACK, head_problem, mtp_problem, select_draft
from app.models.draft_kinds import MTP_IN_TARGET, HeadFacts, d2t_fault, head_facts
from app.models.model_facts import read_facts
from app.models.pair_summary import without_draft
from app.settings.model_params import DRAFT_ANYWHERE, ModelParams
from app.settings.placement import ALL_LAYERS, CPU


def checked_pair(
    params: PairParams, go_on: Callable[[], bool], notices: list[str]
) -> tuple[ModelFile | None, PairParams]:
    """Try the files of a pair before loading, and place draft layers that share tensors with the target.

    If a draft is refused, the target's MTP layers replace it, if it has any. `go_on` is polled; False stops the trials.

    Returns:
        The draft's file, and the parameters with the draft to load.

    Raises:
        DamagedFileError: llama.cpp does not survive the target.
    """
    file: ModelFile | None = None
    if params.draft is not None:
        try:
            file, params = checked_file(params.draft, params, go_on, notices)
        except DamagedFileError as error:
            target = read_facts(params.target)
            _, has_layers, _ = select_draft(params.settings["draft.type"], target, None)
            instead = f"{error.sentences} The MTP layer of {target.name} drafts instead."
            notices.append(instead if has_layers else without_draft(error))
            model = replace(params.model, load_mtp=has_layers or params.model.load_mtp)
            params = replace(params, draft=None, model=model)
    try_file(params.target, SafeFiles(params.safe_files), go_on)
    if params.model.load_mtp:
        try:
            _try_layers(params.target, params, go_on)
        except DamagedFileError as error:
            notices.append(without_draft(error))
            params = replace(params, model=replace(params.model, load_mtp=False))
    return file, params


def checked_file(
    path: Path, params: PairParams, go_on: Callable[[], bool], notices: list[str]
) -> tuple[ModelFile, PairParams]:
    """Return the checked file of a draft, and the parameters with its placement; `go_on` as for `checked_pair`.

    Raises:
        DamagedFileError: It cannot draft for the target.
        ModelFileError: It is missing, or is no model.
    """
    found = open_model_file(path, is_draft=True)
    facts = head_facts(found.header)
    if facts is None:
        try_file(found.path, SafeFiles(params.safe_files), go_on)
        return found, params
    if facts.follows_target(params.model.overrides):
        params = beside_target(params, found.path.name, notices)
    _try_layers(found.path, params, go_on)
    return found, params


def beside_target(params: PairParams, name: str, notices: list[str]) -> PairParams:
    """Place draft layers on the devices of their target; add a notice if the settings name others."""
    placed, asked = (
        beside(params.draft_model, params.model, tuple(devices_of(params.model)) or (CPU,)),
        ModelParams.of(params.settings, "draft"),
    )
    named, used = ({*map(str.lower, model.devices)} for model in (asked, placed))
    is_open = asked == DRAFT_ANYWHERE
    is_same = asked.on_cpu if placed.on_cpu else asked.n_gpu_layers == ALL_LAYERS and named == used
    if not (is_open or is_same):
        notices.append(f"{name} shares tensors with its target, so it runs on the target's devices.")
    return replace(params, draft_model=placed)


def _try_layers(path: Path, params: PairParams, go_on: Callable[[], bool]) -> None:
    """Check that draft layers match the target and load without an abort. Raises DamagedFileError."""
    target = read_facts(params.target)
    problem = mtp_problem(target) if path == params.target else head_problem(target, read_facts(path))
    if not problem and (fault := d2t_fault(path, len(target.vocab.tokens))):
        problem = f"{path.name} cannot be used as a draft: {fault}."
    if problem:
        raise DamagedFileError(problem)
    try_file(path, SafeFiles(params.safe_files), go_on, pair=params)


class DraftSlot:
    """Owns the draft of a loaded target: a draft model, or layers that read the target's hidden rows.

    Args:
        cancel: Stops a decode in the middle.

    Attributes:
        drafter: The source of drafts, if there is a usable draft.
        model: The draft's file as loaded, if any; None for MTP layers in the target's file.
    """

    def __init__(self, context: Context, target: TokenCache, cancel: CancelFlag, notices: list[str]) -> None:
        self._target_context = context
        self._target = target
        self._cancel = cancel
        self._notices = notices
        self.drafter: DraftSource | None = None
        self.model: Model | None = None
        self.context: Context | None = None

    def load(self, file: ModelFile | None, params: PairParams, on_progress: Callable[[float], bool]) -> PairParams:
        """Load a draft, or the target's MTP layers if `params` has them and there is no usable draft.

        Returns:
            The parameters with the loaded draft.

        Raises:
            Interrupted: `on_progress` returned False.
        """
        if file is not None:
            self._try_load(partial(self._load_file, file, params, on_progress))
        if self.drafter is None and params.model.load_mtp:
            self._try_load(partial(self._attach, self._target_context.model, MTP_IN_TARGET, params))
        uses_mtp = self.drafter is not None and self.model is None
        draft = self.model.path if self.model is not None else None
        return replace(params, draft=draft, model=replace(params.model, load_mtp=uses_mtp))

    def _try_load(self, load: Callable[[], None]) -> None:
        try:
            load()
        except ModelLoadError as error:
            self.free()
            self._notices.append(without_draft(error))

    def _load_file(self, file: ModelFile, params: PairParams, on_progress: Callable[[float], bool]) -> None:
        target = self._target_context.model
        if not self._target.n_rollback:
            raise ModelLoadError(
                f"The recurrent state of {target.name} cannot be rolled back, so a rejected draft could not be undone."
            )
        facts = head_facts(file.header)
        placed = replace(params.draft_model, load_mtp=facts is not None and facts.kind is Source.MTP)
        self.model = draft = Model(file, placed, on_progress)
        if facts is not None:
            self._attach(draft, facts, params)
            return
        reason = incompatibility(target.vocab, draft.vocab)
        if reason is None and not draft.can_rollback:
            reason = f"{draft.name} cannot be used as a draft: {NO_ROLLBACK}."
        if reason is not None:
            raise ModelLoadError(reason)
        self.context = context = Context(draft, params.draft_context(self._target_context.n_ctx), self._cancel)
        reserve(context, params.draft_model, is_planned=bool(params.memory))
        n_vocab = min(target.n_vocab, draft.n_vocab)
        # The draft model reads line breaks instead of a picture, which a stored state may have without a projector too.
        known = replace_unknown(n_vocab, _line_break(draft))
        self.drafter = ModelDrafter(TokenCache(context, known), n_vocab, is_end=target.is_end)

    def _attach(self, model: Model, facts: HeadFacts, params: PairParams) -> None:
        if facts.shares_memory:
            # llama.cpp empties the KV cache that these layers share with the target.
            self._target.rollback(0)
        own = params.draft_context(self._target_context.n_ctx, facts.block_size or 1)
        head = head_context(model, facts, self._target_context, own)
        self.context = head
        self.drafter = HiddenDrafter(facts.kind, self._target, head, is_end=self._target_context.model.is_end)
        # The target's hidden rows take memory too, because it computes other batches with them.
        compute = partial(self._draft_over_largest_batch, self.drafter, head)
        reserve(self._target_context, params.model, is_planned=bool(params.memory), compute=compute)

    def _draft_over_largest_batch(self, drafter: HiddenDrafter, head: Context) -> None:
        target, context = self._target, self._target_context
        n = max(1, min(target.n_batch, target.n_ctx - 1 - drafter.longest))
        target.evaluate([0] * n, min(n, context.n_outputs))
        drafter.draft([0] * (n + 1), drafter.longest, lambda depth, probability: Verdict.TAKE)
        target.rollback(0)
        drafter.forget()
        context.native_ns = head.native_ns = 0

    @property
    def cache(self) -> TokenCache | None:
        """Return the cache of a draft model; draft layers have none."""
        return self.drafter.cache if self.drafter is not None else None

    def free(self) -> None:
        """Free the draft; the target stays loaded. A second call does nothing."""
        self._target.follower = None
        for owned in (self.context, self.model):
            if owned is not None:
                owned.close()
        self.drafter = self.context = self.model = None


def _line_break(model: Model) -> int:
    """Return the token of a line break, which fits between any two turns."""
    return [0, *model.tokenize("\n", parse_special=False)][-1]
