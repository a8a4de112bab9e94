"""The chat screen over a scripted engine."""

from dataclasses import replace

from app.conversations.message import Message, Role
from app.core.errors import AppError
from app.engine.types import DraftingStatus, FinishReason
from app.session.state import Phase
from app.ui.sidebar.readouts import SHORT_WAIT_S
from tests.fake_engine import PAIR
from tests.ui.driver import WIDE, open_chat


async def test_a_prompt_is_answered() -> None:
    async with open_chat({"answer.system": "Be brief.", "answer.max_tokens": 7, "answer.stop": ("END",)}) as chat:
        await chat.send("hello")
        assert chat.prompt == ""
        await chat.answer("Good *morning*.")
        await chat.shows("Good morning.")
        assert "hello" in chat.text
        request = chat.engine.requests[0]
        assert request.messages == (Message(Role.SYSTEM, "Be brief."), Message(Role.USER, "hello"))
        assert (request.max_tokens, request.stops) == (7, ("END",))


async def test_thinking_is_folded_and_opens() -> None:
    async with open_chat() as chat:
        await chat.send("why")
        for part in ("let me see no", "", "w", " "):
            chat.engine.says(part, thinking=True)
            await chat.shows("reasoning, 4 words")
        assert "let me see" not in chat.text
        await chat.press("ctrl+t", shows="let me see now")
        await chat.press("ctrl+t", until=lambda: "let me see" not in chat.text)


async def test_esc_stops_and_keeps_what_came() -> None:
    async with open_chat() as chat:
        await chat.send("story")
        await chat.writes("Once upon")
        await chat.pilot.press("escape")
        assert chat.engine.cancelled == 1
        assert "stopping" in chat.status
        chat.engine.finishes(FinishReason.CANCELLED)
        await chat.shows("stopped")
        assert "Once upon" in chat.text
        await chat.send("go on")
        assert [m.content for m in chat.engine.requests[1].messages] == ["story", "Once upon", "go on"]


async def test_a_failed_answer_does_not_overwrite_what_is_being_typed() -> None:
    async with open_chat() as chat:
        await chat.send("long one")
        await chat.type("next")
        chat.engine.fails(AppError("No."))
        await chat.shows("No.")
        assert chat.prompt == "next"


async def test_a_prompt_waits_for_the_models() -> None:
    async with open_chat(loaded=False) as chat:
        chat.engine.load_progress(0.45)
        await chat.shows("loading models 45%")
        await chat.enter("early", "waiting for the models")
        assert chat.engine.requests == []
        await chat.enter("more", "waiting  more")
        assert chat.prompt == ""
        assert "loading models 45%" in chat.text
        chat.engine.loaded()
        await chat.until(lambda: chat.engine.requests)
        assert chat.engine.requests[0].messages[-1].content == "early"
        assert "waiting for the models" not in chat.text


async def test_an_answer_shows_what_it_waits_for_until_it_begins() -> None:
    async with open_chat() as chat:
        await chat.send("go")
        chat.engine.reads(0, 4096)
        await chat.until(lambda: any("reading prompt: 0 of 4,096 tokens, 8 s left" in row for row in chat.said))
        await chat.writes("word")
        await chat.until(lambda: "reading prompt" not in chat.text)
        chat.engine.reads(1024, 4096, drafting=True)
        await chat.until(lambda: any("draft reading prompt: 1,024 of 4,096" in row for row in chat.said))
        chat.engine.says(" more")
        await chat.until(lambda: "reading prompt" not in chat.text)


QUEUED = "waiting: the server answers a request"
OTHER = 99
"""Number of a request that the server sent."""


async def test_a_prompt_that_waits_for_a_server_request_is_marked() -> None:
    now = [0.0]
    async with open_chat() as chat:
        chat.screen.view.status._clock = lambda: now[0]
        await chat.send("go")
        chat.engine.says("not ours", request=OTHER)
        await chat.until(lambda: chat.screen.session.is_behind)
        assert QUEUED not in chat.text
        now[0] += SHORT_WAIT_S
        chat.engine.says("not ours", request=OTHER)
        await chat.until(lambda: any(QUEUED in row for row in chat.said))
        assert chat.status.startswith(QUEUED)
        chat.engine.says("word")
        await chat.until(lambda: "word" in chat.text and QUEUED not in chat.text)
        chat.engine.says("not ours", request=OTHER)
        chat.engine.finishes()
        await chat.ready()
        assert QUEUED not in chat.text
        assert "not ours" not in chat.text


async def test_a_pair_that_comes_back_as_another_is_named_and_its_answer_continues() -> None:
    async with open_chat(size=WIDE) as chat:
        await chat.send("go")
        chat.engine.load_progress(0.5)
        await chat.until(lambda: "loading models 50%" in chat.status)
        await chat.shows("+ 0.5B Q8_0")
        chat.engine.loaded(replace(PAIR, draft=None, n_ctx=8192))
        await chat.until(lambda: "0.5B" not in chat.rows[0])
        assert chat.screen.session.phase is Phase.ANSWERING
        chat.engine.says("word", drafting=DraftingStatus("off", "there is no draft model"))
        await chat.shows("there is no draft model")
        assert "no draft" in chat.text
        assert "/ 8k" in chat.text
        # A switch would be mistaken for the reason.
        assert chat.engine.drafts
        chat.engine.finishes()
        await chat.ready()


async def test_a_failed_load_is_explained_and_gives_the_prompt_back() -> None:
    async with open_chat(loaded=False) as chat:
        await chat.enter("early")
        chat.engine.fails_to_load(AppError("big.gguf is cut short.", "Download it again."))
        await chat.shows("big.gguf is cut short.")
        assert "Download it again." in chat.text
        assert "no model loaded" in chat.status
        assert chat.prompt == "early"
        await chat.press("enter", shows="No pair is loaded")
        assert chat.prompt == "early"


async def test_the_view_follows_until_the_user_scrolls_up() -> None:
    async with open_chat() as chat:
        await chat.send("long")
        chat.engine.says("\n\n".join(f"line {n}" for n in range(40)))
        await chat.shows("line 39")
        assert "new text below" not in chat.text
        await chat.press("pageup", until=lambda: "line 39" not in chat.text)
        top = chat.rows[3]
        chat.engine.says("\n\nline 40")
        await chat.shows("↓ new text below")
        assert chat.rows[3] == top
        width, height = chat.app.size
        await chat.pilot.resize_terminal(width, 120)
        await chat.until(lambda: "line 40" in chat.text and "new text below" not in chat.text)
        await chat.pilot.resize_terminal(width, height)
        await chat.until(lambda: "line 40" not in chat.text)
        await chat.press("ctrl+end", shows="line 40")
        await chat.until(lambda: "new text below" not in chat.text)
        chat.engine.says("\n\nline 41")
        await chat.shows("line 41")


async def test_markup_is_text() -> None:
    markup = "[red]not red[/red][@click=app.quit]x[/][/nonsense]"
    async with open_chat() as chat:
        await chat.send(markup)
        chat.engine.says(f"it says {markup}", thinking=True)
        chat.engine.says(f"`{markup}`")
        chat.engine.fails(AppError(f"Error {markup}", f"Hint {markup}"))
        await chat.shows(f"Hint {markup}")
        await chat.press("ctrl+t", shows=f"it says {markup}")
        assert chat.text.count(markup) >= 5


async def test_control_characters_do_not_reach_the_terminal() -> None:
    async with open_chat() as chat:
        await chat.exchange("go", "\x1b]0;owned\x07a\x1b[2Jb\x9b31mc\u202ed\re")
        await chat.shows("a[2Jb31mcde")
