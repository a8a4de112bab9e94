"""Load a target and its draft model and let them share settings, threads and measurements."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from app.core.errors import DamagedFileError, ModelFileError
from app.engine.auto.cost_profile import MAX_BATCH
from app.engine.auto.curve import CostModel
from app.engine.auto.measure_costs import Measurement
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.auto.threads import CpuYield, Threads, ThreadTimes, WorkClock, measure_threads
from app.engine.cache import TokenCache
from app.engine.draft_source import DraftSource
from app.engine.interfaces import Cancelled, Clock
from app.engine.ngram import NgramIndex
from app.engine.prompt_cache import PromptCache
from app.engine.sources import IN_TARGET
from app.engine.text.reasoning import AnswerPart, RenderedPrompt
from app.engine.types import Guidance, PlainPrompt, SamplingParams
from app.hardware.cpu import OthersUse, others_seconds, usable_processors
from app.llama import stored_measurements
from app.llama.call_grammar import call_guidance
from app.llama.cancel import CancelFlag
from app.llama.checks import open_model_file
from app.llama.context import Context
from app.llama.devices import add_servers
from app.llama.draft_slot import DraftSlot, Progress, checked_file, checked_pair
from app.llama.loading import PairProgress, label
from app.llama.model import Model
from app.llama.params import CPU_LABEL, ContextParams, PairParams
from app.llama.plain_prompt import plain_tokens, with_bos
from app.llama.projector_loading import checked_projector, load_projector
from app.llama.prompt import PromptBuilder
from app.llama.reserve import reserve
from app.llama.sampler import SamplerChain
from app.llama.state_files import state_store
from app.llama.stored_measurements import cpu_model, memory_file, thread_file
from app.models.draft_kinds import head_facts
from app.models.model_facts import keeps_snapshots
from app.models.model_names import file_type
from app.models.pair_info import DeviceMemory, ModelInfo, PairInfo, rounding
from app.models.pair_summary import without_draft

MEASURING_NS = 4_000_000_000
"""Time limit of the first measurement; a slow target takes longer. The rest is learned while answering."""

_SPARED_RECHECKS = 3
"""Rechecks that a careful measurement replaces."""
_CACHE_SHARE, _MOST_CACHE = 0.25, 8 << 30
"""Memory for saved states if the settings name none: a share of what is free, and the default of llama-server."""
_MEASURED_TEXT = (
    "The keeper of the lighthouse counted the steps again, as he did every evening, and wrote the number down. "
    "def total(items): return sum(item.price * item.count for item in items if item.count > 0)\n"
)
"""Text and code, so that tokens of a mixture of experts choose different experts."""


class NativePair:
    """Own a target, perhaps with a draft model, ready to answer. Close it to free both models.

    A draft that is damaged or cannot be loaded is left out, with a notice.

    Args:
        params: What to load.
        cancel: Stops a decode in the middle.
        on_progress: Called with "target" or "draft" and the share loaded; False cancels.
        others: Returns the CPU seconds of other programs so far.

    Attributes:
        info: The pair as values.
        notices: Notices for the user from loading.
        idle_s: Seconds without a command after which the pair is freed; None for never.
        model: The target's weights and vocabulary.
        prompts: Renders conversations for the target.
        target: The target's cache.
        draft: The draft, or the place for one.
        index: Index of the conversation for n-gram drafting; the next turn adds only new tokens.
        memory: Learned statistics of the pair; None before the first measurement.
        pictures: Encoder of pictures; None if the pair reads none.
        save_error: Last error while writing measurements, if any.

    Raises:
        ModelFileError: A file is missing or is no model.
        ModelLoadError: The target could not be loaded.
        Interrupted: `on_progress` said False.
    """

    def __init__(
        self,
        params: PairParams,
        cancel: CancelFlag,
        on_progress: Progress,
        *,
        others: Callable[[], float] | None = None,
    ) -> None:
        self.notices: list[str] = list(params.notices)
        self.index = NgramIndex()
        minutes = params.settings.number("model.unload_after")
        self.idle_s = None if minutes is None else minutes * 60.0
        self.save_error: OSError | None = None
        self._measurement: Measurement | None = None
        """A measurement that was interrupted."""
        self._params = self._planned = params
        self._others = others or others_seconds
        self._cpu_yield = self._new_cpu_yield()
        # Both files are checked before either is loaded, so that a wrong one is reported at once.
        on_progress = PairProgress(on_progress, target=params.target, draft=params.draft, projector=params.projector)
        target_file = open_model_file(params.target)
        if (facts := head_facts(target_file.header)) is not None:
            raise ModelFileError(
                facts.as_target(target_file.path.name), "Name its target with ⟨target⟩, and this file with ⟨draft⟩."
            )
        draft_file, params = checked_pair(params, on_progress, self.notices)
        params = checked_projector(params, target_file.header, partial(on_progress, "projector"), self.notices)
        add_servers(params.rpc)
        with ExitStack() as stack:
            self.model = Model(target_file, params.model, partial(on_progress, "target"))
            stack.callback(self.model.close)
            self._context = Context(self.model, self._context_params(params), cancel)
            reserve(self._context, params.model, is_planned=bool(params.memory))
            self.target = TokenCache(self._context)
            self.pictures = load_projector(
                params, self._context, cancel, partial(on_progress, "projector"), self.notices
            )
            if self.pictures is not None:
                stack.callback(self.pictures.close)
            self._context.pictures = self.pictures
            self.prompts = PromptBuilder(self.model, self.pictures)
            if self.model.chat_template is None:
                self.notices.append(
                    f"{self.model.name} has no chat template, so Tandem uses ChatML; a base model may not answer well."
                )
            self.draft = DraftSlot(self._context, self.target, cancel, self.notices)
            stack.callback(self.draft.free)
            self._has_mtp = params.model.load_mtp
            self._params = self.draft.load(draft_file, params, on_progress)
            # The estimate included the draft.
            lost = self._params.draft is None and self._planned.draft is not None
            lost = lost or (self.drafter is None and self._planned.model.load_mtp)
            self.info = self._describe(() if lost else params.memory)
            self.memory = stored_measurements.load_statistics(memory_file(self._params))
            self._prompt_cache = PromptCache(
                _cache_bytes(params.settings.number("model.cache_ram")), state_store(self._params)
            )
            self._stack = stack.pop_all()

    @property
    def drafter(self) -> DraftSource | None:
        """Return the draft model, or draft layers that read the target's hidden rows; None without usable ones."""
        return self.draft.drafter

    def _describe(self, memory: tuple[DeviceMemory, ...]) -> PairInfo:
        target, draft = label(self._params.model), label(self._params.draft_model)
        n_rollback, n_ctx = self.target.n_rollback, self.target.n_ctx
        return PairInfo(
            target=_info(self.model),
            draft=self._draft_info(),
            n_ctx=n_ctx,
            device=target if self.draft.model is None or draft == target else f"{target}, draft on {draft}",
            memory=memory,
            n_ctx_room=self._params.n_ctx_room,
            most_drafted=n_rollback if n_rollback < n_ctx else None,
            wants_draft_model=not n_rollback and keeps_snapshots(self.model.header),
            thinking_support=self.prompts.thinking_support,
            draft_kind=self.drafter.kind if self.drafter is not None else None,
            projector=self.pictures.path.name if self.pictures is not None else None,
        )

    def _draft_info(self) -> ModelInfo | None:
        if self.draft.model is not None or self.drafter is None:
            return _info(self.draft.model) if self.draft.model is not None else None
        return replace(_info(self.model), name=IN_TARGET, file="", quantization="", size_bytes=0)

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
        if self.drafter is None:
            return
        name = self.draft.model.name if self.draft.model is not None else IN_TARGET
        self._free_draft()
        self.info = replace(self.info, draft_failed=True)
        self.notices.append(
            f"Running without this draft. {name} failed and is left out until the models are loaded again."
        )

    def _free_draft(self) -> None:
        self.draft.free()
        self._adopt(replace(self._params, draft=None, model=replace(self._params.model, load_mtp=False)))

    def _adopt(self, params: PairParams) -> None:
        """Use the parameters of another draft, with what was measured for it."""
        self._params = params
        self._use(Threads(self.n_threads, params.n_threads_batch or self.n_threads))
        # The estimate included the first draft.
        self.info = self._describe(())
        self.memory = stored_measurements.load_statistics(memory_file(params))
        self._measurement = None

    def use_draft(self, path: Path | None, on_progress: Progress) -> None:
        """Replace the draft; add a notice if the new one cannot be used.

        Args:
            path: Its file; None for the target's MTP layer, if that was loaded.
            on_progress: Called with "draft" and the share loaded; False cancels.

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
                file, params = checked_file(path, params, on_progress, self.notices)
            except DamagedFileError as error:
                self.notices.append(without_draft(error))
        params = self.draft.load(file, params, on_progress)
        if self.drafter is not None:
            self._adopt(params)

    def measure_costs(
        self, cancelled: Cancelled, *, budget_ns: int | None = None, passes: int = 1
    ) -> Generator[float, None, None]:
        """Measure the cost curves within the time limit; clears both caches.

        Without a `budget_ns`, a measurement that was interrupted continues.
        """
        measurement = self._measurement
        if measurement is None or budget_ns is not None:
            text = self.model.tokenize(_MEASURED_TEXT * 4, parse_special=False)[: MAX_BATCH - 1]
            clock = self.work_clock(time.perf_counter_ns, time.process_time_ns)
            head = self.drafter if self.draft.cache is None else None
            budget_ns = budget_ns or MEASURING_NS
            measurement = Measurement(self.target, self.draft.cache, text, clock, budget_ns, passes=passes, head=head)

        def stopped() -> bool:
            self.yield_cpu()
            return cancelled()

        self._measurement = measurement
        profile = yield from measurement.run(stopped)
        self._measurement = None
        if self.memory is None:
            self.memory = PairStatistics(CostModel(profile))
        else:
            self.memory.remeasure(profile)
        if self._cpu_yield is not None:
            self.memory.costs.use_threads(self.threads_in_use)

    def remeasure_costs(
        self, cancelled: Cancelled, *, budget_ns: int, passes: int
    ) -> Generator[float, None, CostModel]:
        """Measure the costs carefully and save them and the acceptance; answers do not measure again soon."""
        yield from self.measure_costs(cancelled, budget_ns=budget_ns, passes=passes)
        assert self.memory is not None
        self.memory.gain, self.memory.n_rechecks = None, _SPARED_RECHECKS
        self.remember()
        return self.memory.costs

    @property
    def n_threads(self) -> int:
        """Return the CPU threads for single tokens."""
        return self._params.n_threads

    @property
    def uses_cpu(self) -> bool:
        """Return whether the CPU computes layers of either model."""
        return cpu_model(self._params) is not None

    def measure_threads(self, candidates: Sequence[int], cancelled: Cancelled) -> Generator[float, None, ThreadTimes]:
        """Measure the model on the CPU with each number of threads; use the fastest, and save it unless disturbed."""
        cache, others = self.target, OthersUse()
        if cpu_model(self._params) != self._params.target:
            cache = self.draft.cache or cache
        text = self.model.tokenize(_MEASURED_TEXT * 4, parse_special=False)[: cache.n_batch]
        times = yield from measure_threads(
            cache, text, lambda n: self._use(Threads(n, n)), candidates, time.perf_counter_ns, cancelled=cancelled
        )
        self._use(times.best)
        if others.is_much:
            return replace(times, is_disturbed=True)
        error = stored_measurements.save_threads(thread_file(self._params, candidates), times)
        self.save_error = error or self.save_error
        return times

    def _use(self, threads: Threads) -> None:
        self._params = replace(self._params, n_threads=threads.generation, n_threads_batch=threads.prompt)
        self._cpu_yield = self._new_cpu_yield()
        self._compute_with(self._most_threads)

    @property
    def _most_threads(self) -> int:
        return max(self._params.n_threads, self._params.n_threads_batch or 1)

    def _new_cpu_yield(self) -> CpuYield | None:
        if not self.uses_cpu:
            return None
        most, n_cpus = self._most_threads, len(usable_processors())
        least = 1 if self._params.yields_cpu else most
        return CpuYield(self._compute_with, most, n_cpus, self._others, time.monotonic, least=least)

    def _compute_with(self, most: int) -> None:
        generation, prompt = self._params.n_threads, self._params.n_threads_batch or self._params.n_threads
        for context in filter(None, (self._context, self.draft.context)):
            context.use_threads(min(generation, most), min(prompt, most))
        if self.memory is not None:
            self.memory.costs.use_threads(min(generation, most))

    def yield_cpu(self) -> None:
        """Use fewer threads while other programs need the CPU; called before an answer and in every step."""
        if self._cpu_yield is not None:
            self._cpu_yield.update()

    def work_clock(self, wall: Clock, cpu: Clock) -> Clock:
        """Return a clock for the time that steps would take without other programs, from wall and CPU time."""
        # While a GPU computes, CPU time says nothing about the time of a batch.
        if self._cpu_yield is None or not self._computes_on_cpu_only:
            return wall
        return WorkClock(wall, cpu, self._params.n_threads, self._cpu_yield.is_contended)

    @property
    def _computes_on_cpu_only(self) -> bool:
        models = [self._params.model, *[self._params.draft_model] * (self.draft.model is not None)]
        return all(label(model) == CPU_LABEL for model in models)

    @property
    def threads_in_use(self) -> int:
        """Return the current CPU threads for single tokens; 0 if the CPU computes no layers."""
        return min(self.n_threads, self._cpu_yield.n_threads) if self._cpu_yield is not None else 0

    def remember(self) -> None:
        """Save the learned statistics."""
        if self.memory is not None:
            self.memory.keep_least()
            error = stored_measurements.save_statistics(memory_file(self._params), self.memory)
            self.save_error = error or self.save_error

    def prepare_caches(self, prompt: Sequence[int], conversation: str) -> None:
        """Restore the caches that share most of a prompt; see `app.engine.prompt_cache`."""
        self._prompt_cache.prepare(self.target, self.draft.cache, prompt, conversation)

    def lend_caches(self) -> AbstractContextManager[None]:
        """Give the caches to other work, and restore them after it."""
        return self._prompt_cache.lend(self.target, self.draft.cache)

    def store_states(self) -> None:
        """Write saved states to disk in the background, after an answer."""
        self._prompt_cache.write_soon()

    def build_plain(self, prompt: PlainPrompt) -> RenderedPrompt:
        """Return a prompt without a chat template."""
        return RenderedPrompt(plain_tokens(self.model, prompt, self.target.n_ctx), AnswerPart.ANSWER)

    def call_guidance(
        self, tools: Sequence[Mapping[str, Any]], guidance: Guidance, *, must_call: bool, one_call: bool = False
    ) -> Guidance:
        """Return a grammar of calls of tools; see `app.llama.call_grammar.call_guidance`."""
        form = self.prompts.call_format
        return call_guidance(self.model, form, tools, guidance, must_call=must_call, one_call=one_call)

    def new_sampler(self, params: SamplingParams, guidance: Guidance | None = None) -> SamplerChain:
        return SamplerChain(self._context, params, guidance)

    def tokenize(self, text: str, *, parse_special: bool = False, add_special: bool = False) -> Sequence[int]:
        """Return the tokens of a text; `add_special` puts BOS in front, if the model expects it."""
        tokens = self.model.tokenize(text, parse_special=parse_special)
        return with_bos(self.model, tokens) if add_special else tokens

    def token_text(self, token: int) -> bytes:
        """Return the bytes of a token; of a control token its text."""
        return self.model.piece(token) or self.model.text_of(token).encode()

    def close(self) -> None:
        """Store the present state; free both models and their contexts. A second call does nothing."""
        self._prompt_cache.close(self.target, self.draft.cache)
        self._stack.close()


def _cache_bytes(mib: int | None) -> int:
    return mib << 20 if mib is not None else min(_MOST_CACHE, int(_CACHE_SHARE * psutil.virtual_memory().available))


def _info(model: Model) -> ModelInfo:
    return ModelInfo(
        name=model.name,
        file=model.path.name,
        quantization=file_type(model.quantization),
        size_bytes=model.size_bytes,
        n_vocab=model.n_vocab,
        n_ctx_train=model.n_ctx_train,
        chat_template=model.chat_template or "",
        bos=model.text_of(model.bos) if model.bos is not None else "",
        eos=model.text_of(model.eos) if model.eos is not None else "",
    )
