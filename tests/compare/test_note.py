"""A comparison as Markdown: nothing in it can end a fence, and no file is written over."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.compare.note import comparison_markdown, fenced, save_note
from app.compare.race import Run
from app.compare.report import compared, seen
from app.conversations.message import Message, Role
from app.core.errors import AppError
from app.engine.stats import GenerationStats
from app.engine.types import FinishReason, SamplingParams
from app.models.pair_info import ModelInfo, PairInfo
from app.worker.request import AnswerRequest

INFO = ModelInfo("Big|Model", "big.gguf", "Q4_K", 1000, 64)
PAIR = PairInfo(INFO, None, 8192, "CPU")
SAID = (Message(Role.USER, "Hi"), Message(Role.ASSISTANT, "Hello"))


def run(name: str, seconds: float, text: str) -> Run:
    stats = GenerationStats(cache_n=9, predicted_n=101, predicted_ns=round(seconds * 1e9), first_token_ns=200_000_000)
    return Run(name, (1,), (1, 2), text, FinishReason.LENGTH, stats, why="too costly")


def test_it_tells_what_was_measured_and_how() -> None:
    text = "x\n```python\nprint()\n```"
    rounds = [{"plain": run("plain", 4, text), "automatic": run("automatic", 2, text)}]
    request = AnswerRequest((*SAID, Message(Role.USER, "Now `this`")), SamplingParams(temperature=0), max_tokens=256)
    told = comparison_markdown(compared(rounds, {"automatic": None}), request, PAIR)

    assert r"### Big\|Model Q4\_K, CPU" in told
    assert "| plain | 25.0 tok/s |  | 0.20 s |  |  |" in told
    assert "| automatic | 50.0 tok/s | no draft | 0.20 s |  |  |" in told, "what drafts nothing is not faster"
    assert ": no speedup: nothing was drafted" in told
    assert "  - no draft used: too costly" in told
    assert "  - identical output, 2 tokens" in told
    assert "- each side sees this prompt with the 2 messages before it" in told
    assert "- each side starts with the 9 tokens before the prompt cached" in told
    assert "greedy, 256 tokens at most; 1 alternating round, each side alone" in told
    assert told.count(f"````text\n{text}\n````") == 2


def test_it_tells_what_everybody_was_given() -> None:
    system, prompt = Message(Role.SYSTEM, "Be brief."), Message(Role.USER, "Go.")

    def told(*messages: Message) -> str:
        return seen(AnswerRequest((*messages, prompt), SamplingParams(), max_tokens=256))

    assert told() == "each side sees this prompt alone"
    assert told(SAID[0]) == "each side sees this prompt with the message before it"
    assert told(system, *SAID) == "each side sees this prompt with the 2 messages before it and the system prompt"
    assert told(system) == "each side sees this prompt with the system prompt"


def test_what_was_thought_is_told_apart_from_what_was_said() -> None:
    thought = replace(run("plain", 4, ""), reasoning="Hm.")
    request = AnswerRequest(SAID[:1], SamplingParams(temperature=0), max_tokens=256)
    told = comparison_markdown(compared([{"plain": thought}], {}), request, PAIR)
    assert told.endswith("#### plain\n\nReasoning:\n\n```text\nHm.\n```\n\nAnswer:\n\n```text\n\n```\n")


def test_it_tells_what_other_programs_took() -> None:
    crowd = replace(run("plain", 4, "x"), wall_s=4.0, others_s=400.0)
    request = AnswerRequest(SAID[:1], SamplingParams(temperature=0), max_tokens=256)
    assert "- Other programs used" in comparison_markdown(compared([{"plain": crowd}], {}), request, PAIR)


@pytest.mark.parametrize(("text", "fence"), [("x", "```"), ("a `b`", "```"), ("```", "````"), ("`````", "``````")])
def test_a_text_cannot_end_its_fence(text: str, fence: str) -> None:
    assert fenced(text) == f"{fence}text\n{text}\n{fence}"
    assert "\x1b" not in fenced("\x1b[31m")


def test_no_file_is_written_over(tmp_path: Path) -> None:
    assert [save_note(tmp_path, str(n)).name for n in range(3)] == [
        "comparison.md",
        "comparison-2.md",
        "comparison-3.md",
    ]
    assert (tmp_path / "comparison.md").read_text() == "0"
    with pytest.raises(AppError, match="cannot be written"):
        save_note(tmp_path / "gone", "")
