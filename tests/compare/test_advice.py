"""What a curve means, in figures and in characters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.cli.tune_charts import Drafters, best_setting, cost_lines, heat_map_lines, verdict
from app.compare.advice import break_even, heat_map
from app.compare.replay import Trace
from app.engine.auto.curve import CostModel, CostProfile
from tests.replays import curves, traces

CPU = CostModel(CostProfile({1: 22e6, 2: 36e6, 3: 53e6, 4: 34e6, 8: 63e6}, draft_ns=8e6))
LINE = CostModel(CostProfile({1: 10e6, 2: 20e6, 8: 80e6}, draft_ns=3e6))
BOTH, MODEL, LOOKUP = Drafters(model=True, lookup=True), Drafters(model=True, lookup=False), Drafters(False, True)


@pytest.mark.parametrize(("n", "expected"), [(1, 1.0), (3, 0.726)])
def test_break_even_solves_its_equation(n: int, expected: float) -> None:
    plain, batch = CPU.target_ns(1, 0), CPU.target_ns(n + 1, 0)
    share = break_even(plain, batch, n, 8e6)

    assert share == pytest.approx(expected, abs=0.01)
    assert share is not None
    assert sum(share**i for i in range(n + 1)) * plain == pytest.approx(batch + n * 8e6, rel=1e-6)


def test_where_perfect_drafts_lose_there_is_none() -> None:
    assert break_even(10.0, 20.0, 1, 3.0) is None


def test_the_staircase_has_a_line_a_width_and_the_step_shows() -> None:
    lines = cost_lines(CPU, BOTH)

    bars = [count for line in lines[1:] if (count := line.count("█"))]
    assert len(bars) == 5
    assert bars[3] < bars[2]
    assert "n-gram" in lines[2]
    assert "model" in lines[2]


def test_a_hopeless_machine_is_told_plainly() -> None:
    assert verdict(LINE, BOTH)[1:] == [
        "Draft model off: even at 97% acceptance the speedup would be 1.00× (it needs 1.2×).",
        "Look-up cannot win here: checking tokens at once takes as long as writing them one by one.",
    ]
    assert "never" in cost_lines(LINE, BOTH)[2]


def test_a_gain_that_is_not_worth_trying_is_no_promise() -> None:
    barely = CostModel(CostProfile({1: 1e6, 2: 1.05e6, 4: 3e6, 8: 6e6, 16: 12e6}, draft_ns=0.7e6))
    text = " ".join(verdict(barely, BOTH))

    assert "Draft model off: even at 97% acceptance the speedup would be 1.13× (it needs 1.2×)." in text
    assert text.count("starts to pay") == 1, "look-up does"


def test_a_good_machine_says_where_it_starts() -> None:
    text = " ".join(verdict(CPU, BOTH))

    assert "it starts to pay at 73%, drafting 3 tokens a round." in text


def test_a_width_that_is_filled_up_to_a_cheaper_one_pays() -> None:
    dear_before = CostModel(CostProfile({1: 10e6, 13: 200e6, 16: 20e6}, draft_ns=1e5))

    assert "it starts to pay at" in " ".join(verdict(dear_before, MODEL))


def test_look_up_is_judged_by_the_longest_drafts_it_makes() -> None:
    flat_far_out = CostModel(CostProfile({1: 10e6, 12: 130e6, 33: 140e6, 64: 150e6}))

    (line,) = verdict(flat_far_out, LOOKUP)
    assert line.startswith(
        "Look-up in what was already said drafts at no cost, and would reach a speedup of 1.9× if its tokens were "
        "right 97% of the time, "
    )
    assert line.endswith("; it starts to pay at 93%, drafting 49 tokens a round.")


def test_of_equal_settings_the_one_that_drafts_least_is_the_best() -> None:
    curve = curves()["ada"]
    text = replace(traces()[0], text=traces()[0].text[:2], matches=traces()[0].matches[:1], confidences=((0.9,) * 12,))
    heat = heat_map(text, curve.profile())

    assert heat is not None
    assert heat.best[0].n_max == 1
    assert " of 2 tokens: the best fixed setting, n_max 1 and " in best_setting(heat, "this answer")


def test_an_answer_of_one_token_has_no_heat_map() -> None:
    curve = curves()["ada"]
    text = replace(traces()[0], text=traces()[0].text[:1], matches=(), confidences=())

    assert heat_map(text, curve.profile()) is None


def test_the_heat_map_holds_every_setting_and_names_the_best() -> None:
    curve = curves()["ada"]
    heat = heat_map(traces()[0], curve.profile(), n_max=(1, 4, 12, 99), p_min=(0.0, 0.5))

    assert heat is not None
    assert heat.n_max == (1, 4, 12)
    params, best = heat.best
    assert best == max(s for row in heat.speedups for s in row)
    assert (params.n_max, params.p_min) == (12, 0.5)
    assert heat.oracle >= heat.automatic
    lines = heat_map_lines(heat)
    assert len(lines) == 1 + 3
    assert best_setting(heat, "this answer").startswith(
        f"Estimated from these costs on this answer of {heat.n_tokens} tokens: the best fixed setting, n_max 12 and "
        f"p_min 0.5, gives a speedup of {best:.1f}×, automatic drafting {heat.automatic:.1f}×;"
    )


def test_what_a_long_conversation_changes_is_said_where_it_is_known() -> None:
    slower = CostModel(CostProfile({1: 22e6, 4: 34e6, 8: 63e6}, draft_ns=8e6, cells={1: 2750.0, 8: 22e3, 64: 176e3}))

    assert verdict(slower, BOTH)[-1] == (
        "After 8,000 tokens of context, a token without draft takes 2.0× as long. "
        "At 97% acceptance the speedup is at most 1.0× with the draft model and 1.4× with n-gram."
    )
    learned = verdict(slower, BOTH, learned_behind=True)[-1]
    assert learned.startswith("By what was learned before, after 8,000 tokens of context, a token without draft")
    assert "draft model" not in verdict(slower, LOOKUP)[-1]
    assert not any("of context" in line for line in verdict(CPU, BOTH))


@pytest.mark.parametrize(("drafters", "said", "unsaid"), [(MODEL, "model", "n-gram"), (LOOKUP, "n-gram", "model")])
def test_who_is_left_out_is_not_praised(drafters: Drafters, said: str, unsaid: str) -> None:
    slower = CostModel(CostProfile({1: 22e6, 4: 34e6, 8: 63e6}, draft_ns=8e6, cells={1: 2750.0, 8: 22e3, 64: 176e3}))
    text = "\n".join([*cost_lines(slower, drafters), *verdict(slower, drafters)]).lower()

    assert said in text
    assert unsaid not in text


def test_look_up_that_is_left_out_takes_no_part_in_what_is_reckoned() -> None:
    curve = curves()["hopeless"]
    profile = CostProfile({1: 1e6, 2: 1.1e6, 8: 1.2e6, 64: 3e6}, curve.draft * 1e9)
    repeating = replace(traces()[0], prompt=(*traces()[0].prompt, *traces()[0].text))

    both, model = heat_map(repeating, profile), heat_map(repeating, profile, lookup=False)

    assert both is not None
    assert model is not None
    assert both.automatic > 1.5 * model.automatic
    assert both.oracle > 1.5 * model.oracle


def test_look_up_is_reckoned_with_as_many_common_tokens_as_it_asks_for() -> None:
    # Two tokens lead to a third, and nothing that is longer was said before.
    triples = [(3 * n, 3 * n + 1, 3 * n + 2) for n in range(40)]
    prompt, text = ([token for n, said in enumerate(triples) for token in (start + n, *said)] for start in (200, 300))
    trace = Trace("triples", "chat", tuple(prompt), tuple(text), (0,) * (len(text) - 1), ((),) * (len(text) - 1))
    profile = CostProfile({1: 1e6, 2: 1.1e6, 8: 1.2e6, 64: 3e6}, 1e9)

    usual, strict = (heat_map(trace, profile, min_match=n) for n in (2, 3))

    assert usual is not None
    assert strict is not None
    assert usual.automatic > 1.1 * strict.automatic
    assert usual.oracle > 1.2
    assert strict.oracle == 1.0
