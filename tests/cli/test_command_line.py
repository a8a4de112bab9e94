"""Parsing, help and usage errors of the command line, invalid parameters, and the keys of its JSON."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from app.cli import main
from app.cli.command_line import parse_args
from app.cli.setting_flags import read_flags
from app.core.errors import UsageError
from app.engine.types import SamplingParams, Threads
from app.llama.params import PairParams
from app.settings.layers import DEFAULTS
from app.settings.model_params import ModelParams
from tests.cli.commands import every_command
from tests.cli.json_keys import JSON_KEYS
from tests.llama.tiny_heads import write_eagle3, write_target
from tests.tandem import Tandem


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["setings"], ["No such command 'setings'. Did you mean 'settings'?", "For help: tandem --help"]),
        (["Why is it blue?"], ["For one answer: tandem run 'Why is it blue?'"]),
        (["my big.gguf"], ["To open a model file: tandem --target 'my big.gguf'"]),
        (["pairs", "lst"], ["No such command 'lst'. Did you mean 'list'?", "For help: tandem pairs --help"]),
        (["export", "--json"], ["No such option '--json'.", "For help: tandem export --help"]),
        (["export", "a", "b"], ["Got unexpected extra argument (b)"]),
        (["export", "--output"], ["Option '--output' requires an argument."]),
        (["export", "--format", "x"], ["'x' is not one of 'markdown', 'json'."]),
        (["import"], ["Missing argument 'FILES...'."]),
        (["settings", "set", "temp"], ["Missing argument 'VALUE'."]),
        (["bench", "--repeat", "x"], ['--repeat is "x"; it must be a whole number of at least 1.']),
        (["bench", "--repeat", "0"], ['--repeat is "0"; it must be a whole number of at least 1.']),
        (["run", "--tmp=3", "hi"], ["No such option '--tmp'.", "--temp"]),
        (["--bogus", "run", "hi"], ["No such option '--bogus'."]),
        (["setup", "--yes=no"], ["Option '--yes' does not take a value."]),
        (["run", "--prompt-file", ""], ['"" is not a file name.']),
        (["bench", "--save", "-"], ['"-" is not a file name.']),
        (["run", "--temp", "hot", "hi"], ['--temp is "hot"; it must be a number between 0 and 100.']),
        (["run", "--pair", "dem", "hi"], ['There is no pair "dem". Did you mean "demo"?']),
        (["pairs", "check", "demo", "--ctx", "9" * 20], ["it must be a whole number between 1 and 1,048,576."]),
        (["serve", "--port", "x"], ['--port is "x"; it must be a whole number between 0 and 65,535.']),
        (["--continue", "run"], ["No such option '--continue'.\n", "an option of tandem without a command."]),
        (["doctor", "demo", "--pair", "demo"], ["Name one pair: by its name, by --pair, or by its files."]),
        (["doctor", "--rpc", "x"], ['--rpc is "x"; it must be a host and a port.']),
        (["doctor", "--no-draft", "--drafting", "auto"], ["--no-draft and --drafting auto exclude each other."]),
        (["run", "--drafting", "auto", "--draft-max", "3", "hi"], ["--draft-n-max needs --drafting fixed, not auto."]),
        (["run", "--draft-max", "3", "--draft-source", "ngram", "hi"], ["--draft-source needs --drafting auto"]),
        (["run", "--target", "", "hi"], ['"" names no model.']),
        (["run", "--pair", "", "hi"], ["--pair is empty."]),
        (["run", "--target", ".", "hi"], [". is a folder, not a model."]),
        (["compare", "hi", "--fixed", "foo"], ['--fixed is "foo"; it must be one or more of n_max, ']),
        (["compare", "hi", "--fixed", "n_max=7", "--draft-n-max", "3"], ["--fixed and --draft-n-max exclude each"]),
        (["compare", "hi", "--fixed", "n_max=63"], ["n_max is 63; it must lie between 0 and 62."]),
        (["compare", "hi", "--fixed", "n_max=2,n_min=3"], ["n_min is 3; it must lie between 0 and n_max (2)."]),
        (["compare", "hi", "--fixed", "p_min=nan"], ["p_min is nan; it must lie between 0 and 1."]),
        (["bench", "--kinds", ""], ['There are no prompts of kind "".']),
        (["pairs", "remove", "demo", "--keep-files", "--all-files"], ["--keep-files and --all-files exclude each"]),
        (["--temp", "0", "tune"], ["No such option '--temp'."]),
        (["--isolate", "compare", "hi"], ["No such option '--isolate'."]),
        (["--pair", "demo", "settings", "set", "temp", "1"], ["No such option '--pair'."]),
        (["settings", "--json", "unset", "temp"], ["No such option '--json'."]),
        (["export", "--all", "--output", "."], [". cannot be written: it is a folder."]),
    ],
    ids=" ".join,
)
def test_wrong_usage_is_an_error_and_a_fix(given: list[str], said: list[str], tandem: Tandem) -> None:
    told = tandem(*given, code=2).err
    assert all(sentence in told for sentence in said), told
    assert len(told.splitlines()) <= 3


def test_without_a_terminal_the_chat_points_to_run(monkeypatch: pytest.MonkeyPatch, tandem: Tandem) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO())
    assert 'For one answer in a pipe: tandem run "Why is the sky blue?"' in tandem(code=2).err


@pytest.mark.parametrize(("words", "prompt"), [(["a", "-"], "a"), (["a", "b"], "a b"), (["-"], "-"), ([], None)])
def test_a_prompt_may_have_several_words_and_name_the_pipe(words: list[str], prompt: str | None) -> None:
    assert parse_args(["run", *words]).given.get("prompt") == prompt


def test_options_before_a_command_belong_to_it() -> None:
    read = parse_args(["--stop", "A", "--temp", "0", "run", "--stop", "B", "--temp", "1", "hi"])
    assert (read.name, read.given) == ("run", {"stop": ("A", "B"), "temp": 1.0, "prompt": "hi"})
    assert parse_args(["--rpc", "a:1", "doctor", "--rpc", "b:2"]).given == {"rpc": ("a:1", "b:2")}
    assert parse_args(["settings", "--json", "show"]).given == {"as_json": True}


@pytest.mark.parametrize(
    ("theirs", "name", "value"),
    [
        (["-m", "big.gguf"], "target", "big.gguf"),
        (["-md", "small.gguf"], "draft", "small.gguf"),
        (["-ngl", "9"], "gpu_layers", 9),
        (["-c", "4096"], "ctx", 4096),
        (["--ctx-size", "4096"], "ctx", 4096),
        (["-n", "30"], "max_tokens", 30),
        (["-n30"], "max_tokens", 30),
        (["--temperature", "0.3"], "temp", 0.3),
        (["-s", "7"], "seed", 7),
        (["-t", "2"], "threads", 2),
        (["-ctk", "q8_0"], "kv_type", "q8_0"),
        (["--draft-max", "7"], "draft_n_max", 7),
    ],
)
def test_flags_of_llama_cpp_are_aliases(theirs: list[str], name: str, value: object) -> None:
    assert parse_args([*theirs, "run", "hi"]).given[name] == value


@pytest.mark.parametrize(("words", "name"), [([], "chat"), (["chat"], "chat"), (["settings"], "settings show")])
def test_a_call_has_only_given_options(words: list[str], name: str) -> None:
    call = parse_args(words)
    assert (call.name, call.given) == (name, {})


def test_the_process_arguments_are_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    # The parent process would fork the tests.
    monkeypatch.setattr("app.cli.crash_guard.guard", lambda _: None, raising=False)
    monkeypatch.setattr("sys.argv", ["tandem", "--tmp", "3"])
    assert main() == 2
    assert "--tmp" in capsys.readouterr().err


@pytest.mark.parametrize("width", [80, 120])
def test_every_help_fits_the_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for words in (["run", "--help-all"], ["bench", "-h"], ["pairs", "check", "--help"], ["--help"]):
        with pytest.raises(SystemExit):
            parse_args(words)
    assert not [line for line in capsys.readouterr().out.splitlines() if len(line) > width]


def test_root_help_lists_commands_and_examples_first(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["--help"])
    said = capsys.readouterr().out

    assert end.value.code == 0
    assert said.index("Commands:") < said.index("Examples:") < said.index("Options:")
    assert "--gpu-layers" in said
    assert "--tools" in said
    assert "--top-k" not in said, "rare options are listed by --help-all"


def test_every_command_has_an_example() -> None:
    assert all("tandem" in command.examples for command in every_command())


@pytest.mark.parametrize("command", ["serve", "compare", "bench"])
def test_only_commands_that_call_tools_have_their_flags(command: str, tandem: Tandem) -> None:
    for flag in ("--tools", "--tool-rounds"):
        assert f"No such option '{flag}'" in tandem(command, flag, "1", code=2).err


def test_every_command_with_json_has_fixed_keys() -> None:
    printing = {str(c.name) for c in every_command() if any("--json" in param.opts for param in c.params)}
    assert printing | {"export"} == {name.split()[-1] for name in JSON_KEYS}


@pytest.mark.parametrize(
    "command",
    ["pairs list", "pairs show", "pairs check", "settings", "settings show", "settings path", "tools path", "doctor"],
)
def test_json_has_the_fixed_keys(command: str, folders: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = ["demo"] if command in ("pairs show", "pairs check") else []

    assert main([*command.split(), *name, "--json"]) in (0, 1)

    found = json.loads(capsys.readouterr().out)
    for one in found if isinstance(found, list) else [found]:
        assert tuple(one) == JSON_KEYS[command]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [("temperature", -0.1, "temperature is -0.1; it must lie between 0 and 100"), ("top_k", 1.5, "a whole number")],
)
def test_sampling_outside_its_range_is_refused(name: str, value: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        SamplingParams(**{name: value})


def test_greedy_means_that_nothing_changes_the_logits() -> None:
    assert SamplingParams(temperature=0).is_greedy
    assert not SamplingParams(temperature=0, repeat_penalty=1.1).is_greedy
    assert SamplingParams(temperature=0, repeat_penalty=1.1, repeat_last_n=0).is_greedy
    assert not SamplingParams().is_greedy


def test_a_model_is_on_the_cpu_by_device_or_without_gpu_layers() -> None:
    assert ModelParams(devices=("cpu",)).on_cpu
    assert ModelParams(n_gpu_layers=0).on_cpu
    assert not ModelParams(devices=("CUDA0", "CUDA1"), tensor_split=(3, 1)).on_cpu


def params(*flags: str) -> PairParams:
    return PairParams.of(DEFAULTS.over(read_flags(parse_args(["run", *flags, "Hi"]).given)))


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--device", "x" * 65], "--device is"),
        (["--device", ",".join(f"D{i}" for i in range(17))], "--device is"),
        (["--tensor-split", ",".join("1" * 17)], "--tensor-split is"),
        (["--device", "CUDA0,"], '--device is "CUDA0,"; it must be names of devices'),
        (["--device", "cpu,CUDA0"], "cannot be combined"),
        (["--device", "CUDA0,cuda0"], "named twice"),
        (["--tensor-split", "0,0"], "all 0"),
        (["--tensor-split", "1,2", "--device", "CUDA0"], "2 shares for 1 device."),
        (["--draft-device", "CUDA0,CUDA1"], '--draft-device is "CUDA0,CUDA1"; it must be the name of one device'),
        (["--draft-gpu-layers", "-1"], '--draft-gpu-layers is "-1"'),
        (["--tensor-split", "3:1"], '--tensor-split is "3:1"'),
        (["--kv-type", "q8_0", "--flash-attn", "off"], "The KV type q8_0 needs flash attention"),
        (["--draft-kv-type", "q4_0", "--flash-attn", "off"], "The KV type q4_0 needs flash attention"),
    ],
)
def test_invalid_placement_flag_is_refused(flags: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        params(*flags)


def test_placement_flags_say_where_each_model_goes() -> None:
    usual = params()
    assert (usual.model, usual.draft_model, usual.yields_cpu) == (ModelParams(), ModelParams(split=False), True)
    assert (usual.kv_type, usual.draft_kv_type) == ("f16", "f16")
    everything = "--device --draft-device --gpu-layers --draft-gpu-layers --tensor-split --kv-type --draft-kv-type"
    autos = [part for flag in [*everything.split(), "--flash-attn", "--fit"] for part in (flag, "auto")]
    assert params(*autos) == usual

    found = params(
        *("--device", "CUDA0, CUDA1", "--tensor-split", "3,1", "--gpu-layers", "20", "--draft-device", "CPU"),
        *("--draft-gpu-layers", "all", "--kv-type", "q8_0", "--draft-kv-type", "q4_0", "--flash-attn", "on"),
        *("--threads", "3"),
    )
    assert found.model == ModelParams(20, devices=("CUDA0", "CUDA1"), tensor_split=(3.0, 1.0))
    assert found.draft_model == ModelParams(devices=("cpu",), split=False)
    assert (found.kv_type, found.draft_kv_type) == ("q8_0", "q4_0")
    assert found.target_context(512).flash_attention == "on"
    assert (found.threads, found.yields_cpu) == (Threads(3, 3), False)


def test_fixed_drafting_with_n_grams_alone_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target, draft = write_target(tmp_path / "target.gguf"), write_eagle3(tmp_path / "eagle.gguf")
    words = ["run", "--target", str(target), "--draft", str(draft), "--draft-type", "ngram", "--draft-n-max", "5", "hi"]

    assert main(words) == 2
    assert "Add --draft FILE, or use --drafting auto for n-grams." in capsys.readouterr().err
