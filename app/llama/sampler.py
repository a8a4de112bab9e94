"""The target's sampler chain, llama.cpp's own."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Sequence
from typing import Any

from app.core.errors import DecodeError, ModelLoadError, UsageError
from app.engine.types import SamplingParams
from app.llama.context import Context
from app.llama.library import native

_MIN_KEEP = 1


class SamplerChain:
    """Owns one native chain over one context; implements `app.engine.interfaces.Sampler`.

    The chain always ends in a selecting sampler (llama.cpp aborts on one that does not) and draws exactly one random
    number per emitted token, so the same seed gives the same text with and without a draft, up to rounding.
    A purely greedy chain is the largest logit, which NumPy finds twenty times faster than llama.cpp's chain.

    Args:
        context: Whose rows are sampled.
        params: Validated by their type.
    """

    def __init__(self, context: Context, params: SamplingParams) -> None:
        self._context = context
        self._params = params
        self.native_ns = 0
        self.seed = secrets.randbelow(0xFFFFFFFE) if params.seed is None else params.seed
        """The seed in use, chosen here when none was given."""
        self._greedy = params.is_greedy
        self._chain: Any = None if self._greedy else self._build()

    def _build(self) -> Any:
        chain = native.llama_sampler_chain_init(native.llama_sampler_chain_default_params())
        for sampler in self._samplers():
            if not sampler:
                native.llama_sampler_free(chain)
                raise ModelLoadError("llama.cpp could not make the sampler chain.", "Check the sampling settings.")
            native.llama_sampler_chain_add(chain, sampler)
        return chain

    def _samplers(self) -> list[Any]:
        p = self._params
        samplers = []
        if p.has_penalties:
            samplers.append(
                native.llama_sampler_init_penalties(
                    self._context.model.n_vocab,
                    p.repeat_last_n,
                    p.repeat_penalty,
                    p.frequency_penalty,
                    p.presence_penalty,
                )
            )
        if p.temperature == 0:
            return [*samplers, native.llama_sampler_init_greedy()]
        if p.top_k > 0:
            samplers.append(native.llama_sampler_init_top_k(p.top_k))
        if p.typical_p < 1:
            samplers.append(native.llama_sampler_init_typical(p.typical_p, _MIN_KEEP))
        if p.top_p < 1:
            samplers.append(native.llama_sampler_init_top_p(p.top_p, _MIN_KEEP))
        if p.min_p > 0:
            samplers.append(native.llama_sampler_init_min_p(p.min_p, _MIN_KEEP))
        samplers.append(native.llama_sampler_init_temp(p.temperature))
        return [*samplers, native.llama_sampler_init_dist(self.seed)]

    def begin(self, prompt: Sequence[int]) -> None:
        """Reset the chain and show the penalties the end of the prompt, as llama-server does."""
        if self._greedy:
            return
        if self._chain is None:
            raise UsageError("The sampler was closed.")
        native.llama_sampler_reset(self._chain)
        if self._params.has_penalties:
            tail = prompt[-self._params.repeat_last_n :]
            self._context.model.check_tokens(tail)
            for token in tail:
                native.llama_sampler_accept(self._chain, token)

    def sample(self, row: int) -> int:
        """Choose from an output row; the native chain counts the choice as emitted by itself."""
        # Before the chain in any case: see there for what the model must not write.
        logits = self._context.logits(row)
        token = int(logits.argmax())
        # NumPy takes a NaN for the largest; llama.cpp's chain would make some token of it that means nothing.
        if math.isnan(logits[token]):
            raise DecodeError("The model computed logits that are not numbers.", "Its file is damaged; get another.")
        if self._greedy:
            return token
        if self._chain is None:
            raise UsageError("The sampler was closed.")
        started = time.perf_counter_ns()
        token = self._context.sample(self._chain, row)
        self.native_ns += time.perf_counter_ns() - started
        return token

    def close(self) -> None:
        """Free the chain. A second call does nothing."""
        chain, self._chain = self._chain, None
        if chain is not None:
            native.llama_sampler_free(chain)
