"""A chat template from an untrusted file: it gives a prompt or one clear error."""

import json

import pytest

from app.conversations.message import Message, Role
from app.core.errors import TemplateError
from app.core.printable import one_line
from app.engine.text.tool_calls import ToolCall
from app.llama import sandbox
from app.llama.template import ChatTemplate
from app.settings.layers import Thinking

TALK = [
    Message(Role.SYSTEM, "Be brief."),
    Message(Role.USER, "Hello"),
    Message(Role.ASSISTANT, "Hi"),
    Message(Role.USER, "Bye"),
]
MISTRAL = (
    "{{ bos_token }}{% for message in messages %}"
    "{% if (message.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant') }}{% endif %}"
    "{% if message.role == 'user' %}[INST] {{ message.content }} [/INST]"
    "{% else %}{{ message.content }}{{ eos_token }}{% endif %}{% endfor %}"
)


def render(source: str | None, messages: list[Message] | None = None, **specials: str) -> str:
    return ChatTemplate(source, **specials).render(TALK if messages is None else messages)


def failure(source: str) -> TemplateError:
    with pytest.raises(TemplateError) as caught:
        render(source)
    return caught.value


# Renderings


def test_without_a_template_the_prompt_is_chatml() -> None:
    assert render(None, TALK[:2]) == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n<|im_start|>assistant\n"
    )


def test_an_effort_that_a_template_refuses_is_its_own_reason() -> None:
    source = (
        "{{ raise_exception('low and high are known.') if thinking_effort == 'medium' }}"
        "{{ raise_exception('no system') if messages[0].role == 'system' }}{{ messages[0].content }}"
    )
    template = ChatTemplate(source)
    with pytest.raises(TemplateError, match=r"conversation: low and high are known\.$"):
        template.render(TALK, Thinking(effort="medium"))
    assert template.render(TALK[1:2], Thinking(effort="low")) == "Hello"


def test_special_tokens_have_their_texts() -> None:
    assert render("{{ bos_token }}x{{ eos_token }}", bos="<s>", eos="</s>") == "<s>x</s>"


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ messages|length }}", "4"),
        (
            "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}{{ m['role'] }}{% break %}{% endfor %}",
            "user",
        ),
        ("{% generation %}{{ messages[1].content }}{% endgeneration %}", "Hello"),
        ("{{ {'a': '<b> & ü'}|tojson }}", '{"a": "<b> & ü"}'),
        ("{{ [1, {'b': 2, 'a': 1}]|tojson(indent=1, sort_keys=true) }}", json.dumps([1, {"a": 1, "b": 2}], indent=1)),
        ("{{ [1, 2]|tojson(separators=(',', ':')) }}", "[1,2]"),
        (
            "{% set n = namespace(x='') %}{% for m in messages %}{% set n.x = n.x ~ m.role[0] %}{% endfor %}{{ n.x }}",
            "suau",
        ),
        ("{% set first, rest = messages[0], messages[1:] %}{{ first.content + (rest|length)|string }}", "Be brief.3"),
        ("{% macro say(m) %}[{{ m.content }}]{% endmacro %}{{ say(messages[1]) }}", "[Hello]"),
        ("{{ messages|map(attribute='role')|join(', ') }}", "system, user, assistant, user"),
        ("{{ messages|selectattr('role', 'equalto', 'user')|list|length }}", "2"),
        ("{{ messages[1:]|join('', attribute='content') }}", "HelloHiBye"),
        ("{{ 'a</think>b'.split('</think>')[-1].strip() }}", "b"),
        ("{{ 'ab'|replace('a', 'xx') }}{{ 'ab'.replace('b', '') }}{{ '-' * 3 }}{{ 2 ** 8 }}{{ 7 % 4 }}", "xxba---2563"),
        ("{{ '\n'.join(['a', 'b'])|indent(2) }}", "a\n  b"),
        ("{% if messages[0].role in ['system', 'developer'] %}yes{% endif %}", "yes"),
        ("{{ documents is none and tools is none and missing is not defined }}", "True"),
        ("{% set x %}{% filter upper %}a{{ 1 }}b{% endfilter %}{% endset %}{{ x }}", "A1B"),
        ("{% for a in [1, [2, [3]]] recursive %}{{ loop(a) if a is iterable else a }}{% endfor %}", "123"),
        ("{{ '<a{}>{b}'.format(1, b='c') }}", "<a1>c"),
        (
            "{% for tool in tools %}{{ tool }}{% endfor %}{% for m in messages %}{{ m.content }}{% endfor %}",
            "Be brief.HelloHiBye",
        ),
        ("{{ messages[1].content }}{{ 1|filesizeformat if tools }}", "Hello"),
        ("{{ [3, 1, 2]|sort|first }}{{ 1.25|round(1) }}", "11.2"),
    ],
)
def test_what_templates_use_works(source: str, text: str) -> None:
    assert render(source) == text


def test_the_date_is_reported() -> None:
    year = render("{{ strftime_now('%Y') }}")
    assert year.isdigit()
    assert len(year) == 4


def test_a_template_that_refuses_a_system_message_gets_it_with_the_first_question() -> None:
    assert render(MISTRAL, TALK, eos="</s>") == "[INST] Be brief.\n\nHello [/INST]Hi</s>[INST] Bye [/INST]"


VISION = (
    "{% for m in messages %}{{ m.role|capitalize }}{{ ':' if m.content[0].type == 'image' else ': ' }}"
    "{% for part in m.content %}{% if part.type == 'text' %}{{ part.text }}{% endif %}{% endfor %}<end>\n{% endfor %}"
)
WITHOUT_SYSTEM = "{% for m in messages if m.role != 'system' %}<{{ m.role }}>{{ m.content }}{% endfor %}"


def test_a_template_of_a_model_that_also_sees_is_reported_texts_as_parts() -> None:
    assert render(VISION) == "System: Be brief.<end>\nUser: Hello<end>\nAssistant: Hi<end>\nUser: Bye<end>\n"


def test_a_template_that_accepts_both_gets_plain_texts() -> None:
    both = "{% for m in messages %}{{ m.content if m.content is string else m.content[0].text + '?' }}{% endfor %}"
    assert render(both) == "Be brief.HelloHiBye"


def test_a_template_that_leaves_out_system_messages_gets_them_with_the_first_question() -> None:
    assert render(WITHOUT_SYSTEM) == "<user>Be brief.\n\nHello<assistant>Hi<user>Bye"
    late = [TALK[2], TALK[0], TALK[1]]
    assert render(WITHOUT_SYSTEM, late) == "<assistant>Hi<user>Be brief.\n\nHello"


def test_a_system_message_that_a_template_omits_without_a_question_is_a_question() -> None:
    beside = "{% for m in messages if m.role == 'user' %}[{{ messages[0].content }}]{{ m.content }}{% endfor %}"
    assert render(beside, TALK[:1]) == "[Be brief.]Be brief."


def test_an_answer_before_the_first_question_follows_an_empty_one() -> None:
    assert render(MISTRAL, TALK[2:], eos="</s>") == "[INST]  [/INST]Hi</s>[INST] Bye [/INST]"


CALLS = "{% for c in m.tool_calls %}{{ c.function.arguments.a }}{% endfor %}"
NO_RESULTS = f"{{% for m in messages if m.role != 'tool' %}}<{{{{ m.role }}}}>{{{{ m.content }}}}{CALLS}{{% endfor %}}"
RESULTS_AFTER_CALLS = (
    "{{ tools }}{% for m in messages %}{% if m.role != 'tool' %}<{{ m.role }}>{{ m.content }}"
    f"{CALLS}"
    "{% elif messages[loop.index0 - 1].tool_calls %}<tool>{{ m.content }}{% endif %}{% endfor %}"
)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (NO_RESULTS, "<user><tool_response>\nfound one\n</tool_response><user>And?"),
        (RESULTS_AFTER_CALLS, "<assistant><tool>found one<assistant><tool>lost<user>And?"),
    ],
)
def test_no_result_of_a_tool_is_lost(source: str, text: str) -> None:
    calls = tuple(ToolCall("f", "{}", id_) for id_ in ("call00001", "call00002"))
    results = [
        Message(Role.TOOL, found, tool_call_id=call.id)
        for found, call in zip(("found one", "lost"), calls, strict=True)
    ]
    asked = [TALK[1], Message(Role.ASSISTANT, "", tool_calls=calls), results[0], Message(Role.USER, "And?"), results[1]]
    assert text in render(source, asked)


def test_calls_become_text_only_for_a_template_that_omits_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("with_calls_as_text", "with_tools_as_text"):
        monkeypatch.setattr(f"app.llama.template.{name}", lambda *_: pytest.fail("Long calls take long to convert."))
    source = (
        "{{ tools|tojson }}{% for m in messages %}{{ m.content }}{{ m.tool_calls|tojson if m.tool_calls }}{% endfor %}"
    )
    messages = [
        Message(Role.ASSISTANT, "", "", (ToolCall("f", "{}", "c0"),)),
        Message(Role.TOOL, "8", tool_call_id="c0"),
    ]
    assert "8" in ChatTemplate(source).render(messages, tools=[{"type": "function", "function": {"name": "f"}}])


def test_a_template_that_omits_and_refuses_reports_the_refusal() -> None:
    strict = WITHOUT_SYSTEM + "{% if messages|length > 3 %}{{ raise_exception('Too long.') }}{% endif %}"
    with pytest.raises(TemplateError, match=r"refuses this conversation: Too long\."):
        render(strict, [*TALK, TALK[2], TALK[3]])


@pytest.mark.parametrize(
    ("source", "lost"),
    [
        ("vicuna", True),
        ("{% for m in messages %}{{ m.role }}{% endfor %}", True),
        ("{{ messages[0].text }}{{ 1 / 0 if messages[0].content is string }}", True),
        ("{{ messages[0].content|upper|tojson }}", False),
        ("{{ raise_exception('no') }}", False),
        ("{{ 1 / 0 }}", False),
        (None, False),
    ],
)
def test_a_template_that_omits_the_prompt_is_recognized(source: str | None, lost: bool) -> None:
    assert ChatTemplate(source).leaves_out is lost


def test_a_renewed_budget_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    template = ChatTemplate(None)
    monkeypatch.setattr(sandbox, "MAX_MADE", 500)
    for _ in range(5):
        template.renew_budget()
        template.render(TALK)


# Errors of templates


def test_error_texts_of_a_file_are_one_printable_line() -> None:
    assert one_line("a\x1b]0;t\x07\nb\u202e..") == "a ]0;t b"
    assert len(one_line("x" * 10**6)) <= 303


def test_an_error_of_a_template_is_printable() -> None:
    error = failure("{{ x|upper() }}{{ raise_exception('\x1b[2J' ~ 'a' * 5000) }}")
    assert error.message.startswith("The model's chat template refuses this conversation: [2Ja")
    assert error.message.isprintable()
    assert error.hint
    assert len(error.message) < 400
