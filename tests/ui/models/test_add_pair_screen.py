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
from app.ui.models.add_pair_screen import report_lines
from tests.ui.models.driver import SetupChat, open_setup
from tests.ui.models.fake_pairs import CHECKED, OFFLINE, PREPARED, facts, with_check


async def test_repositories_are_checked_before_they_are_downloaded() -> None:
    async with open_setup() as chat:
        await chat.add()
        chat.hit("owner/big:Q4_K_M", "enter")
        await chat.shows("owner/big:Q4_K_M")
        chat.hit("owner/small", "enter")
        await chat.until(lambda: chat.pairs.arguments("check") == [["owner/big:Q4_K_M", "owner/small"]])
        await chat.shows("nothing is downloaded yet")
        chat.pairs.checks[-1].progress = SetupProgress(
            Stage.CHECKING, header_progress="Looking at big.gguf: 1.2 MB of its header"
        )
        await chat.shows("Looking at big.gguf: 1.2 MB of its header")
        chat.pairs.checks[-1].progress = CHECKED
        await chat.shows("Compatible. Press Enter to download.")
        for text in (
            "Big One Q4_K_M",
            "20.0 GB",
            " GB  here",
            "tight: only 0.4 GB",
            "apache-2.0",
            "The draft is old.",
        ):
            assert text in chat.text
        assert "Gated model: your account has access." in chat.text
        assert "20.0 GB to download, 100.0 GB of disk free" in chat.text
        assert chat.pairs.arguments("add") == []
        await chat.press("enter", until=lambda: not chat.is_adding)
        assert chat.pairs.arguments("add") == [["checked"]]
        await chat.until(lambda: chat.pair == "added")
        await chat.shows("checking")


async def test_words_search_hugging_face_and_a_choice_becomes_the_target() -> None:
    async with open_setup() as chat:
        chat.pairs.found = (FoundRepository("a/Qwen3-GGUF", "qwen3", 8_190_000_000), FoundRepository("b/Qwen-GGUF"))
        await chat.add()
        chat.hit("qwen 8b", "enter")
        await chat.shows("a/Qwen3-GGUF")
        assert "8.2 B  qwen3" in chat.text
        await chat.press("down", "enter")
        assert chat.pairs.arguments("search") == [["qwen 8b"]]
        await chat.until(lambda: "a/Qwen3-GGUF" not in chat.text)
        assert "b/Qwen-GGUF" in chat.text
        chat.hit("", "enter", "enter")
        await chat.until(lambda: chat.pairs.arguments("check") == [["b/Qwen-GGUF", ""]])


async def test_a_search_without_a_connection_or_results_says_so() -> None:
    async with open_setup() as chat:
        chat.pairs.refuses = OFFLINE
        await chat.add()
        chat.hit("qwen", "enter")
        await chat.shows("huggingface.co cannot be found. This machine seems to be offline.")
        chat.hit("", "enter")
        await chat.shows("No repository with GGUF files has these words in its name.")


@pytest.mark.parametrize(
    ("remedy", "told"),
    [
        (Remedy.OTHER_DRAFT, "choose another draft, or none"),
        (Remedy.NO_DRAFT, "Incompatible; leave the draft empty."),
        (Remedy.OTHER_TARGET, "choose another target"),
    ],
)
async def test_incompatible_models_are_not_added(remedy: Remedy, told: str) -> None:
    async with open_setup() as chat:
        await chat.press("ctrl+a")
        chat.hit("a/b")
        await chat.shows("a/b")
        await chat.press("tab")
        chat.hit("c/d", "enter")
        await chat.until(lambda: chat.pairs.arguments("check"))
        problems = ('Token 5 is "x" in one and "y" in the other.',)
        chat.pairs.checks[-1].progress = replace(CHECKED, prepared=with_check(problems=problems, remedy=remedy))
        await chat.shows('Token 5 is "x" in one')
        await chat.press("enter", shows=told)
        assert chat.pairs.arguments("add") == []
        chat.hit("e")
        await chat.until(lambda: 'Token 5 is "x"' not in chat.text)
        assert chat.pairs.checks[-1].cancelled
        await chat.press("enter")
        assert chat.pairs.arguments("check")[-1] == ["a/b", "c/de"]


async def test_a_failed_check_shows_why_and_can_be_repeated() -> None:
    async with open_setup() as chat:
        await chat.press("ctrl+a", "enter", shows="Type the target first.")
        chat.hit("a/b", "enter", "enter")
        await chat.until(lambda: chat.pairs.arguments("check") == [["a/b", ""]])
        error = HubError("a/b wants its terms accepted.", "Accept them on its page.")
        chat.pairs.checks[-1].progress = SetupProgress(Stage.FAILED, error=error)
        await chat.shows("a/b wants its terms accepted.")
        assert "Accept them on its page." in chat.text
        await chat.press("enter", until=lambda: len(chat.pairs.arguments("check")) == 2)
        await chat.press("escape", until=lambda: not chat.is_adding)
        assert chat.pairs.checks[-1].cancelled


def focused(chat: SetupChat) -> str | None:
    """The id of the focused field."""
    return chat.app.focused.id if chat.app.focused is not None else None


@pytest.mark.parametrize("key", ["tab", "right"])
async def test_a_path_to_a_model_file_completes(key: str, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    for name in ("notes.txt", "Qwen3-8B.gguf"):
        (tmp_path / "models" / name).touch()
    async with open_setup() as chat:
        screen = await chat.add()
        for typed, completed in ((f"{tmp_path}/mo", "models/"), ("qw", "models/Qwen3-8B.gguf")):
            chat.hit(typed)
            await chat.until(lambda end=completed: screen.target._suggestion.endswith(end))  # type: ignore[misc]
            await chat.press(key)
            await chat.until(lambda end=completed: screen.target.value == f"{tmp_path}/{end}")  # type: ignore[misc]
        await chat.press("tab", until=lambda: focused(chat) == "draft")


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
