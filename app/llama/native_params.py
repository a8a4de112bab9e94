"""What llama.cpp reads when a context is made: one that computes, or one that is only planned."""

from __future__ import annotations

from typing import Any

from app.llama.library import native
from app.llama.params import FLASH_ATTENTION, ContextParams
from app.settings.placement import KV_TYPES


def native_params(params: ContextParams) -> Any:
    """A `llama_context_params`, for this package only."""
    raw = native.llama_context_default_params()
    raw.n_ctx = params.n_ctx
    raw.n_batch = min(params.n_batch, params.n_ctx)
    raw.n_ubatch = raw.n_batch
    raw.n_outputs_max = min(params.n_outputs, raw.n_batch)
    raw.n_seq_max = 1
    raw.n_rs_seq = params.n_snapshots
    raw.n_threads = params.n_threads
    # Until the first prompt: see `Context._set_threads`.
    raw.n_threads_batch = params.n_threads
    raw.flash_attn_type = FLASH_ATTENTION[params.flash_attention]
    raw.type_k = raw.type_v = KV_TYPES[params.kv_type].ggml_type
    # A cache of the window alone loses nothing to rejected drafts, but can be cut back hardly further than a batch:
    # an edit, a new answer or a comparison would read everything again. `app.models.memory_estimate` counts
    # the whole one.
    raw.swa_full = True
    raw.no_perf = True
    return raw
