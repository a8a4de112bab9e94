"""The compare screen: what it asks of the engine, what it shows, and how it is stopped, left and saved."""

from pathlib import Path

import pytest
from textual import events

from app.compare.difference import Difference
from app.conversations.message import Role
from app.conversations.store import Store
from app.core.errors import ContextOverflowError, DecodeError
from app.engine.events import PromptProgress
from app.engine.interfaces import Controls
from app.engine.types import AutoDraft, DraftParams
from app.settings.layers import Layer
from app.ui.compare.screen import CompareScreen
from app.worker.events import Failed, Measuring
from tests.fakes import FakeModel, mixing
from tests.pairs import FakePair
from tests.ui.compare.driver import (
    AUTOMATIC,
    FIXED,
    FIXED_SETTINGS,
    PLAIN,
    SAME,
    SETTINGS,
    TEXT,
    Comparison,
    made,
    open_comparison,
    tie,
)
from tests.ui.driver import open_chat

OTHER = TEXT.replace("pivot", "middle")
TIE = tie(3, " pivot", " middle", (0.41242, 0.41201), (0.4119, 0.4127), "rounding difference: close")


@pytest.mark.parametrize("thought", ["I sort.", "I sort.\n", "I sort.\n\n"])
async def test_a_blank_line_separates_reasoning_from_the_answer(thought: str) -> None:
    async with open_comparison() as compare:
        compare.begins(PLAIN)
        for text, thinking in ((thought, True), ("Quick", False), ("sort.", False)):
            compare.writes(text, made(PLAIN, 4).stats, thinking=thinking)
        await compare.chat.shows("Quicksort.")
        rows = [row.strip() for row in compare.chat.rows]
        at = rows.index("I sort.")
        assert rows[at : at + 3] == ["I sort.", "", "Quicksort."]


async def test_both_sides_stream_with_their_own_figures() -> None:
    async with open_comparison() as compare:
        compare.begins(PLAIN, 0)
        compare.writes("Warming", made(PLAIN, 1).stats)
        await compare.chat.shows("warming up, no draft")
        assert "Warming" not in compare.chat.text
        compare.begins(PLAIN)
        compare.writes("Quick", made(PLAIN, 4).stats)
        await compare.chat.shows("50 tok/s")
        assert "run 1 of 1, no draft" in compare.chat.text
        assert "automatic" in compare.chat.text
        compare.ends(made(PLAIN, 4))
        compare.begins(AUTOMATIC)
        compare.writes("Quick", made(AUTOMATIC, 2).stats)
        await compare.chat.shows("100 tok/s    78% accepted")
        titles = [row.split("  ")[0].strip() for row in compare.chat.rows if "draft" in row and "tok/s" in row]
        assert titles == ["Without draft", "With draft, automatic"]


async def test_new_text_is_followed_until_the_reader_scrolls_and_a_difference_is_shown() -> None:
    text = "".join(f"line {number}\n\n" for number in range(40))
    other = text.replace("line 20", "line twenty")
    difference = Difference(20, 1, 2, "20", "twenty", 1, None, None, None, None, "why")
    async with open_comparison(size=(160, 24)) as compare:
        compare.begins(PLAIN)
        compare.writes(text, made(PLAIN, 4).stats)
        await compare.chat.shows("line 39")
        await compare.chat.press("pageup", "pageup", until=lambda: "line 39" not in compare.chat.text)
        compare.writes("more\n\nlast", made(PLAIN, 4).stats)
        await compare.chat.shows("201 tokens")
        assert "last" not in compare.chat.text

        compare.races([made(PLAIN, 4, text=text), made(AUTOMATIC, 2, text=other)], differences={AUTOMATIC: difference})
        await compare.chat.shows("line twenty")
        assert "line 20" in compare.chat.text
        assert "line 39" not in compare.chat.text


async def test_measuring_and_prompt_progress_are_shown() -> None:
    async with open_comparison() as compare:
        compare.begins(AUTOMATIC, 0)
        compare.engine.emit(Measuring(compare.engine.job_number, 0.5))
        await compare.chat.shows("measuring once what drafts cost here: 50%")
        compare.engine.emit(PromptProgress(compare.engine.job_number, True, 10, 40))
        await compare.chat.shows("warming up, automatic: draft reading prompt: 10 of 40 tokens")


async def test_the_first_difference_is_explained_and_marked() -> None:
    async with open_comparison(size=(120, 40)) as compare:
        compare.races([made(PLAIN, 4), made(AUTOMATIC, 2, text=OTHER)], differences={AUTOMATIC: TIE})
        await compare.chat.shows("rounding difference: close")
        told = " ".join(compare.chat.text.split())
        assert 'differs at token 4 (rounding) "·pivot" without drafts (41.24% against 41.20%)' in told
        assert '"·middle" with (41.27% against 41.19%)' in told
        assert compare.chat.styled("underline") == ["pivot", "middle"]


async def test_a_text_is_rendered_and_says_where_it_stops() -> None:
    text = "## Sorting\n\nUse **sorted**:\n\n```py\nsorted(items)\n```\n"
    async with open_comparison(size=(120, 40)) as compare:
        compare.begins(PLAIN)
        compare.writes("Let me *think*.", made(PLAIN, 4).stats, thinking=True)
        compare.writes(text, made(PLAIN, 4).stats)
        await compare.chat.shows("Use sorted:")
        assert "Let me think." in compare.chat.text
        assert "**" not in compare.chat.text
        assert "```" not in compare.chat.text
        assert "cut at" not in compare.chat.text
        compare.ends(made(PLAIN, 4, text=text))
        await compare.chat.shows("cut at 201 tokens")


async def test_a_difference_behind_markup_and_reasoning_is_marked() -> None:
    async with open_comparison() as compare:
        for side, last in ((PLAIN, "one"), (AUTOMATIC, "two")):
            compare.begins(side)
            compare.writes("Thoughts.", made(side, 4).stats, thinking=True)
            compare.writes(f"It is **one** of `one` and {last}", made(side, 4).stats)
            compare.ends(made(side, 4))
        compare.finishes([[made(PLAIN, 4), made(AUTOMATIC, 2)]], {AUTOMATIC: TIE})
        await compare.chat.shows("rounding difference: close")
        screen = compare.chat.app.screen
        assert isinstance(screen, CompareScreen)
        for pane, last in zip(screen.panes.values(), ("one", "two"), strict=True):
            parts = [part for strip in pane.markdown[False].lines(0, 1) for part in strip if part.text.strip()]
            marked = [part.style is not None and bool(part.style.underline) for part in parts]
            assert (marked.index(True), parts[-1].text) == (len(parts) - 1, last)


async def test_fixed_settings_add_a_third_side() -> None:
    async with open_comparison(FIXED_SETTINGS, size=(160, 40)) as compare:
        assert [side.name for side in compare.job.sides] == [PLAIN, FIXED, AUTOMATIC]
        assert compare.job.sides[1].drafting == DraftParams()
        await compare.chat.shows("With draft, fixed 7/0.6")
        runs = [made(PLAIN, 4), made(FIXED, 8), made(AUTOMATIC, 2)]
        compare.races(runs, differences={FIXED: None, AUTOMATIC: None})
        await compare.chat.shows("fixed 7/0.6: slower, 0.5× the speed  (1 run", "automatic: 2.0× faster  (1 run")


async def test_the_real_job_on_fakes() -> None:
    async with open_comparison(prompt="hello") as compare:
        pair = FakePair(FakeModel(mixing(4, n_vocab=27)), FakeModel(mixing(4, n_vocab=27)))
        for event in compare.job.run(pair, compare.engine.job_number, Controls()):
            compare.engine.emit(event)
        await compare.chat.shows("identical output, 256 tokens")


async def test_hostile_text_stays_text() -> None:
    evil = "[bold]x[/] \x1b[31mred\u202e"
    async with open_comparison(prompt="[red]hi[/]") as compare:
        compare.races([made(PLAIN, 4, text=evil), made(AUTOMATIC, 2, text=evil)], differences=SAME)
        await compare.chat.shows("[bold]x[/] [31mred")
        assert "[red]hi[/]" in compare.chat.text


@pytest.mark.parametrize(("width", "beside"), [(99, False), (100, True)])
async def test_a_narrow_window_shows_one_text_above_a_table_of_sides(width: int, beside: bool) -> None:
    async with open_comparison(size=(width, 30)) as compare:
        screen = compare.chat.app.screen
        assert isinstance(screen, CompareScreen)
        compare.races([made(PLAIN, 4), made(AUTOMATIC, 2, text="Another text.")], differences=SAME)
        await compare.chat.shows("2.0× faster", "Another text.")
        assert (TEXT[:20] in compare.chat.text) is beside
        await compare.chat.press("tab", shows=TEXT[:20])
        assert ("Another text." in compare.chat.text) is beside
        assert compare.chat.text.count("Without draft") == compare.chat.text.count("With draft, automatic") == 1


def asked(comparison: Comparison) -> list[tuple[Role, str]]:
    return [(message.role, message.content) for message in comparison.job.request.messages]


async def test_the_prompt_being_typed_is_compared() -> None:
    async with open_comparison({**SETTINGS, "answer.max_tokens": 32}) as compare:
        job = compare.job
        assert asked(compare) == [(Role.USER, "Write a quicksort.")]
        assert [side.name for side in job.sides] == [PLAIN, AUTOMATIC]
        assert job.sides[1].drafting == AutoDraft()
        assert (job.rounds, job.first, job.explains) == (1, 1, True)
        await compare.chat.shows("Each side sees this prompt alone")
        assert job.request.max_tokens == 32


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
        chat.app.post_message(events.Paste(log))
        await chat.until(lambda: "[pasted" in chat.prompt)
        compare = Comparison(chat)
        await compare.open()
        message = asked(compare)[0][1]
        assert log in message
        assert "Buy milk." in message
        # Included files come before the prompt.
        await chat.shows("why @notes.md [pasted")


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
        await compare.chat.in_front("escape")


async def test_a_failure_keeps_whole_rounds_and_shows_why() -> None:
    async with open_comparison() as compare:
        compare.races([made(PLAIN, 4), made(AUTOMATIC, 2)], differences=SAME)
        await compare.chat.shows("2.0× faster")
        await compare.chat.press("3", until=lambda: len(compare.engine.jobs) == 2)
        compare.finishes([[made(AUTOMATIC, 2), made(PLAIN, 4)]], broken=DecodeError("The card is gone."))
        await compare.chat.shows("The card is gone.", "2.0× faster  (2 runs")


async def test_a_comparison_leaves_the_chat_unchanged() -> None:
    store = Store()
    async with open_chat(SETTINGS, store=lambda: store) as chat:
        await chat.exchange("One?", "First.")
        await chat.type("half a prom")
        before, said = chat.text, chat.screen.session.conversation.messages
        compare = Comparison(chat)
        await compare.open()
        compare.races([made(PLAIN, 4), made(AUTOMATIC, 2)], differences=SAME)
        await chat.shows("2.0× faster")
        await chat.in_front("r", "escape", "escape")
        # Late events of a screen that was closed are dropped.
        compare.runs(made(PLAIN, 4))
        compare.finishes([], stopped=True)
        await chat.type("pt")
        assert chat.prompt == "half a prompt"
        assert chat.screen.session.conversation.messages == said
        assert chat.text.replace("half a prompt", "half a prom") == before
        (kept,) = store.summaries()
        assert [node.text for node in store.load(kept.id).tree.path] == ["One?", "First."]

        chat.screen.view.prompt.clear()
        await chat.send("Two?")
        assert [message.content for message in chat.engine.requests[-1].messages] == ["One?", "First.", "Two?"]
        await chat.writes("Second.")


async def test_a_prompt_that_does_not_fit_is_reported_with_the_keys_of_the_chat() -> None:
    async with open_comparison() as compare:
        compare.engine.emit(Failed(compare.engine.job_number, ContextOverflowError("It is full.", "Ask with --ctx.")))
        await compare.chat.shows("Start a new conversation (ctrl+n) or edit an earlier prompt (ctrl+up,")
        assert "--ctx" not in compare.chat.text


async def test_a_comparison_is_copied_as_markdown() -> None:
    async with open_comparison(size=(160, 40)) as compare:
        await compare.chat.pilot.press("c")
        assert compare.chat.app.clipboard == "", "there is nothing to copy yet"
        compare.races([made(PLAIN, 4), made(AUTOMATIC, 2)], differences=SAME)
        await compare.chat.shows("2.0× faster")
        await compare.chat.pilot.press("c")
        assert "| automatic | 100.0 tok/s | 2.0×? |" in compare.chat.app.clipboard


async def test_a_reload_of_the_pair_is_shown() -> None:
    async with open_comparison() as compare:
        compare.engine.load_progress(0.5)
        await compare.chat.shows("loading the models again: 50%")
        compare.races([made(PLAIN, 4), made(AUTOMATIC, 2)], differences=SAME)
        await compare.chat.shows("2.0× faster")
