"""The target's sampler chain, llama.cpp's own, and the grammar that may restrict it."""

from __future__ import annotations

import ctypes
import math
import secrets
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.core.errors import AppError, DecodeError, ModelLoadError, UsageError
from app.engine.interfaces import Logits
from app.engine.text.call_format import CallFormat
from app.engine.text.call_formats import HERMES
from app.engine.types import Guidance, SamplingParams
from app.llama.call_grammar import call_matcher
from app.llama.candidates import Candidates, Shortlist
from app.llama.context import Context
from app.llama.grammar import Grammar
from app.llama.json_schema import schema_rule
from app.llama.library import native
from app.llama.matcher import Matcher
from app.llama.model import Model

_MIN_KEEP = 1
_MIROSTAT_TOKENS = 100
"""Number of tokens from which llama.cpp's Mirostat 1 estimates the distribution."""
_DRY_BREAKERS = ("\n", ":", '"', "*")
"""llama.cpp's default texts that end a repeated sequence."""


class SamplerChain:
    """Owns a native chain over a context; implements `app.engine.interfaces.Sampler`.

    The chain always ends in a selecting sampler (otherwise llama.cpp aborts) and draws exactly one random number per
    emitted token, so the same seed gives the same text with and without a draft, up to rounding. A purely greedy chain
    picks the largest logit, which NumPy finds twenty times faster than llama.cpp's chain.

    A grammar is outside the chain, as in llama.cpp's `common`: testing a chosen token is fast, and only if it is
    forbidden, a token is chosen again among all that the grammar allows.

    Args:
        form: The model's format of calls.
        tools: Tools that the answer may call, as in OpenAI's API.

    Raises:
        UsageError: The grammar or a biased token is invalid.
    """

    def __init__(
        self,
        context: Context,
        params: SamplingParams,
        guidance: Guidance | None = None,
        form: CallFormat = HERMES,
        tools: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._context = context
        self._params = params
        self.native_ns = 0
        self.seed = secrets.randbelow(0xFFFFFFFE) if params.seed is None else params.seed
        """The seed in use; random if none was given."""
        guidance = guidance or Guidance()
        self._chain: Any = None
        self._grammar = _grammar(context.model, guidance, form, tools)
        try:
            self._bias = _biases(context.model, guidance, has_grammar=self._grammar is not None)
            context.model.check_tokens([token for token, _ in self._bias])
            self._greedy = params.is_greedy and not self._bias
            self._chain = None if self._greedy else self._build()
        except AppError:
            self.close()
            raise
        self._n_shortlisted = 0 if self._greedy else _n_shortlisted(params)
        self._biased = [token for token, _ in self._bias]
        self._array = Candidates()
        self._shortlist = Shortlist(context.model.n_vocab)
        self._n_recent = max(params.repeat_last_n * params.has_penalties, params.dry_penalty_last_n * params.has_dry)
        self._recent: deque[int] = deque(maxlen=self._n_recent)
        """The last tokens, whose logits penalties may change."""

    def _build(self) -> Any:
        chain = native.llama_sampler_chain_init(native.llama_sampler_chain_default_params())
        for sampler in self._samplers():
            if not sampler:
                native.llama_sampler_free(chain)
                raise ModelLoadError("llama.cpp could not create the sampler chain.", "Check the sampling settings.")
            native.llama_sampler_chain_add(chain, sampler)
        return chain

    def _samplers(self) -> list[Any]:
        p, model = self._params, self._context.model
        samplers = []
        if self._bias:
            biases = (native.llama_logit_bias * len(self._bias))(*self._bias)
            samplers.append(native.llama_sampler_init_logit_bias(model.n_vocab, len(self._bias), biases))
        if p.has_penalties:
            penalties = (p.repeat_last_n, p.repeat_penalty, p.frequency_penalty, p.presence_penalty)
            samplers.append(native.llama_sampler_init_penalties(model.n_vocab, *penalties))
        if p.has_dry:
            breakers = (ctypes.c_char_p * len(_DRY_BREAKERS))(*map(str.encode, _DRY_BREAKERS))
            dry = (p.dry_multiplier, p.dry_base, p.dry_allowed_length, p.dry_penalty_last_n)
            samplers.append(native.llama_sampler_init_dry(model.native_vocab, *dry, breakers, len(breakers)))
        if p.temperature == 0:
            return [*samplers, native.llama_sampler_init_greedy()]
        if p.mirostat:
            samplers.append(native.llama_sampler_init_temp(p.temperature))
            tuned = (self.seed, p.mirostat_tau, p.mirostat_eta)
            if p.mirostat == 1:
                return [*samplers, native.llama_sampler_init_mirostat(model.n_vocab, *tuned, _MIROSTAT_TOKENS)]
            return [*samplers, native.llama_sampler_init_mirostat_v2(*tuned)]
        xtc = (p.xtc_probability, p.xtc_threshold, _MIN_KEEP, self.seed)
        for is_used, make, arguments in (
            (p.top_n_sigma > 0, native.llama_sampler_init_top_n_sigma, (p.top_n_sigma,)),
            (p.top_k > 0, native.llama_sampler_init_top_k, (p.top_k,)),
            (p.typical_p < 1, native.llama_sampler_init_typical, (p.typical_p, _MIN_KEEP)),
            (p.top_p < 1, native.llama_sampler_init_top_p, (p.top_p, _MIN_KEEP)),
            (p.min_p > 0, native.llama_sampler_init_min_p, (p.min_p, _MIN_KEEP)),
            (p.xtc_probability > 0, native.llama_sampler_init_xtc, xtc),
        ):
            if is_used:
                samplers.append(make(*arguments))
        if p.dynatemp_range > 0:
            samplers.append(native.llama_sampler_init_temp_ext(p.temperature, p.dynatemp_range, p.dynatemp_exponent))
        else:
            samplers.append(native.llama_sampler_init_temp(p.temperature))
        return [*samplers, native.llama_sampler_init_dist(self.seed)]

    def begin(self, prompt: Sequence[int]) -> None:
        """Reset the chain and show the penalties the end of the prompt, as llama-server does."""
        if self._greedy:
            return
        if self._chain is None:
            raise UsageError("The sampler was closed.")
        native.llama_sampler_reset(self._chain)
        if self._n_recent:
            # Penalties do not see pictures, whose ids are negative.
            tail = [token for token in prompt[-self._n_recent :] if token >= 0]
            self._context.model.check_tokens(tail)
            self._recent.clear()
            for token in tail:
                self._accept(token)

    def sample(self, row: int) -> int:
        # Read the logits first: Context.logits masks suppressed tokens, and the chain must see the mask.
        logits = self._context.logits(row)
        tokens = self._candidates(logits) if self._n_shortlisted else None
        found = logits if tokens is None else logits[tokens]
        at = int(found.argmax())
        # NumPy treats NaN as the largest value; llama.cpp's chain would choose a meaningless token.
        if math.isnan(found[at]):
            raise DecodeError("The model computed logits that are not numbers.", "Its file is damaged; get another.")
        if self._grammar is None and self._greedy:
            return at
        if self._chain is None and not self._greedy:
            raise UsageError("The sampler was closed.")
        started = time.perf_counter_ns()
        if self._grammar is not None:
            token = self._choose_by(self._grammar, logits, at if self._greedy else self._choose(found, tokens))
        elif tokens is None:
            token = self._context.sample(self._chain, row)
        else:
            token = self._choose(found, tokens)
            self._accept(token)
        self.native_ns += time.perf_counter_ns() - started
        return token

    def _accept(self, token: int) -> None:
        self._recent.append(token)
        native.llama_sampler_accept(self._chain, token)

    def _candidates(self, logits: Logits) -> NDArray[np.intp]:
        """Return the most probable tokens and those whose logits the chain changes; no other can be chosen."""
        changed = {*self._recent, *self._biased}
        found = self._shortlist.find(logits, self._n_shortlisted + len(changed))
        return np.union1d(found, [*changed]) if changed else found

    def n_allowed(self, tokens: Sequence[int]) -> int:
        """Return how many leading tokens of a draft can be accepted; all without a grammar."""
        return self._grammar.n_allowed(tokens) if self._grammar is not None else len(tokens)

    def _choose_by(self, grammar: Grammar | Matcher, logits: Logits, token: int) -> int:
        """Accept a chosen token, or another if the grammar forbids it."""
        if not grammar.allows(token):
            allowed = grammar.allowed()
            found = logits[allowed]
            if not np.isfinite(found).any():
                raise UsageError("The grammar allows no token here.", "Check the grammar or the JSON schema.")
            token = int(allowed[found.argmax()]) if self._greedy else self._choose(found, allowed)
        grammar.accept(token)
        if not self._greedy:
            self._accept(token)
        return token

    def _choose(self, logits: Logits, tokens: NDArray[np.intp] | None) -> int:
        """Apply the chain to the logits of some tokens, or of all for None; nothing counts as emitted."""
        self._array.apply(self._chain, np.arange(len(logits)) if tokens is None else tokens, logits)
        return self._array.selected

    def close(self) -> None:
        """Free the chain and the grammar. A second call does nothing."""
        chain, self._chain = self._chain, None
        if chain is not None:
            native.llama_sampler_free(chain)
        if self._grammar is not None:
            self._grammar.close()


def _n_shortlisted(params: SamplingParams) -> int:
    """Return how many tokens the chain keeps first, after penalties; 0 for a chain that uses all tokens."""
    if params.temperature == 0:
        return 1
    return 0 if params.mirostat or params.top_n_sigma > 0 else params.top_k


def _grammar(
    model: Model, guidance: Guidance, form: CallFormat, tools: Sequence[Mapping[str, Any]]
) -> Grammar | Matcher | None:
    # A client's grammar applies to the whole answer, unless a call is required.
    if tools and (guidance.must_call or not guidance.grammar):
        return call_matcher(model, form, tools, guidance)
    if guidance.schema is not None:
        return Matcher(model, f"start: {schema_rule(guidance.schema, strict=guidance.strict)}")
    return Grammar(model, guidance.grammar) if guidance.grammar else None


def _biases(model: Model, guidance: Guidance, *, has_grammar: bool) -> list[tuple[int, float]]:
    """Return the biased tokens; a text biases each of its tokens, as in llama-server."""
    ends = model.end_tokens if guidance.ignores_end and not has_grammar else ()
    return [
        *((token, -math.inf) for token in ends),
        *(
            (token, bias)
            for what, bias in guidance.logit_bias
            for token in ([what] if isinstance(what, int) else model.tokenize(what, parse_special=True))
        ),
    ]
