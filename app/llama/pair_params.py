"""Parameters for loading a pair: files, placement and both contexts."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from app.core.errors import UsageError
from app.engine.auto.cost_profile import MAX_BATCH
from app.llama.params import ContextParams, ModelParams
from app.models.memory_estimate import DEFAULT_CONTEXT, N_SNAPSHOTS, longest_trained, round_up
from app.models.pair_info import DeviceMemory
from app.settings.placement import needs_flash_attention


@dataclass(frozen=True, slots=True)
class PairParams:
    """Parameters for loading a pair.

    Attributes:
        target: GGUF file.
        draft: GGUF file, or None for no draft.
        n_threads: CPU threads, for single tokens and drafts.
        n_ctx: Context in tokens for both models; None chooses `DEFAULT_CONTEXT`.
        model: How to load the target's weights, and where to.
        memory_dir: Folder for learned statistics; None saves nothing.
        draft_model: The same for the draft, which is never split.
        kv_type: KV cache type of the target, a key of `app.settings.placement.KV_TYPES`.
        draft_kv_type: KV cache type of the draft.
        flash_attention: "auto", "on" or "off", for both.
        rpc: Addresses of servers of remote devices; only in a process that may die.
        n_threads_batch: CPU threads for prompts; None takes `n_threads`. Both models use the same numbers, because
            llama.cpp creates its threads again when the number changes.
        gives_way: Whether fewer threads compute while other programs need the CPU.
        notices: Notices about these settings.
        memory: Estimated memory of both models on each device; () without an estimate.
        n_ctx_room: Longest context that fits into memory; 0 without an estimate.
        n_snapshots: Earlier states that a recurrent target with a draft model keeps; they bound its drafts.
        cache_ram_mib: Memory for saved states of other conversations; None takes a quarter of what is free.
        cache_disk_mib: Disk space for them; 0 stores none, None takes 4 GiB or 5% of what is free.
        unload_after_min: Minutes without a prompt after which both models are freed; None for never.
    """

    target: Path
    draft: Path | None
    n_threads: int
    n_ctx: int | None = None
    model: ModelParams = field(default_factory=ModelParams)
    memory_dir: Path | None = None
    draft_model: ModelParams = field(default_factory=lambda: ModelParams(split=False))
    kv_type: str = "f16"
    draft_kv_type: str = "f16"
    flash_attention: str = "auto"
    rpc: tuple[str, ...] = ()
    n_threads_batch: int | None = None
    gives_way: bool = False
    notices: tuple[str, ...] = ()
    memory: tuple[DeviceMemory, ...] = ()
    n_ctx_room: int = 0
    n_snapshots: int = N_SNAPSHOTS
    cache_ram_mib: int | None = None
    cache_disk_mib: int | None = None
    unload_after_min: int | None = None

    def __post_init__(self) -> None:
        for kv_type in (self.kv_type, self.draft_kv_type):
            if self.flash_attention == "off" and needs_flash_attention(kv_type):
                raise UsageError(
                    f"A KV cache of type {kv_type} needs flash attention, which was turned off.",
                    "Leave --flash-attn at auto, or take the KV type f16.",
                )

    @property
    def survivors_file(self) -> Path | None:
        """List of files that llama.cpp survived; see `app.llama.canary`."""
        return self.memory_dir.parent / "survived.json" if self.memory_dir is not None else None

    def target_context(self, n_ctx_train: int) -> ContextParams:
        """Return the target's context parameters for its trained context length."""
        asked = self.n_ctx if self.n_ctx is not None else DEFAULT_CONTEXT
        # llama.cpp rounds up too; batches may then be as wide.
        n_ctx = min(round_up(asked), longest_trained(n_ctx_train))
        # Snapshots cost every token a little, which n-gram drafting alone seldom gains.
        n_snapshots = self.n_snapshots if self.draft is not None else 0
        return self._context(n_ctx, MAX_BATCH, self.kv_type, n_snapshots)

    def draft_context(self, n_ctx: int) -> ContextParams:
        """Return the draft's context parameters; a context shorter than the target's would end drafting early."""
        return self._context(n_ctx, 1, self.draft_kv_type)

    def _context(self, n_ctx: int, n_outputs: int, kv_type: str, n_snapshots: int = 0) -> ContextParams:
        return ContextParams(
            n_ctx=n_ctx,
            n_threads=self.n_threads,
            n_threads_batch=self.n_threads_batch or self.n_threads,
            n_outputs=n_outputs,
            kv_type=kv_type,
            n_snapshots=n_snapshots,
            flash_attention=self.flash_attention,
            waits=bool(self.rpc),
        )
