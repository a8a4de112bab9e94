"""Draft layers that share tensors with their target are on its devices, whatever the settings name."""

from pathlib import Path

import pytest

from app.cli.options import read_pair
from app.hardware.devices import Device
from app.hardware.rpc import RpcServer
from app.llama.draft_slot import beside_target
from app.llama.fitting import fit_pair
from app.llama.fitting.machine_room import memory_rooms
from app.worker import loading
from tests.llama.tiny_heads import write_dflash, write_target

pytestmark = [pytest.mark.native, pytest.mark.usefixtures("folders")]
GB = 1_000_000_000
GPUS = tuple(Device(f"CUDA{i}", "gpu", "CUDA", 24 * GB, "A card", 24 * GB) for i in range(2))


@pytest.mark.parametrize(
    ("flags", "noticed"),
    [
        ({}, False),
        ({"draft_device": ("cpu",)}, True),
        ({"draft_gpu_layers": 0}, True),
        ({"device": ("CUDA1",), "draft_device": ("cuda1",)}, False),
        ({"device": ("CUDA1",)}, False),
        ({"device": ("cpu",), "draft_device": ("cpu",)}, False),
    ],
)
def test_layers_that_share_tensors_get_the_devices_of_their_target(
    tmp_path: Path, flags: dict[str, object], noticed: bool
) -> None:
    target, draft = write_target(tmp_path / "target.gguf"), write_dflash(tmp_path / "draft.gguf")
    loader = read_pair({"target": str(target), "draft": str(draft), **flags})
    asked = loading.asked_here(loader, lambda: memory_rooms(GPUS), use_tuned=False)
    remote = loading.asked_here(loader, lambda: memory_rooms(GPUS), (RpcServer("host:1", (GB,)),), use_tuned=False)

    found, far = (fit_pair.fitting_of(one, memory_rooms(GPUS), certain=9.0).params for one in (asked, remote))
    assert found.draft_model.devices == found.model.devices
    assert far.draft_model.devices == far.model.devices
    notices: list[str] = []
    assert beside_target(found, "draft.gguf", notices).draft_model == found.draft_model
    told = ["draft.gguf shares tensors with its target, so it runs on the target's devices."]
    assert notices == (told if noticed else [])
