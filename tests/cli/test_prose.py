"""What fits a terminal: help pages, sentences, tables and charts."""

from __future__ import annotations

import io
import os

import pytest

from app.cli import main
from app.cli.output import StatusLine, broken, columns_of, for_reading
from app.cli.tune_charts import Drafters, cost_lines
from app.engine.auto.curve import CostModel, CostProfile

SENTENCE = "The draft was trained for 4,096 tokens of context, the target for 32,768."


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")


def test_a_terminal_gets_lines_that_are_broken_between_words() -> None:
    assert for_reading(SENTENCE, Screen(), 8) == (
        "The draft was trained for 4,096 tokens\n        of context, the target for\n        32,768."
    )
    assert for_reading(f"  {SENTENCE}", Screen()).split("\n")[1].startswith("  of")
    assert for_reading(SENTENCE, io.StringIO(), 8) == SENTENCE, "a pipe gets them whole"


def test_what_cannot_be_broken_stays_behind_its_label() -> None:
    path = "draft   " + "x" * 60
    assert broken(path, 40, 8) == [path]


def test_a_command_stays_whole() -> None:
    command = 'tandem setup --target "owner/big-GGUF:Q4_K_M" --draft owner/small-GGUF'
    assert broken(f"Set one up: {command}", 40, 0) == ["Set one up:", command]


def test_what_stays_below_a_status_line_fits() -> None:
    screen = Screen()
    StatusLine(screen).say(f"note    {SENTENCE}", 8)
    assert screen.getvalue().splitlines()[1].startswith("        tokens")


class Narrow(Screen):
    """A terminal of 40 columns, told by itself alone."""

    def fileno(self) -> int:
        return 1_000


@pytest.fixture
def wider_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output goes elsewhere."""

    def size(file: int) -> os.terminal_size:
        if file != Narrow().fileno():
            raise OSError(25, "Inappropriate ioctl for device")
        return os.terminal_size((40, 24))

    monkeypatch.delenv("COLUMNS")
    monkeypatch.setattr("os.get_terminal_size", size)


@pytest.mark.usefixtures("wider_output")
def test_lines_fit_the_terminal_that_they_go_to_while_the_output_goes_elsewhere() -> None:
    screen = Narrow()
    status = StatusLine(screen)
    status.show(SENTENCE)
    assert screen.getvalue().endswith(SENTENCE[:39]), "what wraps cannot be taken back"
    assert columns_of(screen) == 40
    assert columns_of(Screen()) == 80, "a terminal that does not tell"


@pytest.mark.parametrize(("columns", "told"), [("60", 60), ("0", 40), ("wide", 40)])
@pytest.mark.usefixtures("wider_output")
def test_a_number_of_columns_may_be_given(monkeypatch: pytest.MonkeyPatch, columns: str, told: int) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    assert columns_of(Narrow()) == told


def test_an_error_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr("sys.stderr", screen)
    assert main(["run", "--file", "a", "--tmp", "3", "Why is the sky blue, and the grass green?"]) == 2

    first, *others = screen.getvalue().splitlines()
    assert first == "tandem: No such option '--tmp'. (Did you"
    assert others
    assert all(line.startswith(" " * 8) and len(line) <= 40 for line in others)


def test_the_staircase_fits_eighty_columns() -> None:
    costs = CostModel(CostProfile({1: 1e9, 2: 2e9, 64: 99e9}, draft_ns=1e8))
    chart = cost_lines(costs, Drafters(model=True, lookup=True))
    assert max(map(len, chart[:4])) <= 80
