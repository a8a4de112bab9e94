"""Parameters of pairs.

llama.cpp would abort on some values: `app.settings.table` bounds each value, and this module checks combinations.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from app.core.errors import UsageError
from app.engine.auto.cost_profile import MAX_BATCH
from app.engine.types import Threads
from app.hardware.cpu import default_threads
from app.models.memory_estimate import DEFAULT_CONTEXT, N_SNAPSHOTS, longest_trained, round_up
from app.models.pair_info import DeviceMemory
from app.settings.kinds import Value
from app.settings.layers import DEFAULTS, Layer, Resolved
from app.settings.model_params import ANYWHERE, DRAFT_ANYWHERE, ContextParams, ModelParams
from app.settings.placement import needs_flash_attention

if TYPE_CHECKING:
    from app.hardware.rpc import RpcServer

FLASH_ATTENTION = {"auto": -1, "off": 0, "on": 1}
CPU_LABEL = "CPU"
"""Device label if the CPU computes all layers."""
MAX_DEVICES = 16
"""LLAMA_MAX_DEVICES; llama.cpp always reads this many shares."""


@dataclass(frozen=True, slots=True)
class PairParams:
    """A pair to load: its files, its settings, and its plan for this machine.

    Attributes:
        threads: CPU threads. Both models use the same numbers, because llama.cpp creates its threads again when the
            number changes.
        settings: Settings of the pair; a plan may change some of them.
        draft_model: Placement of the draft's weights, which are never split.
        memory_dir: Folder for learned statistics; None saves nothing.
        rpc: Servers of remote devices; only in a process that may die.
        memory: Estimated memory of both models on each device; () without an estimate.
        n_ctx_room: Longest context that fits into memory; 0 without an estimate.
        n_ctx_auto: Context if the settings leave it open; None is `DEFAULT_CONTEXT`, or longer if that costs little.
        preferred_ctx: Context up to which an open context may cost more memory.
        projector: GGUF file that encodes pictures for the target, if any.
    """

    target: Path
    draft: Path | None
    threads: Threads
    settings: Resolved = DEFAULTS
    model: ModelParams = ANYWHERE
    draft_model: ModelParams = DRAFT_ANYWHERE
    memory_dir: Path | None = None
    rpc: tuple[RpcServer, ...] = ()
    notices: tuple[str, ...] = ()
    memory: tuple[DeviceMemory, ...] = ()
    n_ctx_room: int = 0
    tuned: Layer = field(default_factory=dict)
    n_ctx_auto: int | None = None
    preferred_ctx: int = 0
    projector: Path | None = None

    @classmethod
    def of(cls, settings: Resolved, target: Path = Path(), draft: Path | None = None) -> PairParams:
        """Return a pair with its settings, before any planning. Raises UsageError if they contradict."""
        n_threads = settings["model.threads"] or default_threads()
        params = cls(
            target,
            draft,
            Threads(n_threads, n_threads),
            settings=settings,
            model=ModelParams.of(settings, "model"),
            draft_model=ModelParams.of(settings, "draft"),
        )
        for kv_type in (params.kv_type, params.draft_kv_type):
            if settings["model.flash_attn"] == "off" and needs_flash_attention(kv_type):
                raise UsageError(
                    f"The KV type {kv_type} needs flash attention, which is off.",
                    "Turn it on (⟨model.flash_attn=auto⟩), or use the KV type f16 (⟨model.kv_type⟩, ⟨draft.kv_type⟩).",
                )
        return params

    def over(self, layer: Layer) -> PairParams:
        """Return the pair with other values of settings."""
        model, draft_model = self.model.over(layer, "model"), self.draft_model.over(layer, "draft")
        return replace(self, settings=self.settings.over(layer), model=model, draft_model=draft_model)

    @property
    def n_ctx(self) -> int | None:
        """Return the context in tokens for both models, if the settings have it."""
        n_ctx: int | None = self.settings["model.ctx"]
        return n_ctx

    @property
    def kv_type(self) -> str:
        """Return the KV cache type of the target, a key of `app.settings.placement.KV_TYPES`."""
        return _kv_type(self.settings["model.kv_type"])

    @property
    def draft_kv_type(self) -> str:
        """Return the KV cache type of the draft."""
        return _kv_type(self.settings["draft.kv_type"])

    @property
    def addresses(self) -> tuple[str, ...]:
        """Return the addresses of the servers of remote devices."""
        return tuple(server.address for server in self.rpc)

    @property
    def yields_cpu(self) -> bool:
        """Return whether fewer threads compute while other programs need the CPU."""
        return self.settings["model.threads"] is None

    @property
    def safe_files(self) -> Path | None:
        """Return the list of files that llama.cpp survived; see `app.llama.child`."""
        return self.memory_dir.parent / "survived.json" if self.memory_dir is not None else None

    def target_context(self, n_ctx_train: int) -> ContextParams:
        """Return the target's context parameters for its trained context length."""
        asked = self.n_ctx or self.n_ctx_auto or DEFAULT_CONTEXT
        # llama.cpp rounds up too, and batches may then be as large.
        n_ctx = min(round_up(asked), longest_trained(n_ctx_train))
        # Snapshots make every token slightly slower; n-gram drafting alone seldom compensates for that.
        n_snapshots = N_SNAPSHOTS if self.draft is not None or self.model.load_mtp else 0
        return self._context(n_ctx, MAX_BATCH, self.kv_type, n_snapshots)

    def draft_context(self, n_ctx: int, block_size: int = 1) -> ContextParams:
        """Return the draft's context parameters; a context shorter than the target's would end drafting early.

        A DFlash block computes all its tokens at once.
        """
        return self._context(n_ctx, block_size, self.draft_kv_type)

    def _context(self, n_ctx: int, n_outputs: int, kv_type: str, n_snapshots: int = 0) -> ContextParams:
        return ContextParams(
            n_ctx=n_ctx,
            threads=self.threads,
            n_outputs=n_outputs,
            kv_type=kv_type,
            n_snapshots=n_snapshots,
            flash_attention=self.settings["model.flash_attn"],
            swa_full=self.settings["model.swa_full"] != "off",
        )


def _kv_type(value: Value) -> str:
    return "f16" if value == "auto" else str(value)
