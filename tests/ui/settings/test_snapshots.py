"""Pictures of the settings. Look at every picture before accepting it: pytest tests/ui --snapshot-update"""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.pilot import Pilot

from app.settings.file import SettingsFile
from app.settings.live import LiveSettings
from app.ui.app import TandemApp
from app.ui.models.state import Tuning
from tests.ui.chat_driver import Chat
from tests.ui.fakes import FakeEngine, no_loader
from tests.ui.models.fake_pairs import FakePairs
from tests.ui.pictures import SnapCompare

pytestmark = pytest.mark.usefixtures("own_loop")

FILE = 'preset = "coder"\n[draft]\nmode = "fixed"\nn_max = 12\n[sampling]\ntop_k = 20\n[model]\nctx = 4096\n'


@pytest.mark.parametrize(
    ("size", "theme", "keys"),
    [
        ((60, 20), "tandem-dark", ["tab", *["down"] * 3]),
        ((80, 24), "tandem-light", [*"n_min", "enter", "9"]),
        ((120, 40), "tandem-dark", ["down", "down", "down"]),
        ((200, 60), "tandem-light", []),
    ],
    ids=["60x20", "80x24", "120x40", "200x60"],
)
def test_settings(
    snap_compare: SnapCompare, tmp_path: Path, size: tuple[int, int], theme: str, keys: list[str]
) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(f'{FILE}[appearance]\ntheme = "{theme}"\n')
    live = LiveSettings(SettingsFile(file), flags={"sampling.temp": 0.3}, pair={"sampling.min_p": 0.1})
    engines: list[FakeEngine] = []

    def factory(emit):  # type: ignore[no-untyped-def]
        engines.append(FakeEngine(emit))
        return engines[0]

    def reopen():  # type: ignore[no-untyped-def]
        raise AssertionError("nothing is loaded again here")

    app = TandemApp(factory, no_loader, "A pair", Tuning(live, reopen), FakePairs())

    async def run_before(pilot: Pilot[None]) -> None:
        chat = Chat(pilot, app.screen_stack[0], engines[0])  # type: ignore[arg-type]
        await chat.until(lambda: engines[0].loads)
        await chat.load()
        await pilot.press("f4")
        await pilot.pause()
        await pilot.press(*keys)
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=run_before)
