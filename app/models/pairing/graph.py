"""How much memory computing a batch takes, from the widths of a model: llama.cpp's graph, by hand.

llama.cpp lays out the whole graph of a batch and lets tensors share memory that are not needed at the same time, so
the peak of three places counts: the feed-forward block, attention, and the rows of logits. What is alive in each was
found by comparing with its own reckoning (`app.llama.footprint`) for Qwen2.5, Llama and Gemma models at contexts of
2,048 to 32,768 tokens, f16 and q8_0 caches; it is within one percent of what a whole model takes.
"""

from __future__ import annotations

from dataclasses import dataclass

from app.models.pairing.cells import round_up

_F16, _F32 = 2, 4


@dataclass(frozen=True, slots=True)
class Graph:
    """The widths of a model's graph, in values for each token.

    Attributes:
        embedding: Of the residual stream.
        feed_forward: Of the widest feed-forward block; of a mixture, of the experts that are used together.
        query: Of all heads' queries.
        key_value: Of all heads' keys and values.
        heads: Query heads.
        vocabulary: Of a row of logits.
        masks: Attention masks; models with a sliding window have one more.
    """

    embedding: int
    feed_forward: int
    query: int
    key_value: int
    heads: int
    vocabulary: int
    masks: int = 1

    def compute_bytes(self, n_ctx: int, n_outputs: int = 1, *, n_batch: int = 512, flash_attention: bool = True) -> int:
        """Buffers for a batch, without the rows of logits that are kept besides (`rows_bytes`).

        Args:
            n_ctx: Tokens that the KV cache holds.
            n_outputs: Rows of logits in one batch.
            n_batch: Tokens in one batch.
            flash_attention: Without it every head's scores over the whole cache are written down.
        """
        n_batch = min(n_batch, n_ctx)
        cells = round_up(n_ctx)
        values = n_batch * _F32
        masks = self.masks * n_batch * cells * (_F16 if flash_attention else _F32)
        feed_forward = values * (3 * self.feed_forward + 4 * self.embedding) + masks
        logits = self.rows_bytes(n_outputs) + values * 2 * self.embedding
        attention = 0
        if not flash_attention:
            scores = values * self.heads * cells
            attention = scores + values * (3 * self.query + 2 * self.embedding + self.key_value) + masks
        return max(feed_forward, attention, logits)

    def rows_bytes(self, n_outputs: int) -> int:
        """So many rows of logits."""
        return n_outputs * self.vocabulary * _F32
