"""Check the settings of reasoning, and sampling values that a model file recommends."""

import math
from dataclasses import replace
from typing import Any

import pytest

from app.cli.report import ignored_flags
from app.compare.job import conversation_prefix
from app.conversations.message import Message, Role
from app.engine.events import Step
from app.engine.interfaces import Controls
from app.engine.text.reasoning import THINK, RenderedPrompt
from app.engine.types import SamplingParams
from app.llama.template import ChatTemplate
from app.models.gguf import parse_header
from app.session.session import Session
from app.settings.checking import in_one_line, recommended
from app.settings.layers import AS_TRAINED, Layer, Origin, Resolved, Thinking, ThinkingSupport, sampling, thinking
from app.settings.live import Scope
from app.worker.events import Finished, Loaded
from app.worker.request import AnswerRequest
from app.worker.responder import answer
from tests.fake_engine import FakeEngine
from tests.fake_tools import no_tools
from tests.fakes import FakeModel, script
from tests.llama.gguf_files import F64, I32, I64, U64, Array, Typed, header, tiny
from tests.pairs import FakePair, LetterPrompts, Letters
from tests.session.scripted import PAIR
from tests.settings.in_memory import in_memory

TALK = [Message(Role.USER, "a"), Message(Role.ASSISTANT, "b", "hm"), Message(Role.USER, "c")]


def render(source: str, asked: Thinking = AS_TRAINED, talk: list[Message] | None = None) -> str:
    return ChatTemplate(source).render(TALK if talk is None else talk, asked)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking"])
def test_templates_find_what_was_thought(name: str) -> None:
    source = f"{{% for m in messages %}}{{{{ m.{name} if m.{name} is defined }}}}|{{{{ m.content }}}} {{% endfor %}}"
    assert render(source) == "|a hm|b |c "


def test_mistral_templates_read_thinking_as_a_part_of_the_message() -> None:
    source = (
        "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for block in m.content %}"
        "{% if block['type'] == 'thinking' %}[THINK]{{ block['thinking'] }}[/THINK]{% else %}{{ block['text'] }}"
        "{% endif %}{% endfor %}{% endif %} {% endfor %}"
    )
    assert render(source) == "a [THINK]hm[/THINK]b c "
    # An imported file can contain anything.
    assert render(source, talk=[replace(TALK[0], reasoning="hm")]) == "a "


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (AS_TRAINED, "-,-,-,-,-,-"),
        (Thinking(enabled=True), "True,True,enabled,-,-,-"),
        (Thinking(enabled=False), "False,False,disabled,0,-,-"),
        (Thinking(effort="low"), "-,-,-,-,low,low"),
        (Thinking(enabled=True, effort="high"), "True,True,enabled,-,high,high"),
        # An effort has no effect without reasoning.
        (Thinking(enabled=False, effort="high"), "False,False,disabled,0,-,-"),
    ],
)
def test_templates_are_asked_under_every_name_that_they_have(asked: Thinking, said: str) -> None:
    names = ["enable_thinking", "thinking", "thinking_mode", "thinking_budget", "reasoning_effort", "thinking_effort"]
    assert render(",".join(f"{{{{ {name} if {name} is defined else '-' }}}}" for name in names), asked) == said


# Settings and models


def test_the_settings_say_whether_to_think_and_how_hard() -> None:
    live = in_memory()
    assert thinking(live.resolved()) == AS_TRAINED
    live.set("answer.thinking", "on")
    live.set("answer.reasoning_effort", "medium")
    assert thinking(live.resolved()) == Thinking(enabled=True, effort="medium")
    live.set("answer.thinking", "off", Scope.CONVERSATION)
    session = Session(FakeEngine(), "A pair", live, no_tools())
    session.handle(Loaded(PAIR))
    assert session.comparable("c").thinking == Thinking(enabled=False, effort="medium")


def token(letter: str) -> int:
    return ord(letter) - 96


class MarkedLetters(Letters):
    """A vocabulary in which the letters "o" and "c" are control tokens that mark the thinking."""

    def piece(self, token_id: int) -> bytes:
        return b"" if token_id in map(token, "oc") else super().piece(token_id)


class ThinkingPrompts(LetterPrompts):
    def __init__(self) -> None:
        self.asked: list[Thinking] = []

    def build(self, messages, prefill=None, thinking=AS_TRAINED, *_, **__) -> RenderedPrompt:  # type: ignore[no-untyped-def]
        self.asked.append(thinking)
        markup = THINK.with_tokens({"<think>": token("o"), "</think>": token("c")})
        return replace(super().build(messages), markup=markup)


class ThinkingPair(FakePair):
    def __init__(self) -> None:
        super().__init__(FakeModel(script([*map(token, "ohmcyes")], 1)))
        self.model, self.prompts = MarkedLetters(), (prompts := ThinkingPrompts())
        self.asked = prompts.asked


def test_marks_that_llama_cpp_does_not_show_tell_thinking_apart() -> None:
    pair = ThinkingPair()
    request = AnswerRequest((TALK[0],), SamplingParams(temperature=0), thinking=Thinking(enabled=True), stops=("h",))
    *steps, finished = answer(pair, 1, request, Controls(lambda: False))
    assert isinstance(finished, Finished)
    assert (finished.reasoning, finished.text) == ("hm", "yes")
    shown = [s for step in steps if isinstance(step, Step) for s in step.segments]
    assert "".join(s.text for s in shown if s.reasoning) == "hm"
    assert pair.asked == [request.thinking]


NO_EFFORT, ONLY_EFFORT_ON = ThinkingSupport(effort=False, effort_on=False), ThinkingSupport(effort=False)
"""Models without an effort, and with an effort only with reasoning on, like DeepSeek V4."""


@pytest.mark.parametrize(
    ("support", "enabled", "effort", "said"),
    [
        (ThinkingSupport(), "on", "low", None),
        (ThinkingSupport(switchable=False, effort=False), "auto", "auto", None),
        (ThinkingSupport(switchable=False), "on", "low", "This model cannot turn reasoning on or off: --thinking"),
        (NO_EFFORT, "auto", "low", "This model has no reasoning effort: --reasoning-effort"),
        (ONLY_EFFORT_ON, "auto", "low", "This model has a reasoning effort only with reasoning on: --reasoning-effort"),
        (ONLY_EFFORT_ON, "on", "low", None),
        (ThinkingSupport(), "off", "low", "Reasoning is off: --reasoning-effort changes nothing."),
    ],
)
def test_an_ignored_flag_is_reported(support: ThinkingSupport, enabled: str, effort: str, said: str | None) -> None:
    given: Layer = {"answer.thinking": enabled, "answer.reasoning_effort": effort}
    found = ignored_flags(support, Resolved({Origin.FLAG: given}))

    assert [text for text in found if not text.startswith(said or "-")] == []
    assert len(found) == (said is not None)
    # Settings also apply to models without reasoning.
    assert ignored_flags(support, Resolved({Origin.FILE: given})) == ()


def test_the_setting_of_thinking_decides_whether_an_effort_is_ignored() -> None:
    layers: dict[Origin, Layer] = {
        Origin.FLAG: {"answer.reasoning_effort": "max"},
        Origin.FILE: {"answer.thinking": "on"},
    }
    assert ignored_flags(ONLY_EFFORT_ON, Resolved(layers)) == ()


def test_a_comparison_builds_its_prompt_with_the_requested_thinking() -> None:
    pair, asked = ThinkingPair(), Thinking(enabled=False)
    conversation_prefix(pair, AnswerRequest(tuple(TALK), thinking=asked))
    assert pair.asked == [asked, asked]


KEY = "general.sampling."
EVERYTHING = {
    "temp": 0.6,
    "top_k": Typed(I32, 20),
    "top_p": 0.95,
    "min_p": 0.0,
    "penalty_last_n": Typed(I32, 128),
    "penalty_repeat": 1.05,
}


def of_file(**values: Any) -> Layer:
    """Return the settings from a file with these keys after the vocabulary."""
    written = {**tiny(), **{f"{KEY}{key}": value for key, value in values.items()}}
    return recommended(parse_header(header(written), vocabulary=False).metadata)


def chain(found: Layer) -> SamplingParams:
    return sampling(Resolved({Origin.MODEL: found}))


def test_every_value_is_taken_with_the_digits_that_were_written() -> None:
    found = of_file(**EVERYTHING)

    assert chain(found) == SamplingParams(0.6, 20, 0.95, 0.0, repeat_last_n=128, repeat_penalty=1.05)
    assert in_one_line(found) == "temp 0.6, top_k 20, top_p 0.95, min_p 0, repeat_penalty 1.05, repeat_last_n 128"


@pytest.mark.parametrize(
    ("key", "value", "name", "expected"),
    [
        ("temp", 1, "sampling.temp", 1.0),
        ("temp", Typed(F64, 0.7), "sampling.temp", 0.7),
        ("top_k", Typed(I64, 40), "sampling.top_k", 40),
        ("top_k", 40.0, "sampling.top_k", 40),
        ("penalty_last_n", Typed(I32, 0), "sampling.repeat_last_n", 0),
        ("penalty_last_n", Typed(I32, -1), "sampling.repeat_last_n", 65_536),
    ],
)
def test_numbers_of_other_types_mean_the_same(key: str, value: Any, name: str, expected: float) -> None:
    found = of_file(**{key: value})

    assert found == {name: expected}
    assert type(found[name]) is type(expected)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("temp", math.nan),
        ("temp", -0.5),
        ("temp", "0.7"),
        ("temp", "\x1b[31m" * 1000),
        ("temp", True),
        ("top_p", Typed(F64, 1e300)),
        ("top_k", Array(I32, [1, 2])),
        ("top_k", 0.5),
        ("top_k", Typed(U64, (1 << 64) - 1)),
        ("min_p", math.inf),
        ("penalty_last_n", Typed(I32, -2)),
        ("penalty_repeat", 0.0),
    ],
)
def test_an_invalid_value_costs_only_itself(key: str, value: Any) -> None:
    given = {"presence": 1, "top_p": 0.5, "min_p": 0.1, key: value}
    found = of_file(**given)

    kept = {name: 0.5 if name == "top_p" else 0.1 for name in ("top_p", "min_p") if name != key}
    assert found == {f"sampling.{name}": value for name, value in kept.items()}
