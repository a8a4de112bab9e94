"""Check that reasoning goes back to the model as its template expects, and the setting that controls it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.cli.options import options_of
from app.compare.job import conversation_prefix
from app.conversations.message import Message, Role
from app.engine.interfaces import Controls
from app.engine.text.reasoning import THINK, AnswerPart, RenderedPrompt
from app.engine.types import SamplingParams
from app.llama.template import ChatTemplate
from app.models.catalog import Pair
from app.models.source import HubModel
from app.session.chat_settings import ChatSettings
from app.session.session import Session
from app.settings.layers import AS_TRAINED, Thinking, ThinkingSupport, thinking
from app.settings.live import Scope
from app.worker.events import Finished, Loaded, Step
from app.worker.request import AnswerRequest
from app.worker.responder import answer
from tests.fakes import FakeModel, script
from tests.pairs import FakePair
from tests.session.scripted import PAIR, ScriptedEngine
from tests.settings.in_memory import in_memory

TALK = [Message(Role.USER, "a"), Message(Role.ASSISTANT, "b", "hm"), Message(Role.USER, "c")]


def render(source: str, asked: Thinking = AS_TRAINED, talk: list[Message] | None = None) -> str:
    return ChatTemplate(source).render(TALK if talk is None else talk, asked)


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning", "thinking"])
def test_templates_find_what_was_thought(name: str) -> None:
    source = f"{{% for m in messages %}}{{{{ m.{name} if m.{name} is defined }}}}|{{{{ m.content }}}} {{% endfor %}}"
    assert render(source) == "|a hm|b |c "


def test_mistrals_take_it_as_a_part_of_the_message() -> None:
    source = (
        "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}{% for block in m.content %}"
        "{% if block['type'] == 'thinking' %}[THINK]{{ block['thinking'] }}[/THINK]{% else %}{{ block['text'] }}"
        "{% endif %}{% endfor %}{% endif %} {% endfor %}"
    )
    assert render(source) == "a [THINK]hm[/THINK]b c "
    # An imported file can say anything.
    assert render(source, talk=[replace(TALK[0], reasoning="hm")]) == "a "


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (AS_TRAINED, "-,-,-,-,-,-"),
        (Thinking(enabled=True), "True,True,enabled,-,-,-"),
        (Thinking(enabled=False), "False,False,disabled,0,-,-"),
        (Thinking(effort="low"), "-,-,-,-,low,low"),
        (Thinking(enabled=True, effort="high"), "True,True,enabled,-,high,high"),
        # No one thinks hard who does not think.
        (Thinking(enabled=False, effort="high"), "False,False,disabled,0,-,-"),
    ],
)
def test_templates_are_asked_under_every_name_that_they_have(asked: Thinking, said: str) -> None:
    names = ["enable_thinking", "thinking", "thinking_mode", "thinking_budget", "reasoning_effort", "thinking_effort"]
    assert render(",".join(f"{{{{ {name} if {name} is defined else '-' }}}}" for name in names), asked) == said


# From the settings to the models


def test_the_settings_say_whether_to_think_and_how_hard() -> None:
    live = in_memory()
    assert thinking(live.resolved()) == AS_TRAINED
    live.set("answer.thinking", "on")
    live.set("answer.reasoning_effort", "medium")
    assert thinking(live.resolved()) == Thinking(enabled=True, effort="medium")
    live.set("answer.thinking", "off", Scope.CONVERSATION)
    session = Session(ScriptedEngine(), ChatSettings("A pair"), live=live)
    session.handle(Loaded(PAIR))
    assert session.comparable("c").request.thinking == Thinking(enabled=False, effort="medium")


def test_what_flags_ask_is_reported_from_what_settings_have_for_every_model() -> None:
    live = in_memory({"answer.thinking": "on"})
    live.set("answer.reasoning_effort", "high")
    options = options_of(live.resolved(), Pair("p", "P", HubModel("a/b"), None), None)
    assert (options.answers.thinking, options.typed_thinking) == (
        Thinking(enabled=True, effort="high"),
        Thinking(enabled=True),
    )


class ThinkingPair(FakePair):
    """The letters "o" and "c" are the marks of the thinking, which are control tokens."""

    def __init__(self, *, part: AnswerPart = AnswerPart.START) -> None:
        super().__init__(FakeModel(script([*map(self._token, "ohmcyes")], 1)))
        self.asked: list[Thinking] = []
        self._part = part

    @staticmethod
    def _token(letter: str) -> int:
        return ord(letter) - 96

    def piece(self, token: int) -> bytes:
        return b"" if token in map(self._token, "oc") else super().piece(token)

    def build_prompt(self, messages, prefill=None, thinking: Thinking = AS_TRAINED, tools=()) -> RenderedPrompt:  # type: ignore[no-untyped-def]
        self.asked.append(thinking)
        markup = THINK.with_tokens({"<think>": self._token("o"), "</think>": self._token("c")})
        return replace(super().build_prompt(messages), markup=markup, part=self._part)


def test_marks_that_llama_cpp_does_not_show_tell_thinking_apart() -> None:
    pair = ThinkingPair()
    request = AnswerRequest((TALK[0],), SamplingParams(temperature=0), thinking=Thinking(enabled=True), stops=("h",))
    *steps, finished = answer(pair, 1, request, Controls(lambda: False))
    assert isinstance(finished, Finished)
    assert (finished.reasoning, finished.text) == ("hm", "yes")
    shown = [s for step in steps if isinstance(step, Step) for s in step.segments]
    assert "".join(s.text for s in shown if s.reasoning) == "hm"
    assert pair.asked == [request.thinking]


@pytest.mark.parametrize(
    ("support", "typed", "said"),
    [
        (ThinkingSupport(), Thinking(enabled=True, effort="low"), []),
        (ThinkingSupport(switchable=False, effort=False), AS_TRAINED, []),
        (
            ThinkingSupport(switchable=False),
            Thinking(enabled=True, effort="low"),
            ["This model cannot turn thinking on or off: --thi"],
        ),
        (
            ThinkingSupport(effort=False, effort_on=False),
            Thinking(effort="low"),
            ["This model has no reasoning effort: --reaso"],
        ),
        # As DeepSeek V4, which uses it only with thinking on.
        (
            ThinkingSupport(effort=False),
            Thinking(effort="low"),
            ["This model has a reasoning effort only with thinking on: "],
        ),
        (ThinkingSupport(effort=False), Thinking(enabled=True, effort="low"), []),
        (
            ThinkingSupport(),
            Thinking(enabled=False, effort="low"),
            ["Thinking is off: --reasoning-effort changes nothing."],
        ),
    ],
)
def test_an_ignored_request_is_reported(support: ThinkingSupport, typed: Thinking, said: list[str]) -> None:
    found = support.ignored(typed, typed)

    assert len(found) == len(said)
    assert all(text.startswith(start) for text, start in zip(found, said, strict=True))


def test_settings_count_for_an_effort_but_are_not_reported() -> None:
    typed, support = Thinking(effort="max"), ThinkingSupport(effort=False)
    assert support.ignored(typed, Thinking(enabled=True, effort="max")) == ()
    assert support.ignored(AS_TRAINED, Thinking(enabled=False, effort="max")) == ()


def test_a_comparison_builds_its_prompt_with_the_requested_thinking() -> None:
    pair, asked = ThinkingPair(), Thinking(enabled=False)
    conversation_prefix(pair, AnswerRequest(tuple(TALK), thinking=asked))
    assert pair.asked == [asked, asked]
