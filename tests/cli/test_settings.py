"""The settings file and the command line."""

from pathlib import Path

import pytest

from app.cli import compare
from app.cli.command_line import parse_args
from app.cli.options import read_pair
from app.core.errors import UsageError
from app.core.paths import settings_file
from app.engine.types import AutoDraft, DraftParams, SamplingParams
from app.models.catalog import Pair
from app.models.registry import ModelOnDisk, SetUp
from app.models.source import LocalModel
from app.settings.layers import drafting, sampling
from app.worker.known_pairs import registry
from app.worker.pair_loader import PairLoader
from tests.llama.gguf_files import header, tiny, write
from tests.tandem import Tandem

PLAIN = "--target x.gguf "


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr("platformdirs.unix.Unix.user_config_dir", property(lambda self: str(tmp_path)))
    return settings_file()


def options(command: str, modes: tuple[str, ...] = ("auto", "fixed", "off")) -> PairLoader:
    return read_pair(parse_args(["run", *command.split(), "Hi"]).given, modes)


def test_fixed_drafting_in_file_needs_a_draft(file: Path) -> None:
    file.write_text('[draft]\nmode = "fixed"')
    assert drafting(options(PLAIN).settings) is None
    assert drafting(options(PLAIN + "--draft y.gguf").settings) == DraftParams()
    with pytest.raises(UsageError, match="needs a draft model"):
        options(PLAIN + "--drafting fixed")


def test_drafting_commands_ignore_mode_off_in_file(file: Path) -> None:
    file.write_text('[draft]\nmode = "off"')
    assert drafting(options(PLAIN).settings) is None
    assert drafting(options(PLAIN, ("auto", "fixed")).settings) == AutoDraft()
    assert drafting(options(PLAIN + "--no-draft", ("auto", "fixed")).settings) is None


@pytest.mark.parametrize(
    ("text", "said", "code"),
    [
        ("[sampling]\ntemp = 200", 'sampling.temp is "200"; it must be a number between 0 and 100.', 2),
        ("[sampling]\ntmep = 1", 'sampling.tmep is no setting. Did you mean "sampling.temp"?', 2),
        ("[sampling\n", "cannot be read: ", 1),
        ('preset = "codr"', 'There is no preset "codr". Did you mean "coder"?', 2),
    ],
)
def test_invalid_settings_file_is_an_error(file: Path, tandem: Tandem, text: str, said: str, code: int) -> None:
    file.write_text(text)
    shown = tandem("run", "--target", "x.gguf", "Hi", code=code).err
    assert said in shown
    assert str(file) in shown
    assert "Traceback" not in shown


def test_set_show_and_unset(file: Path, tandem: Tandem) -> None:
    assert tandem("settings", "path").out == f"{file}\n"
    for name, value in (
        ("temp", "0.2"),
        ("top-k", "7"),
        ("presets.brief.answer.system", "Short."),
        ("preset", "coder"),
    ):
        tandem("settings", "set", name, value)
    shown = tandem("settings", "show", "--json").json
    assert shown["settings"]["sampling.temp"]["value"] == 0.2
    assert shown["settings"]["sampling.temp"]["from"] == "preset"
    assert shown["settings"]["sampling.top_k"]["from"] == "settings.toml"
    assert shown["presets"]["brief"] == {"answer.system": "Short."}
    for name in ("preset", "temp", "top_k", "presets.brief"):
        tandem("settings", "unset", name)
    assert file.read_text() == ""
    lines = tandem("settings").out.splitlines()
    assert ["sampling.temp", "0.2", "pair"] in [line.split() for line in lines]
    assert lines[-1] == "presets: precise, creative, coder"


def test_settings_are_shown_with_an_unusable_pair(
    tmp_path: Path, tandem: Tandem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.worker.known_pairs.pairs_file", lambda: tmp_path / "pairs.toml")
    mine = Pair("mine", "Mine", LocalModel(tmp_path / "gone.gguf"), None)
    registry().add(SetUp(mine, ModelOnDisk(tmp_path / "gone.gguf", 1)), default=True)
    told = tandem("settings")
    assert "sampling.temp" in told.out
    assert "tandem: Without the settings of the pair: " in told.err
    tandem("settings", "--pair", "mine", code=1)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("tmep", "1", 'There is no setting "tmep". Did you mean'),
        ("temp", "warm", 'temp is "warm"; it must be a number between 0 and 100.'),
        ("preset", "codr", 'There is no preset "codr"'),
        ("theme", "tandem-dak", 'There is no theme "tandem-dak". Did you mean "tandem-dark"?'),
        ("presets.None.temp", "1", '"None" is not a valid preset name.'),
        ("presets..temp", "1", '"presets..temp" names no preset.'),
        ("keys.chat.again", "f8", "Keys are not set here."),
        ("presets.x.appearance.theme", "nord", "cannot be part of a preset"),
        ("presets.x.nothing", "1", 'There is no setting "nothing"'),
    ],
)
def test_invalid_set_is_refused(file: Path, tandem: Tandem, name: str, value: str, said: str) -> None:
    assert said in tandem("settings", "set", name, value, code=2).err
    assert not file.exists()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("tmep", 'There is no setting "tmep", here or in the file. Did you mean'),
        ("presets.breif", 'There is no setting "presets.breif", here or in the file. Did you mean "brief"?'),
        ("presets.breif.temp", 'Did you mean "brief"?'),
        ("presets..temp", '"presets..temp" names no preset.'),
        ("presets.brief.nothing", 'There is no setting "presets.brief.nothing"'),
        ("keys.chat.agian", 'There is no setting "keys.chat.agian"'),
    ],
)
def test_unset_of_unknown_name_is_refused(file: Path, tandem: Tandem, name: str, said: str) -> None:
    file.write_text('[presets.brief.sampling]\ntop_k = 3\n[keys]\n"chat.again" = "f8"\n')
    before = file.read_text()
    assert said in tandem("settings", "unset", name, code=2).err
    assert file.read_text() == before


@pytest.mark.parametrize("name", ["temp", "presets.coder", "presets.brief.temp", "presets.coder.temp"])
def test_unset_of_default_value_succeeds(file: Path, tandem: Tandem, name: str) -> None:
    file.write_text("[presets.brief.sampling]\ntop_k = 3\n")
    assert tandem("settings", "unset", name).err == ""


def test_a_wrong_file_is_fixed_by_the_command(file: Path, tandem: Tandem) -> None:
    file.write_text('odd = 1\n[sampling]\ntemp = "hot"\n[keys]\nchat.again = "f8"\n')
    assert "odd is no setting." in tandem("settings").err
    file.write_text(f'{file.read_text()}[presets.x.sampling]\nhue = 1\ntemp = "hot"\n')
    for name in ("odd", "temp", "keys.chat.again", "presets.x.sampling.hue", "presets.x.temp"):
        tandem("settings", "unset", name)
    assert file.read_text() == ""
    file.write_text("[broken")
    assert "cannot be read" in tandem("settings", "set", "temp", "0.2", code=1).err
    assert file.read_text() == "[broken"


# Recommendations of the model file


@pytest.fixture
def model(tmp_path: Path) -> Path:
    keys = {"temp": 0.6, "top_k": 20, "penalty_repeat": 1.2, "top_p": -1.0}
    return write(tmp_path / "m.gguf", header(tiny(**{f"general__sampling__{key}": keys[key] for key in keys})))


def test_an_answer_uses_recommended_sampling_by_default(file: Path, model: Path) -> None:
    target = f"--target {model} "
    found = options(target)
    assert sampling(found.settings) == SamplingParams(0.6, 20, repeat_penalty=1.2)
    assert sampling(options(target + "--draft y.gguf").settings) == sampling(found.settings)

    file.write_text("[sampling]\ntemp = 0.5")
    assert sampling(options(target + "--top-k 3").settings) == SamplingParams(0.5, 3, repeat_penalty=1.2)
    assert sampling(options(target + "--temp 0").settings) == SamplingParams(0.0, 20, repeat_penalty=1.2)


def test_the_draft_files_recommendations_do_not_matter(model: Path) -> None:
    assert sampling(options(f"--target x.gguf --draft {model}").settings) == SamplingParams()


def test_a_benchmark_ignores_recommended_sampling(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[PairLoader] = []
    monkeypatch.setattr(compare, "with_pair", lambda loader, job: measured.append(loader))
    compare.bench(target=str(model))

    assert sampling(measured[0].settings) == SamplingParams()


def test_values_are_shown_with_their_origins(tmp_path: Path, file: Path, model: Path, tandem: Tandem) -> None:
    (tmp_path / "models.toml").write_text(
        f'[pairs.own]\ntitle = "My own"\ntarget = "{model}"\nsampling = {{ temperature = 0.3 }}\n'
        "drafting = { n_max = 4 }\n"
    )
    # Wrong colors and keys do not stop a command.
    file.write_text("[sampling]\nmin_p = 0.2\n[appearance]\ntheme = 3\n[keys]\nx = 3")
    options("--pair own")
    assert {
        "sampling.temp 0.3 pair",
        "sampling.min_p 0.2 settings.toml",
        "sampling.top_k 20 model file",
        "sampling.top_p 0.95 default",
        "draft.mode fixed pair",
        "pair: own, My own",
    } <= {" ".join(line.split()) for line in tandem("settings", "--pair", "own").out.splitlines()}
    assert tandem("settings", "--pair", "own", "--json").json["settings"]["sampling.top_k"]["from"] == "model file"
    assert tandem("settings", "--json").json["pair"] == "demo"


def test_a_changed_draft_setting_shows_what_it_means_for_the_mode(file: Path, tandem: Tandem) -> None:
    said = tandem("settings", "set", "draft-n-max", "4").out
    assert said == "draft.n_max has no effect now: draft.mode is auto.\n"
    assert drafting(options(PLAIN + "--draft y.gguf").settings) == AutoDraft()
    assert tandem("settings", "set", "draft-mode", "fixed").out == ""
    assert drafting(options(PLAIN + "--draft y.gguf").settings) == DraftParams(4)


def test_flags_of_automatic_drafting_need_it(file: Path) -> None:
    file.write_text('[draft]\nmode = "fixed"\n')
    with pytest.raises(UsageError, match=r"^--draft-source needs --drafting auto, and draft.mode is fixed"):
        options(PLAIN + "--draft-source ngram")
    assert drafting(options(PLAIN + "--draft-source ngram --drafting auto").settings) == AutoDraft(model=False)
    assert drafting(options(PLAIN + "--no-ngram").settings) == drafting(options(PLAIN).settings), (
        "that is what fixed drafting does"
    )
