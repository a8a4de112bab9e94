"""What a model takes of memory, by its facts: the one reckoning for what is proposed, checked and placed."""

from __future__ import annotations

from dataclasses import dataclass

from app.models.pairing.cells import round_up
from app.models.pairing.facts import ModelFacts
from app.models.pairing.snapshots import n_kept

_TOKEN_BYTES = 400
"""Of a vocabulary for each token: llama.cpp's texts, look-up table and merges, and the list of this program; measured
as what a process grows by besides all else, 410 bytes at 49,152 tokens and at 151,936."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Bytes that one model takes.

    Attributes:
        weights: Of all layers and the output; the vocabulary in front of them is read into other places.
        kv: KV cache at 16 bits.
        compute: Buffers on each device that computes layers.
        rows: Rows of logits, which stay in main memory.
        vocabulary: Main memory for the tokens' texts and the tables to look them up.
        states: Its running state.
        snapshots: Earlier ones, kept so that drafts can be taken back.
        kept: Main memory for copies of some, which later prompts go back to.
    """

    weights: int
    kv: int
    compute: int
    rows: int
    vocabulary: int
    states: int
    snapshots: int
    kept: int

    @property
    def total(self) -> int:
        return self.weights + self.kv + self.buffers + self.main

    @property
    def buffers(self) -> int:
        """What lies where the layers are, besides weights and cache."""
        return self.compute + self.states + self.snapshots

    @property
    def main(self) -> int:
        """Main memory that it takes wherever its layers are."""
        return self.rows + self.vocabulary + self.kept


def taken(
    facts: ModelFacts,
    n_ctx: int,
    *,
    n_outputs: int = 1,
    n_snapshots: int = 0,
    n_batch: int = 512,
    flash_attention: bool = True,
) -> Taken:
    """Reckon what a model takes.

    Args:
        facts: What it is.
        n_ctx: Tokens of context.
        n_outputs: Rows of logits in one batch.
        n_snapshots: Earlier running states to keep, where they can be.
        n_batch: Tokens in one batch.
        flash_attention: Whether attention needs no scores over the whole cache.
    """
    graph = facts.graph
    return Taken(
        weights=max(0, facts.weight_bytes - facts.header_bytes),
        kv=facts.kv_bytes_per_token * round_up(n_ctx),
        compute=graph.compute_bytes(n_ctx, n_outputs, n_batch=n_batch, flash_attention=flash_attention),
        rows=graph.rows_bytes(n_outputs),
        vocabulary=_TOKEN_BYTES * graph.vocabulary,
        states=facts.state_bytes,
        snapshots=facts.states_bytes(n_snapshots) - facts.state_bytes,
        kept=n_kept(facts.state_bytes) * facts.state_bytes,
    )
