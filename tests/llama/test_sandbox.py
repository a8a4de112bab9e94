"""A hostile chat template is stopped in time and before memory is full."""

import re
import sys
import threading
import time
from contextlib import suppress

import pytest

from app.core.errors import TemplateError
from app.llama import sandbox, sandbox_sizes
from tests.llama.test_template import failure, render


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__ }}",
        "{{ ''['__class__'] }}",
        "{{ ''|attr('__class__') }}",
        "{{ messages.__init__.__globals__ }}",
        "{{ raise_exception.__globals__ }}",
        "{{ strftime_now.__globals__['json'] }}",
        "{{ '{0.__class__}'.format('') }}",
        "{{ '{0[role]}'.format(messages[0]) }}",
        "{{ ['']|map(attribute='__class__')|list }}",
        "{{ cycler.__init__.__globals__ }}",
        "{{ self.__init__ }}",
        "{{ namespace._Namespace__attrs }}",
    ],
)
def test_python_is_out_of_reach(source: str) -> None:
    try:
        text = render(source)
    except TemplateError:
        return
    # An unsafe attribute is undefined, and undefined prints as nothing.
    assert text in ("", "[Undefined]")


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.append(1) }}",
        "{{ messages.clear() }}",
        "{{ messages.pop() }}",
        "{{ messages[0].update(role='user') }}",
        "{{ messages[0].setdefault('x', 1) }}",
    ],
)
def test_the_conversation_cannot_be_changed(source: str) -> None:
    failure(source)


@pytest.mark.parametrize(
    "source",
    [
        "{% for m in messages %}",
        "{% endfor %}",
        "{{ 1 +",
        "{% unknown %}",
        "{{ x|no_such_filter }}",
        "{{ x is no_such_test }}",
        "{% include 'other' %}",
        "{% import 'other' as o %}",
        "{% extends 'other' %}",
        "{{ " + "(" * 20_000 + " }}",
        "{{ 1" + "+1" * 20_000 + " }}",
        "{{ x" + ".x" * 20_000 + " }}",
        "{% if 1 %}" * 3_000 + "{% endif %}" * 3_000,
        "{% for a in b %}" * 60 + "{% endfor %}" * 60,
        "{# " + "x" * sandbox.MAX_SOURCE + " #}",
    ],
)
def test_what_cannot_be_compiled_is_an_error(source: str) -> None:
    failure(source)


@pytest.mark.parametrize(
    "source",
    [
        "{{ missing() }}",
        "{{ missing.deeper }}",
        "{{ 1 / 0 }}",
        "{{ 'a' + 1 }}",
        "{{ messages['x'].y }}",
        "{{ messages[10].role }}",
        "{{ 1.0 ** 'a' }}",
        "{{ [1]|tojson(2, 3, 4, 5, 6) }}",
        "{{ namespace|tojson }}",
        "{{ raise_exception(1, 2) }}",
        "{{ strftime_now('\ud800') }}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% for a in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{% set ns = namespace(l=[]) %}{% for i in range(100) %}{% set ns.l = [ns.l] %}{% endfor %}",
    ],
)
def test_a_failure_during_rendering_is_an_error(source: str) -> None:
    error = failure(source)
    assert error.message.startswith("The model's chat template fails: ")
    assert error.message.endswith(".")
    assert not error.message.endswith("..")
    assert error.hint


LOOP = "{% for a in range(100000) %}{% for b in range(100000) %}{% for c in range(100000) %}"
ENDS = "{% endfor %}{% endfor %}{% endfor %}"


@pytest.mark.parametrize(
    "source",
    [
        LOOP + ENDS,
        LOOP + "{% continue %}" + ENDS,
        (
            "{% macro m() %}{{ caller() }}{% endmacro %}"
            "{% for a in range(99999) %}{% for b in range(9999) %}{% call m() %}x{% endcall %}{% endfor %}{% endfor %}"
        ),
        "{{ range(99999)|select('in', range(99999)|list)|list }}",
        "{% for a in range(99999) %}{% if range(99999)|select('in', [-1])|list %}{% endif %}{% endfor %}",
    ],
)
def test_endless_work_ends_at_the_time_limit(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "MAX_SECONDS", 0.2)
    assert "it takes longer than" in failure(source).message


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell the CPU time of another thread")
def test_waiting_for_the_cpu_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "MAX_SECONDS", 0.05)
    box = sandbox.Sandbox()
    for _ in range(3):
        box.within_time(lambda: threading.Event().wait(0.06))


def test_all_renderings_share_the_time_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def use_2_ms() -> None:
        end = time.thread_time() + 0.002
        while time.thread_time() < end:
            pass

    monkeypatch.setattr(sandbox, "MAX_SECONDS", 0.1)
    box = sandbox.Sandbox()
    with suppress(sandbox.BudgetError):
        for _ in range(55):
            box.within_time(use_2_ms)
    with pytest.raises(sandbox.BudgetError):
        box.within_time(use_2_ms)


def test_a_thread_that_starts_late_has_a_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = sandbox._thread_clock
    monkeypatch.setattr(sandbox, "_thread_clock", lambda: (threading.Event().wait(0.01), clock())[1])
    assert sandbox.Sandbox().within_time(lambda: 1) == 1


def test_the_time_limit_raises_no_late_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    for seconds in (0.0, 0.0005, 0.001, 0.002):
        monkeypatch.setattr(sandbox, "MAX_SECONDS", seconds)
        for _ in range(20):
            with suppress(TemplateError):
                render("{% for a in range(1000) %}{% endfor %}")
    # A late exception would be raised in this block.
    sum(range(3_000_000))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{{ ('f' * 4000)|int(base=16) // 3 }}", "a number becomes too large"),
        ("{{ ('a' * 10 ** 6).rfind('a' * 1000 ~ 'b' ~ 'a' * 1000) }}", "a search takes too long"),
        ("{{ ('a' * 10 ** 6).rsplit('a' * 1001) }}", "a search takes too long"),
        ("{{ ('ab' * 10 ** 6)|trim('c' * 1000) }}", "a search takes too long"),
        ("{{ ('ab' * 10 ** 6).lstrip('c' * 1000) }}", "a search takes too long"),
        ("{{ " + "==".join("1" * 200) + " }}", "it compares too much at once"),
        ("{{ strftime_now('%9999999d' * 99) }}", "a layout of a date is too long"),
    ],
)
def test_one_operation_that_would_take_long_is_refused(source: str, said: str) -> None:
    assert said in failure(source).message


CHAIN = "{% set ns = namespace(p=0) %}{% for i in range(99) %}{% set ns.p = KEPT %}{% endfor %}"


@pytest.mark.parametrize(
    "source",
    [
        CHAIN.replace("KEPT", "namespace(p=ns.p, s='a' * 9999)"),
        CHAIN.replace("KEPT", "cycler(ns.p, 'a' * 9999)"),
        "{% set s = 'a' * 9999 %}" + "".join(f"{{% set s{i} = s[1:] %}}" for i in range(99)),
    ],
)
def test_what_is_kept_piece_by_piece_is_counted_together(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "MAX_MADE", 500_000)
    assert "its values together become too large" in failure(source).message


DOUBLING = "{% set ns = namespace(s='aaaaaaaa', l=[1]) %}{% for i in range(60) %}BODY{% endfor %}"


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'a' * 10 ** 9 }}",
        "{{ [1] * 10 ** 9 }}",
        "{{ ['a' * 10 ** 6] * 10 ** 5 }}",
        "{{ 2 ** 1000000000 }}",
        "{{ 10.0 ** 1000000000 }}",
        "{% set ns = namespace(x=99 ** 64) %}{% for i in range(9) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
        "{{ ('\n' * 10 ** 6)|indent(9999) }}",
        "{{ ('\n' * 10 ** 6)|indent('a' * 1000) }}",
        "{{ ('a' * 10 ** 6)|replace('a', 'b' * 10 ** 6) }}",
        "{{ ('a' * 10 ** 6)|replace('', 'b' * 10 ** 6) }}",
        "{{ range(100000)|join('b' * 10 ** 6) }}",
        "{{ ([namespace(s='a' * 10 ** 6)] * 1000)|join('', 's') }}",
        "{{ range(10 ** 9)|list }}",
        "{{ 1.5|round(10 ** 9, 'ceil') }}",
        "{{ [1]|tojson(indent=10 ** 9) }}",
        "{{ ([1] * 10 ** 5)|tojson(indent=9999) }}",
        "{{ lipsum(n=10 ** 9) }}",
        "{% for a in range(100) %}{{ 'a' * 10 ** 6 }}{% endfor %}",
        "{% macro m() %}{{ 'a' * 5 * 10 ** 6 }}{% endmacro %}{{ m() ~ m() }}",
    ],
)
def test_a_huge_result_is_refused_before_it_fills_the_memory(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Other programs may use the processor meanwhile.
    monkeypatch.setattr(sandbox, "MAX_SECONDS", 60.0)
    # Refused by name; a MemoryError would also give a sentence, but too late.
    refusals = "becomes too large|is too large|too deeply|Range too big|undefined"
    assert re.search(refusals, failure(source).message)


@pytest.mark.parametrize(
    ("body", "end"),
    [
        ("{% set ns.s = ns.s ~ ns.s %}", ""),
        ("{% set ns.s = ns.s + ns.s %}", ""),
        ("{% set ns.l = ns.l + ns.l %}", ""),
        ("{% set ns.l = [ns.l, ns.l] %}", "{{ ns.l }}"),
        ("{% set ns.l = (ns.l, ns.l) %}", "{{ ns.l }}"),
        ("{% set ns.l = {'a': ns.l, 'b': ns.l} %}", "{{ ns.l|tojson }}"),
        ("{% set ns.l = dict(a=ns.l, b=ns.l) %}", "{{ ns.l|tojson }}"),
        ("{% set ns.s %}{{ ns.s }}{{ ns.s }}{% endset %}", ""),
        ("{% set ns.s = '{0}{0}'.format(ns.s) %}", ""),
        ("{% set ns.s = [ns.s, ns.s]|join %}", ""),
        ("{% set ns.s = ns.s.join(['', '', '']) %}", ""),
        ("{% set ns.s = ns.s|replace('a', 'aa') %}", ""),
        ("{% set ns.s = ns.s.replace('a', 'aa') %}", ""),
    ],
)
def test_an_exponential_expression_is_refused_before_it_fills_the_memory(
    body: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (sandbox, sandbox_sizes):
        monkeypatch.setattr(module, "MAX_CHARACTERS", 100_000)
    assert "a value becomes too large" in failure(DOUBLING.replace("BODY", body) + end).message


@pytest.mark.parametrize(
    "source",
    [
        "{{ '%1000000000d' % 1 }}",
        "{{ '%1000000000d'|format(1) }}",
        "{{ '{:1000000000}'.format(1) }}",
        "{{ '{:{}}'.format(1, 10 ** 9) }}",
        "{{ '{x:1000000000}'.format_map({'x': 1}) }}",
        "{{ 'a'|center(10 ** 9) }}",
        "{{ 'a'.center(10 ** 9) }}",
        "{{ 'a'.zfill(10 ** 9) }}",
        "{{ '\t'.expandtabs(10 ** 9) }}",
        "{{ 'a'.translate({97: 'b' * 10 ** 6}) }}",
        "{{ 1 .to_bytes(10 ** 9, 'big') }}",
        "{{ 'a'|wordwrap(1) }}",
    ],
)
def test_what_no_chat_template_uses_is_not_there(source: str) -> None:
    assert re.search("cannot be formatted|not a simple one|is unsafe|is not allowed|undefined", failure(source).message)


def test_cyclic_namespaces_are_printed_as_a_placeholder() -> None:
    source = (
        "{% set ns = namespace(x=none) %}{% for i in range(60) %}{% set n = namespace(a=ns.x, b=ns.x) %}"
        "{% set ns.x = n %}{% endfor %}{{ ns.x }}"
    )
    assert render(source) == "<namespace>"


def test_a_list_that_a_template_wrote_may_grow() -> None:
    assert (
        render("{% set ns = namespace(ids=[]) %}{% set _ = ns.ids.append('a') %}{{ ns.ids.pop(0) }}{{ ns.ids }}")
        == "a[]"
    )


@pytest.mark.parametrize("use", ["{{ y }}", "{{ y ~ '' }}", "{{ y | tojson }}", "{{ y == y[1:] }}"])
def test_a_list_in_many_places_cannot_grow_without_bound(use: str) -> None:
    growing = "{% for n in range(1000) %}{% set _ = x.append('a' * 1000) %}{% endfor %}"
    assert "too large" in str(failure(f"{{% set x = [] %}}{{% set y = [x] * 400000 %}}{growing}{use}"))


@pytest.mark.parametrize("use", ["{{ x }}", "{{ x == [x] }}"])
def test_a_list_in_itself_is_refused(use: str) -> None:
    assert "too deeply" in str(failure(f"{{% set x = [] %}}{{% set _ = x.append(x) %}}{use}"))
