"""A benchmark as a table and as a share card."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from app.compare.benchmark import ResultRow
from app.compare.card import markdown, svg, table_lines
from tests.compare.test_benchmark import PLAN, make_pair, run_bench


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
