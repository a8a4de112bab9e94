"""`tandem setup` against the loopback hub, with the memory and the disk of this machine."""

import shutil
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub import hf_hub_download

from app.cli import main
from app.cli.output import TerminalLine
from app.core.errors import AppError, CatalogError, PairError
from app.core.fixes import command
from app.hardware.fit import main_memory_room
from app.llama.fitting import fit_pair
from app.models.catalog import Pair
from app.models.hub import cache
from app.models.hub.cache import cached_file
from app.models.registry import Registry
from app.models.resolve import resolve
from app.models.source import HubModel, parse_source
from app.worker.known_pairs import registry
from tests.capacities import in_ram
from tests.llama.tiny_heads import write_eagle3, write_mtp, write_target
from tests.llama.tiny_model import Size
from tests.models.hub.faults import status
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import BOTH, DRAFT, SETUP, TARGET, Watched, brought, install_in, looked_at, no_demo, tiny
from tests.tandem import Tandem

pytestmark = pytest.mark.usefixtures("home")
FILE = "big-Q4_K_M.gguf"
Usage = namedtuple("Usage", "total used free")


def test_one_command_downloads_checks_tries_and_remembers(pair: LoopbackHub, home: Path, tandem: Tandem) -> None:
    (home / "settings.toml").write_text("[model]\nctx = 2000\n")
    said = tandem("setup", *BOTH, "--name", "mine", "--yes").err
    assert "Compatible: the vocabularies match" in said
    assert "mine is set up. Tried:" in said
    assert "are used instead of 2,000.\n" in said, "a notice ends in one full stop"
    known = registry().read()
    assert known.default == "mine"
    assert known.pairs["mine"].is_here
    assert known.downloaded == {model.path for model in known.pairs["mine"].models}
    assert known.pairs["mine"].pair.license == "mit"


def test_a_second_run_downloads_nothing(pair: LoopbackHub, tandem: Tandem) -> None:
    tandem(*SETUP, *BOTH)
    asked = len(pair.asked(origin="cdn"))

    ran = tandem(*SETUP, "--target", f"{TARGET}:Q4_K_M", "--draft", DRAFT)

    assert len(pair.asked(origin="cdn")) == asked
    assert "here already" in ran.err
    assert len(registry().read().pairs) == 1, "a quantization is the same however it is written"
    assert len(registry().read().downloaded) == 2


@pytest.mark.parametrize("size", [None, 4_000_000], ids=["unknown", "rounded"])
def test_downloaded_files_are_found_offline_by_their_branch(pair: LoopbackHub, home: Path, size: int | None) -> None:
    source = HubModel(TARGET, file=FILE, size=size)
    path = brought(home / "data" / "pairs.toml", source).target.path
    pair.close()

    assert cached_file(source) == resolve(source, no_demo, Watched()).path == path
    # Other programs find it in the same way.
    assert Path(hf_hub_download(TARGET, FILE, local_files_only=True)) == path


def test_a_revision_cannot_leave_the_repository_folder(
    pair: LoopbackHub, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = pair.repos[TARGET].resolve("main")
    monkeypatch.setattr(pair.repos[TARGET], "resolve", lambda revision: commit)
    brought(home / "data" / "pairs.toml", HubModel(TARGET, file=FILE, revision="../outside"))

    assert not list(cache.folder().rglob("outside"))


def test_models_that_another_program_downloaded_answer_offline(pair: LoopbackHub, tandem: Tandem) -> None:
    for repo, file in ((TARGET, FILE), (DRAFT, "small-Q8_0.gguf")):
        hf_hub_download(repo, file)
    pair.close()

    assert tandem("run", *BOTH, "--max-tokens", "2", "--json", "hello").json["models"]["draft"] is not None


def test_draft_layers_beside_the_target_are_set_up_with_it(hub: LoopbackHub, home: Path, tandem: Tandem) -> None:
    target = write_target(home / "t.gguf").read_bytes() + bytes(1 << 20)
    hub.add(TARGET, {FILE: target, "big-eagle3-Q8_0.gguf": write_eagle3(home / "e.gguf").read_bytes()})

    assert tandem("pairs", "check", TARGET, "--json").json["draft_kind"] == "eagle3"
    for _ in range(2):
        said = tandem(*SETUP, "--target", TARGET).err
        assert "Compatible: the draft is an EAGLE-3 head for this target." in said
    assert [one.pair.title for one in registry().read().pairs.values()] == ["big + eagle3 Q8_0"]
    assert (
        tandem("run", "--target", TARGET, "--max-tokens", "3", "--json", "hi").json["models"]["draft"]["name"]
        == "big-eagle3"
    )

    tandem(*SETUP, "--target", TARGET, "--draft", "none")
    assert [one.draft is None for one in registry().read().pairs.values()] == [False, True]
    assert (
        tandem("run", "--target", TARGET, "--draft", "none", "--max-tokens", "3", "--json", "hi").json["models"][
            "draft"
        ]
        is None
    )


def test_the_projector_of_a_target_is_set_up_and_removed_with_it(hub: LoopbackHub, home: Path, tandem: Tandem) -> None:
    model = {FILE: tiny(home), "mmproj-F16.gguf": b"GGUF" * 500, "mmproj-F32.gguf": b"GGUF" * 900}
    hub.add(TARGET, model)
    assert "vision  mmproj-F16.gguf, 0 MB" in tandem("pairs", "check", TARGET).out
    assert "vision" not in tandem(*SETUP, "--target", TARGET, "--name", "text", "--mmproj", "none").err
    assert registry().read().pairs["text"].projector is None
    tandem("pairs", "remove", "text", "--yes")
    prepared = looked_at(Pair("mine", "Mine", HubModel(TARGET, file=FILE), None))
    assert prepared.download_bytes == len(model[FILE]) + 2000
    install_in(home / "data" / "pairs.toml", prepared)
    found = registry().read().pairs["mine"]
    assert found.projector is not None
    assert found.projector.path == found.target.path.with_name("mmproj-F16.gguf")
    assert registry().read().downloaded == {found.target.path, found.projector.path}
    assert not registry().read().unused
    told: list[str] = []
    assert looked_at(found.pair, told.append).download_bytes == 0
    assert told[-1] == "Looking at mmproj-F16.gguf", "it is hashed under its own name"
    tandem("pairs", "remove", "mine", "--yes")
    assert not list(cache.folder().rglob("*.gguf"))


def test_the_draft_layers_of_another_target_are_named_and_left_out(
    hub: LoopbackHub, home: Path, tandem: Tandem
) -> None:
    target = write_target(home / "t.gguf").read_bytes() + bytes(1 << 20)
    other = write_eagle3(home / "e.gguf", Size(n_heads=4)).read_bytes()
    hub.add(TARGET, {FILE: target, "big-eagle3-Q8_0.gguf": other})

    for words in (["pairs", "check", TARGET], [*SETUP, "--target", TARGET]):
        said = "".join(tandem(*words))
        assert "big-eagle3 cannot be used as a draft: it was made for another target" in said
    assert [one.draft for one in registry().read().pairs.values()] == [None]


def test_the_title_of_a_pair_names_the_mtp_layer(hub: LoopbackHub, home: Path) -> None:
    hub.add(TARGET, {FILE: write_mtp(home / "t.gguf").read_bytes()})
    assert main([*SETUP, "--target", TARGET]) == 0
    assert [one.pair.title for one in registry().read().pairs.values()] == ["big + MTP layer"]


def test_no_default_leaves_no_default_but_add_sets_the_first(pair: LoopbackHub, tandem: Tandem) -> None:
    assert (
        "To make it the default: tandem pairs default mine"
        in tandem(*SETUP, *BOTH, "--name", "mine", "--no-default").err
    )
    assert registry().read().default is None

    files = [str(model.path) for model in registry().read().pairs["mine"].models]
    tandem("pairs", "add", "own", *files)
    assert registry().read().default == "own", "that is what one adds the first pair for"


def test_a_full_disk_is_reported_before_the_download(
    pair: LoopbackHub, tandem: Tandem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**9, 10**9 - 1000, 1000))

    assert "are free there" in tandem("setup", *BOTH, "--yes", code=1).err
    assert not list(cache.folder().rglob("*.incomplete"))


def test_after_a_failed_download_the_next_setup_resumes(pair: LoopbackHub, home: Path) -> None:
    pair.faults.add(status(403), "small-Q8_0.gguf", origin="cdn", times=None, when=_without_small_range)
    file = home / "data" / "pairs.toml"
    prepared = looked_at(_pair())
    with pytest.raises(AppError, match="is denied"):
        install_in(file, prepared)
    pair.faults.clear()

    downloads = install_in(file, looked_at(_pair()))

    assert [one.now.role for one in downloads] == ["draft"], "the target is here"
    assert Registry(file).read().pairs["mine"].is_here


def _without_small_range(request: object) -> bool:
    # The header is read by a range from the first byte; the download sends no range.
    return "range" not in getattr(request, "headers", {})


def test_a_pair_that_fails_its_trial_is_registered_but_not_the_default(
    pair: LoopbackHub, tandem: Tandem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(*_: object) -> str:
        raise PairError("The pair loads but says nothing.", "Choose another model.")

    for first in (None, "first"):
        with monkeypatch.context() as patched:
            patched.setattr("app.cli.setup.trial", silent)
            said = tandem("setup", *BOTH, "--name", "of mine", "--yes", code=1).sentences
        forget = command(["tandem", "pairs", "remove", "of mine"])
        assert "Choose another model. of mine is set up; to open it:" in said
        assert said.endswith(f"to remove it: {forget}")
        known = registry().read()
        assert known.pairs["of mine"].is_here
        assert known.default == first
        tandem("setup", *BOTH, "--name", "first", "--yes")


def _pair() -> Pair:
    return Pair("mine", "Mine", parse_source(f"{TARGET}:q4_k_m"), parse_source(DRAFT))


def test_a_pair_that_cannot_be_registered_is_a_failure(
    home: Path, tandem: Tandem, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise CatalogError("pairs.toml cannot be written: Read-only file system.", "Check the disk.")

    monkeypatch.setattr(Registry, "add", refuse)
    tiny(home / "mine", "t.gguf")
    assert (
        "Read-only file system" in tandem("setup", "--target", str(home / "mine" / "t.gguf"), "--no-trial", code=1).err
    )


def test_without_the_hub_what_needs_none_is_named(hub: LoopbackHub, tandem: Tandem) -> None:
    hub.close()
    said = tandem("setup", "qwen3.5-2b", "--yes", code=1).err
    assert "cannot be reached" in said
    assert "\n        demo is on this machine and needs no download: tandem setup demo\n" in said


def test_a_script_is_not_asked(hub: LoopbackHub, tandem: Tandem) -> None:
    assert "--yes" in tandem("setup", code=2).err


def test_all_parts_of_a_split_model_come_and_go_together(hub: LoopbackHub, tmp_path: Path, tandem: Tandem) -> None:
    names = [f"big-Q4_K_M-0000{part}-of-00003.gguf" for part in (1, 2, 3)]
    hub.add(TARGET, {names[0]: tiny(tmp_path / "made"), names[1]: b"second", names[2]: b"third"})

    tandem(*SETUP, "--target", TARGET, "--name", "split")

    target = registry().read().pairs["split"].target
    assert target.path.name == names[0]
    assert [(target.path.parent / name).is_file() for name in names] == [True] * 3
    tandem("pairs", "remove", "split", "--yes")
    assert not list(cache.folder().rglob("*.gguf"))


Free = Callable[[int], None]


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Free:
    """Return a function that sets this machine's memory for models in bytes."""

    def give(n_bytes: int) -> None:
        capacity = in_ram(n_bytes)
        for module in ("cli.setup", "compare.measured_pairs"):
            monkeypatch.setattr(f"app.{module}.machine_capacity", lambda *_, **__: ("a machine", capacity))
        monkeypatch.setattr(fit_pair, "memory_rooms", lambda: (main_memory_room(n_bytes),))

    return give


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Free:
    """Return a function that sets the free bytes of the disk."""

    def leave(n_bytes: int) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 0, n_bytes))

    return leave


def test_setup_warns_before_downloading_a_pair_that_does_not_fit(
    pair: LoopbackHub, room: Free, tandem: Tandem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TerminalLine, "can_ask", True)
    monkeypatch.setattr(TerminalLine, "ask", lambda *_: "n")
    room(1000)
    said = tandem("setup", *BOTH).sentences
    assert "note It does not fit here: it needs" in said
    assert "To see pairs that fit: tandem setup" in said
    assert said.endswith("Nothing was set up.")
    assert not list(cache.folder().rglob("*.gguf"))

    room(10**9)
    assert "does not fit" not in tandem("setup", *BOTH).err


def test_setup_weighs_a_pair_with_the_context_of_the_settings(
    hub: LoopbackHub, home: Path, room: Free, tandem: Tandem
) -> None:
    room(6 * 10**9)

    def found() -> tuple[str, str]:
        proposed = tandem("setup", code=2).sentences
        return proposed, tandem("pairs", "show", "qwen3.5-4b").out

    proposed, shown = found()
    assert " 1 qwen3.5-4b " in proposed
    assert "fits: " in shown
    (home / "settings.toml").write_text("[model]\nctx = 65536\n")
    proposed, shown = found()
    assert " 1 qwen3.5-0.8b " in proposed
    assert "too big: needs 6.1 GB" in shown


def test_a_pair_that_does_not_fit_stays_set_up(pair: LoopbackHub, room: Free, tandem: Tandem) -> None:
    tandem(*SETUP, *BOTH, "--name", "first")
    # Enough for the target without the draft.
    room(1_100_000)
    said = tandem("setup", *BOTH, "--name", "mine", "--yes", code=1).err
    assert "big with small does not fit: it needs" in said
    assert "--no-draft: no draft" in said
    assert "mine is set up; to open it: tandem --pair mine; to remove it: tandem pairs remove mine" in said
    known = registry().read()
    assert known.pairs["mine"].is_here
    assert known.default == "first"
    # It is never reported as missing.
    room(10**9)
    tandem("run", "--pair", "mine", "--no-draft", "--max-tokens", "2", "hi")


def test_the_trial_loads_the_pair_as_the_chat_does(pair: LoopbackHub, home: Path, room: Free, tandem: Tandem) -> None:
    (home / "settings.toml").write_text('[model]\nfit = "off"\n')
    room(1000)
    assert "mine is set up. Tried:" in tandem("setup", *BOTH, "--name", "mine", "--yes").err


def test_a_pair_that_the_disk_has_no_room_for_is_not_proposed_first(
    hub: LoopbackHub, room: Free, disk: Free, tandem: Tandem
) -> None:
    room(16 * 10**9)
    disk(2 * 10**9)
    said = tandem("setup", code=2).sentences
    assert " 1 qwen3.5-2b " in said
    assert "the disk has no room for larger ones." in said
