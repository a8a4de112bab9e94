"""Render conversations of every kind with real chat templates, and compare the prompts with those of plain Jinja."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from app.conversations.message import Message, Role
from app.engine.text.tool_calls import ToolCall
from app.llama.template import ChatTemplate
from app.settings.layers import AS_TRAINED, Thinking
from tests.engine.text.reading import tool
from tests.templates import every_template, rendered, source_of

TOOLS = [tool("look_up", {"ref": {"type": "string", "description": "a"}, "n": {"type": "integer", "description": "b"}})]
CALL = ToolCall("look_up", '{"ref": "violet", "n": 3}', "abcdefgh0")
OTHER = ToolCall("look_up", '{"ref": "zebra"}', "abcdefgh1")
FOREIGN = ToolCall("look_up", '{"ref": "violet"}', "call_0123456789abcdef")


def user(text: str) -> Message:
    return Message(Role.USER, text)


def answer(text: str, *calls: ToolCall, reasoning: str = "") -> Message:
    return Message(Role.ASSISTANT, text, reasoning, calls)


def result(call: ToolCall, text: str) -> Message:
    return Message(Role.TOOL, text, tool_call_id=call.id)


HI, SYSTEM, FOUND = user("Hi"), Message(Role.SYSTEM, "Be brief."), result(CALL, "found")
PLAIN: dict[str, Sequence[Message]] = {
    "one question": [HI],
    "system": [SYSTEM, HI],
    "system alone": [SYSTEM],
    "two questions": [HI, user("Two")],
    "system and two questions": [SYSTEM, HI, user("Two")],
    "later question": [HI, answer("Yes."), user("Two")],
    "reasoning": [HI, answer("Yes.", reasoning="Hm."), user("Two")],
    "empty answer": [HI, answer(""), user("Two")],
    "markup": [user("<h1>é😀</h1> {{ x }} \u2028")],
    "calls without tools": [HI, answer("", CALL), FOUND],
    "answer first": [answer("Yes."), HI],
}
WITH_TOOLS: dict[str, Sequence[Message]] = {
    "tools": [HI],
    "system and tools": [SYSTEM, HI],
    "result": [HI, answer("", CALL), FOUND],
    "call with text": [HI, answer("I look.", CALL), FOUND],
    "call with reasoning": [HI, answer("", CALL, reasoning="Hm."), FOUND],
    "two calls": [HI, answer("", CALL, OTHER), FOUND, result(OTHER, "lost")],
    "two calls in turn": [HI, answer("", CALL), FOUND, answer("", OTHER), result(OTHER, "lost")],
    "two calls with text and reasoning": [
        HI,
        answer("I look.", CALL, OTHER, reasoning="Hm."),
        FOUND,
        result(OTHER, "lost"),
    ],
    "system and result": [SYSTEM, HI, answer("", CALL), FOUND],
    "question after a result": [HI, answer("", CALL), FOUND, user("And?")],
    "answer after a result": [HI, answer("", CALL), FOUND, answer("So."), user("And?")],
    "id of another server": [HI, answer("", FOREIGN), result(FOREIGN, "found")],
}
THINKING = {"thinking on": Thinking(enabled=True), "thinking off": Thinking(enabled=False)}
SWITCHES = {
    "thinking on": {"enable_thinking": True, "thinking": True, "reasoning": True, "thinking_mode": "enabled"},
    "thinking off": {
        "enable_thinking": False,
        "thinking": False,
        "reasoning": False,
        "thinking_mode": "disabled",
        "thinking_budget": 0,
    },
}

REFUSALS = {
    "alternate": "turns are merged",
    "System role not supported": "system text goes into the first question",
    "length 9": "calls get other ids",
    "single tool-calls": "each call gets a turn",
    "both content and thinking": "the text before a call gets a turn",
    "must have a string": "an empty answer is left out",
    "No user query": "system text alone is a question",
    "no element -1": "system text alone is a question",
    "'append'": "lists may grow, as in llama.cpp",
    "not iterable": "tools are undefined without tools, as in llama.cpp",
    "'functions' is undefined": "tools are text for this template",
    "generator is not JSON": "generators are lists, as in llama.cpp",
}
"""Templates that plain Jinja refuses, with the result in Tandem."""
BLOCKS = ("mistralai-Ministral", "reasoning")
"""Template that takes reasoning as a part of the content."""


def value(message: Message, *, as_text: bool) -> dict[str, Any]:
    """Return a message as Hugging Face's library passes it to a template."""
    if message.tool_call_id:
        named = {"role": "tool", "tool_call_id": message.tool_call_id, "name": "look_up"}
        return {**named, "content": message.content}
    out: dict[str, Any] = {"role": message.role.value, "content": message.content}
    if message.reasoning:
        out |= dict.fromkeys(("reasoning_content", "reasoning", "thinking"), message.reasoning)
    if message.tool_calls:
        out["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments if as_text else json.loads(call.arguments)},
            }
            for call in message.tool_calls
        ]
    return out


def expected(source: str, messages: Sequence[Message], **variables: Any) -> str | Exception:
    """Return the prompt of plain Jinja, or why there is none."""
    errors: list[Exception] = []
    for as_text in (False, True):
        try:
            return rendered(source, [value(one, as_text=as_text) for one in messages], documents=None, **variables)
        except Exception as error:
            errors.append(error)
    return errors[0]


@every_template
def test_a_prompt_is_that_of_plain_jinja(name: str) -> None:
    source = source_of(name)
    template = ChatTemplate(source, "<s>", "</s>")
    situations: list[tuple[str, Sequence[Message], list[Any], Thinking]] = [
        *((what, messages, [], AS_TRAINED) for what, messages in PLAIN.items()),
        *((what, messages, TOOLS, AS_TRAINED) for what, messages in WITH_TOOLS.items()),
        *((what, [HI], [], thinking) for what, thinking in THINKING.items()),
    ]
    for what, messages, tools, thinking in situations:
        template.renew_budget()
        prompt = template.render(messages, thinking, tools)
        plain = expected(source, messages, tools=tools or None, **SWITCHES.get(what, {}))
        # A template may leave out calls and results, and a system message without a question.
        needed = [
            one.content.strip()
            for one in messages
            if one.tool_call_id or (one is SYSTEM and FOUND in messages) or len(messages) == 1
        ]
        needed += [json.loads(call.arguments)["ref"] for one in messages for call in one.tool_calls]
        if (
            isinstance(plain, str)
            and all(text in plain for text in needed)
            and (template.shows_tools or not tools)
            and not (name.startswith(BLOCKS[0]) and BLOCKS[1] in what)
        ):
            assert prompt == plain, what
            continue
        assert isinstance(plain, str) or any(reason in str(plain) for reason in REFUSALS), plain
        # The prompt still has all messages in their order.
        at = 0
        for text in (message.content.strip() for message in messages if message.role is not Role.ASSISTANT):
            at = prompt.find(text, at)
            assert at >= 0, (what, text, prompt)
        assert all(text in prompt for text in needed), (what, prompt)
        assert not template.shows_tools or "Their signatures are within" not in prompt, what
        assert not tools or "look_up" in prompt


@every_template
@pytest.mark.parametrize("arguments", ["", '["violet"]', '{"ref": vio'])
def test_broken_arguments_change_only_the_call(name: str, arguments: str, monkeypatch: pytest.MonkeyPatch) -> None:
    template = ChatTemplate(source_of(name), "<s>", "</s>")
    monkeypatch.setattr("app.llama.template._now", lambda layout: "noon")
    question = user("quince")
    before = template.render([question, answer("", CALL), FOUND], tools=TOOLS).partition("quince")[0]
    broken = replace(CALL, arguments=arguments)
    prompt = template.render([question, answer("", broken), FOUND], tools=TOOLS)
    assert prompt.partition("quince")[0] == before
    assert "vio" in prompt or not arguments
    assert "found" in prompt


SHOWN = [
    pytest.param("{% for t in tools %}{{ t.function.name }}{% endfor %}", id="tools"),
    pytest.param("{% if xml_tools %}{{ xml_tools | tojson }}{% endif %}", id="xml_tools"),
    pytest.param("{{ messages[0].tools }}", id="system message"),
    pytest.param("{{ functions }}", id="text of functions"),
]


@pytest.mark.parametrize("shown", SHOWN)
def test_tools_are_passed_where_the_template_takes_them(shown: str) -> None:
    template = ChatTemplate(f"{shown}{{% for m in messages %}}{{{{ m.content }}}}{{% endfor %}}")
    assert template.shows_tools
    assert "look_up" in template.render([HI], tools=TOOLS)
    assert "# Tools" not in template.render([SYSTEM, HI], tools=TOOLS)
    assert "look_up" not in template.render([HI])


@pytest.mark.parametrize(
    "source", ["{{ messages[-1].content }}", "{% if tools is none %}{% endif %}{{ messages[-1].content }}"]
)
def test_a_template_that_shows_no_tools_gets_instructions(source: str) -> None:
    template = ChatTemplate(source)
    assert not template.shows_tools
    prompt = template.render([HI], tools=TOOLS)
    assert "look_up" in prompt
    assert "<tool_call>" in prompt
