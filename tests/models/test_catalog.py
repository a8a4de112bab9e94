"""models.toml: Tandem's entries, the user's entries over them, and clear errors for a wrong entry."""

import re
from pathlib import Path

import pytest

from app.engine.types import DraftParams
from app.models.catalog import Catalog, read_pair, shipped_file, write_pair
from app.models.model_names import part_of
from app.models.pair_summary import NO_FILE, size_text
from app.models.source import DemoModel, HubModel, LocalModel


def catalog(tmp_path: Path, own: str) -> Catalog:
    file = tmp_path / "models.toml"
    file.write_text(own, encoding="utf-8")
    return Catalog(shipped_file(), file)


def test_a_byte_order_mark_carriage_returns_and_a_former_key_are_read(tmp_path: Path) -> None:
    mine = catalog(tmp_path, '\ufeff[pairs.mine]\r\nlicence = "mit"\r\ntarget = "big.gguf"\r\n').pairs["mine"]

    assert (mine.license, mine.target) == ("mit", LocalModel(tmp_path / "big.gguf"))


def test_the_shipped_catalog_has_pairs_for_every_memory_size() -> None:
    pairs = Catalog(shipped_file()).pairs

    assert {pair.memory_gb for pair in pairs.values()} >= {4, 6, 8, 12, 16, 24, 48, 80}
    for pair in pairs.values():
        assert pair.title
        assert pair.family
        assert pair.license
        assert pair.context >= 2048
        assert all(not isinstance(source, LocalModel) for source in pair.sources)


def test_every_shipped_model_is_pinned_with_its_size() -> None:
    models = [source for pair in Catalog(shipped_file()).pairs.values() for source in pair.sources if not pair.is_demo]

    for source in models:
        assert isinstance(source, HubModel)
        assert re.fullmatch("[0-9a-f]{40}", source.revision), source
        assert source.file, source
        assert source.size, source
        assert source.sha256 or part_of(source.file), f"{source}: only a split model has no single checksum"


def test_within_a_size_of_memory_published_speedups_come_first() -> None:
    pairs = Catalog(shipped_file()).pairs.values()

    assert len(pairs) <= 30
    for size in {pair.memory_gb for pair in pairs}:
        alike = [pair for pair in pairs if pair.memory_gb == size and not pair.is_demo]
        assert bool(alike[0].published) is any(pair.published for pair in alike), size
    speeds = [speed for pair in pairs for speed in pair.published]
    assert all(speed.with_drafts > speed.without_drafts for speed in speeds)


def test_published_speeds_are_shown_with_their_source(tmp_path: Path) -> None:
    speed = '{ gpu = "RTX 4090", without = 40, with = 70.5, source = "a page" }'
    mine = catalog(tmp_path, f"[pairs.mine]\ntarget = 'big.gguf'\npublished = [{speed}]\n").pairs["mine"]

    assert [str(one) for one in mine.published] == ["RTX 4090: 40 to 70.5 tok/s, 1.76× (a page)"]
    assert read_pair("mine", write_pair(mine), tmp_path / "models.toml") == mine


def test_an_entry_is_written_as_it_was_read(tmp_path: Path) -> None:
    for pair in Catalog(shipped_file()).pairs.values():
        assert read_pair(pair.name, write_pair(pair), tmp_path / "models.toml") == pair


def test_sampling_equal_to_the_default_is_kept(tmp_path: Path) -> None:
    own = "[pairs.mine]\ntarget = 'big.gguf'\nsampling = { temperature = 0.8, top_k = 20 }\n"
    mine = catalog(tmp_path, own).pairs["mine"]
    written = write_pair(mine)

    assert written["sampling"] == {"temperature": 0.8, "top_k": 20}
    assert read_pair("mine", written, tmp_path / "models.toml") == mine
    assert "sampling" not in write_pair(catalog(tmp_path, "[pairs.mine]\ntarget = 'big.gguf'\n").pairs["mine"])


def test_user_pairs_override_shipped_pairs(tmp_path: Path) -> None:
    known = catalog(
        tmp_path,
        """
        [pairs.mine]
        target = "big.gguf"
        draft = "~/small.gguf"
        drafting = { n_max = 3, p_min = 0.5 }
        [pairs.demo]
        title = "Mine"
        target = "/models/x.gguf"
        """,
    )

    mine = known.pairs["mine"]
    assert mine.target == LocalModel(tmp_path / "big.gguf")
    assert mine.draft == LocalModel(Path.home() / "small.gguf")
    assert mine.drafting == DraftParams(n_max=3, p_min=0.5)
    assert known.pairs["demo"].drafting is None
    assert known.pairs["demo"].title == "Mine"


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ("[pairs.a]\ntarget = 'x'\ntraget = 'y'", 'pairs.a has the unknown key "traget". Did you mean "target"'),
        ("[pairs.a]\ndraft = 'x'", "pairs.a has no target"),
        ("[pairs.a]\ntarget = 3", "pairs.a.target must be a table"),
        ("[pairs.a]\ntarget = 'x'\nsampling = { temprature = 1 }", 'Did you mean "temperature"'),
        ("[pairs.a]\ntarget = 'x'\nsampling = { temperature = 'hot' }", "sampling.temperature must be a number"),
        ("[pairs.a]\ntarget = 'x'\nsampling = { top_k = 1.5 }", "sampling.top_k must be a whole number"),
        ("[pairs.a]\ntarget = 'x'\nsampling = { top_k = true }", "sampling.top_k must be a whole number"),
        ("[pairs.a]\ntarget = 'x'\nsampling = { top_p = 7 }", "sampling: top_p is 7; it must lie between 0 and 1"),
        (
            "[pairs.a]\ntarget = { repo = 'a/b', fiel = 'x' }",
            'pairs.a.target has the unknown key "fiel". Did you mean "file"',
        ),
        ("[pairs.a]\ntarget = { repo = 'nonsense' }", "pairs.a.target.repo must name a repository"),
        ("[pairs.a]\ntarget = { repo = 'owner/a--b', file = 'x.gguf' }", "pairs.a.target.repo must name a repository"),
        (
            "[pairs.a]\ntarget = { repo = 'a/b', sha256 = 'zz' }",
            "pairs.a.target.sha256 must be 64 hexadecimal digits; it has 2 characters",
        ),
        ("[pairs.a]\ntarget = { repo = 'a/b', size = -1 }", "pairs.a.target.size must be a whole number"),
        ("[pairs.a]\ntarget = 'x'\nmemory_gb = 'eight'", "pairs.a.memory_gb must be a whole number"),
        ("[pairs.a]\ntarget = 'x'\nsampling = 5", "sampling must be a table"),
        ("[pairs.a]\ntarget = 'x'\npublished = 5", "published must be a list of tables"),
        ("[pairs.a]\ntarget = 'x'\npublished = [{ gpu = 'x', with = 0 }]", "published needs gpu, without, with and"),
        ("[pairs.a]\ntarget = 'x'\nworking = 8", "working must be a table"),
        ("[pairs.a]\ntarget = 'x'\nworking = { per_tokens = 8 }", 'Did you mean "per_token"'),
        ("[pairs.a]\ntarget = 'x'\nworking = { main = -1 }", "main must be a whole number"),
        ("pairs = 5", "pairs must be a table"),
        ("[pairs]\na = 5", "pairs.a must be a table"),
        ("[pair.a]\ntarget = 'x'", 'unknown key "pair". Did you mean "pairs"'),
        ("[pairs.a]\ntarget = 'x'\nsampling = { temperature = nan }", "must lie between"),
        ("[pairs.a]\ntarget = 'x'\nsampling = { top_k = inf }", "must be a whole number"),
        (f"[pairs.a]\ntarget = 'x'\ndrafting = {{ n_max = 1{'0' * 400} }}", "must lie between"),
        (f"[pairs.a]\ntarget = {{ repo = 'a/b', size = 1{'0' * 400} }}", "size is too large"),
    ],
)
def test_a_wrong_entry_names_file_key_and_the_nearest(tmp_path: Path, own: str, message: str) -> None:
    unread = catalog(tmp_path, own).unread

    assert unread is not None
    assert message in unread.message
    assert "models.toml" in unread.message


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ("[pairs.mine]\ntarget = 'big.gguf'\n[pairs.other\n", "(at line 3, column "),
        ("[pairs.mine]\ntarget = 'x'\n[pairs.demo]\ntraget = 'x'", "pairs.demo has the unknown key"),
        ("[pair.mine]\ntarget = 'x'\n[pairs.good]\ntarget = 'y'\n", 'has the unknown key "pair"'),
    ],
)
def test_an_invalid_file_of_the_user_leaves_the_shipped_pairs(tmp_path: Path, own: str, message: str) -> None:
    known = catalog(tmp_path, own)

    assert known.pairs["demo"].target == DemoModel("target")
    assert known.unread is not None
    assert message in known.unread.message
    assert "mine" not in known.pairs


@pytest.mark.parametrize("name", ["x" * 5000, "x\\u0000y"])
def test_a_name_that_no_file_can_have_has_no_size(tmp_path: Path, name: str) -> None:
    mine = catalog(tmp_path, f'[pairs.mine]\ntarget = "{name}"').pairs["mine"]

    assert size_text(mine) == NO_FILE
