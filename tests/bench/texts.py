"""Measure how often n-gram drafts were right by the support of their match: python -m tests.bench.texts"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

from app.engine.auto.acceptance import SUPPORT_EDGES, SUPPORT_PRIOR
from app.engine.ngram import NgramIndex
from tests.recordings import other_traces, texts, traces

_MAX_DRAFT = 24


def accepted_by_support(all_texts: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[tuple[int, int]]:
    """Return the accepted and the proposed n-gram tokens in every bin of `SUPPORT_EDGES`.

    Tokens are proposed at every position of every answer; tokens after a wrong token do not count.
    """
    accepted, proposed = [0] * len(SUPPORT_PRIOR), [0] * len(SUPPORT_PRIOR)
    for prompt, text in all_texts:
        for support, was_right in _judged(prompt, text):
            bin_ = bisect_right(SUPPORT_EDGES, support)
            proposed[bin_] += 1
            accepted[bin_] += was_right
    return list(zip(accepted, proposed, strict=True))


def _judged(prompt: Sequence[int], text: Sequence[int]) -> Iterator[tuple[float, bool]]:
    index = NgramIndex()
    index.grow(prompt)
    index.grow(text[:1])
    for position in range(1, len(text)):
        found = index.continuation((), _MAX_DRAFT)
        for token, support, actual in zip(found.tokens, found.confidences, text[position:], strict=False):
            yield support, token == actual
            if token != actual:
                break
        index.grow(text[position : position + 1])


def main() -> None:
    """Print a line per bin."""
    recorded = [(trace.prompt, trace.text) for trace in (*traces(), *other_traces())]
    lowest = [float("-inf"), *SUPPORT_EDGES]
    for low, prior, (accepted, proposed) in zip(
        lowest, SUPPORT_PRIOR, accepted_by_support([*texts(), *recorded]), strict=True
    ):
        print(f"from {low:4}: {accepted / proposed:.3f} of {proposed:6}, prior {prior}")


if __name__ == "__main__":
    main()
