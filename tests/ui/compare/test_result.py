"""Check what can be compared, and how the compare screen is stopped, left and saved."""

from pathlib import Path

import pytest
from textual import events

from app.conversations.message import Message, Role
from app.conversations.store import Store
from app.core.errors import ContextOverflowError, DecodeError
from app.engine.types import AutoDraft
from app.settings.layers import Layer
from app.ui.chat.screen import ChatScreen
from app.worker.events import Failed
from tests.ui.compare.driver import AUTOMATIC, PLAIN, SAME, SETTINGS, Comparison, made, open_comparison
from tests.ui.driver import open_chat


def asked(comparison: Comparison) -> list[tuple[Role, str]]:
    return [(message.role, message.content) for message in comparison.job.request.messages]


async def test_the_prompt_being_typed_is_compared() -> None:
    async with open_comparison() as compare:
        job = compare.job
        assert asked(compare) == [(Role.USER, "Write a quicksort.")]
        assert [side.name for side in job.sides] == [PLAIN, AUTOMATIC]
        assert job.sides[1].drafting == AutoDraft()
        assert (job.rounds, job.first, job.explains) == (1, 1, True)
        await compare.chat.shows("Each side sees this prompt alone")
        assert job.request.max_tokens == 256


async def test_pastes_and_files_are_part_of_the_prompt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.md").write_text("Buy milk.")
    async with open_chat(SETTINGS) as chat:
        await chat.type("why @nots.md ")
        await chat.press("f2", shows="There is no file nots.md. To send it as text")
        assert chat.prompt == "why @nots.md "
        assert chat.engine.jobs == []
        chat.screen.view.prompt.clear()
        await chat.type("why @notes.md ")
        log = "line\n" * 500
        chat.pilot.app.post_message(events.Paste(log))
        await chat.until(lambda: "[pasted" in chat.prompt)
        compare = Comparison(chat)
        await compare.open()
        message = asked(compare)[0][1]
        assert log in message
        assert "Buy milk." in message
        # Included files come before the prompt.
        await chat.shows("why @notes.md [pasted")


async def test_sampling_uses_one_seed_for_all_rounds() -> None:
    async with open_comparison({"sampling.temp": 0.7, "answer.max_tokens": 32}) as compare:
        seed = compare.job.request.sampling.seed
        assert seed is not None
        assert compare.job.request.max_tokens == 32
        compare.races([made(PLAIN, 4), made(AUTOMATIC, 2)], differences=SAME)
        await compare.chat.shows("2.0× faster")
        await compare.chat.pilot.press("r")
        assert compare.job.request.sampling.seed == seed


async def refused(chat_text: str, flags: Layer = SETTINGS, *, loaded: bool = True, typed: str = "Hi") -> None:
    async with open_chat(flags, loaded=loaded) as chat:
        if typed:
            await chat.type(typed)
        await chat.press("f2", shows=chat_text)
        assert chat.engine.jobs == []
        assert chat.prompt == typed


async def test_nothing_is_compared_without_a_prompt_models_or_drafting() -> None:
    await refused("There is no prompt to compare yet; type one.", typed="")
    await refused("The pair is still loading.", loaded=False)
    await refused("Drafting is off in the settings", {"draft.mode": "off"})


async def test_esc_stops_and_esc_again_leaves() -> None:
    async with open_comparison() as compare:
        compare.runs(made(PLAIN, 4))
        await compare.chat.shows("50 tok/s")
        await compare.chat.press("escape", shows="stopping")
        assert compare.engine.cancelled == 1
        compare.finishes([], stopped=True)
        await compare.chat.shows("stopped")
        await compare.chat.pilot.press("escape")
        await compare.chat.until(lambda: isinstance(compare.chat.pilot.app.screen, ChatScreen))


async def test_a_failure_keeps_whole_rounds_and_shows_why() -> None:
    async with open_comparison() as compare:
        compare.races([made(PLAIN, 4), made(AUTOMATIC, 2)], differences=SAME)
        await compare.chat.shows("2.0× faster")
        await compare.chat.pilot.press("3")
        await compare.chat.until(lambda: len(compare.engine.jobs) == 2)
        compare.finishes([[made(AUTOMATIC, 2), made(PLAIN, 4)]], broken=DecodeError("The card is gone."))
        await compare.chat.shows("The card is gone.")
        await compare.chat.shows("2.0× faster  (2 runs")


async def test_a_comparison_leaves_the_chat_unchanged() -> None:
    store = Store()
    async with open_chat(SETTINGS, store=lambda: store) as chat:
        await chat.exchange("One?", "First.")
        await chat.type("half a prom")
        before, said = chat.text, chat.screen.session.conversation.messages_before(None)
        compare = Comparison(chat)
        await compare.open()
        compare.races([made(PLAIN, 4), made(AUTOMATIC, 2)], differences=SAME)
        await chat.shows("2.0× faster")
        await chat.pilot.press("r", "escape", "escape")
        await chat.until(lambda: isinstance(chat.pilot.app.screen, ChatScreen))
        # Late events of a screen that was closed are dropped.
        compare.runs(made(PLAIN, 4))
        compare.finishes([], stopped=True)
        await chat.type("pt")
        assert chat.prompt == "half a prompt"
        assert chat.screen.session.conversation.messages_before(None) == said
        assert chat.text.replace("half a prompt", "half a prom") == before
        (kept,) = store.summaries()
        assert [node.text for node in store.load(kept.id).tree.path] == ["One?", "First."]

        chat.screen.view.prompt.clear()
        await chat.send("Two?")
        assert chat.engine.requests[-1].messages == (*said, Message(Role.USER, "Two?"))
        chat.engine.says("Second.")
        await chat.shows("Second.")


async def test_a_prompt_that_does_not_fit_is_reported_with_the_keys_of_the_chat() -> None:
    async with open_comparison() as compare:
        compare.engine.emit(Failed(compare.engine.job_number, ContextOverflowError("It is full.", "Ask with --ctx.")))
        await compare.chat.shows("Start a new conversation (ctrl+n) or edit an earlier prompt (ctrl+up,")
        assert "--ctx" not in compare.chat.text


async def test_it_is_copied_as_markdown() -> None:
    async with open_comparison(size=(160, 40)) as compare:
        await compare.chat.pilot.press("c")
        assert compare.chat.pilot.app.clipboard == "", "there is nothing to copy yet"
        compare.races([made(PLAIN, 4), made(AUTOMATIC, 2)], differences=SAME)
        await compare.chat.shows("2.0× faster")
        await compare.chat.pilot.press("c")
        assert "| automatic | 100.0 tok/s | 2.0×? |" in compare.chat.pilot.app.clipboard


async def test_a_reload_of_the_pair_is_shown() -> None:
    async with open_comparison() as compare:
        compare.engine.load_progress("target", 0.5)
        await compare.chat.shows("loading the models again: 50%")
        compare.races([made(PLAIN, 4), made(AUTOMATIC, 2)], differences=SAME)
        await compare.chat.shows("2.0× faster")
