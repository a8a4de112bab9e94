"""How long the rest of a suite takes: by what a run took before, else by what its tokens took elsewhere."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from app.compare.bound import DEPTH
from app.compare.race import Run
from app.compare.suite import Prompt
from app.engine.auto.curve import CostModel
from app.engine.stats import GenerationStats


class TimeLeft:
    """Learns from every run, those that warm up included.

    Args:
        lengths: Tokens of each prompt, as it is put to the model; of one that is missing the reading counts nothing.
        most_tokens: Of an answer; None where that is not limited, and nothing can be told before an answer was seen.
        costs: What earlier answers have measured of the pair, if any: then there is an estimate before the first run.
    """

    def __init__(self, lengths: Mapping[Prompt, int], most_tokens: int | None, costs: CostModel | None = None) -> None:
        self._lengths = lengths
        self._most = most_tokens
        self._seconds: dict[tuple[Prompt, str], float] = {}
        self._n_runs = self._written = 0
        self._read_ns = self._write_ns = 0.0
        self._n_followed, self._following_s = 0, 0.0
        self._n_read = self._n_predicted = 0
        widest = costs.profile.widest if costs is not None else 1
        # Prompts are read in batches that are wider still, and so at least as fast.
        self._a_read = costs.target_ns(widest, 0) / widest if costs is not None else None
        self._a_written = costs.target_ns(1, 0) if costs is not None else None
        self._a_followed_s = DEPTH * costs.draft_ns(0) / 1e9 if costs is not None and costs.profile.draft_ns else None

    def warmed_up(self, stats: GenerationStats) -> None:
        """A run ended that is shorter than those to come, and may have waited for a first measurement."""
        self._n_read += stats.prompt_n
        self._read_ns += stats.prompt_ns + stats.draft_prompt_ns
        self._n_predicted += stats.predicted_n
        self._write_ns += stats.predicted_ns

    def took(self, prompt: Prompt, run: Run, seconds: float) -> None:
        """A whole run ended."""
        self.warmed_up(run.stats)
        self._n_runs += 1
        self._written += run.stats.predicted_n
        self._seconds[prompt, run.contender] = seconds

    def reckoned(self, n_tokens: int, seconds: float) -> None:
        """The draft model has followed an answer of so many tokens, for what drafts could bring at most."""
        self._n_followed += n_tokens
        self._following_s += seconds

    def seconds(self, to_come: Iterable[tuple[Prompt, str]], to_reckon: Collection[Prompt] = ()) -> float | None:
        """What the rest takes; None as long as nothing tells.

        Args:
            to_come: Prompt and contender of every run.
            to_reckon: The prompts whose answers the draft model is to follow besides.
        """
        following = self._following() if to_reckon else 0.0
        if following is None:
            return None
        total = len(to_reckon) * following
        for prompt, name in to_come:
            one = self._seconds.get((prompt, name))
            one = one if one is not None else self._by_tokens(prompt)
            if one is None:
                return None
            total += one
        return total

    @property
    def _tokens(self) -> float | None:
        """Of an answer to come."""
        return self._written / self._n_runs if self._n_runs else self._most

    def _following(self) -> float | None:
        """Seconds for which the draft model follows an answer; it has read about the same before."""
        one = self._following_s / self._n_followed if self._n_followed else self._a_followed_s
        return one * self._tokens if one is not None and self._tokens is not None else None

    def _by_tokens(self, prompt: Prompt) -> float | None:
        """Answers seldom end before they must, and where they do, those to come are taken for as long as those."""
        tokens = self._tokens
        read = self._read_ns / self._n_read if self._n_read else self._a_read
        written = self._write_ns / self._n_predicted if self._n_predicted else self._a_written
        if tokens is None or written is None:
            return None
        return (self._lengths.get(prompt, 0) * (read or 0.0) + tokens * written) / 1e9
