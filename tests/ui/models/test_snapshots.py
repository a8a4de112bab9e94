"""Pictures of the setup screens. Look at every picture before accepting it: pytest tests/ui --snapshot-update"""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from textual.pilot import Pilot

from app.core.errors import HubError
from app.hardware.recommend import why
from app.models.setup_task import SetupProgress, Stage
from tests.ui.models.driver import SetupChat, setup_app
from tests.ui.models.fake_pairs import BEGUN, CODER, FakePairs, facts, models, with_check
from tests.ui.pictures import SIZES, THEMES, SnapCompare

Scene = Callable[[SetupChat], Awaitable[None]]


def picture(compare: SnapCompare, scene: Scene, size: tuple[int, int], theme: str, *, first_run: bool = True) -> bool:
    pairs = FakePairs()
    app, engine = setup_app(pairs, first_run=first_run)
    app.theme = theme

    async def run_before(pilot: Pilot[None]) -> None:
        chat = SetupChat(pilot, app, engine, pairs)
        await chat.reach_setup(first_run=first_run)
        await scene(chat)

    return compare(app, terminal_size=size, run_before=run_before)


async def downloading(chat: SetupChat) -> None:
    chat.pairs.change("llama-8b", here=True, set_up=True, is_default=True)
    chat.pairs.report("coder-32b", BEGUN)
    await chat.shows("MB/s", "default")


async def filtered(chat: SetupChat) -> None:
    chat.hit("llama", "down")
    await chat.until(lambda: chat.pair == "llama-70b")


async def offline(chat: SetupChat) -> None:
    error = HubError(
        "huggingface.co cannot be found.", "This machine seems to be offline, or its name service does not answer."
    )
    chat.pairs.report("coder-32b", SetupProgress(Stage.FAILED, error=error))
    await chat.shows("seems to be offline")


async def stopped(chat: SetupChat) -> None:
    chat.pairs.report("coder-32b", replace(BEGUN, stage=Stage.STOPPED))
    await chat.shows("Press Enter to resume")


async def asked(chat: SetupChat) -> None:
    await chat.press("enter", shows="Download 20.5 GB? Enter yes")


async def adding(chat: SetupChat) -> None:
    await chat.add()
    chat.hit("bartowski/Qwen2.5-Coder-32B-Instruct-GGUF", "enter")
    await chat.until(lambda: chat.is_adding and chat.app.focused is not None and chat.app.focused.id == "draft")
    chat.hit("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF:Q8_0", "enter")
    await chat.until(lambda: chat.pairs.arguments("check"))
    prepared = with_check(
        target=facts("Qwen2.5 Coder 32B Instruct", "Q4_K_M"),
        draft=facts("Qwen2.5 Coder 0.5B Instruct", "Q8_0"),
        warnings=("The draft was trained for 4,096 tokens of context, the target for 32,768.",),
    )
    prepared = replace(
        prepared,
        models=models(19_851_000_000, 675_710_848),
        download_bytes=19_851_000_000,
        free_bytes=310_000_000_000,
    )
    chat.pairs.checked_fit = "fits: 1.9 GB to spare on RTX 4090"
    chat.pairs.checks[-1].progress = SetupProgress(Stage.CHECKED, prepared=prepared)
    await chat.shows("Compatible.")


async def open_pair(chat: SetupChat) -> None:
    chat.pairs.change("demo", set_up=True, here=True, is_default=True)
    chat.pairs.change("llama-8b", set_up=True, here=True, is_open=True)
    await chat.until(lambda: any("llama-8b" in row and "loaded" in row for row in chat.rows))
    chat.setup.pairs.choose_pair("llama-8b")
    await chat.shows("16.1 GB to spare")


async def recommended(chat: SetupChat) -> None:
    proposal = replace(CODER.proposal, speed=34.0, measured="34 tok/s")
    chat.pairs.change("coder-32b", proposal=proposal, why=why([proposal]))
    await chat.shows("at reading speed,")


async def beside_the_chat(chat: SetupChat) -> None:
    chat.pairs.report("coder-32b", BEGUN)
    await chat.in_front("escape")
    await chat.shows("coder-32b  target 62%")


@pytest.mark.parametrize(("size", "theme"), list(zip(SIZES, THEMES, strict=False)), ids=str)
def test_downloading(snap_compare: SnapCompare, size: tuple[int, int], theme: str) -> None:
    assert picture(snap_compare, downloading, size, theme)


@pytest.mark.parametrize(("size", "theme"), list(zip(SIZES, THEMES, strict=False)), ids=str)
def test_adding(snap_compare: SnapCompare, size: tuple[int, int], theme: str) -> None:
    assert picture(snap_compare, adding, size, theme)


@pytest.mark.parametrize(("size", "theme"), zip(SIZES, (*THEMES, THEMES[0]), strict=True), ids=str)
def test_first_run(snap_compare: SnapCompare, size: tuple[int, int], theme: str) -> None:
    assert picture(snap_compare, recommended, size, theme)


@pytest.mark.parametrize("scene", [filtered, asked, offline, stopped])
def test_narrow(snap_compare: SnapCompare, scene: Scene) -> None:
    assert picture(snap_compare, scene, (80, 24), "tandem-dark")


def test_beside_the_chat(snap_compare: SnapCompare) -> None:
    assert picture(snap_compare, beside_the_chat, (80, 24), "tandem-dark", first_run=False)


@pytest.mark.parametrize(("size", "theme"), list(zip(SIZES, THEMES, strict=False)), ids=str)
def test_open_pair(snap_compare: SnapCompare, size: tuple[int, int], theme: str) -> None:
    assert picture(snap_compare, open_pair, size, theme, first_run=False)
