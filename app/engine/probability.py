"""Define the confidence of a drafted token.

It is the probability of the most probable token under a softmax over the **whole vocabulary** at temperature 1.
llama-server uses the ten best candidates, which gives higher values; with only the best candidate, every probability
would be 1 and p_min meaningless. Over the whole vocabulary it is nearly calibrated for pairs of one family: of tokens
drafted with a probability of 0.8 to 0.88, 93% were accepted; below 0.5, about a third.
"""

from __future__ import annotations

import numpy as np

from app.core.errors import DecodeError
from app.engine.interfaces import Logits

_NEGLIGIBLE_LOGIT_GAP = 16.0
"""Smaller logits are left out of the sum; with two real models no probability changed by 0.2%."""
_SPARSE_VOCABULARY_SHARE = 1 / 16
"""Share of the vocabulary below which selecting values first takes less time than all exponentials."""


def probability_of(logits: Logits, token: int) -> float:
    """Return exp(logits[token] - max) / sum(exp(logits - max)), the probability of one token."""
    shifted = logits - logits.max()
    return float(np.exp(shifted[token], dtype=np.float64) / np.exp(shifted).sum(dtype=np.float64))


def most_probable(logits: Logits) -> tuple[int, float]:
    """Return the most probable token and 1 / sum(exp(logits - max)), its probability in (0, 1].

    The lowest id wins a tie, as in llama.cpp. Raises DecodeError if the logits contain NaN or have no finite maximum,
    because the model's weights are broken.
    """
    token = int(logits.argmax())
    largest = logits[token]
    if not np.isfinite(largest):
        raise DecodeError("The model computed logits that are not numbers.", "Its file is damaged; download it again.")
    near = logits > largest - _NEGLIGIBLE_LOGIT_GAP
    shifted = (logits[near] if np.count_nonzero(near) < _SPARSE_VOCABULARY_SHARE * len(logits) else logits) - largest
    return token, 1.0 / float(np.exp(shifted, out=shifted).sum(dtype=np.float64))


def most_probable_tokens(logits: Logits, n: int) -> tuple[tuple[int, float], ...]:
    """Return the `n` most probable tokens with their probabilities, best first."""
    tokens = np.argpartition(logits, -n)[-n:]
    exponentials = np.exp(logits - logits.max())
    total = exponentials.sum(dtype=np.float64)
    ordered = tokens[np.argsort(-logits[tokens], kind="stable")]
    return tuple((int(token), float(exponentials[token] / total)) for token in ordered)
