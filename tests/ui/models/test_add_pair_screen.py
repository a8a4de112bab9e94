"""A pair from any repository."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.core.errors import HubError
from app.engine.sources import Source
from app.models.compatibility import PairCheck, Remedy
from app.models.draft_kinds import HeadFacts
from app.models.setup_task import SetupProgress, Stage
from app.models.source import FoundRepository
from app.ui.models.add_pair_screen import AddPairScreen, report_lines
from tests.ui.models.driver import Window, open_setup
from tests.ui.models.fake_pairs import CHECKED, OFFLINE, PREPARED, facts, with_check


async def test_repositories_are_checked_before_they_are_downloaded() -> None:
    async with open_setup() as window:
        await window.press("ctrl+a")
        await window.until(lambda: window.is_adding)
        window.type("owner/big:Q4_K_M", "enter")
        await window.shows("owner/big:Q4_K_M")
        window.type("owner/small", "enter")
        await window.until(lambda: window.pairs.arguments("check_sources") == [["owner/big:Q4_K_M", "owner/small"]])
        await window.shows("nothing is downloaded yet")
        window.pairs.report_check(
            SetupProgress(Stage.CHECKING, header_progress="Looking at big.gguf: 1.2 MB of its header")
        )
        await window.shows("Looking at big.gguf: 1.2 MB of its header")
        window.pairs.report_check(CHECKED)
        await window.shows("Compatible. Press Enter to download.")
        for text in (
            "Big One Q4_K_M",
            "20.0 GB",
            " GB  here",
            "tight: only 0.4 GB",
            "apache-2.0",
            "The draft is old.",
        ):
            assert text in window.text
        assert "Gated model: your account has access." in window.text
        assert "20.0 GB to download, 100.0 GB of disk free" in window.text
        assert window.pairs.arguments("add_checked") == []
        await window.press("enter")
        await window.until(lambda: not window.is_adding)
        assert window.pairs.arguments("add_checked") == [[]]
        await window.until(lambda: window.chosen == "added")
        await window.shows("checking")


async def test_words_search_hugging_face_and_a_choice_becomes_the_target() -> None:
    async with open_setup() as window:
        window.pairs.found = (FoundRepository("a/Qwen3-GGUF", "qwen3", 8_190_000_000), FoundRepository("b/Qwen-GGUF"))
        await window.press("ctrl+a")
        await window.until(lambda: window.is_adding)
        window.type("qwen 8b", "enter")
        await window.shows("a/Qwen3-GGUF")
        assert "8.2 B  qwen3" in window.text
        await window.press("down", "enter")
        assert window.pairs.arguments("search") == [["qwen 8b"]]
        await window.until(lambda: "a/Qwen3-GGUF" not in window.text)
        assert "b/Qwen-GGUF" in window.text
        window.type("", "enter", "enter")
        await window.until(lambda: window.pairs.arguments("check_sources") == [["b/Qwen-GGUF", ""]])


async def test_a_search_without_a_connection_or_results_says_so() -> None:
    async with open_setup() as window:
        window.pairs.refuses = OFFLINE
        await window.press("ctrl+a")
        await window.until(lambda: window.is_adding)
        window.type("qwen", "enter")
        await window.shows("huggingface.co cannot be found. This machine seems to be offline.")
        window.type("", "enter")
        await window.shows("No repository with GGUF files has these words in its name.")


@pytest.mark.parametrize(
    ("remedy", "told"),
    [
        (Remedy.OTHER_DRAFT, "choose another draft, or none"),
        (Remedy.NO_DRAFT, "Incompatible; leave the draft empty."),
        (Remedy.OTHER_TARGET, "choose another target"),
    ],
)
async def test_incompatible_models_are_not_added(remedy: Remedy, told: str) -> None:
    async with open_setup() as window:
        await window.press("ctrl+a")
        window.type("a/b")
        await window.shows("a/b")
        await window.press("tab")
        window.type("c/d", "enter")
        await window.until(lambda: window.pairs.arguments("check_sources"))
        problems = ('Token 5 is "x" in one and "y" in the other.',)
        window.pairs.report_check(replace(CHECKED, prepared=with_check(problems=problems, remedy=remedy)))
        await window.shows('Token 5 is "x" in one')
        await window.press("enter", shows=told)
        assert window.pairs.arguments("add_checked") == []
        window.type("e")
        await window.until(lambda: 'Token 5 is "x"' not in window.text)
        assert window.pairs.now.check is None
        await window.press("enter")
        assert window.pairs.arguments("check_sources")[-1] == ["a/b", "c/de"]


async def test_a_failed_check_shows_why_and_can_be_repeated() -> None:
    async with open_setup() as window:
        await window.press("ctrl+a")
        await window.press("enter", shows="Type the target first.")
        window.type("a/b", "enter", "enter")
        await window.until(lambda: window.pairs.arguments("check_sources") == [["a/b", ""]])
        window.pairs.report_check(
            SetupProgress(Stage.FAILED, error=HubError("a/b wants its terms accepted.", "Accept them on its page."))
        )
        await window.shows("a/b wants its terms accepted.")
        assert "Accept them on its page." in window.text
        await window.press("enter")
        await window.until(lambda: len(window.pairs.arguments("check_sources")) == 2)
        await window.press("escape")
        await window.until(lambda: not window.is_adding)
        assert window.pairs.calls[-1] == ("cancel_check",)


def focused(window: Window) -> str | None:
    """The id of the focused field."""
    return window.app.focused.id if window.app.focused is not None else None


@pytest.mark.parametrize("key", ["tab", "right"])
async def test_a_path_to_a_model_file_completes(key: str, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    for name in ("notes.txt", "Qwen3-8B.gguf"):
        (tmp_path / "models" / name).touch()
    async with open_setup() as window:
        await window.press("ctrl+a")
        await window.until(lambda: window.is_adding)
        screen = window.app.screen
        assert isinstance(screen, AddPairScreen)
        for typed, completed in ((f"{tmp_path}/mo", "models/"), ("qw", "models/Qwen3-8B.gguf")):
            window.type(typed)
            await window.until(lambda end=completed: screen.target._suggestion.endswith(end))  # type: ignore[misc]
            await window.press(key)
            await window.until(lambda end=completed: screen.target.value == f"{tmp_path}/{end}")  # type: ignore[misc]
        await window.press("tab")
        await window.until(lambda: focused(window) == "draft")


def test_an_mtp_layer_is_named_as_the_draft() -> None:
    target = replace(facts("Big One", "Q4_K_M"), architecture="qwen35", n_mtp_layers=1)
    prepared = replace(PREPARED, models={"target": PREPARED.models["target"]}, check=PairCheck(target, None))
    assert "draft   MTP layer in the same file" in [line.plain for line in report_lines(prepared, "fits", 100)]
    without = replace(prepared, check=PairCheck(facts("Big One", "Q4_K_M"), None))
    assert "MTP" not in " ".join(line.plain for line in report_lines(without, "fits", 100))


def test_a_draft_that_was_found_is_named_by_its_kind() -> None:
    head = replace(facts("Big One EAGLE-3", "Q8_0"), head=HeadFacts(Source.EAGLE3, (1, 2, 3), 4096))
    prepared = replace(PREPARED, check=PairCheck(facts("Big One", "Q4_K_M"), head))
    assert "Compatible: EAGLE-3 head." in " ".join(line.plain for line in report_lines(prepared, "fits", 100))
