"""Text functions of the chat, the queue of events and the pace of drawing, without a screen."""

import gc
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest

from app.core.log import guarded_stderr
from app.engine.events import Step
from app.engine.sources import Source
from app.engine.text.segments import Segment
from app.models.model_names import known_as
from app.models.pair_info import ModelInfo
from app.ui.chat import renderer
from app.ui.chat.renderer import collect_young_objects_only
from app.ui.event_queue import EventBatch, EventQueue, IdleCore, delay_after, next_due
from app.ui.sidebar.readouts import Readouts
from app.ui.text import draft_name, draft_text, sparkline, tokens
from app.worker.events import Event, Loaded, LoadProgress, Notice
from tests.fake_engine import DRAFT, PAIR, STATS, TARGET
from tests.ui.driver import open_chat


def model(file: str) -> ModelInfo:
    return ModelInfo(known_as(file, ""), file, "Q8_0", 1, 1)


def test_a_draft_is_called_by_what_differs() -> None:
    assert draft_name(TARGET, DRAFT) == "0.5B"
    assert draft_name(TARGET, replace(TARGET, quantization="Q2_K")) == ""
    assert draft_name(TARGET, model("Other-1B-Q8_0.gguf")) == "Other-1B"


def test_a_draft_with_the_name_of_its_target_is_told_apart() -> None:
    assert draft_text(TARGET, DRAFT) == f"0.5B {DRAFT.quantization}"
    assert draft_text(TARGET, replace(TARGET, quantization="Q2_K")) == "Q2_K"
    twin = replace(TARGET, file=TARGET.file.replace("-Q", ".imatrix-Q"))
    assert draft_text(TARGET, twin) == twin.file
    assert draft_text(TARGET, TARGET) == "the same file"


def test_numbers_are_short() -> None:
    assert [tokens(n) for n in (0, 1023, 1024, 2148, 8192, 32768, 33000)] == [
        "0", "1023", "1k", "2.1k", "8k", "32k", "32k"
    ]  # fmt: skip


def test_a_sparkline_is_measured_against_its_largest_value() -> None:
    assert sparkline([0, 50, 100]) == "▁▅█"
    assert sparkline([]) == sparkline([0.0]) == ""


def step(text: str) -> Step:
    return Step(1, (Segment(text, Source.MODEL),), STATS)


def test_single_events_wake_the_screen_once() -> None:
    woken: list[int] = []
    bridge = EventQueue()
    bridge.connect(lambda: woken.append(1), Mock(), Mock())
    events: list[Event] = [LoadProgress(0.5), Notice("a"), Loaded(PAIR), Notice("b")]
    thread = threading.Thread(target=lambda: deque(map(bridge, events)))
    thread.start()
    thread.join()
    assert len(woken) == 1
    first, *others = bridge.drain()
    assert isinstance(first, EventBatch)
    assert others == events[1:]
    bridge(LoadProgress(0.6))
    assert len(woken) == 1
    bridge(Notice("c"))
    assert len(woken) == 2


def test_an_event_before_the_screen_connects_is_delivered() -> None:
    woken: list[int] = []
    bridge = EventQueue()
    bridge(Notice("early"))
    bridge.connect(lambda: woken.append(1), Mock(), Mock())
    assert woken == [1]
    assert list(bridge.drain()) == [Notice("early")]


def test_steps_are_joined_and_the_order_is_kept() -> None:
    bridge = EventQueue()
    for event in (step("a"), step("b"), Notice("between"), step("c")):
        bridge(event)
    before, notice, after = bridge.drain()
    assert isinstance(before, EventBatch)
    assert [segment.text for segment in before.segments] == ["a", "b"]
    assert notice == Notice("between")
    assert isinstance(after, EventBatch)
    assert [segment.text for segment in after.segments] == ["c"]


def test_the_queue_works_after_the_screen_has_closed() -> None:
    def closed() -> None:
        raise RuntimeError("Event loop is closed")

    bridge = EventQueue()
    bridge.connect(closed, Mock(), Mock())
    bridge(Notice("late"))
    bridge.close()
    bridge(Notice("later"))
    assert list(bridge.drain()) == []


def test_drawing_slows_down_when_it_costs_much(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("FASTEST_S", 0.04), ("SLOWEST_S", 0.1), ("HEAVY_S", 0.5)):
        monkeypatch.setattr(f"app.ui.event_queue.{name}", seconds)
    assert delay_after(0.0007) == 0.04
    assert delay_after(0.0015) == pytest.approx(0.075)
    assert delay_after(0.009) == 0.1
    assert delay_after(0.03) == pytest.approx(0.3)
    assert delay_after(0.09) == 0.5
    assert delay_after(0.005, is_free=True) == 0.04
    assert delay_after(0.05, is_free=True) == pytest.approx(0.2)


@pytest.mark.parametrize(("now", "due"), [(10.0, 10.1), (10.03, 10.1), (10.08, 10.13), (90.0, 90.05)])
def test_a_late_drawing_does_not_slow_the_pace_down(now: float, due: float) -> None:
    assert next_due(10.0, now, 0.1) == pytest.approx(due)


def test_a_core_is_idle_if_all_programs_use_less_than_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    now, used = [100.0], [1000.0]
    monkeypatch.setattr("app.ui.event_queue.time.monotonic", lambda: now[0])
    monkeypatch.setattr("app.hardware.cpu.used_seconds", lambda: used[0])
    monkeypatch.setattr("app.hardware.cpu.usable_cpus", lambda: 2.0)
    core = IdleCore()
    found = []
    for passed, spent in ((0.5, 0.0), (0.5, 0.9), (0.5, 0.5), (60.0, 120.0), (0.5, 0.8)):
        now[0] += passed
        used[0] += spent
        found.append(bool(core))
    # A sample that spans a pause changes nothing.
    assert found == [False, False, True, True, False]


def test_native_output_goes_to_the_log(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "logs" / "tandem.log"
    before = sys.stderr, sys.__stderr__
    with guarded_stderr(log):
        os.write(2, b"noise\n")
        logging.getLogger("tandem.worker").warning("it failed")
        assert sys.__stderr__ is not None
        sys.__stderr__.write("drawn\n")
    os.write(2, b"afterwards\n")
    logging.getLogger("tandem.worker").warning("too late")
    began, noise, *warnings = log.read_text().splitlines()
    assert began.endswith(f" tandem: process {os.getpid()}")
    assert noise == "noise"
    assert [line.partition(" tandem.")[2] for line in warnings] == ["worker: it failed"]
    shown = capfd.readouterr()
    assert "drawn" in shown.out + shown.err
    assert "afterwards" in shown.err
    assert (sys.stderr, sys.__stderr__) == before


def test_a_failure_inside_restores_standard_error(tmp_path: Path) -> None:
    before = os.fstat(2)
    with pytest.raises(KeyError), guarded_stderr(tmp_path / "log"):
        raise KeyError
    assert os.path.samestat(before, os.fstat(2))


def test_numbers_are_redrawn_twice_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.ui.sidebar.readouts.REDRAW_S", 0.5)
    now, told = 10.0, list[float]()
    readouts = Readouts(clock=lambda: now)
    readouts.begin()
    readouts.watch(lambda: told.append(now))
    for _ in range(12):
        readouts.measured(replace(STATS, predicted_n=STATS.predicted_n + 1), None, live=True)
        now += 0.2
    assert told == pytest.approx([10.0, 10.6, 11.2, 11.8])
    readouts.catch_up()
    readouts.catch_up()
    assert told[4:] == pytest.approx([12.4])
    readouts.measured(STATS, None, live=True)
    readouts.measured(STATS, None, live=False)
    assert len(told) == 6


@pytest.mark.parametrize("change", [Readouts.begin, lambda readouts: readouts.do("stopping"), Readouts.unloaded])
def test_a_new_activity_is_shown_at_once(change: Callable[[Readouts], None]) -> None:
    told: list[str | None] = []
    readouts = Readouts(clock=lambda: 1.0)
    readouts.measured(STATS, None, live=True)
    readouts.watch(lambda: told.append(readouts.doing))
    change(readouts)
    readouts.measured(STATS, None, live=True)
    assert len(told) == 2


@pytest.fixture
def collector() -> Iterator[None]:
    """Restore the collector afterwards."""
    before = gc.get_threshold()
    gc.unfreeze()
    yield
    gc.set_threshold(*before)
    gc.freeze()


@pytest.mark.usefixtures("collector")
def test_only_young_objects_are_collected_during_an_answer() -> None:
    young, middle, _ = gc.get_threshold()
    collect_young_objects_only()

    assert gc.get_freeze_count()
    assert gc.get_threshold()[:2] == (young, middle)
    assert gc.get_threshold()[2] > 100_000


async def test_an_answer_ends_with_a_full_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    collected: list[int] = []

    def record(phase: str, info: dict[str, int]) -> None:
        collected.append(info["generation"])

    monkeypatch.setattr(renderer, "COLLECT_DELAY_S", 0.001)
    async with open_chat() as chat:
        await chat.send("go")
        gc.callbacks.append(record)
        try:
            await chat.answer("an answer")
            await chat.until(lambda: 2 in collected)
        finally:
            gc.callbacks.remove(record)
