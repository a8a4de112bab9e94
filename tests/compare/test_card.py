"""A comparison and a benchmark as text, JSON, Markdown and a share card."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from app.compare.benchmark import ResultRow
from app.compare.card import markdown, svg, table_lines
from app.compare.race import Run
from app.compare.report import Comparison, busy_programs, comparison_markdown, fenced, run_json, seen
from app.conversations.message import Message, Role
from app.engine.stats import GenerationStats
from app.engine.types import FinishReason, SamplingParams
from app.models.pair_info import ModelInfo, PairInfo
from app.worker.request import AnswerRequest
from tests.compare.runs import made
from tests.compare.test_benchmark import PLAN, make_pair, run_bench

INFO = ModelInfo("Big|Model", "big.gguf", "Q4_K", 1000, 64)
PAIR = PairInfo(INFO, None, 8192, "CPU")
MESSAGES = (Message(Role.USER, "Hi"), Message(Role.ASSISTANT, "Hello"))
GREEDY = SamplingParams(temperature=0)


def run(name: str, seconds: float, text: str) -> Run:
    stats = GenerationStats(cache_n=9, predicted_n=101, predicted_ns=round(seconds * 1e9), first_token_ns=200_000_000)
    return Run(name, (1, 2), text, FinishReason.LENGTH, stats, why="too costly")


def test_markdown_has_figures_settings_and_texts() -> None:
    text = "x\n```python\nprint()\n```"
    rounds = ({"plain": run("plain", 4, text), "automatic": run("automatic", 2, text)},)
    request = AnswerRequest((*MESSAGES, Message(Role.USER, "Now `this`")), GREEDY, max_tokens=256)
    shown = comparison_markdown(Comparison(rounds, {"automatic": None}), request, PAIR)

    for part in (
        r"### Big\|Model Q4\_K, CPU",
        "| no draft | 25.0 tok/s |  | 0.20 s |  |  |",
        "| automatic | 50.0 tok/s | no draft | 0.20 s |  |  |",
        ": no speedup: nothing was drafted",
        "  - no draft: too costly",
        "  - identical output, 2 tokens",
        "- greedy, 256 tokens at most; 1 alternating round, each side alone",
        "- each side sees this prompt with the 2 messages before it",
        "- both sides reuse 9 cached tokens",
    ):
        assert part in shown
    assert shown.count(f"````text\n{text}\n````") == 2


def test_markdown_separates_reasoning_from_the_answer() -> None:
    thought = replace(run("plain", 4, ""), reasoning="Hm.", wall_s=4.0, others_s=400.0)
    shown = comparison_markdown(
        Comparison(({"plain": thought},)), AnswerRequest(MESSAGES[:1], GREEDY, max_tokens=256), PAIR
    )
    assert shown.endswith("#### no draft\n\nReasoning:\n\n```text\nHm.\n```\n\nAnswer:\n\n```text\n\n```\n")
    assert "- Other programs used" in shown


def test_seen_names_messages_and_the_system_prompt() -> None:
    system, prompt = Message(Role.SYSTEM, "Be brief."), Message(Role.USER, "Go.")

    def text(*messages: Message) -> str:
        return seen(AnswerRequest((*messages, prompt), SamplingParams(), max_tokens=256))

    assert text() == "each side sees this prompt alone"
    assert text(MESSAGES[0]) == "each side sees this prompt with the message before it"
    assert text(system, *MESSAGES) == "each side sees this prompt with the 2 messages before it and the system prompt"


@pytest.mark.parametrize(
    ("wall_s", "others_s", "warning"),
    [(10.0, 5.9, ""), (10.0, 12.5, "used 1.2 of 2 cores"), (10.0, 25.0, "used 2.0 of 2"), (0.1, 1.0, "")],
)
def test_busy_programs_are_reported(
    wall_s: float, others_s: float, warning: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.compare.report.usable_processors", lambda: frozenset({0, 1}))
    half = replace(made("plain", 10), wall_s=wall_s / 2, others_s=others_s / 2)
    found = busy_programs([{"plain": half}, {"plain": half}])
    assert warning in (found or "")
    assert bool(found) == bool(warning)


def test_a_changed_thread_count_is_reported() -> None:
    before, after = replace(made("plain", 10), threads=(2,)), replace(made("automatic", 10), threads=(1,))
    assert busy_programs([{"plain": before}]) is None
    assert "CPU threads varied from 1 to 2" in (busy_programs([{"plain": before, "automatic": after}]) or "")


def test_the_prompt_time_is_that_of_both_models() -> None:
    stats = GenerationStats(prompt_ns=20_000_000, draft_prompt_ns=5_000_000)
    found = run_json(replace(made("automatic", 10), stats=stats), 1)
    assert (found["prompt_ms"], found["draft_prompt_ms"]) == (25.0, 5.0)


@pytest.mark.parametrize(("text", "fence"), [("x", "```"), ("```", "````"), ("`````", "``````")])
def test_a_text_cannot_end_its_fence(text: str, fence: str) -> None:
    assert fenced(text) == f"{fence}text\n{text}\n{fence}"
    assert "\x1b" not in fenced("\x1b[31m")


@pytest.fixture(scope="module")
def table() -> list[ResultRow]:
    _, done = run_bench(make_pair())
    return PLAN.rows(done)


def test_a_narrow_table_loses_ranges(table: list[ResultRow]) -> None:
    wide = table_lines(table)
    assert wide[0].split() == ["fixed", "automatic", "no", "draft", "acceptance", "tokens/step"]
    assert "all" in wide[3]
    assert wide[4:] in ([], ["", "? too few runs to tell"])
    for at in (wide[0].index("fixed"), wide[0].index("automatic")):
        assert all(re.match(r"  \d+\.\d+×", line[at - 2 :]) for line in wide[1:4]), "below their heading"
    narrow = table_lines(table, 79)
    assert max(map(len, narrow)) <= 79
    assert " to " not in narrow[1]


def test_a_side_that_drafted_nothing_has_no_ratio(table: list[ResultRow]) -> None:
    def idle(row: ResultRow) -> ResultRow:
        sides = [replace(m, acceptance=None, is_idle=True) for m in row.measured]
        return replace(row, measured=tuple(sides))

    undrafted = [idle(row) for row in table]
    assert table_lines(undrafted)[1].split()[:3] == ["code", "no", "draft"]
    assert re.search(r">no draft, [\d.]+ tok/s<", svg("a", undrafted, {}, []))
    text = markdown("a", undrafted, {}, [])
    assert "| no draft |" in text
    head, _rule, *lines = [line for line in text.splitlines() if "|" in line]
    accepted = head.split("|").index(" acceptance ")
    assert {cell.strip() for line in lines for cell in line.split("|")[accepted : accepted + 2]} == {""}


def test_a_card_shows_table_facts_and_notes(table: list[ResultRow]) -> None:
    card = ("Big + Small", table, {"machine": "EPYC", "target sha256": "ab" * 32}, ["stopped early"])
    texts = "".join(ElementTree.fromstring(svg(*card)).itertext())
    for word in ("Big + Small", "code", "chat", "all", "EPYC", "ab" * 32, "stopped early", "no draft"):
        assert word in texts
    text = markdown(*card)
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in lines}) == 1
    assert "target sha256: " + "ab" * 32 in text
    long = ElementTree.fromstring(svg("word " * 30, [], {}, []))
    assert len([e for e in long.iter() if e.get("font-weight") == "600"]) == 3, "a long title takes more lines"


def test_hostile_names_stay_text(table: list[ResultRow]) -> None:
    evil = '</text><script>x</script>\x1b[31m"&\u202e\ufffe| [a](b)'
    card = (evil, table, {evil: evil}, [evil])
    picture, text = svg(*card), markdown(*card)
    assert not any(word in picture + text for word in ("<script>", "\x1b", "\u202e"))
    assert "[a](b)" not in text
    assert not [e for e in ElementTree.fromstring(picture).iter() if e.tag.endswith("script")]
