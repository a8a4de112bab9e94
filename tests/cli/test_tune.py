"""Charts and verdicts of `tandem tune`."""

import pytest

from app.cli.tune import break_even, cost_lines, verdict
from app.engine.auto.cost_profile import CostProfile
from app.engine.auto.curve import CostModel
from app.engine.sources import Source

CPU = CostModel(CostProfile({1: 22e6, 2: 36e6, 3: 53e6, 4: 34e6, 8: 63e6}, draft_ns=8e6))
LINE = CostModel(CostProfile({1: 10e6, 2: 20e6, 8: 80e6}, draft_ns=3e6))
BOTH = (Source.MODEL, Source.NGRAM)
MODEL = (Source.MODEL,)
LOOKUP = (Source.NGRAM,)


@pytest.mark.parametrize(("n", "expected"), [(1, 1.0), (3, 0.726)])
def test_break_even_solves_its_equation(n: int, expected: float) -> None:
    plain, batch = CPU.target_ns(1, 0), CPU.target_ns(n + 1, 0)
    share = break_even(plain, batch, n, 8e6)

    assert share == pytest.approx(expected, abs=0.01)
    assert share is not None
    assert sum(share**i for i in range(n + 1)) * plain == pytest.approx(batch + n * 8e6, rel=1e-6)


def test_break_even_is_none_if_perfect_drafts_lose() -> None:
    assert break_even(10.0, 20.0, 1, 3.0) is None


def test_costs_have_a_line_per_batch_size() -> None:
    lines = cost_lines(CPU, BOTH)

    bars = [count for line in lines[1:] if (count := line.count("█"))]
    assert len(bars) == 5
    assert bars[3] < bars[2]
    assert "n-gram" in lines[2]
    assert "model" in lines[2]


def test_a_machine_without_gain_is_reported() -> None:
    assert verdict(LINE, BOTH)[1:] == [
        "Draft model off: even at 97% acceptance drafts would be slower.",
        "N-gram drafting cannot help: a batch takes as long as its tokens one by one.",
    ]
    assert "never" in cost_lines(LINE, BOTH)[2]


def test_a_small_gain_turns_the_draft_model_off() -> None:
    barely = CostModel(CostProfile({1: 1e6, 2: 1.05e6, 4: 3e6, 8: 6e6, 16: 12e6}, draft_ns=0.7e6))
    text = " ".join(verdict(barely, BOTH))

    assert "Draft model off: even at 97% acceptance the speedup would be 1.13× (it needs 1.2×)." in text
    assert text.count("break-even") == 1


def test_a_gain_has_its_break_even() -> None:
    text = " ".join(verdict(CPU, BOTH))

    assert "break-even 73% with 3 drafted tokens." in text


def test_a_batch_filled_up_to_a_cheaper_size_counts() -> None:
    dear_before = CostModel(CostProfile({1: 10e6, 13: 200e6, 16: 20e6}, draft_ns=1e5))

    assert "break-even" in " ".join(verdict(dear_before, MODEL))


def test_n_gram_drafting_is_judged_by_its_longest_drafts() -> None:
    flat_far_out = CostModel(CostProfile({1: 10e6, 12: 130e6, 33: 140e6, 64: 150e6}))

    (line,) = verdict(flat_far_out, LOOKUP)
    assert line == "N-gram: at most 1.9× at 97% acceptance; break-even 93% with 49 drafted tokens."


def test_draft_layers_have_their_break_even() -> None:
    block = CostModel(CostProfile({1: 10e6, 2: 11e6, 8: 12e6}, draft_ns=1e3, draft_start_ns=6e6))

    dflash, mtp = (Source.DFLASH,), (Source.MTP,)
    rows = cost_lines(block, (*dflash, *LOOKUP))
    assert "DFlash  70%    n-gram  10%" in rows[2]
    assert cost_lines(block, mtp)[2].endswith("MTP  70%")
    assert "DFlash block: at most" in " ".join(verdict(block, dflash))


@pytest.mark.parametrize(("sources", "said", "unsaid"), [(MODEL, "model", "n-gram"), (LOOKUP, "n-gram", "model")])
def test_only_the_given_sources_are_mentioned(sources: tuple[Source, ...], said: str, unsaid: str) -> None:
    slower = CostModel(
        CostProfile({1: 22e6, 4: 34e6, 8: 63e6}, draft_ns=8e6, context_ns={1: 2750.0, 8: 22e3, 64: 176e3})
    )
    text = "\n".join([*cost_lines(slower, sources), *verdict(slower, sources)]).lower()

    assert said in text
    assert unsaid not in text
