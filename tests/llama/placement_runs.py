"""Load pairs of tiny models where flags place them, and check their answers with and without drafts."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from app.cli.command_line import parse_args
from app.cli.options import read_pair
from app.engine.fixed import FixedDrafting, NoDrafting
from app.engine.sources import Source
from app.engine.types import Draft, DraftParams
from app.llama.cancel import CancelFlag
from app.llama.pair import NativePair
from app.worker import loading
from tests.llama.test_draft_heads import answer, writers
from tests.llama.tiny_heads import N_VOCAB, write_target

_PROMPT = [2 + 37 * i % 250 for i in range(4)]
_N_TOKENS = 16
_FIXED = DraftParams(3, 0, 0.0)
_WRONG = 0.3
"""Share of drafted tokens that are replaced by wrong ones."""
_SETTINGS = ("--threads", "1", "--ctx", "512", "--kv-type", "f32", "--draft-kv-type", "f32")


class _Corrected(FixedDrafting):
    """Let the source draft, and submit as many tokens of a known answer, some of them wrong."""

    def __init__(self, pair: NativePair, known: Sequence[int]) -> None:
        assert pair.drafter is not None
        super().__init__(pair.drafter, _FIXED)
        self._known = [*_PROMPT, *known]
        self._random = random.Random(7)

    def propose(self, sequence: Sequence[int], limit: int) -> Draft:
        n = len(super().propose(sequence, limit))
        known = self._known[len(sequence) : len(sequence) + n]
        tokens = tuple(t if self._random.random() >= _WRONG else (t + 7) % N_VOCAB for t in known)
        return Draft.of(Source.MODEL, tokens, (0.5,) * len(tokens))


@dataclass(frozen=True)
class Run:
    """Result of a placement; `is_equal` if drafts did not change the text."""

    device: str
    notices: Sequence[str]
    n_drafted: int
    is_equal: bool


def write_pair(kind: str, folder: Path) -> list[str]:
    """Write the files of a kind of draft and return the flags that name them."""
    write, write_draft = (write_target, partial(write_target, seed=1)) if kind == "model" else writers(kind)
    flags = ["--target", str(write(folder / "target.gguf"))]
    return flags + (["--draft", str(write_draft(folder / "draft.gguf"))] if write_draft is not None else [])


def load(*flags: str) -> NativePair:
    chosen = read_pair(parse_args([*_SETTINGS, *flags]).given)
    pair = loading.load(chosen, CancelFlag(), lambda *_: True)
    assert isinstance(pair, NativePair)
    return pair


def drafting(pair: NativePair) -> FixedDrafting:
    assert pair.drafter is not None
    return FixedDrafting(pair.drafter, _FIXED)


def run(*flags: str) -> Run:
    """Load a pair, and answer without drafts and with them."""
    pair = load(*flags)
    plain, _ = answer(pair, NoDrafting(), _PROMPT, _N_TOKENS)
    pair.target.rollback(0)
    drafted, steps = answer(pair, _Corrected(pair, plain), _PROMPT, _N_TOKENS)
    found = Run(pair.info.device, pair.notices, sum(len(step.draft) for step in steps), drafted == plain)
    pair.close()
    return found
