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

from app.conversations.message import Message, Prefill
from app.core.errors import DamagedFileError, ModelFileError, ModelLoadError
from app.engine.auto.cost_profile import MAX_BATCH
from app.engine.auto.curve import CostModel
from app.engine.auto.measure_costs import PartialMeasurement, measure_costs
from app.engine.auto.pair_statistics import PairStatistics
from app.engine.auto.threads import CpuYield, Threads, ThreadTimes, WorkClock, measure_threads
from app.engine.cache import TokenCache
from app.engine.draft_model import ModelDrafter
from app.engine.draft_source import DraftSource
from app.engine.hidden_drafter import HiddenDrafter
from app.engine.interfaces import Cancelled, Clock
from app.engine.ngram import NgramIndex
from app.engine.prompt_cache import PromptCache
from app.engine.sources import IN_TARGET, Source
from app.engine.text.prompts import PlainPrompt
from app.engine.text.reasoning import AnswerPart, RenderedPrompt
from app.engine.types import Guidance, SamplingParams
from app.engine.vocab_compatibility import incompatibility, replace_unknown
from app.hardware.cpu import OthersUse, others_seconds, usable_processors
from app.hardware.fit import beside
from app.llama import stored_measurements
from app.llama.call_grammar import call_guidance
from app.llama.cancel import CancelFlag
from app.llama.checks import ModelFile, open_model_file
from app.llama.child import SafeFiles, try_file
from app.llama.context import Context
from app.llama.devices import add_servers
from app.llama.draft_heads import HeadContext
from app.llama.loading import PairProgress, label, place_of
from app.llama.model import Model
from app.llama.mtp_chain import head_context
from app.llama.params import CPU_LABEL, ContextParams, PairParams
from app.llama.plain_prompt import plain_tokens, with_bos
from app.llama.prompt import PromptBuilder
from app.llama.reserve import reserve
from app.llama.sampler import SamplerChain
from app.llama.state_files import state_store
from app.llama.stored_measurements import cpu_model, memory_file, thread_file
from app.models.compatibility import NO_ROLLBACK, head_problem, mtp_problem
from app.models.draft_kinds import HeadFacts, d2t_fault, head_facts
from app.models.memory_estimate import rounding
from app.models.model_facts import keeps_snapshots, read_facts
from app.models.model_names import file_type
from app.models.pair_info import DeviceMemory, ModelInfo, PairInfo
from app.models.pair_summary import without_draft
from app.settings.layers import AS_TRAINED, Thinking

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
        target: The target's cache.
        drafter: The draft model, or draft layers that read the target's hidden rows; None without usable ones.
        index: Index of the conversation for n-gram drafting; the next turn adds only new tokens.
        memory: Learned statistics of the pair; None before the first measurement.

    Raises:
        ModelFileError: A file is missing or is no model.
        ModelLoadError: The target could not be loaded.
        Interrupted: `on_progress` said False.
    """

    def __init__(
        self,
        params: PairParams,
        cancel: CancelFlag,
        on_progress: Callable[[str, float], bool],
        *,
        others: Callable[[], float] | None = None,
    ) -> None:
        self.notices: list[str] = list(params.notices)
        self.drafter: DraftSource | None = None
        self._draft: Model | None = None
        self.index = NgramIndex()
        minutes = params.settings.number("model.unload_after")
        self.idle_s = None if minutes is None else minutes * 60.0
        self.save_error: OSError | None = None
        """Last error while writing measurements; None if there was none."""
        self._measured = PartialMeasurement()
        """Finished pieces of an interrupted measurement."""
        self._params = planned = params
        self._draft_place = params.draft_model
        self._cancel = cancel
        self._others = others or others_seconds
        self._cpu_yield = self._new_cpu_yield()
        # Both files are checked before either is loaded, so that a wrong one is reported at once.
        on_progress = PairProgress(on_progress, target=params.target, draft=params.draft)
        target_file = open_model_file(params.target)
        if (facts := head_facts(target_file.header)) is not None:
            raise ModelFileError(
                facts.as_target(target_file.path.name), "Name its target with ⟨target⟩, and this file with ⟨draft⟩."
            )
        draft_file: ModelFile | None = None
        if params.draft is not None:
            try:
                draft_file, params = self._draft_file(params.draft, params, on_progress)
            except DamagedFileError as error:
                params = self._without_file(params, error)
        try_file(target_file.path, SafeFiles(params.safe_files), partial(on_progress, "target", 0.0))
        if params.model.load_mtp:
            try:
                self._try_head(target_file.path, params, on_progress, "target")
            except DamagedFileError as error:
                self.notices.append(without_draft(error))
                params = replace(params, model=replace(params.model, load_mtp=False))
        add_servers(params.rpc)
        with ExitStack() as stack:
            self._model = Model(target_file, params.model, lambda share: on_progress("target", share))
            stack.callback(self._model.close)
            context_params = self._context_params(params if draft_file is not None else replace(params, draft=None))
            self._context = Context(self._model, context_params, self._cancel)
            reserve(self._context, params.model, is_planned=bool(params.memory))
            self._contexts = [self._context]
            self.target = TokenCache(self._context)
            self._prompts = PromptBuilder(self._model)
            if self._model.chat_template is None:
                self.notices.append(
                    f"{self._model.name} has no chat template, so Tandem uses ChatML; a base model may not answer well."
                )
            draft = self._load_draft(draft_file, params, on_progress, stack) if draft_file is not None else None
            self._draft = draft
            self._has_mtp = params.model.load_mtp
            uses_mtp = self._has_mtp and draft is None and self._load_own_layers(params)
            model = replace(params.model, load_mtp=uses_mtp)
            self._params = replace(params, draft=draft.path if draft is not None else None, model=model)
            # The estimate included the draft.
            lost = (draft is None and planned.draft is not None) or (self.drafter is None and planned.model.load_mtp)
            self.info = self._describe(() if lost else params.memory)
            self.memory = stored_measurements.load_statistics(memory_file(self._params))
            self._prompt_cache = PromptCache(
                _cache_bytes(params.settings.number("model.cache_ram")), state_store(self._params)
            )
            self._stack = stack.pop_all()

    def _draft_file(
        self, path: Path, params: PairParams, on_progress: Callable[[str, float], bool]
    ) -> tuple[ModelFile, PairParams]:
        """Return the checked draft file, and the parameters with its place.

        Raises:
            DamagedFileError: It cannot draft for the target.
        """
        found = open_model_file(path, is_draft=True)
        facts = head_facts(found.header)
        if facts is None:
            try_file(found.path, SafeFiles(params.safe_files), partial(on_progress, "draft", 0.0))
            return found, params
        if facts.follows_target(params.model.overrides):
            params = replace(params, draft_model=params.draft_model.at(beside(*place_of(params.model))))
        self._try_head(found.path, params, on_progress, "draft")
        return found, params

    def _try_head(self, path: Path, params: PairParams, on_progress: Callable[[str, float], bool], name: str) -> None:
        """Check that draft layers match the target and load without an abort. Raises DamagedFileError."""
        target = read_facts(params.target)
        problem = mtp_problem(target) if path == params.target else head_problem(target, read_facts(path))
        if not problem and (fault := d2t_fault(path, len(target.vocab.tokens))):
            problem = f"{path.name} cannot be used as a draft: {fault}."
        if problem:
            raise DamagedFileError(problem)
        try_file(path, SafeFiles(params.safe_files), partial(on_progress, name, 0.0), pair=params)

    def _without_file(self, params: PairParams, error: DamagedFileError) -> PairParams:
        """Return the parameters without a refused draft, with the target's MTP layer if it has one; add a notice."""
        target = read_facts(params.target)
        has_layer = params.settings["draft.type"] == "auto" and target.n_mtp_layers > 0 and not mtp_problem(target)
        instead = f"{error.sentences} The MTP layer of {target.name} drafts instead."
        self.notices.append(instead if has_layer else without_draft(error))
        return replace(params, model=replace(params.model, load_mtp=has_layer or params.model.load_mtp))

    def _describe(self, memory: tuple[DeviceMemory, ...]) -> PairInfo:
        target, draft = label(self._params.model), label(self._params.draft_model)
        n_rollback, n_ctx = self.target.n_rollback, self.target.n_ctx
        return PairInfo(
            target=_info(self._model),
            draft=self._draft_info(),
            n_ctx=n_ctx,
            device=target if self._draft is None or draft == target else f"{target}, draft on {draft}",
            memory=memory,
            n_ctx_room=self._params.n_ctx_room,
            most_drafted=n_rollback if n_rollback < n_ctx else None,
            wants_draft_model=not n_rollback and keeps_snapshots(self._model.header),
            thinking_support=self._prompts.thinking_support,
            draft_kind=self.drafter.kind if self.drafter is not None else None,
        )

    def _draft_info(self) -> ModelInfo | None:
        if self._draft is not None or self.drafter is None:
            return _info(self._draft) if self._draft is not None else None
        return replace(_info(self._model), name=IN_TARGET, file="", quantization="", size_bytes=0)

    def _context_params(self, params: PairParams) -> ContextParams:
        chosen = params.target_context(self._model.n_ctx_train)
        trained = self._model.n_ctx_train or chosen.n_ctx
        if params.n_ctx is not None and min(trained, chosen.n_ctx) < params.n_ctx:
            self.notices.append(
                f"{self._model.name} was trained for {trained:,} tokens of context: {chosen.n_ctx:,} are used instead "
                f"of {params.n_ctx:,}."
            )
        elif params.n_ctx is not None and (longer := rounding(params.n_ctx)):
            self.notices.append(longer)
        return chosen

    def _load_draft(
        self,
        file: ModelFile,
        params: PairParams,
        on_progress: Callable[[str, float], bool],
        stack: ExitStack,
    ) -> Model | None:
        """Load the draft model; None, with a notice, when it does not fit the target."""
        if not self.target.n_rollback:
            self.notices.append(
                f"Running without this draft: the recurrent state of {self._model.name} cannot be rolled back, "
                "so a rejected draft could not be undone."
            )
            return None
        try:
            facts = head_facts(file.header)
            model = replace(params.draft_model, load_mtp=facts is not None and facts.kind is Source.MTP)
            draft = Model(file, model, lambda share: on_progress("draft", share))
        except ModelLoadError as error:
            self.notices.append(without_draft(error))
            return None
        stack.callback(draft.close)
        if facts is not None:
            if self._load_head(facts.kind, draft, facts, params) is None:
                draft.close()
                return None
            return draft
        reason = incompatibility(self._model.vocab, draft.vocab)
        if reason is None and not draft.can_rollback:
            reason = f"{draft.name} cannot be used as a draft: {NO_ROLLBACK}."
        try:
            if reason is not None:
                raise ModelLoadError(reason)  # noqa: TRY301 - reported like a context that cannot be made
            context = Context(draft, params.draft_context(self._context.n_ctx), self._cancel)
            reserve(context, params.draft_model, is_planned=bool(params.memory))
        except ModelLoadError as error:
            draft.close()
            self.notices.append(f"Running without this draft. {error.message}")
            return None
        self._contexts.append(context)
        n_vocab = min(self._model.n_vocab, draft.n_vocab)
        known = replace_unknown(n_vocab, _line_break(draft)) if n_vocab < self._model.n_vocab else None
        self.drafter = ModelDrafter(TokenCache(context, known), n_vocab, is_end=self._model.is_end)
        return draft

    def _load_head(self, kind: Source, model: Model, facts: HeadFacts | None, params: PairParams) -> HeadContext | None:
        """Create the context of draft layers and attach them to the target; None, with a notice, if that fails."""
        n_ctx = self._context.n_ctx
        if facts is not None and facts.shares_memory:
            # llama.cpp empties the KV cache that such layers share with the target.
            self.target.rollback(0)
        shape = params.draft_context(n_ctx, (facts.block_size if facts is not None else 0) or 1)
        try:
            context = head_context(kind, model, facts, self._context, shape)
        except ModelLoadError as error:
            self.notices.append(without_draft(error))
            return None
        self._contexts.append(context)
        self.drafter = HiddenDrafter(kind, self.target, context, is_end=self._model.is_end)
        return context

    def _load_own_layers(self, params: PairParams) -> bool:
        return self._load_head(Source.MTP, self._model, None, params) is not None

    def drop_draft(self) -> None:
        """Free a draft model or draft layers that failed, and add a notice."""
        if self.drafter is None:
            return
        name = self._draft.name if self._draft is not None else IN_TARGET
        self._free_draft()
        self.info = replace(self.info, draft_failed=True)
        self.notices.append(
            f"Running without this draft. {name} failed and is left out until the models are loaded again."
        )

    def _free_draft(self) -> None:
        self.target.follower = None
        for context in self._contexts[1:]:
            context.close()
        self._contexts, self.drafter = [self._context], None
        if self._draft is not None:
            self._draft.close()
        self._draft = None
        self._adopt(replace(self._params, draft=None, model=replace(self._params.model, load_mtp=False)))

    def _adopt(self, params: PairParams) -> None:
        """Use the parameters of another draft, with what was measured for it."""
        self._params = params
        self._use(Threads(self.n_threads, params.n_threads_batch or self.n_threads))
        # The estimate included the first draft.
        self.info = self._describe(())
        self.memory = stored_measurements.load_statistics(memory_file(params))
        self._measured = PartialMeasurement()

    def use_draft(self, path: Path | None, on_progress: Callable[[str, float], bool]) -> None:
        """Replace the draft; add a notice if the new one cannot be used.

        Args:
            path: Its file; None for the target's MTP layer, if that was loaded.

        Raises:
            ModelFileError: The file is missing or is no model.
            Interrupted: `on_progress` returned False.
        """
        self._free_draft()
        model = replace(self._params.model, load_mtp=path is None)
        params = replace(self._params, draft=path, model=model, draft_model=self._draft_place)
        if path is not None:
            try:
                file, params = self._draft_file(path, params, on_progress)
            except DamagedFileError as error:
                self.notices.append(without_draft(error))
            else:
                self._draft = self._load_draft(file, params, on_progress, self._stack)
        elif self._has_mtp:
            self._load_own_layers(params)
        if self.drafter is not None:
            self._adopt(params)

    def measure_costs(
        self, cancelled: Cancelled, *, budget_ns: int | None = None, passes: int = 1
    ) -> Generator[float, None, None]:
        """Measure the cost curves within the time limit; clears both caches.

        Without a `budget_ns`, a measurement that was interrupted continues.
        """
        pieces = self._measured if budget_ns is None else PartialMeasurement()
        if budget_ns is None:
            budget_ns = MEASURING_NS
            if self.memory is not None and not self.memory.was_slowed and not self.memory.is_estimated:
                budget_ns = min(budget_ns, self.memory.remeasuring_ns)
        text = self._model.tokenize(_MEASURED_TEXT * 4, parse_special=False)[: MAX_BATCH - 1]
        clock = self.work_clock(time.perf_counter_ns, time.process_time_ns)

        def stopped() -> bool:
            self.yield_cpu()
            return cancelled()

        profile = yield from measure_costs(
            self.target,
            self._draft_cache,
            text,
            clock,
            budget_ns=budget_ns,
            cancelled=stopped,
            passes=passes,
            head=self.drafter if self._draft_cache is None else None,
            pieces=pieces,
        )
        self._measured = PartialMeasurement()
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
        learned, self.memory = self.memory, None
        yield from self.measure_costs(cancelled, budget_ns=budget_ns, passes=passes)
        assert self.memory is not None
        if learned is not None:
            self.memory = learned.with_costs(self.memory.costs)
        self.memory.n_rechecks = _SPARED_RECHECKS
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
            cache = self._draft_cache or cache
        text = self._model.tokenize(_MEASURED_TEXT * 4, parse_special=False)[: cache.n_batch]
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
        for context in self._contexts:
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
        models = [self._params.model] if self._draft is None else [self._params.model, self._params.draft_model]
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
        self._prompt_cache.prepare(self.target, self._draft_cache, prompt, conversation)

    def lend_caches(self) -> AbstractContextManager[None]:
        """Give the caches to other work, and restore them after it."""
        return self._prompt_cache.lend(self.target, self._draft_cache)

    def store_states(self) -> None:
        """Write saved states to disk in the background, after an answer."""
        self._prompt_cache.write_soon()

    @property
    def _draft_cache(self) -> TokenCache | None:
        return self.drafter.cache if self.drafter is not None else None

    def build_prompt(
        self,
        messages: Sequence[Message],
        prefill: Prefill | None = None,
        thinking: Thinking = AS_TRAINED,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> RenderedPrompt:
        """Return the prompt for the next answer, or for the rest of one."""
        return self._prompts.build(messages, prefill, thinking, tools)

    def build_plain(self, prompt: PlainPrompt) -> RenderedPrompt:
        """Return a prompt without a chat template."""
        return RenderedPrompt(plain_tokens(self._model, prompt, self.target.n_ctx), AnswerPart.ANSWER)

    def call_guidance(
        self, tools: Sequence[Mapping[str, Any]], guidance: Guidance, *, must_call: bool, one_call: bool = False
    ) -> Guidance:
        """Return a grammar of calls of tools; see `app.llama.call_grammar.call_guidance`."""
        form = self._prompts.call_format
        return call_guidance(self._model, form, tools, guidance, must_call=must_call, one_call=one_call)

    def new_sampler(self, params: SamplingParams, guidance: Guidance | None = None) -> SamplerChain:
        return SamplerChain(self._context, params, guidance)

    def tokenize(self, text: str, *, parse_special: bool = False, add_special: bool = False) -> Sequence[int]:
        """Return the tokens of a text.

        Args:
            text: Any text.
            parse_special: Whether texts of control tokens become those tokens.
            add_special: Whether BOS stands in front, if the model expects it.
        """
        tokens = self._model.tokenize(text, parse_special=parse_special)
        return with_bos(self._model, tokens) if add_special else tokens

    def detokenize(self, tokens: Sequence[int]) -> str:
        """Return the text of tokens, with the texts of control tokens but not with a leading BOS."""
        return self._model.detokenize(tokens)

    def piece(self, token: int) -> bytes:
        """Return the bytes of a token; empty for control tokens."""
        return self._model.piece(token)

    def token_text(self, token: int) -> bytes:
        """Return the bytes of a token; of a control token its text."""
        return self._model.piece(token) or self._model.text_of(token).encode()

    def is_end(self, token: int) -> bool:
        return self._model.is_end(token)

    def close(self) -> None:
        """Store the present state; free both models and their contexts. A second call does nothing."""
        self._prompt_cache.close(self.target, self._draft_cache)
        self._stack.close()


def _cache_bytes(mib: int | None) -> int:
    """Return the memory for saved states."""
    return mib << 20 if mib is not None else min(_MOST_CACHE, int(_CACHE_SHARE * psutil.virtual_memory().available))


def _line_break(model: Model) -> int:
    """Return the token of a line break, which fits between any two turns."""
    return [0, *model.tokenize("\n", parse_special=False)][-1]


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
