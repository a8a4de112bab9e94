"""settings.toml: everything in it is checked, and nothing in it is lost."""

import os
import tomllib
from collections.abc import Mapping

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import SettingsError
from app.core.printable import printable
from app.engine.types import MAX_DRAFT
from app.settings.checking import check, check_keys, check_presets
from app.settings.file import Content, SettingsFile
from app.settings.table import SETTINGS
from tests.settings.conftest import write

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=20,
)
NAMES = st.sampled_from([setting.name.split(".")[-1] for setting in SETTINGS]) | st.text(max_size=8)
TABLES = st.sampled_from(["draft", "sampling", "answer", "model", "appearance", "presets", "keys", "preset"])
TABLE = st.dictionaries(TABLES | st.text(max_size=8), JSON | st.dictionaries(NAMES, JSON, max_size=5), max_size=6)


def test_a_missing_file_is_empty(file: SettingsFile) -> None:
    assert file.read() == Content()
    assert not file.path.parent.exists()
    file.path.parent.write_text("a file in place of the folder")
    assert file.read() == Content()


def test_what_is_set_is_read_again(file: SettingsFile) -> None:
    file.set("sampling.temp", 0.2)
    file.set("answer.stop", ("END", "\n\n"))
    file.set("model.ctx", None)
    file.set("sampling.temp", 0.3, preset="brief one")
    file.set("preset", "brief one")
    content = file.read()
    assert content.values == {
        "sampling.temp": 0.2,
        "answer.stop": ("END", "\n\n"),
        "model.ctx": None,
        "preset": "brief one",
    }
    assert content.presets == {"brief one": {"sampling.temp": 0.3}}
    assert not content.problems
    file.unset("sampling.temp")
    file.unset("answer.stop")
    file.unset("preset")
    file.unset("model.ctx")
    file.remove_preset("brief one")
    assert file.read() == Content()
    assert file.path.read_text() == ""


@pytest.mark.parametrize(("table", "preset"), [("draft", ""), ("presets.brief.draft", "brief")])
def test_a_former_name_is_read_and_replaced_by_the_next_change(file: SettingsFile, table: str, preset: str) -> None:
    name = "draft.ngram_min_match"
    write(file, f"[{table}]\nlookup_min_match = 5\n")
    content = file.read()
    assert not content.problems
    assert (content.presets[preset] if preset else content.values) == {name: 5}

    file.set(name, 6, preset)
    assert file.path.read_text() == f"[{table}]\nngram_min_match = 6\n"

    write(file, f"[{table}]\nlookup_min_match = 5\n")
    assert file.unset(name, preset)
    assert file.read() == Content()


def test_draft_lengths_of_earlier_versions_are_read_as_the_longest(file: SettingsFile) -> None:
    write(file, "[draft]\nn_max = 64\nn_min = 65\n[presets.long.draft]\nn_max = 63\n")
    content = file.read()
    assert content.values == {"draft.n_max": MAX_DRAFT}
    assert content.presets == {"long": {"draft.n_max": MAX_DRAFT}}
    assert [problem.name for problem in content.problems] == ["draft.n_min"]


def test_each_wrong_key_costs_only_itself_and_is_named(file: SettingsFile) -> None:
    write(
        file,
        """
        tmp = 1
        answer = 3
        [sampling]
        temp = 200
        top_k = 5
        topp = 0.5
        temperature = 0.5
        [presets.brief]
        sampling = { temp = "hot", top_p = 0.5 }
        preset = "x"
        [presets.none]
        [keys]
        "chat.again" = 8
        chat.stop = "f7"
        """,
    )
    content = file.read()
    assert content.values == {"sampling.top_k": 5}
    assert content.presets == {"brief": {"sampling.top_p": 0.5}}
    assert content.keys == {"chat.stop": "f7"}
    assert [problem.text for problem in content.problems] == [
        'tmp is no setting. Did you mean "sampling.temp"?',
        "answer must be a table; write [answer].",
        'sampling.temp is "200"; it must be a number between 0 and 100.',
        'sampling.topp is no setting. Did you mean "sampling.top_p"?',
        'sampling.temperature is no setting. Did you mean "sampling.temp"?',
        'presets.brief: sampling.temp is "hot"; it must be a number between 0 and 100.',
        "presets.brief: preset cannot be set here.",
        "presets.none must be a table with a name of its own.",
        'keys.chat.again must be a text such as "ctrl+k".',
    ]
    assert file.sentence(content.problems[0]) == f"{file.path}: {content.problems[0].text}"


def test_unknown_entries_and_comments_are_kept(file: SettingsFile) -> None:
    text = '# mine\nnewer = 1\n[sampling]\nfuture = "x"\n[other.table]\ny = [1, 2]\n'
    write(file, text)
    file.set("sampling.temp", 0.2)
    assert tomllib.loads(file.path.read_text()) == {
        "newer": 1,
        "sampling": {"future": "x", "temp": 0.2},
        "other": {"table": {"y": [1, 2]}},
    }
    assert file.path.with_name("settings.toml.bak").read_text() == text
    file.unset("sampling.temp")
    assert tomllib.loads(file.path.read_text()) == {
        "newer": 1,
        "sampling": {"future": "x"},
        "other": {"table": {"y": [1, 2]}},
    }
    assert file.path.with_name("settings.toml.bak").read_text() == text


def test_a_file_that_tandem_wrote_is_not_copied(file: SettingsFile) -> None:
    backup = file.path.with_name("settings.toml.bak")
    file.set("answer.system", "# no comment")
    file.set("sampling.temp", 0.2)
    assert not backup.exists()

    commented = f"{file.path.read_text()}# mine\n"
    write(file, commented)
    file.set("sampling.temp", 0.3)
    file.set("sampling.temp", 0.4)
    assert backup.read_text() == commented


def test_a_full_disk_leaves_the_file_as_it_was(file: SettingsFile, monkeypatch: pytest.MonkeyPatch) -> None:
    file.set("sampling.temp", 0.2)
    before = file.path.read_bytes()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SettingsError, match="cannot be written: No space left on device"):
        file.set("sampling.temp", 0.3)
    assert file.path.read_bytes() == before
    assert sorted(path.name for path in file.path.parent.iterdir()) == ["settings.lock", "settings.toml"]


@given(TABLE)
def test_any_content_of_a_file_gives_sentences(table: dict[str, object]) -> None:
    presets, in_presets = check_presets(table.pop("presets", {}))
    keys, in_keys = check_keys(table.pop("keys", {}))
    values, problems = check(table)
    for problem in [*problems, *in_presets, *in_keys]:
        assert printable(problem.text) == problem.text.strip()
        problem.text.encode()
        assert len(problem.text) < 400
    for name, value in [*values.items(), *(item for preset in presets.values() for item in preset.items())]:
        kind = next(setting.kind for setting in SETTINGS if setting.name == name)
        assert kind.read(kind.write(value)) == value
    assert all(isinstance(key, str) for key in keys.values())


@given(st.binary(max_size=200) | TABLE.map(lambda table: _dumps(table)))
def test_no_file_is_a_traceback(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    file = SettingsFile(tmp_path_factory.mktemp("any") / "settings.toml")
    file.path.write_bytes(data)
    content = file.read()
    assert printable(str(content.unreadable)) == str(content.unreadable)
    if not content.unreadable:
        file.set("sampling.temp", 0.25)
        assert file.read().values["sampling.temp"] == 0.25


def _dumps(table: Mapping[str, object]) -> bytes:
    """Return a table as TOML, without values that TOML cannot hold."""

    def without_none(value: object) -> object:
        if isinstance(value, dict):
            return {key: without_none(item) for key, item in value.items() if item is not None}
        return [without_none(item) for item in value if item is not None] if isinstance(value, list) else value

    try:
        return tomli_w.dumps(without_none(table)).encode("utf-8", "replace")  # type: ignore[arg-type]
    except UnicodeEncodeError:
        return b""


def test_tables_too_deep_to_walk_are_a_sentence(file: SettingsFile) -> None:
    write(file, "[" + ".".join(["a"] * 1_001) + "]")
    with pytest.raises(SettingsError, match="too deep") as caught:
        file.set("sampling.temp", 0.5)
    assert caught.value.hint
