"""Run `tandem setup` in a real terminal: proposals, a question, a stopped download that resumes."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.terminal import MARKS, Terminal
from tests.models.hub.client import point_at
from tests.models.hub.faults import Stall
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import DRAFT, TARGET, tiny

pytestmark = MARKS


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    """Serve a loopback hub for the program in the terminal, with private folders."""
    with LoopbackHub() as running:
        point_at(running.endpoint, tmp_path / "hf", monkeypatch)
        for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
            monkeypatch.setenv(name, str(tmp_path / name.lower()))
        running.add(TARGET, {"big-Q4_K_M.gguf": tiny(tmp_path, "t.gguf") + bytes(3 << 20)})
        running.add(DRAFT, {"small-Q8_0.gguf": tiny(tmp_path, "d.gguf")})
        yield running
        running.faults.release()


def test_a_stopped_set_up_continues_where_it_was(hub: LoopbackHub, tmp_path: Path) -> None:
    command = ("setup", "--no-trial", "--name", "mine", "--target", TARGET, "--draft", DRAFT)
    stall = hub.faults.add(
        Stall(after=1 << 20), "big-Q4_K_M.gguf", origin="cdn", when=lambda r: "range" not in r.headers
    )
    terminal = Terminal(tmp_path, *command)
    terminal.until(lambda screen: "Download? [Y/n]" in screen)
    terminal.press("Enter", until=lambda screen: stall.reached.is_set() and "target 1 MB of" in screen)
    # The connection is still silent: a stop does not wait for it.
    terminal.press("C-c", until=lambda screen: "Downloads are kept" in screen)
    assert terminal.exit_code() == 130
    stall.release()
    terminal.close()

    (tmp_path / "again").mkdir()
    again = Terminal(tmp_path / "again", *command)
    again.until(lambda screen: "Download? [Y/n]" in screen)
    again.press("Enter", until=lambda screen: "mine is set up." in screen)
    assert again.exit_code() == 0
    again.close()
    assert hub.asked("big-Q4_K_M.gguf", origin="cdn")[-1].headers["range"] == f"bytes={1 << 20}-"


def test_without_a_pair_the_best_ones_are_proposed_and_none_is_forced(hub: LoopbackHub, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path, "setup")
    terminal.until(lambda screen: "Which one?" in screen)
    printed = terminal.printed
    assert "This machine:" in printed
    # On a slow machine, the pairs fit but are slow.
    assert "fits:" in printed or "slow:" in printed
    terminal.press("q", "Enter", until=lambda screen: "Nothing was set up." in screen)
    assert terminal.exit_code() == 0
    terminal.close()


@pytest.mark.usefixtures("demo_draft")
def test_one_key_opens_a_local_model_on_a_new_machine(hub: LoopbackHub, tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    screen = terminal.until(lambda screen: "nothing is downloaded" in screen)
    assert "demo" in screen.lower()
    # A hasty second key press does nothing that cannot be undone.
    screen = terminal.press("Enter", "Enter", until=lambda screen: " ready " in screen)
    assert "SmolLM2-135M-Instruct Q4_1 + Q2_K" in screen
    assert terminal.exit_code("C-q") == 0
    terminal.close()
    assert not hub.asked("*", origin="cdn")
