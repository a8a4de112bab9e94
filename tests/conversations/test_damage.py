"""A row that a disk or a hand has changed is read as well as it can be, and takes no other one with it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from app.conversations.message import Role
from app.conversations.opening import examine
from app.conversations.store import Store
from app.conversations.tree import State
from app.core.errors import StoreError


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Conversation 1 with messages 1 to 3, each under the one before."""
    file = tmp_path / "conversations.db"
    with closing(Store.open(file)) as store:
        number = store.create({"sampling.temp": 0.5})
        parent = None
        for role, text in ((Role.USER, "hello there"), (Role.ASSISTANT, "hi"), (Role.USER, "and now")):
            parent = store.add(number, role, text, parent=parent).id
    return file


def change(file: Path, sql: str) -> None:
    with closing(sqlite3.connect(file)) as db:
        db.execute(sql)
        db.commit()


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE messages SET role = 'usfr'",
        "UPDATE messages SET state = 'complfte'",
        "UPDATE messages SET stats = '{'",
        "UPDATE messages SET stats = '[1]'",
        "UPDATE messages SET created = 'soon'",
        "UPDATE messages SET text = x'ff00'",
        "UPDATE messages SET text = cast(x'68ff' AS TEXT)",
        "UPDATE conversations SET settings = '{'",
        "UPDATE conversations SET title = cast(x'ff' AS TEXT)",
        "UPDATE conversations SET updated = 1e300",
        "UPDATE conversations SET draft = x'ff'",
        "DELETE FROM messages WHERE id = 1",
        "DELETE FROM messages WHERE id = 2",
    ],
)
def test_everything_can_still_be_read(file: Path, sql: str) -> None:
    change(file, sql)
    with closing(Store.open(file)) as store:
        (summary,) = store.summaries()
        assert 0 <= summary.updated < 1e12
        found = store.transcript(summary.id).conversation
        assert [node.id for node in found.tree.path][-1] == 3
        assert all(isinstance(node.text, str) for node in found.tree.path)
        assert all(isinstance(one.text, str) for one in store.typed(5))
        assert store.stats(2) == {}
        store.search("an")
        # And it goes on.
        store.add(summary.id, Role.ASSISTANT, "more", parent=3)


def test_what_is_whole_is_as_it_was(file: Path) -> None:
    change(file, "UPDATE messages SET text = cast(x'68ff69' AS TEXT), state = '?' WHERE id = 2")
    with closing(Store.open(file)) as store:
        found = store.load(1)
        assert [node.text for node in found.tree.path] == ["hello there", "h\N{REPLACEMENT CHARACTER}i", "and now"]
        assert found.tree.nodes[2].state is State.CUT
        assert found.settings == {"sampling.temp": 0.5}


def test_half_a_character_in_a_setting_is_kept_as_a_mark(file: Path) -> None:
    with closing(Store.open(file)) as store:
        store.set_settings(1, {"answer.system": "half \ud83d"})
        assert store.load(1).settings == {"answer.system": "half ?"}
        assert store.load(store.create({"answer.system": "\ud83d"})).settings == {"answer.system": "?"}


def test_a_schema_whose_damage_python_cannot_quote_moves_aside_like_any_other(file: Path) -> None:
    # SQLite names what is wrong by quoting it, and Python fails over the quotation.
    change(file, "PRAGMA journal_mode = DELETE")
    data = file.read_bytes()
    assert b"CREATE TABLE conversations" in data
    file.write_bytes(data.replace(b"CREATE TABLE conversations", b"CREATE \xff\xfe\xff\xfe\xff conversations", 1))
    with pytest.raises(StoreError, match="damaged"):
        examine(file)
    with closing(Store.open(file)) as store:
        assert "were damaged" in store.notice
