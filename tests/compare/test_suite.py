"""The prompts of a benchmark."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.cli.command_line import KINDS
from app.compare.suite import Prompt, choose, load_suite
from app.core.errors import UsageError

PROMPTS = (Prompt("code", "one", "abc"), Prompt("code", "two", "bcd"), Prompt("chat", "one", "cde"))
TABLE = '[[prompt]]\nkind = "law"\nname = "a"\ntext = "Sue."\n'


def test_the_built_in_prompts_cover_every_kind_three_times() -> None:
    prompts = load_suite()

    assert tuple(dict.fromkeys(p.kind for p in prompts)) == KINDS
    assert all(sum(p.kind == kind for p in prompts) >= 3 for kind in KINDS)
    assert all(p.text == p.text.strip() for p in prompts)
    assert [p.kind for p in choose(prompts, None, None)][: len(KINDS)] == list(KINDS)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_file_has_a_prompt_per_line_or_tables(tmp_path: Path, encoding: str) -> None:
    lines, tables = tmp_path / "mine.txt", tmp_path / "MINE.TOML"
    lines.write_bytes("Grüße\u2028an\x0calle\r\n\r\n und euch \x85\r\n".encode(encoding))
    tables.write_bytes(TABLE.encode(encoding))

    assert [(p.kind, p.name, p.text) for p in load_suite(lines)] == [
        ("yours", "1", "Grüße\u2028an\x0calle"),
        ("yours", "2", "und euch"),
    ]
    assert load_suite(tables) == (Prompt("law", "a", "Sue."),)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("bad.toml", b""),
        ("bad.toml", b"[[prompt]]\nkind = 1"),
        ("bad.toml", b"not toml = = "),
        ("bad.toml", b"x = " + b"[" * 5000),
        ("bad.toml", b'prompt = "x"'),
        ("bad.toml", b'[[prompt]]\nkind="a"\nname="b"\ntext="  "'),
        ("bad.toml", TABLE.encode() * 2),
        ("empty.txt", b""),
        ("binary.txt", b"\xff\xfe\x00"),
        ("runs.jsonl", b'{"text": "Sue."}\n'),
        ("missing.txt", None),
    ],
)
def test_a_file_without_prompts_is_an_error(tmp_path: Path, name: str, text: bytes | None) -> None:
    file = tmp_path / name
    if text is not None:
        file.write_bytes(text)
    with pytest.raises(UsageError, match=name):
        load_suite(file)


def test_kinds_are_chosen_in_turn_and_unknown_ones_named() -> None:
    assert [(p.kind, p.name) for p in choose(PROMPTS, None, None)] == [
        ("code", "one"),
        ("chat", "one"),
        ("code", "two"),
    ]
    assert [p.name for p in choose(PROMPTS, None, 1)] == ["one", "one"]
    assert [p.kind for p in choose(PROMPTS, ["chat"], None)] == ["chat"]
    with pytest.raises(UsageError, match='kind "cod"'):
        choose(PROMPTS, ["cod"], None)
