"""`tandem tune --placement` with a fake measurement."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from app.cli import main, tune_placement
from app.cli.doctor_checks import check_pair
from app.cli.options import read_pair
from app.cli.setting_flags import flags_of
from app.core.child import ChildError, ask
from app.core.errors import Interrupted, ModelLoadError
from app.core.paths import memory_dir
from app.engine.auto.cost_profile import CostProfile
from app.hardware.devices import Device
from app.llama import library, stored_measurements
from app.llama.fitting import fit_pair
from app.llama.fitting.machine_room import memory_rooms
from app.llama.fitting.tuned_placement import in_fixes
from app.llama.params import PairParams
from app.worker import loading
from app.worker.loading import measured_params
from tests.cli.doctor_facts import CPU, FACTS
from tests.llama.params import pair_params

pytestmark = [pytest.mark.native, pytest.mark.usefixtures("folders")]
MB = 1_000_000
CARD = Device("CUDA0", "gpu", "CUDA", 1050 * MB, "A card", 2000 * MB)
"""A GPU with room for some of the demo's layers."""
LARGE = replace(CARD, free_bytes=2000 * MB)
Measured = tuple[CostProfile, bool]
Speed = Callable[[PairParams], Measured]
Tune = Callable[..., tuple[int, str, str]]


def fast_from(threshold: int) -> Speed:
    """Batches cost a third from this op offload threshold; other placements are equal."""

    def measure(params: PairParams) -> Measured:
        rows = {1: 10e6, 2: 20e6, 4: 40e6, 8: 80e6, 64: 640e6}
        if params.settings["model.offload_min_batch"] == threshold:
            rows = {size: ns if size < threshold else ns / 5 for size, ns in rows.items()}
        return CostProfile(rows, draft_ns=1e6), True

    return measure


@pytest.fixture
def tune(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Tune:
    """Run the command on a machine with a GPU; `speed` measures."""
    monkeypatch.setattr(fit_pair, "measured_needs", lambda _, pair: pair)

    def run(speed: Speed, *flags: str, card: Device = CARD) -> tuple[int, str, str]:
        rooms = memory_rooms((card, CPU))
        for module in (fit_pair, loading, tune_placement):
            monkeypatch.setattr(module, "memory_rooms", lambda: rooms)
        monkeypatch.setattr(tune_placement, "ask", lambda function, params, *_, **__: speed(params))
        code = main(["tune", "--placement", *flags])
        return code, *capsys.readouterr()

    return run


def test_the_fastest_placement_is_kept_and_used(tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    code, out, _ = tune(fast_from(8))

    assert code == 0
    table = out.split("\n\n")[0].splitlines()
    assert table[0].split()[:7] == ["placement", "1", "4", "8", "16", "32", "draft"]
    assert len(table) > 5
    assert "Not measured: automatic; it needs " in out
    assert out.splitlines()[-1].startswith("Kept for this pair: ")
    assert out.splitlines()[-1].endswith(" --offload-min-batch 8.")

    # The chosen placement differs from the automatic placement of the next comparison.
    assert tune(fast_from(8))[1] == out

    monkeypatch.setattr(library, "use_offload", lambda n: n)
    params = measured_params(read_pair({}))
    assert params.settings["model.offload_min_batch"] == 8
    assert [notice for notice in params.notices if "Placement" in notice] == [
        f"Placement by ⟨tune⟩: {in_fixes(params.tuned)}."
    ]
    report = check_pair({}, replace(FACTS, devices=(CARD, CPU)))
    (line,) = [check.text for check in report.sections["the pair"] if check.label == "placement"]
    assert line == f"{' '.join(flags_of(params.tuned))}, by tandem tune"
    assert measured_params(read_pair({"gpu_layers": 3, "draft_device": ("cpu",)})).tuned == {}

    monkeypatch.setattr(library, "use_offload", lambda n: 16)
    params = measured_params(read_pair({}))
    assert params.settings["model.offload_min_batch"] == 16
    assert "The op offload threshold stays at 16; restart Tandem to use 8." in params.notices


def test_placements_that_fail_are_rows_with_a_reason(tune: Tune) -> None:
    def measure(params: PairParams) -> Measured:
        if params.kv_type == "q8_0":
            raise ModelLoadError("llama.cpp says no.")
        if params.draft_model.on_cpu:
            raise ChildError("crashed (SIGABRT)", crashed=True)
        return fast_from(0)(params)

    code, out, _ = tune(measure, "--json", card=LARGE)

    assert code == 0
    found = json.loads(out)
    assert tuple(found) == ("acceptance", "placements", "best")
    assert found["acceptance"] is None
    problems = {row["name"]: row["problem"] for row in found["placements"]}
    assert "llama.cpp says no." in problems.values()
    assert "the process that loaded it crashed (SIGABRT)" in problems.values()
    assert found["best"] == next(name for name, problem in problems.items() if not problem)


@pytest.mark.parametrize(("gain", "kept"), [(1.01, "automatic."), (1.5, "--kv-type q8_0, 1.5×")])
def test_a_gain_that_may_be_noise_changes_nothing(tune: Tune, gain: float, kept: str) -> None:
    def measure(params: PairParams) -> Measured:
        return CostProfile({1: 10e6 / (gain if params.kv_type == "q8_0" else 1), 64: 640e6}, draft_ns=1e6), True

    assert tune(measure, card=LARGE)[1].splitlines()[-1].startswith(f"Kept for this pair: {kept}")


def test_without_any_placement_the_command_fails(tune: Tune) -> None:
    def fail(params: PairParams) -> Measured:
        raise ModelLoadError("No.")

    code, out, _ = tune(fail)

    assert code == 1
    assert out.splitlines()[-1] == "No placement could be measured."
    assert not (memory_dir() / "placements").exists()


def test_ctrl_c_keeps_what_is_done(tune: Tune) -> None:
    done: list[PairParams] = []

    def measure(params: PairParams) -> Measured:
        if len(done) == 1:
            raise Interrupted
        done.append(params)
        return fast_from(0)(params)

    code, out, _ = tune(measure, card=LARGE)

    assert code == 130
    assert out.splitlines()[-1] == "Kept for this pair: automatic."


def test_without_a_gpu_nothing_is_placed(tune: Tune) -> None:
    assert tune(fast_from(8), "--device", "cpu")[:2] == (0, f"{tune_placement._NO_GPU}\n")
    assert tune(fast_from(8), card=CPU)[:2] == (0, f"{tune_placement._NO_GPU}\n")


def test_several_drafts_are_refused(tune: Tune) -> None:
    code, _, error = tune(fast_from(8), "-m", "a.gguf", "-md", "b.gguf", "-md", "c.gguf")

    assert code == 2
    assert "--placement measures one pair." in error


def test_a_placement_is_measured_in_a_process_of_its_own(demo_target: Path, demo_draft: Path, tmp_path: Path) -> None:
    params = pair_params(
        demo_target, demo_draft, n_threads=1, n_ctx=256, settings={"model.offload_min_batch": 8}, memory_dir=tmp_path
    )
    profile, drafts = ask(tune_placement._MEASURE_FUNCTION, params, 200_000_000, 1)

    assert drafts
    assert profile.batch_ns[1] > 0
    assert tmp_path / f"{stored_measurements.pair_identity(params)}.json" in tmp_path.iterdir()
