"""A running hub for tests, with the client pointed at it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import close_session

from tests.hanging import HANGS_S
from tests.llama.gguf_files import I32, STRING, Array
from tests.models.hub.client import point_at
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import DRAFT, TARGET, tiny
from tests.models.hub.pairs_setting import DEMO, HUGE, MINE, TARGET_SIZE, Setting


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackHub]:
    """A running hub; `huggingface_hub` uses it without a token, with its cache in `tmp_path`."""
    with LoopbackHub() as running:
        point_at(running.endpoint, tmp_path / "hf", monkeypatch)
        yield running
        running.faults.release()
        close_session()
    assert running.errors == [], "the loopback hub itself failed"


@pytest.fixture
def setting(hub: LoopbackHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setting]:
    """Three pairs, one of them on the hub, before any refresh."""
    target = tiny(tmp_path / "made", "target.gguf", general__name="Big")
    draft = tiny(tmp_path / "made", "draft.gguf", general__name="Small")
    hub.add(TARGET, {"big-Q4_K_M.gguf": target.ljust(TARGET_SIZE, b"\0")}, license="mit")
    hub.add(DRAFT, {"small-Q8_0.gguf": draft})
    made = Setting(tmp_path, monkeypatch, HUGE, DEMO, MINE)
    made.service.state()
    yield made
    hub.faults.release()
    assert made.service.close(HANGS_S)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings and data of this test only, on a machine with a known memory bandwidth."""
    for name in ("app.worker.known_pairs.pairs_file", "app.core.paths.pairs_file"):
        monkeypatch.setattr(name, lambda: tmp_path / "data" / "pairs.toml")
    monkeypatch.setattr("app.worker.known_pairs.config_dir", lambda: tmp_path / "config")
    monkeypatch.setattr("app.worker.known_pairs.settings_file", lambda: tmp_path / "settings.toml")
    monkeypatch.setattr("app.worker.loading.memory_dir", lambda: tmp_path / "memory")
    # A measurement is a child process, and counts only while no other program is busy.
    monkeypatch.setattr("app.llama.fitting.machine_room.bandwidth", lambda *_, **__: 20e9)
    return tmp_path


@pytest.fixture
def pair(hub: LoopbackHub, tmp_path: Path) -> LoopbackHub:
    """A matched pair of tiny models, and a model that does not match."""
    target = tiny(tmp_path / "made", "target.gguf", general__name="Big")
    hub.add(TARGET, {"big-Q4_K_M.gguf": target, "big-Q8_0.gguf": target + b"\0" * 64}, license="mit")
    hub.add(DRAFT, {"small-Q8_0.gguf": tiny(tmp_path / "made", "draft.gguf", general__name="Small")})
    other = tiny(
        tmp_path / "made",
        "other.gguf",
        general__name="Other",
        tokenizer__ggml__tokens=Array(STRING, ["x", "y", "z"]),
        tokenizer__ggml__token_type=Array(I32, [1, 1, 1]),
    )
    hub.add("owner/other-GGUF", {"other-Q8_0.gguf": other})
    return hub
