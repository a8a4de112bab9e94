"""Load pairs of tiny models with placement flags, and check their answers with and without drafts."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from app.engine.fixed import FixedDrafting, NoDrafting
from app.engine.types import DraftParams
from app.llama.cancel import CancelFlag
from app.llama.pair import NativePair
from app.worker import loading
from tests.llama.generation import Oracle, answer
from tests.llama.params import loader_of
from tests.llama.tiny_heads import KINDS, DraftKind, write_target

_PROMPT = [2 + 37 * i % 250 for i in range(4)]
_N_TOKENS = 16
_FIXED = DraftParams(3, 0, 0.0)
_MODEL = DraftKind(write_target, partial(write_target, seed=1))
_SETTINGS = ("--ctx", "512", "--kv-type", "f32", "--draft-kv-type", "f32")


@dataclass(frozen=True)
class Run:
    """Result of a placement; `is_equal` if drafts did not change the text."""

    device: str
    notices: Sequence[str]
    n_drafted: int
    is_equal: bool


def write_pair(kind: str, folder: Path) -> list[str]:
    """Write the files of a kind of draft and return the flags that name them."""
    files = _MODEL if kind == "model" else KINDS[kind]
    target, draft = files.write(folder)
    return ["--target", str(target), *(["--draft", str(draft)] if draft is not None else [])]


def load(*flags: str) -> NativePair:
    pair = loading.load(loader_of(*_SETTINGS, *flags), CancelFlag(), lambda *_: True)
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
    assert pair.drafter is not None
    drafted, steps = answer(pair, Oracle(pair.drafter, _FIXED, [*_PROMPT, *plain], wrong=0.3), _PROMPT, _N_TOKENS)
    found = Run(pair.info.device, pair.notices, sum(len(step.draft) for step in steps), drafted == plain)
    pair.close()
    return found
