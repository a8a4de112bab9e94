"""A chain of MTP layers: each head evaluates the same as in its own context."""

import random
import re
from pathlib import Path

import numpy as np
import pytest

from app.core.errors import AppError
from app.engine.fixed import NoDrafting
from app.engine.interfaces import Logits, Rows
from app.llama.draft_heads import HeadContext
from app.llama.fitting.machine_room import needs
from app.llama.library import captured_log
from app.llama.mtp_chain import MtpChain
from app.llama.pair import NativePair
from app.settings.model_params import ModelParams
from tests.llama.conftest import WINDOW_ALONE, Load, OpenPair
from tests.llama.params import pair_params
from tests.llama.test_draft_heads import answer, drafter_of
from tests.llama.tiny_heads import write_chain
from tests.llama.tiny_model import N_VOCAB, TINY

pytestmark = pytest.mark.native
MIB = 1 << 20


def chain_of(pair: NativePair) -> MtpChain:
    head = drafter_of(pair)._head
    assert isinstance(head, MtpChain)
    return head


def alone(context: MtpChain, head: int, tokens: list[int], rows: list[Rows]) -> tuple[Logits, Rows]:
    """Let a head read a text in an empty context; return its logits and its row."""
    HeadContext.clear(context)
    context._functions["set_head"](context._open(), head)
    HeadContext.read(context, 0, tokens, np.stack(rows), 1)
    context._copy_row()
    return context.logits(0).copy(), context._head_batch.rows[0].copy()


@pytest.mark.parametrize("architecture", ["step35", "hy_v3", "mimo2"])
def test_each_head_evaluates_the_text_as_in_a_context_of_its_own(load: Load, tmp_path: Path, architecture: str) -> None:
    # A small window cache would wrap around.
    path = write_chain(tmp_path / WINDOW_ALONE, architecture=architecture)
    pair, other = load(path, mtp=True), load(path, mtp=True)
    chain, reference = chain_of(pair), chain_of(other)
    rng = random.Random(3)
    numbers = np.random.default_rng(3)
    tokens, rows = list[int](), list[Rows]()
    compared = [0, 0, 0]

    def read(n: int, n_outputs: int) -> None:
        start = len(tokens)
        tokens.extend(rng.randrange(2, N_VOCAB) for _ in range(n))
        rows.extend(numbers.normal(size=TINY.width).astype(np.float32) for _ in range(n))
        chain.read(start, tokens[start:], np.stack(rows[start:]), n_outputs)

    def compare(head: int, with_tokens: list[int], with_rows: list[Rows]) -> Rows:
        logits, row = alone(reference, head, [*tokens, *with_tokens], [*rows, *with_rows])
        np.testing.assert_allclose(chain.logits(0), logits, atol=0.01 * float(np.ptp(logits)))
        compared[head] += 1
        return row

    read(660, 0)
    for _ in range(90):
        match rng.randrange(8) if len(tokens) < 900 else 0:
            case 0:
                n = len(tokens) - rng.choice((1, 3, 90))
                chain.rollback(n)
                del tokens[n:], rows[n:]
            case 1:
                read(rng.choice((1, 70)), 0)
            case _:
                read(rng.randrange(1, 6), 1)
                drafted, drafted_rows = list[int](), [compare(0, [], [])]
                for head in range(1, rng.randrange(1, 4)):
                    drafted.append(rng.randrange(2, N_VOCAB))
                    chain.draft_next(len(tokens) + head - 1, drafted[-1])
                    drafted_rows.append(compare(head, drafted, drafted_rows))
                chain.rollback(len(tokens))
                assert len(chain._tokens) <= 64 + 70
    assert min(compared) > 10
    assert len(tokens) > 768


@pytest.mark.parametrize("architecture", ["step35", "hy_v3", "mimo2"])
def test_the_memory_of_every_layer_is_estimated(open_pair: OpenPair, tmp_path: Path, architecture: str) -> None:
    path = write_chain(tmp_path / "chain.gguf", architecture=architecture)
    params = pair_params(path, None, n_threads=1, n_ctx=1024, model=ModelParams(load_mtp=True))
    found = needs(params, ())
    target, heads = found.target, found.draft
    assert heads is not None

    with captured_log() as log:
        open_pair(path, n_ctx=1024, model=params.model)
    sizes = re.findall(r"^llama_kv_cache: size =\s*([\d.]+) MiB .*?(\d+) layers", log(), re.MULTILINE)

    assert sum(int(layers) for _, layers in sizes) == 5
    assert sum(float(size) for size, _ in sizes) * MIB == pytest.approx(target.kv + heads.kv, abs=0.02 * MIB)
    assert heads.kv == pytest.approx(3 * MIB / 8)


@pytest.mark.usefixtures("trial_loads")
def test_damaged_layers_cost_the_drafts_but_not_the_answer(load: Load, tmp_path: Path) -> None:
    pair = load(write_chain(tmp_path / "target.gguf", lacks="ffn_up"), mtp=True)
    assert pair.drafter is None
    [notice] = pair.notices
    assert "MTP layers of target cannot draft: " in notice
    assert len(answer(pair, NoDrafting(), n_tokens=5)[0]) == 5


@pytest.mark.usefixtures("trial_loads")
@pytest.mark.parametrize("n", [6, 200, 2**31 - 1])
def test_more_mtp_layers_than_layers_are_an_error(load: Load, tmp_path: Path, n: int) -> None:
    with pytest.raises(AppError, match="target"):
        load(write_chain(tmp_path / "target.gguf", step35__nextn_predict_layers=n), mtp=True)
