"""Charts and verdicts of `tandem tune`."""

import pytest

from app.cli.tune import break_even, cost_lines, verdict
from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.sources import Source

BOTH, MODEL, NGRAM = (Source.MODEL, Source.NGRAM), (Source.MODEL,), (Source.NGRAM,)


def costs(*milliseconds: tuple[int, float], draft: float = 0.0, start: float = 0.0) -> CostModel:
    """Return costs by batch size, of a drafted token, and of the start of a draft."""
    return CostModel(
        CostProfile({n: ms * 1e6 for n, ms in milliseconds}, draft_ns=draft * 1e6, draft_start_ns=start * 1e6)
    )


CPU = costs((1, 22), (2, 36), (3, 53), (4, 34), (8, 63), draft=8)
LINE = costs((1, 10), (2, 20), (8, 80), draft=3)
BLOCK = costs((1, 10), (2, 11), (8, 12), draft=0.001, start=6)


@pytest.mark.parametrize(("n", "expected"), [(1, 1.0), (3, 0.726)])
def test_break_even_solves_its_equation(n: int, expected: float) -> None:
    plain, batch = CPU.target_ns(1, 0), CPU.target_ns(n + 1, 0)
    share = break_even(plain, batch, n, 8e6)

    assert share == pytest.approx(expected, abs=0.01)
    assert share is not None
    assert sum(share**i for i in range(n + 1)) * plain == pytest.approx(batch + n * 8e6, rel=1e-6)
    assert break_even(10.0, 20.0, 1, 3.0) is None, "even perfect drafts lose"


def test_costs_have_a_line_per_batch_size() -> None:
    lines = cost_lines(CPU, BOTH)

    bars = [count for line in lines[1:] if (count := line.count("█"))]
    assert len(bars) == 5
    assert bars[3] < bars[2]
    assert ["model" in lines[2], "n-gram" in lines[2]] == [True, True]
    assert "n-gram" not in cost_lines(CPU, MODEL)[2]
    assert "never" in cost_lines(LINE, BOTH)[2]
    assert "DFlash  70%    n-gram  10%" in cost_lines(BLOCK, (Source.DFLASH, *NGRAM))[2]
    assert cost_lines(BLOCK, (Source.MTP,))[2].endswith("MTP  70%")


@pytest.mark.parametrize(
    ("measured", "sources", "said"),
    [
        (LINE, MODEL, "Draft model off: even at 97% acceptance drafts would be slower."),
        (LINE, NGRAM, "N-gram drafting cannot help: a batch takes as long as its tokens one by one."),
        (
            costs((1, 1), (2, 1.05), (4, 3), (8, 6), (16, 12), draft=0.7),
            MODEL,
            "Draft model off: even at 97% acceptance the speedup would be 1.13× (it needs 1.2×).",
        ),
        (CPU, MODEL, "break-even 73% with 3 drafted tokens."),
        # A batch is filled up to a size that costs less.
        (costs((1, 10), (13, 200), (16, 20), draft=0.1), MODEL, "break-even 53% with 15 drafted tokens."),
        (
            costs((1, 10), (12, 130), (33, 140), (64, 150)),
            NGRAM,
            "N-gram: at most 1.9× at 97% acceptance; break-even 93% with 49 drafted tokens.",
        ),
        (BLOCK, (Source.DFLASH,), "DFlash block: at most 8.7× at 97% acceptance;"),
    ],
)
def test_the_verdict_of_each_source(measured: CostModel, sources: tuple[Source, ...], said: str) -> None:
    text = " ".join(verdict(measured, sources))

    assert said in text
    assert ("N-gram" in text) is (Source.NGRAM in sources)
