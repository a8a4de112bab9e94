"""What the terminal can do, told by its environment, and what `tandem doctor` says of a poor one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.hardware.checks import screen, worst
from app.hardware.terminal import Terminal, terminal
from tests.cli.doctor_facts import FACTS, GOOD


def seen(encoding: str = "utf-8", system: str = "linux", **env: str) -> Terminal:
    return terminal(env, live=True, size=(100, 30), encoding=encoding, system=system)


@pytest.mark.parametrize(
    ("env", "colors"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, 1 << 24),
        ({"TERM": "xterm-256color"}, 256),
        ({"TERM": "xterm-direct"}, 1 << 24),
        ({"TERM": "xterm"}, 16),
        ({"TERM": "dumb"}, 0),
        ({}, 0),
        ({"WT_SESSION": "x"}, 1 << 24),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor", "NO_COLOR": "1"}, 0),
        ({"TERM": "xterm", "NO_COLOR": ""}, 16),
    ],
)
def test_colors_are_told_by_the_environment(env: dict[str, str], colors: int) -> None:
    assert seen(**env).colors == colors


def test_an_old_console_of_windows_has_sixteen_colors() -> None:
    assert seen(system="windows").colors == 16


@pytest.mark.parametrize(
    ("encoding", "term", "expected"),
    [
        ("utf-8", "xterm", True),
        ("UTF8", "xterm", True),
        ("ascii", "xterm", False),
        ("", "xterm", False),
        ("utf-8", "linux", False),
    ],
)
def test_unicode_takes_an_encoding_and_a_terminal_that_have_it(encoding: str, term: str, expected: bool) -> None:
    assert seen(encoding, TERM=term).unicode is expected


def test_terminals_without_a_clipboard_and_those_in_a_multiplexer_are_known() -> None:
    assert seen(TERM="xterm").clipboard
    assert not seen(TERM="linux").clipboard
    mac = {"TERM": "xterm-256color", "TERM_PROGRAM": "Apple_Terminal"}
    assert not seen(system="darwin", SSH_CONNECTION="x", **mac).clipboard
    assert seen(system="darwin", **mac).clipboard, "pbcopy takes it"
    assert seen(system="windows").clipboard
    assert seen(TERM="screen", TMUX="/tmp/x").multiplexer == "tmux"


@pytest.mark.parametrize(("env", "by"), [({}, "by the system or OSC 52"), ({"SSH_CONNECTION": "x"}, "by OSC 52")])
def test_the_far_end_of_a_connection_has_no_clipboard_of_ours(env: dict[str, str], by: str) -> None:
    mac = replace(FACTS, machine=replace(FACTS.machine, system="darwin"))
    section = screen(replace(mac, terminal=seen(system="darwin", TERM="xterm", **env)))

    assert next(found.text for found in section.lines if found.label == "clipboard") == by


def test_a_poor_terminal_is_told_so() -> None:
    poor = Terminal(True, "linux", 40, 10, 16, unicode=False, clipboard=False, multiplexer="")

    section = screen(replace(FACTS, terminal=poor))

    assert [found.label for found in section.lines if found.state == "warning"] == [
        "size",
        "colors",
        "unicode",
        "clipboard",
    ]
    assert all(found.hint for found in section.lines if found.state == "warning")


def test_a_pipe_is_no_poor_terminal() -> None:
    assert worst([screen(replace(FACTS, terminal=replace(GOOD, live=False, columns=0, rows=0)))]) == "ok"
