"""A pair from any repository."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.core.errors import HubError
from app.models.compatibility import Remedy
from app.ui.models.add_pair_screen import AddPairScreen
from app.ui.models.state import SourceCheck
from tests.ui.models.driver import Window, open_setup
from tests.ui.models.fake_pairs import REPORT


async def test_any_repository_is_looked_at_before_it_is_brought() -> None:
    async with open_setup() as window:
        await window.press("ctrl+a")
        await window.until(lambda: window.is_adding)
        window.type("owner/big:Q4_K_M", "enter")
        await window.shows("owner/big:Q4_K_M")
        window.type("owner/small", "enter")
        await window.until(lambda: window.pairs.names("ask") == [["owner/big:Q4_K_M", "owner/small"]])
        await window.shows("nothing is downloaded yet")
        window.pairs.answers(SourceCheck(looking="Looking at big.gguf: 1.2 MB of its header"))
        await window.shows("Looking at big.gguf: 1.2 MB of its header")
        window.pairs.answers(SourceCheck(report=REPORT))
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
        assert window.pairs.names("add") == []
        await window.press("enter")
        await window.until(lambda: not window.is_adding)
        assert window.pairs.names("add") == [[]]
        await window.until(lambda: window.chosen == "added")
        await window.shows("checking")


@pytest.mark.parametrize(
    ("remedy", "told", "corrected"),
    [
        (Remedy.OTHER_DRAFT, "choose another draft, or none", ["a/b", "c/de"]),
        (Remedy.NO_DRAFT, "Incompatible; leave the draft empty.", ["a/b", "c/de"]),
        (Remedy.OTHER_TARGET, "choose another target", ["a/be", "c/d"]),
    ],
)
async def test_two_that_cannot_ride_together_are_not_brought(remedy: Remedy, told: str, corrected: list[str]) -> None:
    async with open_setup() as window:
        await window.press("ctrl+a")
        window.type("a/b")
        await window.shows("a/b")
        await window.press("tab")
        window.type("c/d", "enter")
        await window.until(lambda: window.pairs.names("ask"))
        problems = ('Token 5 is "x" in one and "y" in the other.',)
        window.pairs.answers(SourceCheck(report=replace(REPORT, problems=problems, remedy=remedy)))
        await window.shows('Token 5 is "x" in one')
        await window.press("enter")
        await window.shows(told)
        assert window.pairs.names("add") == []
        window.type("e")
        await window.until(lambda: 'Token 5 is "x"' not in window.text)
        assert window.pairs.state.inquiry is None
        await window.press("enter")
        assert window.pairs.names("ask")[-1] == corrected


async def test_a_repository_that_cannot_be_had_says_why_and_can_be_asked_again() -> None:
    async with open_setup() as window:
        await window.press("ctrl+a")
        await window.press("enter")
        await window.shows("Type the target first.")
        window.type("a/b", "enter", "enter")
        await window.until(lambda: window.pairs.names("ask") == [["a/b", ""]])
        window.pairs.answers(SourceCheck(error=HubError("a/b wants its terms accepted.", "Accept them on its page.")))
        await window.shows("a/b wants its terms accepted.")
        assert "Accept them on its page." in window.text
        await window.press("enter")
        await window.until(lambda: len(window.pairs.names("ask")) == 2)
        await window.press("escape")
        await window.until(lambda: not window.is_adding)
        assert window.pairs.calls[-1] == ("drop",)


@pytest.mark.parametrize("role", ["target", "draft"])
async def test_an_error_moves_the_cursor_to_the_model_that_it_is_about(role: str) -> None:
    async with open_setup() as window:
        await window.press("ctrl+a")
        window.type("a/b", "enter")
        window.type("c/d", "enter")
        await window.until(lambda: window.pairs.names("ask"))
        window.pairs.answers(SourceCheck(error=HubError("There is no such repository."), error_role=role))
        await window.until(lambda: focused(window) == role)
        window.type("e", "enter")
        await window.until(lambda: len(window.pairs.names("ask")) == 2)
        assert window.pairs.names("ask")[-1] == (["a/be", "c/d"] if role == "target" else ["a/b", "c/de"])


def focused(window: Window) -> str | None:
    """The id of the field that has the cursor."""
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
