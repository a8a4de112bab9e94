"""Every setting: the same value through file, flag and field, and one sentence for an invalid value."""

import tomllib
from typing import Any

import pytest
import tomli_w
from hypothesis import given, settings
from hypothesis import strategies as st

from app.cli.command_line import parse_args
from app.cli.setting_flags import read_flags
from app.cli.settings import find
from app.core.errors import UsageError
from app.core.printable import printable
from app.engine.types import MAX_DRAFT, AutoDraft, Drafting, DraftParams, SamplingParams
from app.settings.checking import check, nested
from app.settings.kinds import LONGEST_TEXT, Choice, Name, Number, Overrides, Several, Switch, Text, Texts, Value
from app.settings.layers import BUILT_IN, Layer, Origin, Resolved, drafting, pair_layer, sampling
from app.settings.setting import Setting
from app.settings.table import BY_NAME, SETTINGS, nearest

ANY_TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)
WORDS = ANY_TEXT.map(printable).filter(lambda text: text != "--")


def values(setting: Setting) -> st.SearchStrategy[Any]:
    """Return every kind of value that a setting accepts."""
    kind = setting.kind
    if isinstance(kind, Number):
        numbers: st.SearchStrategy[Any] = (
            st.integers(int(kind.low), int(kind.high))
            if kind.whole
            else st.floats(kind.low, kind.high).map(lambda x: float(f"{x:.6g}")).filter(lambda x: kind.low <= x)
        )
        return numbers | st.none() if kind.word else numbers
    if isinstance(kind, Choice):
        return st.sampled_from(kind.options)
    if isinstance(kind, Switch):
        return st.booleans()
    if isinstance(kind, Name):
        return st.from_regex("[a-z0-9][a-z0-9-]{0,39}", fullmatch=True)
    if isinstance(kind, Overrides):
        return st.lists(st.sampled_from((r"blk\.[0-3]\..*exps=cpu", "attn_(q|k)=CUDA0")), max_size=4).map(tuple)
    if isinstance(kind, Texts):
        return st.lists(ANY_TEXT.filter(bool), max_size=16).map(tuple)
    if isinstance(kind, Several):
        word = 3.5 if setting.name == "model.tensor_split" else "CUDA0"
        return st.integers(kind.empty is None, kind.most).map(lambda n: (word,) * n) | st.none()
    return WORDS.filter(bool) | st.none()


def flags(*given: str) -> Layer:
    return read_flags(parse_args(["run", *given, "Hi"]).given)


def through_toml(setting: Setting, value: Value) -> Value:
    text = tomli_w.dumps(nested({setting.name: setting.kind.write(value)}))
    found, problems = check(tomllib.loads(text))
    assert not problems
    return found[setting.name]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
@settings(max_examples=8)
@given(data=st.data())
def test_file_flag_and_field_give_the_same_value(setting: Setting, data: st.DataObject) -> None:
    value = data.draw(values(setting))
    shown = setting.kind.show(value)

    assert through_toml(setting, value) == value
    assert setting.kind.parse(shown) == value
    if setting.flags and not isinstance(setting.kind, Texts):
        for flag in setting.flags:
            assert flags(f"{flag}={shown}")[setting.name] == value


def test_a_default_is_a_value_that_is_taken() -> None:
    for setting in SETTINGS:
        assert through_toml(setting, setting.default) == setting.default, setting.name
        assert setting.text
        assert setting.shown_default


def test_a_setting_that_may_be_given_several_times() -> None:
    assert flags("--stop", "END", "--stop", "a|b\n") == {"answer.stop": ("END", "a|b\n")}


@pytest.mark.parametrize(
    ("name", "raw", "allowed"),
    [
        ("draft.n_max", 65, "a whole number between 0 and 62"),
        ("draft.n_max", 2.5, "a whole number between 0 and 62"),
        ("draft.n_max", True, "a whole number"),
        ("draft.p_min", float("nan"), "a number between 0 and 1"),
        ("draft.mode", "fast", "auto or one of fixed, off"),
        ("sampling.temp", -0.1, "a number between 0 and 100"),
        ("sampling.temp", "0.5", "a number"),
        ("sampling.top_k", 10**400, "a whole number between 0 and 1,000,000"),
        ("sampling.seed", -1, "a whole number between 0 and 4,294,967,294, or random"),
        ("answer.system", "x" * (LONGEST_TEXT + 1), "a text of at most 32,000 characters"),
        ("answer.system", "\ud800", "a text of at most"),
        ("answer.stop", [["x"]], "a text, or at most 16 texts"),
        ("model.gpu_layers", "many", "a whole number between 0 and 9,999, or auto"),
        ("model.device", ["CUDA0", ""], "names of devices"),
        ("model.tensor_split", [1, -1], "numbers that are not negative"),
        ("draft.device", "CUDA0,CUDA1", "the name of one device"),
        ("model.kv_type", "q3_k", "auto or one of f32, f16"),
        ("appearance.theme", "x" * 65, "the name of a theme"),
        ("appearance.reduced_motion", "perhaps", "on or off"),
    ],
)
def test_what_is_not_taken_is_reported_with_what_is(name: str, raw: object, allowed: str) -> None:
    found, problems = check(nested({name: raw}))

    assert not found
    assert problems[0].text.startswith(f"{name} is ")
    assert f"; it must be {allowed}" in problems[0].text
    assert len(problems[0].text) < 300


@pytest.mark.parametrize(
    "given",
    [
        ("--top-k", "1.5"),
        ("--temp", "nan"),
        ("--temp", "warm"),
        ("--ctx", "0"),
        ("--drafting", "fast"),
        ("--top-k", ""),
    ],
)
def test_a_wrong_flag_is_one_sentence(given: tuple[str, str]) -> None:
    with pytest.raises(UsageError, match=f'^{given[0]} is "{given[1]}"; it must be '):
        flags(*given)


def test_flags_that_contradict_each_other() -> None:
    for wrong in (("--no-draft", "--drafting", "auto"), ("--drafting", "auto", "--draft-n-max", "3")):
        with pytest.raises(UsageError):
            flags(*wrong)
    with pytest.raises(UsageError, match="--no-ngram and --draft-source ngram"):
        flags("--no-ngram", "--draft-source", "ngram")
    for name, *value in (("--draft-source", "ngram"), ("--draft-ngram-min-match", "3")):
        for fixed in (("--draft-n-max", "8"), ("--drafting", "fixed")):
            with pytest.raises(UsageError, match=f"^{name} needs --drafting auto, and draft.mode is fixed"):
                flags(*fixed, name, *value)
        with pytest.raises(UsageError, match=r"draft\.mode is off"):
            flags("--no-draft", name, *value)
    assert flags("--drafting", "auto", "--no-ngram") == {"draft.mode": "auto", "draft.source": "model"}
    assert flags("--drafting", "fixed", "--no-ngram")["draft.source"] == "model"


def test_a_former_name_of_a_value_is_read() -> None:
    kind = BY_NAME["draft.source"].kind
    assert flags("--draft-source", "lookup") == {"draft.source": "ngram"}
    assert (kind.read("lookup"), kind.write("ngram")) == ("ngram", "ngram")


def test_former_names_of_settings_and_flags_are_read() -> None:
    assert find("draft.lookup_min_match") is BY_NAME["draft.ngram_min_match"]
    assert nearest("lookup_min_match") == ' Did you mean "draft.ngram_min_match"?'
    assert flags("--no-lookup", "--draft-lookup-min-match", "3") == flags("--no-ngram", "--draft-ngram-min-match", "3")


def test_flags_are_named_after_their_settings() -> None:
    for setting in SETTINGS:
        if setting.flags:
            stem = f"draft-{setting.key}" if setting.table == "draft" else setting.key
            assert setting.flags[0] == f"--{stem}".replace("_", "-")
    assert len({setting.dest for setting in SETTINGS if setting.flags}) == sum(bool(s.flags) for s in SETTINGS)


def test_a_name_is_found_by_all_its_spellings() -> None:
    for word in ("sampling.top_k", "top_k", "--top-k", "top-k"):
        assert find(word) is BY_NAME["sampling.top_k"]
    assert find("draft-n-max") is find("n_max") is BY_NAME["draft.n_max"]
    assert find("device") is BY_NAME["model.device"]
    assert find("nothing") is None
    assert nearest("sampling.temperature") == ' Did you mean "sampling.temp"?'
    assert nearest("sampling.topk") == ' Did you mean "sampling.top_k"?'
    assert nearest("zzz") == ""


# Precedence


def test_the_order_of_precedence() -> None:
    layers: dict[Origin, Layer] = {
        o: {"sampling.temp": float(n)} for n, o in enumerate(Origin) if o is not Origin.DEFAULT
    }
    for n, origin in enumerate(Origin):
        settings = Resolved(layers)
        assert settings.origin("sampling.temp") is origin
        assert settings["sampling.temp"] == (0.8 if origin is Origin.DEFAULT else float(n))
        if origin is not Origin.DEFAULT:
            del layers[origin]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, AutoDraft()),
        ({"source": "ngram", "ngram_min_match": 5}, AutoDraft(model=False, lookup=True, min_match=5)),
        ({"source": "model"}, AutoDraft(lookup=False)),
        ({"mode": "off"}, None),
        ({"type": "none"}, None),
        ({"type": "ngram"}, AutoDraft(model=False)),
        ({"type": "ngram", "source": "model"}, AutoDraft(model=False)),
        ({"type": "mtp"}, AutoDraft()),
        ({"type": "eagle3", "mode": "fixed", "n_max": 3}, DraftParams(3)),
        # The fewest drafted tokens are at most the most.
        ({"mode": "fixed", "n_max": 3, "n_min": 5}, DraftParams(3, 3)),
        ({"mode": "fixed", "n_max": 8, "n_min": 5}, DraftParams(8, 5)),
    ],
)
def test_settings_become_drafting_parameters(given: dict[str, Value], expected: Drafting) -> None:
    layer = {f"draft.{name}": value for name, value in given.items()}
    assert drafting(Resolved({Origin.FILE: layer})) == expected


def test_settings_become_sampling_parameters() -> None:
    assert sampling(Resolved({})) == SamplingParams()
    given: Layer = {"sampling.temp": 0.0, "sampling.seed": 7}
    assert sampling(Resolved({Origin.FILE: given})) == SamplingParams(temperature=0.0, seed=7)


def test_a_pair_is_a_layer() -> None:
    fixed = DraftParams(MAX_DRAFT, 2, 0.3)
    settings = Resolved({Origin.PAIR: pair_layer({"temperature": 0.2, "top_k": 20}, fixed)})
    assert (sampling(settings), drafting(settings)) == (SamplingParams(temperature=0.2, top_k=20), fixed)
    assert pair_layer({}, None) == {}
    assert pair_layer({"temperature": 0.8}, None) == {"sampling.temp": 0.8}


def test_the_built_in_presets_are_settings_that_are_taken() -> None:
    for preset in BUILT_IN.values():
        raw = nested({name: BY_NAME[name].kind.write(value) for name, value in preset.items()})
        assert check(raw, lambda setting: setting.in_preset) == (preset, [])
    assert sampling(Resolved({Origin.PRESET: BUILT_IN["precise"]})).is_greedy


def test_several_texts_are_typed_as_a_list_in_json() -> None:
    assert Text().parse("") is None
    assert Texts().parse("") == ()
    assert Texts().parse(r'["a|b", "\n\n", "c"]') == ("a|b", "\n\n", "c")
    assert [Texts().parse(text) for text in ("a|b", "[INST]", r"\n", "[" * 10_000)] == [
        ("a|b",),
        ("[INST]",),
        (r"\n",),
        ("[" * 10_000,),
    ]
    shown = {(): "", ("END",): "END", ("[1]",): '["[1]"]', ("a", "b"): '["a", "b"]'}
    assert {texts: Texts().show(texts) for texts in shown} == shown
    for wrong in ('["\\u0000"]', '["\\ud800"]', "[1]"):
        with pytest.raises(ValueError, match=r"\x00|surrogates|1"):
            Texts().parse(wrong)


@given(stops=st.lists(ANY_TEXT, max_size=16))
def test_stop_texts_are_shown_printable_and_kept_exactly(stops: list[str]) -> None:
    shown = Texts().show(tuple(stops))

    assert printable(shown) == shown
    assert "\n" not in shown
    assert Texts().parse(shown) == tuple(filter(None, stops))


def test_values_cannot_steer_the_terminal() -> None:
    steers = "a\x1b]0;owned\x07\u202eb"
    assert Text().read(f"{steers}\r\nc\td") == "a]0;ownedb\nc\td"
    assert Texts().show((steers, "\u2028")) == r'["a\u001b]0;owned\u0007\u202eb", "\u2028"]'
