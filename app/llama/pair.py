"""Load a target and its draft model, which share settings, threads and measurements."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from app.core.errors import DamagedFileError, ModelFileError
from app.engine.auto.cost_profile import MAX_BATCH
from app.engine.auto.curve import CostModel
from app.engine.auto.measure_costs import Measurement
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.auto.threads import ThreadTimes, measure_threads
from app.engine.cache import TokenCache
from app.engine.draft_source import DraftSource
from app.engine.interfaces import Cancelled
from app.engine.ngram import NgramIndex
from app.engine.prompt_cache import PromptCache
from app.engine.sources import IN_TARGET
from app.engine.text.reasoning import AnswerPart, RenderedPrompt
from app.engine.types import Guidance, PlainPrompt, SamplingParams, Threads
from app.hardware.cpu import OthersUse
from app.llama import stored_measurements
from app.llama.cancel import CancelFlag
from app.llama.checks import open_model_file
from app.llama.context import Context
from app.llama.cpu_threads import CpuThreads
from app.llama.devices import add_servers
from app.llama.draft_slot import DraftSlot, checked_file, checked_pair
from app.llama.loading import PairProgress, label
from app.llama.model import Model
from app.llama.params import PairParams
from app.llama.projector_loading import checked_projector, load_projector
from app.llama.prompt import PromptBuilder, plain_tokens
from app.llama.reserve import reserve
from app.llama.sampler import SamplerChain
from app.llama.state_files import cache_bytes, state_store
from app.llama.stored_measurements import cpu_model, memory_file, thread_file
from app.models.draft_kinds import head_facts
from app.models.model_facts import keeps_snapshots
from app.models.pair_info import DeviceMemory, PairInfo, rounding
from app.models.pair_summary import without_draft
from app.settings.model_params import ContextParams

MEASURING_NS = 4_000_000_000
"""Time limit of the first measurement; a slow target takes longer. The rest is learned during answers."""
_SPARED_RECHECKS = 3
"""Rechecks that a careful measurement replaces."""
_MEASURED_TEXT = (
    "The keeper of the lighthouse counted the steps again, as he did every evening, and wrote the number down. "
    "def total(items): return sum(item.price * item.count for item in items if item.count > 0)\n"
)
"""Text and code, so that tokens of a mixture of experts choose different experts."""


class NativePair:
    """Owns a target, perhaps with a draft model, ready to answer. Close it to free both models.

    A draft that is damaged or cannot be loaded is left out with a notice.

    Args:
        cancel: Stops a decode in the middle.
        on_progress: Called with the loaded share of all files; False cancels.

    Attributes:
        idle_s: Seconds without a command after which the pair is freed, if limited.
        caches: Saves both caches when another prompt replaces them, and restores them.
        free_sources: Draft sources without a model. They follow the conversation; the next turn adds only new tokens.

    Raises:
        ModelFileError: A file is missing or is no model.
        ModelLoadError: The target could not be loaded.
        Interrupted: `on_progress` returned False.
    """

    def __init__(self, params: PairParams, cancel: CancelFlag, on_progress: Callable[[float], bool]) -> None:
        self.notices: list[str] = list(params.notices)
        self.free_sources: Sequence[DraftSource] = (NgramIndex(),)
        minutes = params.settings["model.unload_after"]
        self.idle_s = None if minutes is None else minutes * 60.0
        self.save_error: OSError | None = None
        self._measurement: Measurement | None = None
        """An interrupted measurement, if any."""
        self._params = self._planned = params
        self.threads = CpuThreads(params, self._compute_with)
        # Both files are checked before either is loaded, so that a wrong file is reported immediately.
        go_on = partial(on_progress, 0.0)
        target_file = open_model_file(params.target)
        if (facts := head_facts(target_file.header)) is not None:
            raise ModelFileError(
                facts.as_target(target_file.path.name), "Name its target with ⟨target⟩, and this file with ⟨draft⟩."
            )
        draft_file, params = checked_pair(params, go_on, self.notices)
        params = checked_projector(params, target_file.header, go_on, self.notices)
        progress = PairProgress(on_progress, target=params.target, draft=params.draft, projector=params.projector)
        add_servers(params.addresses)
        with ExitStack() as stack:
            self.model = Model(target_file, params.model, partial(progress, "target"))
            stack.callback(self.model.close)
            self._context = Context(self.model, self._context_params(params), cancel)
            reserve(self._context, params.model, is_planned=bool(params.memory))
            self.target = TokenCache(self._context)
            self.pictures = load_projector(params, self._context, cancel, partial(progress, "projector"), self.notices)
            if self.pictures is not None:
                stack.callback(self.pictures.close)
            self.prompts = PromptBuilder(self.model, self.pictures)
            if self.model.chat_template is None:
                self.notices.append(
                    f"{self.model.name} has no chat template, so Tandem uses ChatML; a base model may not answer well."
                )
            self.draft = DraftSlot(self._context, self.target, cancel, self.notices)
            stack.callback(self.draft.free)
            self._has_mtp = params.model.load_mtp
            self._params = self.draft.load(draft_file, params, partial(progress, "draft"))
            # The estimate included the draft.
            lost = self._params.draft is None and self._planned.draft is not None
            lost = lost or (self.drafter is None and self._planned.model.load_mtp)
            self.info = self._describe(() if lost else params.memory)
            self.memory = stored_measurements.load_statistics(memory_file(self._params))
            states = cache_bytes(params), state_store(self._params)
            self.caches = PromptCache(self.target, lambda: self.draft.cache, *states)
            self._stack = stack.pop_all()

    @property
    def drafter(self) -> DraftSource | None:
        """Return the draft model or draft layers, if there are usable ones."""
        return self.draft.drafter

    def _describe(self, memory: tuple[DeviceMemory, ...]) -> PairInfo:
        """Return the pair as values, for the screen and for JSON."""
        model, draft, cache = self.model, self.draft.model, self.target
        on_target, on_draft = label(self._params.model), label(self._params.draft_model)
        in_target = replace(model.info, name=IN_TARGET, file="", quantization="", size_bytes=0)
        return PairInfo(
            target=model.info,
            draft=draft.info if draft is not None else in_target if self.drafter is not None else None,
            n_ctx=cache.n_ctx,
            device=on_target if draft is None or on_draft == on_target else f"{on_target}, draft on {on_draft}",
            memory=memory,
            n_ctx_room=self._params.n_ctx_room,
            most_drafted=cache.n_rollback if cache.n_rollback < cache.n_ctx else None,
            wants_draft_model=not cache.n_rollback and keeps_snapshots(model.header),
            thinking_support=self.prompts.thinking_support,
            draft_kind=self.drafter.kind if self.drafter is not None else None,
            projector=self.pictures.path.name if self.pictures is not None else None,
        )

    def _context_params(self, params: PairParams) -> ContextParams:
        chosen = params.target_context(self.model.n_ctx_train)
        trained = self.model.n_ctx_train or chosen.n_ctx
        if params.n_ctx is not None and min(trained, chosen.n_ctx) < params.n_ctx:
            self.notices.append(
                f"{self.model.name} was trained for {trained:,} tokens of context: {chosen.n_ctx:,} are used instead "
                f"of {params.n_ctx:,}."
            )
        elif params.n_ctx is not None and (longer := rounding(params.n_ctx)):
            self.notices.append(longer)
        return chosen

    def drop_draft(self) -> None:
        """Free a draft model or draft layers that failed, and add a notice."""
        if self.drafter is None or self.info.draft is None:
            return
        name = self.info.draft.name
        self._free_draft()
        self.info = replace(self.info, draft_failed=True)
        self.notices.append(
            f"Running without this draft. {name} failed and is left out until the models are loaded again."
        )

    def _free_draft(self) -> None:
        self.draft.free()
        self._adopt(replace(self._params, draft=None, model=replace(self._params.model, load_mtp=False)))

    def _adopt(self, params: PairParams) -> None:
        self._use(params)
        # The estimate included the first draft.
        self.info = self._describe(())
        self.memory = stored_measurements.load_statistics(memory_file(params))
        self._measurement = None

    def use_draft(self, path: Path | None, on_progress: Callable[[float], bool]) -> None:
        """Replace the draft; add a notice if the new draft cannot be used.

        Args:
            path: Its file; None for the target's MTP layer, if that was loaded.
            on_progress: Called with the loaded share of the draft; False cancels.

        Raises:
            ModelFileError: The file is missing or is no model.
            Interrupted: `on_progress` returned False.
        """
        self._free_draft()
        params, file = replace(self._params, draft=path, draft_model=self._planned.draft_model), None
        if path is None:
            params = replace(params, model=replace(params.model, load_mtp=self._has_mtp))
        else:
            try:
                file, params = checked_file(path, params, partial(on_progress, 0.0), self.notices)
            except DamagedFileError as error:
                self.notices.append(without_draft(error))
        params = self.draft.load(file, params, on_progress)
        if self.drafter is not None:
            self._adopt(params)

    def measure_costs(
        self, cancelled: Cancelled, *, budget_ns: int | None = None, passes: int = 1
    ) -> Generator[float, None, None]:
        """Measure the cost curves within the time limit; clear both caches.

        Without a `budget_ns`, an interrupted measurement continues.
        """
        measurement = self._measurement
        if measurement is None or budget_ns is not None:
            text = self.model.tokenize(_MEASURED_TEXT * 4, parse_special=False)[: MAX_BATCH - 1]
            clock = self.threads.work_clock(time.perf_counter_ns, time.process_time_ns)
            head = self.drafter if self.draft.cache is None else None
            budget_ns = budget_ns or MEASURING_NS
            measurement = Measurement(self.target, self.draft.cache, text, clock, budget_ns, passes=passes, head=head)

        def stopped() -> bool:
            self.threads.yield_cpu()
            return cancelled()

        self._measurement = measurement
        profile = yield from measurement.run(stopped)
        self._measurement = None
        if self.memory is None:
            self.memory = PairStatistics(CostModel(profile))
        else:
            self.memory.remeasure(profile)
        if n_threads := self.threads.in_use:
            self.memory.costs.use_threads(n_threads)

    def remeasure_costs(
        self, cancelled: Cancelled, *, budget_ns: int, passes: int
    ) -> Generator[float, None, CostModel]:
        """Measure the costs carefully and save them with the acceptance; the next answers do not measure again."""
        yield from self.measure_costs(cancelled, budget_ns=budget_ns, passes=passes)
        assert self.memory is not None
        self.memory.gain, self.memory.n_rechecks = None, _SPARED_RECHECKS
        self.remember()
        return self.memory.costs

    def measure_threads(self, candidates: Sequence[int], cancelled: Cancelled) -> Generator[float, None, ThreadTimes]:
        """Measure the model on the CPU with each number of threads; use the fastest, and save it unless disturbed."""
        cache, others = self.target, OthersUse()
        if cpu_model(self._params) != self._params.target:
            cache = self.draft.cache or cache
        text = self.model.tokenize(_MEASURED_TEXT * 4, parse_special=False)[: cache.n_batch]

        def use(threads: Threads) -> None:
            self._use(replace(self._params, threads=threads))

        times = yield from measure_threads(
            cache, text, lambda n: use(Threads(n, n)), candidates, time.perf_counter_ns, cancelled=cancelled
        )
        use(times.best)
        if others.is_much:
            return replace(times, is_disturbed=True)
        error = stored_measurements.save_threads(thread_file(self._params, candidates), times)
        self.save_error = error or self.save_error
        return times

    def _use(self, params: PairParams) -> None:
        self._params = params
        self.threads.use(params)

    def _compute_with(self, threads: Threads) -> None:
        for context in filter(None, (self._context, self.draft.context)):
            context.use_threads(threads)
        if self.memory is not None:
            self.memory.costs.use_threads(threads.generation)

    def remember(self) -> None:
        """Save the learned statistics."""
        if self.memory is not None:
            self.memory.keep_least()
            error = stored_measurements.save_statistics(memory_file(self._params), self.memory)
            self.save_error = error or self.save_error

    def build_plain(self, prompt: PlainPrompt) -> RenderedPrompt:
        """Return a prompt without a chat template."""
        return RenderedPrompt(plain_tokens(self.model, prompt, self.target.n_ctx), AnswerPart.ANSWER)

    def new_sampler(
        self, params: SamplingParams, guidance: Guidance | None = None, tools: Sequence[Mapping[str, Any]] = ()
    ) -> SamplerChain:
        """Return the sampler of an answer that may call tools, which are as in OpenAI's API."""
        return SamplerChain(self._context, params, guidance, self.prompts.call_format, tools)

    def tokenize(self, text: str, *, parse_special: bool = False, add_special: bool = False) -> Sequence[int]:
        """Return the tokens of a text; `add_special` prepends BOS if the model expects it."""
        tokens = self.model.tokenize(text, parse_special=parse_special)
        return self.model.with_bos(tokens) if add_special else tokens

    def token_text(self, token: int) -> bytes:
        """Return the bytes of a token, or the text of a control token."""
        return self.model.piece(token) or self.model.text_of(token).encode()

    def close(self) -> None:
        """Store the present state; free both models and their contexts. A second call does nothing."""
        self.caches.close()
        self._stack.close()
