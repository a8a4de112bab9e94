"""The memory that a pair works with, besides its weights: caches and buffers, by the length of its context."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Working:
    """What both models of a pair take together besides their weights, in bytes.

    Attributes:
        per_token: For each token of context: their KV caches at 16 bits, and what buffers grow by.
        fixed: Buffers and running states that any context takes.
        main: Main memory that is taken wherever the layers are: rows of logits, vocabularies, and copies
            of a running state.
    """

    per_token: int
    fixed: int
    main: int

    def at(self, n_ctx: int, *, on_card: bool = False) -> int:
        """What a context of so many tokens takes, of a card without what is in main memory all the same."""
        return self.per_token * n_ctx + self.fixed + (0 if on_card else self.main)

    def longest(self, room_bytes: int, *, on_card: bool = False) -> int:
        """The longest context, in tokens, that so many bytes have room for; 0 for none."""
        return max(0, room_bytes - self.at(0, on_card=on_card)) // max(1, self.per_token)
