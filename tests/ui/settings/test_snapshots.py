"""Pictures of the settings. Look at every picture before accepting it: pytest tests/ui --snapshot-update"""

from pathlib import Path

import pytest

from app.settings.file import SettingsFile
from app.settings.live import LiveSettings
from tests.ui.driver import Chat
from tests.ui.pictures import SnapCompare, chat_picture

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

    async def scene(chat: Chat) -> None:
        await chat.press("f4", *keys)

    assert chat_picture(snap_compare, scene, size, theme, live=live)
