"""Text of an answer: characters, stop strings, reasoning, segments and calls."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.engine.sources import Source
from app.engine.text.call_reader import CallReader
from app.engine.text.segments import Segment, cut, text_of
from app.engine.text.stream import TextStream
from app.engine.text.tool_calls import ToolCall, shown_call


def shown(stream: TextStream, *pieces: bytes | str) -> list[Segment]:
    out: list[Segment] = []
    for piece in pieces:
        out += stream.push(piece.encode() if isinstance(piece, str) else piece)
    return out + stream.flush()


def text(segments: list[Segment], *, reasoning: bool = False) -> str:
    return "".join(s.text for s in segments if s.reasoning is reasoning)


class TestCharacters:
    def test_a_character_appears_once_it_is_complete(self) -> None:
        stream = TextStream()
        euro = "€".encode()

        assert stream.push(euro[:1]) == []
        assert stream.push(euro[1:2]) == []
        assert stream.push(euro[2:] + b"5") == [Segment("€5")]

    def test_a_character_has_the_origin_of_the_token_that_completes_it(self) -> None:
        stream = TextStream()
        stream.push("é".encode()[:1], Source.MODEL)

        assert stream.push("é".encode()[1:]) == [Segment("é")]

    @pytest.mark.parametrize(("ended", "expected"), [(True, "ab\ufffd"), (False, "ab")])
    def test_an_incomplete_character_is_shown_only_in_a_complete_answer(self, ended: bool, expected: str) -> None:
        stream = TextStream()
        assert text(stream.push(b"ab\xe2\x82") + stream.flush(ended=ended)) == expected

    @given(st.binary() | st.text().map(lambda text: text.encode("utf-8", "ignore")), st.integers(1, 5))
    def test_text_does_not_depend_on_token_borders(self, data: bytes, size: int) -> None:
        pieces = [data[i : i + size] for i in range(0, len(data), size)]
        # Other tests cover texts with reasoning marks.
        expected = data.decode(errors="replace")

        assert text(shown(TextStream(), *pieces)) == expected or "think>" in expected


class TestStops:
    def test_a_stop_string_over_several_tokens_is_not_shown(self) -> None:
        stream = TextStream(["\nUser:"])

        assert text(shown(stream, "Hello", "\n", "Us", "er", ":", " more")) == "Hello"
        assert stream.stopped

    def test_the_beginning_of_a_stop_string_is_shown_once_it_cannot_be_one(self) -> None:
        stream = TextStream(["\nUser:"])

        assert text(stream.push(b"Hello\nUs")) == "Hello"
        assert text(stream.push(b"ing")) == "\nUsing"
        assert not stream.stopped

    def test_an_empty_stop_string_is_ignored(self) -> None:
        assert text(shown(TextStream([""]), "text")) == "text"

    def test_held_segments_keep_their_origin(self) -> None:
        stream = TextStream(["abc"])
        stream.push(b"xa", Source.MODEL)
        out = stream.push(b"by")

        assert out == [Segment("a", Source.MODEL), Segment("by")]

    @given(st.text("ab", max_size=20), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3), st.integers(1, 3))
    def test_streaming_stops_where_a_search_in_the_whole_text_does(
        self, source: str, stops: list[str], size: int
    ) -> None:
        pieces = [source[i : i + size] for i in range(0, len(source), size)]
        ends = {i + len(s): i for s in stops for i in range(len(source)) if source.startswith(s, i)}
        # Each piece is searched when it arrives, so the first complete stop string wins.
        streamed = text(shown(TextStream(stops), *pieces))

        if ends:
            first_piece_end = min(-(-end // size) * size for end in ends)
            visible = source[:first_piece_end]
            assert streamed == source[: min(visible.find(s) for s in stops if s in visible)]
        else:
            assert streamed == source


@pytest.mark.parametrize("length", range(8))
def test_a_run_of_segments_is_cut_anywhere(length: int) -> None:
    run = [Segment("abc", Source.MODEL), Segment("de")]
    head, rest = cut(run, length)

    assert (text_of(head), text_of(rest)) == ("abcde"[:length], "abcde"[length:])
    assert {s.source for s in head if s.text in ("a", "ab", "abc")} <= {Source.MODEL}


TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("read", "list")
]


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("{}", "read()"),
        ("", "read()"),
        ('{"path": "notes.md"}', 'read(path="notes.md")'),
        ('{"a": 1, "b": [{"c": "d, e: {f}"}], "g": {"h": null}}', 'read(a=1, b=[{"c": "d, e: {f}"}], g={"h": null})'),
        (r'{"a": "say \"b\" \\", "c": true}', r'read(a="say \"b\" \\", c=true)'),
    ],
)  # fmt: skip
def test_a_call_as_one_line(arguments: str, shown: str) -> None:
    assert shown_call(ToolCall("read", arguments)) == shown


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_text_and_calls_of_an_answer(size: int) -> None:
    text = (
        'I look.\n<tool_call>\n{"name": "read", "arguments": {"path": "a"}}\n</tool_call>\n'
        '<tool_call>\n{"name": "list", "arguments": {}}\n</tool_call>'
    )
    separate = CallReader(TOOLS)
    pieces = [Segment("Hm.", reasoning=True)]
    pieces += [Segment(text[at : at + size], Source.MODEL) for at in range(0, len(text), size)]
    shown = [*separate.push(pieces), *separate.end(is_cut=False)]

    def joined(*, reasoning: bool = False, is_call: bool = False) -> str:
        return "".join(s.text for s in shown if (s.reasoning, s.call is not None) == (reasoning, is_call))

    assert joined(reasoning=True) == "Hm."
    assert joined().strip() == "I look."
    assert joined(is_call=True) == 'read(path="a")\nlist()'
    assert {segment.source for segment in shown if segment.call} == {Source.MODEL}
    assert separate.calls == [ToolCall("read", '{"path": "a"}'), ToolCall("list", "{}")]


def test_a_cut_call() -> None:
    separate = CallReader(TOOLS)
    shown = separate.push([Segment('<tool_call>\n{"name": "read", "arguments": {"path": "no')])
    shown += separate.end(is_cut=True)

    assert text_of(shown) == 'read(path="no'
    assert separate.calls == []
