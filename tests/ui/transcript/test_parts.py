"""f3: the source of each token, and the verify steps."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.conversations.message import Role
from app.conversations.store import Store
from app.engine.events import Step, StepDetails
from app.engine.sources import Source
from app.engine.text.segments import Segment
from app.ui.chat.inspector import Inspector, step_lines, visible
from app.ui.reading.token_rows import TokenDocument
from app.ui.transcript.parts import TokenPart
from app.worker.events import Loaded
from tests.fake_engine import PAIR, STATS
from tests.ui.driver import Chat, open_chat

D, N, T = Source.MODEL, Source.NGRAM, None
ROUND = StepDetails(
    number=41,
    drafted=(b" pivot", b" =", b" items", b" len", b"("),
    sources=(Source.MODEL,) * 5,
    confidences=(0.97, 0.999, 0.93, 0.61, 0.58),
    written=(b" pivot", b" =", b" items", b"0"),
    n_accepted=3,
    chosen=(0.98, 0.99, 0.97, 0.54),
    declined=0.08,
    total_ns=38_000_000,
    plain_ns=34_000_000.0,
)

BOTH = (*(Source.MODEL,) * 2, *(Source.NGRAM,) * 3)


def says(chat: Chat, *tokens: tuple[str, Source | None], details: StepDetails | None = None) -> None:
    segments = tuple(Segment(text, origin) for text, origin in tokens)
    chat.engine.emit(Step(len(chat.engine.requests), segments, STATS, None, details))


def tokens_shown(chat: Chat) -> list[TokenPart]:
    return [answer.tokens for answer in chat.answers if answer.tokens is not None]


def colors(chat: Chat) -> list[tuple[str, str]]:
    """Return every colored run of the token view, top to bottom."""
    found = []
    for tokens in tokens_shown(chat):
        for row in tokens.rows:
            text = row.content.plain
            found += [(text[span.start : span.end], str(span.style)) for span in row.content.spans]
    return found


async def test_f3_colors_tokens_while_they_come_and_goes_back() -> None:
    async with open_chat() as chat:
        await chat.send("go")
        says(chat, ("The **big", D), ("** one", T))
        await chat.shows("The big one")
        assert not tokens_shown(chat)
        await chat.press("f3", shows="The **big** one")
        says(chat, (" ran\n", D), ("off", T))
        await chat.shows("ran⏎")
        assert colors(chat) == [
            ("The **big", "$draft"), ("** one", "$target"), (" ran⏎", "$draft"), ("off", "$target")
        ]  # fmt: skip
        await chat.press("f3", shows="The big one ran\n")
        assert not tokens_shown(chat)


async def test_the_legend_names_every_look() -> None:
    async with open_chat() as chat:
        await chat.press("f3", shows="f3 closes")
        for columns, legend in (
            (80, "teal = draft model, underlined teal = n-gram, amber = target"),
            (70, "teal draft, underlined n-gram, amber target"),
            (48, "draft, n-gram, target"),
            (30, ""),
        ):
            await chat.pilot.resize_terminal(columns, 24)
            title = next(row for row in chat.rows if "f3 closes" in row)
            assert title.strip("─ ").removesuffix("f3 closes").strip() == legend
        await chat.pilot.resize_terminal(80, 24)
        chat.engine.emit(Loaded(replace(PAIR, draft_kind=Source.MTP)))
        await chat.press("f3", "f3", shows="teal = MTP layer, underlined teal")


async def test_the_engine_is_asked_for_details_only_while_they_are_shown() -> None:
    async with open_chat() as chat:
        assert not chat.engine.inspected
        await chat.press("f3", until=lambda: chat.engine.inspected)
        await chat.press("f3", until=lambda: not chat.engine.inspected)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_steps_of_an_answer_that_has_ended_are_there_and_the_key_that_leaves(size: tuple[int, int]) -> None:
    async with open_chat(size=size) as chat:
        await chat.send("go")
        assert chat.engine.requests[-1].with_details, "an engine tells rounds to no one else"
        for number in (1, 2):
            unseen = replace(ROUND, number=number, chosen=(), declined=None)
            says(chat, (f"{number} ", D), details=unseen)
        chat.engine.finishes()
        await chat.ready()
        await chat.press("f3", shows="step 2")
        await chat.shows("target p  recorded only while f3 is open", "f3 closes")
        await chat.press("ctrl+u", "left", shows="step 1")
        await chat.press("f3", until=lambda: "f3 closes" not in chat.text)


async def test_keys_for_steps_are_shown_while_stepping() -> None:
    async with open_chat() as chat:
        assert "earlier" not in chat.rows[-1]
        await chat.pilot.press("f3")
        await chat.send("one")
        assert "earlier" not in chat.rows[-1]
        says(chat, ("word", T), details=ROUND)
        await chat.until(lambda: "left earlier  right later" in chat.rows[-1])
        await chat.type("a")
        await chat.until(lambda: "earlier" not in chat.rows[-1])
        await chat.press("backspace", until=lambda: "left earlier  right later" in chat.rows[-1])
        await chat.press("f3", until=lambda: "earlier" not in chat.rows[-1])


async def test_the_inspector_drops_old_steps_and_steps_of_other_answers() -> None:
    async with open_chat() as chat:
        await chat.pilot.press("f3")
        await chat.send("go")
        inspector = chat.screen.query_one(Inspector)
        inspector.add(replace(ROUND, number=n) for n in range(5_000))
        inspector.step(-10_000)
        assert inspector.details is not None
        assert inspector.details.number == 3_000
        await chat.answer("x")
        await chat.send("again")
        assert inspector.details is None


def lines(details: StepDetails, width: int = 100) -> list[str]:
    return [line.plain.rstrip() for line in step_lines(details, width)]


def test_a_step_shows_drafted_and_verified_tokens_and_the_disagreement() -> None:
    assert lines(ROUND) == [
        "drafted   [·pivot] [·=] [·items] [·len] [(]",
        "draft p   .97      1.0  .93      .61    .58",
        "target    [·pivot] [·=] [·items] [0]",
        "target p  .98      .99  .97      .54",
        "the target wrote 0 (p .54); the draft said ·len (draft p .61, target p .08)",
    ]
    assert lines(replace(ROUND, chosen=(), declined=None))[2:] == [
        "target    [·pivot] [·=] [·items] [0]",
        "target p  recorded only while f3 is open",
        "the target wrote 0; the draft said ·len (draft p .61)",
    ]
    plain = replace(ROUND, drafted=(), sources=(), confidences=(), written=(b"a",), n_accepted=0, chosen=(0.5,))
    assert lines(replace(plain, declined=None, plain_ns=None)) == ["target    [a]", "target p  .50", ""]
    by_n_gram = lines(replace(ROUND, sources=BOTH, confidences=(0.97, 0.99, None, None, None)))
    assert "n-gram, target p .08" in by_n_gram[-1]


@pytest.mark.parametrize("width", [30, 50, 78])
def test_a_long_step_shows_where_it_was_decided(width: int) -> None:
    long = replace(
        ROUND,
        drafted=(b" token",) * 30,
        sources=(Source.MODEL,) * 30,
        confidences=(0.9,) * 30,
        written=(*(b" token",) * 25, b"other"),
        n_accepted=25,
        chosen=(0.9,) * 26,
    )
    found = lines(long, width)
    assert "[other]" in found[2]
    assert all(len(line) <= width for line in found[:4])


def test_tokens_are_shown_with_what_cannot_be_seen() -> None:
    assert [visible(piece) for piece in (b" a", b"\n\n", b"\t", b"\xe2\x82", b"", b"\x1b[2J", "\u202e".encode())] == [
        "·a", "⏎⏎", "⇥", "e2 82", "end of answer", "\\x1b[2J", "\\u202e"
    ]  # fmt: skip


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_long_token_view_is_the_same_in_pieces(size: int) -> None:
    text = "short\n" + "no end of it " * 400 + "\n\nlast"
    whole, pieces = TokenDocument(), TokenDocument()
    whole.append([Segment(text, D)])
    for at in range(0, len(text), size):
        pieces.append([Segment(text[at : at + size], D)])
    for one in (whole, pieces):
        copied = "".join(("" if row.joined else "\n") + row.text for row in [*one.frozen, *one.open])
        assert copied == "\n" + text
    assert [r.text for r in pieces.frozen] == [r.text for r in whole.frozen]
    assert len(whole.frozen) > 4


def test_a_blank_row_separates_reasoning_and_answer() -> None:
    document = TokenDocument()
    document.append([Segment("I can count.", D, reasoning=True), Segment("One, ", D)])
    document.append([Segment("two.", D)])
    assert [row.content.plain for row in [*document.frozen, *document.open]] == ["I can count.", "", "One, two."]


async def test_an_answer_that_was_not_seen_from_its_beginning_stays_formatted(tmp_path: Path) -> None:
    file = tmp_path / "conversations.db"
    store = Store(file)
    number = store.create()
    prompt = store.add(number, Role.USER, "count", parent=None)
    store.answer(number, prompt.id).add("one, two, ")
    store.close()
    async with open_chat(store=lambda: Store(file)) as chat:
        await chat.until(lambda: chat.screen.session.library.is_open)
        await chat.screen.controller.open_conversation(number)
        await chat.shows("ctrl+g continues")
        await chat.next_request("f3", "ctrl+g")
        says(chat, ("three", D))
        await chat.shows("one, two, three")
        await chat.pilot.pause()
        assert not tokens_shown(chat)
