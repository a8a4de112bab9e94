"""Header, readouts and keys around the conversation, even in small windows."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from textual.content import Content
from textual.geometry import Size
from textual.selection import SELECT_ALL

from app.conversations.store import Store
from app.core.columns import in_brief
from app.core.errors import AppError
from app.engine.sources import Source
from app.engine.types import DraftingStatus
from app.models.pair_info import DeviceMemory
from app.ui.keys import KeyBar, Word, Words
from app.ui.screens.key_list import KeyListScreen
from app.ui.text import cut, side_by_side
from tests.fake_engine import GAINING, PAIR, STATS
from tests.ui.driver import WIDE, open_chat

# The keys


def test_an_important_hint_keeps_its_place_in_a_narrow_line(monkeypatch: pytest.MonkeyPatch) -> None:
    words = Words()
    monkeypatch.setattr(Words, "size", Size(25, 1))
    names = [("enter choose", False), ("tab other scope", False), ("esc back", True)]
    words.say([Word(Content(text), lambda: None, stays=stays) for text, stays in names])
    assert words.render().plain == "enter choose  esc back"


# The readouts


async def test_a_wide_window_shows_the_readouts_beside_the_answer_and_not_above_the_prompt() -> None:
    async with open_chat(size=WIDE) as chat:
        await chat.shows("context")
        await chat.send("go")
        chat.engine.reads(1024, 2048)
        await chat.shows("reading prompt: 1,024 of 2,048 tokens, 8 s left")
        chat.engine.says("word", stats=GAINING, drafting=DraftingStatus(Source.MODEL, "It pays."))
        await chat.shows("3.1×")
        assert "now         draft model" in chat.text
        assert "It pays." in chat.text
        assert "78% accepted" not in chat.text
        assert "tokens/step    5.9" in chat.text


async def test_a_key_toggles_the_readouts_permanently() -> None:
    async with open_chat(size=WIDE) as chat:
        await chat.shows("f5 more")
        assert "19.9 GB" not in chat.text
        await chat.press("f5", shows="target        19.9 GB Q4_K_M")
        await chat.press("f5", until=lambda: "this answer" not in chat.text)
        await chat.until(lambda: chat.status.startswith("ready ") and "drafting fixed" in chat.status)
        await chat.pilot.resize_terminal(160, 30)
        await chat.pilot.pause()
        assert "this answer" not in chat.text
        await chat.press("f5", shows="f5 more")


async def test_a_narrow_window_shows_the_panel_on_request_or_the_reason_why_not() -> None:
    async with open_chat(size=(80, 24)) as chat:
        await chat.press("f5", shows="f5 more")
        await chat.pilot.resize_terminal(60, 20)
        await chat.until(lambda: "f5 more" not in chat.text)
        await chat.press("f5", shows="The numbers need a window of 76 columns.")


async def test_the_numbers_of_an_earlier_answer_on_a_click(file: Path) -> None:
    async with open_chat(size=WIDE, store=lambda: Store(file)) as chat:
        await chat.send("one")
        chat.engine.says("the first answer")
        chat.engine.finishes(stats=replace(STATS, predicted_ns=8_380_000_000))
        await chat.ready()
        await chat.exchange("two", "second answer")
        await chat.shows("second answer")
        assert "107 tok/s" in chat.text
        await chat.click("first")
        await chat.shows("earlier answer", "53 tok/s")
        assert chat.text.count("Qwen2.5-Coder-32B-Instruct") == 2
        assert "107 tok/s" not in chat.text
        await chat.click("second")
        await chat.shows("last answer", "107 tok/s")
        await chat.click("first")
        await chat.click("earlier", shows="107 tok/s")


@pytest.mark.parametrize("size", [WIDE, (80, 24)])
async def test_the_numbers_of_an_answer_that_is_being_written_are_not_called_missing(
    file: Path, size: tuple[int, int]
) -> None:
    async with open_chat(size=size, store=lambda: Store(file)) as chat:
        await chat.send("one")
        await chat.writes("some words")
        await chat.press("ctrl+up", shows="keys act on the chosen message")
        await chat.stands_still()
        assert "No numbers" not in chat.text


async def test_without_a_panel_the_numbers_of_an_answer_are_one_line(file: Path) -> None:
    async with open_chat(store=lambda: Store(file)) as chat:
        await chat.exchange("one", "an answer")
        await chat.shows("an answer")
        await chat.click("answer")
        await chat.shows("448 tokens, 107 tok/s, draft model, 78% accepted, 5.9 tokens per step")
        await chat.press("escape", until=lambda: "448 tokens" not in chat.text)
        await chat.press("ctrl+up", shows="448 tokens")
        await chat.press("up", until=lambda: "448 tokens" not in chat.text)


async def test_an_opened_conversation_shows_what_its_last_answer_was_like(file: Path) -> None:
    async with open_chat(store=lambda: Store(file)) as chat:
        await chat.exchange("a question", "first")
    async with open_chat(size=WIDE, store=lambda: Store(file)) as chat:
        await chat.picker()
        await chat.click("a question", shows="last answer")
        assert "107 tok/s" in chat.text
        await chat.send("two")
        await chat.until(lambda: "last answer" not in chat.text)


# The keys


async def test_the_last_line_shows_whole_keys_and_the_way_to_the_others() -> None:
    async with open_chat() as chat:
        for columns in (20, 40, 60, 80, 100, 120, 200):
            await chat.pilot.resize_terminal(columns, 24)
            bar = chat.screen.query_one(KeyBar)
            await chat.until(lambda: bar.size.width == columns - 2 and chat.rows[-1].endswith("f1 help"))  # noqa: B023
            shown = re.split(r"\s{2,}", chat.rows[-1].strip())
            described = {
                f"{chat.app.get_key_display(one.binding)} {one.binding.description}"
                for one in chat.screen.active_bindings.values()
            }
            assert set(shown) <= described
            assert "ctrl+q quit" in shown or columns < 24
            assert "ctrl+p commands" in shown or columns < 40
            assert "ctrl+d draft" in shown or columns < 60


async def test_a_key_of_the_last_line_can_be_clicked() -> None:
    async with open_chat(size=(200, 40)) as chat:
        await chat.shows("f5 more")
        await chat.click("numbers", until=lambda: "f5 more" not in chat.text)


async def test_f1_lists_every_key_once_with_the_users_own() -> None:
    async with open_chat(size=(100, 150)) as chat:
        chat.app.set_keymap({"chat.again": "ctrl+g,f9"})
        await chat.press("f1", until=lambda: isinstance(chat.app.screen, KeyListScreen))
        await chat.shows("Regenerate the last answer")
        line = next(row for row in chat.rows if "Regenerate the last answer" in row)
        assert line.split()[:2] == ["ctrl+g,", "f9"]
        assert {"Chat", "Prompt", "Program", "Editing"} <= {row.strip() for row in chat.rows}
        keys = [key for row in chat.rows for key in re.split(" {2,}|, *", row.strip())]
        for key in ("ctrl+q", "f6", "f7", "ctrl+d", "ctrl+z", "shift+enter", "ctrl+shift+right"):
            assert keys.count(key) == 1, key
        await chat.in_front("f1")


async def test_the_last_line_shows_only_keys_that_do_something_now() -> None:
    async with open_chat(size=(200, 50)) as chat:
        await chat.until(lambda: "ctrl+p commands" in chat.rows[-1])
        assert "esc stop" not in chat.rows[-1]
        assert "ctrl+r regenerate" not in chat.rows[-1]
        await chat.send("go")
        await chat.until(lambda: "esc stop" in chat.rows[-1])
        assert "ctrl+r regenerate" not in chat.rows[-1]
        chat.engine.finishes()
        await chat.until(lambda: "ctrl+r regenerate" in chat.rows[-1])
        assert "esc stop" not in chat.rows[-1]


# The header

MAIN = DeviceMemory("cpu", 400_000_000)


async def test_the_header_leaves_out_what_does_not_fit_whole() -> None:
    async with open_chat() as chat:
        await chat.until(lambda: chat.screen.view.header.pair == PAIR)
        for columns, end in (
            (80, "0.5B Q8_0 CPU · 20.4 GB"),
            (66, "0.5B Q8_0 CPU"),
            (60, "Q8_0"),
            (40, "32B-Instruct"),
            (30, "…"),
        ):
            await chat.pilot.resize_terminal(columns, 24)
            await chat.until(lambda: " ".join(chat.rows[0].split()).endswith(end))  # noqa: B023


async def test_a_draft_with_the_name_of_its_target_is_named_only_with_both_quantizations() -> None:
    async with open_chat(loaded=False) as chat:
        chat.engine.loaded(replace(PAIR, draft=replace(PAIR.target, quantization="Q2_K")))
        for columns, end in ((80, "Q4_K_M + Q2_K"), (44, "32B-Instruct")):
            await chat.pilot.resize_terminal(columns, 24)
            await chat.until(lambda: re.search(rf"{re.escape(end)}( CPU.*)?$", " ".join(chat.rows[0].split())))  # noqa: B023


MEMORY: list[tuple[tuple[DeviceMemory, ...], str]] = [
    ((), "CPU · 20.4 GB"),
    ((DeviceMemory("cpu", 700 << 20),), "CPU · memory 0.7 GB"),
    ((DeviceMemory("CUDA0", 21 << 30), DeviceMemory("cpu", 400 << 20)), "CPU · memory 21 GB"),
    (
        (DeviceMemory("CUDA0", 21_300_000_000, "NVIDIA GeForce RTX 4090", 24 << 30), MAIN),
        "CPU · RTX 4090 · 19.8 / 24 GB",
    ),
    # The header names no GPU if there are several.
    ((DeviceMemory("CUDA0", 9 << 30, "A", 1), DeviceMemory("CUDA1", 1, "B", 1)), "CPU · memory 9 GB"),
]


async def test_the_header_shows_the_memory_that_the_panel_shows() -> None:
    async with open_chat(loaded=False, size=WIDE) as chat:
        await chat.pilot.press("f5")
        for counted, said in MEMORY:
            chat.engine.loaded(replace(PAIR, memory=counted))
            await chat.until(lambda: chat.rows[0].endswith(said))  # noqa: B023
            if counted:
                number = re.findall(r"([0-9.]+)(?: GB$| /)", said)[0]
                await chat.until(lambda: re.search(rf"memory +{number} GB", "\n".join(chat.rows[1:])))  # noqa: B023


async def test_an_empty_prompt_shows_as_much_as_fits() -> None:
    async with open_chat() as chat:
        for columns, words in ((80, "/ for commands"), (40, "ask anything, / for commands"), (20, "ask anything")):
            await chat.pilot.resize_terminal(columns, 20)
            await chat.until(lambda: chat.rows[-2].endswith(words))  # noqa: B023


@pytest.mark.parametrize(
    ("width", "lines"),
    [
        (30, ["one · two · three"]),
        (12, ["one · two", "three"]),
        (4, ["one", "two", "three"]),
        (0, ["one", "two", "three"]),
    ],
)
def test_parts_wrap_without_a_separator_at_the_line_end(width: int, lines: list[str]) -> None:
    assert side_by_side(["one", "two", "three"], width, " · ").split("\n") == lines


@pytest.mark.parametrize(
    ("room", "brief"),
    [
        (60, "Who drafts: the model, or both; auto decides"),
        (40, "Who drafts: the model, or both"),
        (20, "Who drafts"),
        (5, "Who drafts: the model, or both; auto decides"),
    ],
)
def test_a_text_loses_whole_clauses_before_it_is_cut(room: int, brief: str) -> None:
    assert in_brief("Who drafts: the model, or both; auto decides", room) == brief


async def test_a_long_path_is_wrapped_and_copied_whole() -> None:
    path = f"/home/me/{'a_long_folder/' * 8}file.gguf"
    async with open_chat(size=(60, 24)) as chat:
        chat.screen.view.messages.notice(f"Kept in {path}.")
        await chat.shows("file.gguf.")
        copied = chat.screen.view.messages.get_selection(SELECT_ALL)
        assert copied is not None
        assert copied[0].endswith(f"\nKept in {path}.")
        chat.screen.view.messages.fail(AppError(f"{path} is not a file.", f"Look at {path}."))
        await chat.shows("/home/me/")
        chat.screen.view.hint.say(f"Saved as {path}.")
        await chat.shows("Saved as")


async def test_a_long_prompt_keeps_its_tabs() -> None:
    async with open_chat(size=(40, 24)) as chat:
        chat.screen.view.prompt.insert("if x:\n\ty = 1" + "\nword" * 5000)
        await chat.next_request("enter")
        await chat.press("ctrl+home", shows="        y = 1")
        copied = chat.screen.view.messages.get_selection(SELECT_ALL)
        assert copied is not None
        assert copied[0].startswith("You\nif x:\n\ty = 1")


@pytest.mark.parametrize(("room", "said"), [(13, "one two three"), (12, "one two…"), (4, "one…"), (0, "")])
def test_a_line_is_cut_between_words(room: int, said: str) -> None:
    assert cut(Content("one two three"), room).plain == said


def test_cut_text_keeps_its_styles() -> None:
    assert cut(Content.assemble(("one ", "bold"), "two three"), 9).spans == Content.styled("one ", "bold").spans
    assert cut(Content.styled("one two three", "bold"), 9).spans == Content.styled("one two…", "bold").spans


async def test_a_long_prompt_leaves_the_conversation_some_of_few_rows() -> None:
    async with open_chat(size=(40, 12)) as chat:
        await chat.exchange("Count.", "one")
        for line in range(8):
            await chat.type(f"line {line}")
            await chat.pilot.press("ctrl+j")
        await chat.shows("line 7")
        assert chat.rows[-1].strip().startswith("ctrl+p")
        assert "one" in chat.text
        assert chat.screen.max_scroll_y == 0


async def test_a_search_for_prompts_shows_that_it_finds_nothing() -> None:
    async with open_chat() as chat:
        await chat.exchange("Count.", "one")
        await chat.pilot.press("ctrl+s")
        await chat.type("xyz")
        await chat.shows("Nothing found.")
        await chat.press("escape", until=lambda: "Nothing found" not in chat.text)


async def test_the_header_shows_what_changes_answers() -> None:
    async with open_chat(size=WIDE) as chat:
        assert "system prompt" not in chat.rows[0]
        await chat.screen.controller.command(chat.screen.session.set_setting, "answer.system", "Be brief.")
        await chat.screen.controller.command(chat.screen.session.set_setting, "preset", "precise")
        chat.screen.view.header.serves = "http://127.0.0.1:8087"
        marks = "system prompt · preset precise · serving http://127.0.0.1:8087"
        for columns, end in ((120, f"{marks} CPU"), (90, "serving :8087"), (80, "…")):
            await chat.pilot.resize_terminal(columns, 24)
            await chat.until(lambda: " ".join(chat.rows[0].split()).endswith(end))  # noqa: B023
