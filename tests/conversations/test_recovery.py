"""What another start finds of answers that were on their way when Tandem was killed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.conversations import process_lock
from app.conversations.ending import UNKNOWN
from app.conversations.message import Role
from app.conversations.process_lock import is_held
from app.conversations.store import Store
from app.conversations.tree import Node, State, Tree


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "conversations.db"


def killed(store: Store) -> None:
    """Let go of the file as the end of a process does: nothing is written."""
    store._writers.close()
    store._database.close()


def after(file: Path) -> Tree:
    store = Store.open(file)
    tree = store.load(1).tree
    # What is told to one start is told to the next.
    assert store.load(1).tree == tree
    store.close()
    return tree


def exchange(store: Store, *texts: str) -> list[Node]:
    number = store.create() if not store.summaries() else 1
    nodes: list[Node] = []
    for at, text in enumerate(texts):
        role = Role.ASSISTANT if at % 2 else Role.USER
        nodes.append(store.add(number, role, text, parent=nodes[-1].id if nodes else None))
    return nodes


def test_a_prompt_whose_answer_had_not_begun_is_told_so(file: Path) -> None:
    store = Store.open(file)
    *_, asked = exchange(store, "one", "first", "two")
    store.answer(1, asked.id)
    killed(store)
    path = after(file).path
    assert [node.text for node in path] == ["one", "first", "two"]
    assert path[-1].ending.failure is not None
    assert path[-1].ending.failure.message == "Tandem ended before the answer began."


def test_where_another_answer_had_not_begun_the_conversation_is_as_it_was(file: Path) -> None:
    store = Store.open(file)
    asked, *_ = exchange(store, "one", "first", "two", "second")
    store.answer(1, asked.id)
    killed(store)
    tree = after(file)
    assert [node.text for node in tree.path] == ["one", "first", "two", "second"]
    assert all(node.ending == UNKNOWN for node in tree.path)
    assert len(tree.nodes) == 4


def test_a_sign_of_life_that_the_disk_refused_is_given_with_the_next_answer(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    store = Store.open(file)
    [asked] = exchange(store, "one")
    with monkeypatch.context() as full:
        full.setattr("app.conversations.process_lock._lock", refuse)
        store.answer(1, asked.id).discard()
    store.answer(1, asked.id)
    assert after(file).path[-1].state is State.WRITING
    store.close()


@pytest.mark.skipif(sys.platform == "win32", reason="locks of POSIX")
def test_who_looks_whether_another_lives_is_not_taken_for_it(file: Path) -> None:
    import fcntl

    store = Store.open(file)
    [asked] = exchange(store, "one")
    store.answer(1, asked.id).add("half")
    (sign,) = file.parent.glob("*writer*")
    assert is_held(sign)
    killed(store)
    sign.touch()
    with sign.open() as look:
        fcntl.flock(look, fcntl.LOCK_SH)
        assert not is_held(sign)


@pytest.mark.parametrize(("refusals", "is_alive"), [(1, False), (1 << 20, True)])
def test_on_windows_who_only_looks_too_is_gone_in_a_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusals: int, is_alive: bool
) -> None:
    left = refusals

    def lock(descriptor: int, *, alone: bool) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            raise PermissionError(13, "Permission denied")

    sign = tmp_path / "sign"
    sign.touch()
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setattr(process_lock, "_lock", lock)
    monkeypatch.setattr(process_lock, "time", SimpleNamespace(sleep=lambda _: None))
    assert is_held(sign) is is_alive


def test_what_was_only_thought_is_kept(file: Path) -> None:
    store = Store.open(file)
    [asked] = exchange(store, "one")
    journal = store.answer(1, asked.id)
    journal.add("hm", reasoning=True)
    journal.flush()
    killed(store)
    assert (after(file).path[-1].reasoning, after(file).path[-1].state) == ("hm", State.CUT)


def test_an_answer_that_was_to_go_on_is_cut_where_it_was(file: Path) -> None:
    store = Store.open(file)
    [asked] = exchange(store, "one")
    journal = store.answer(1, asked.id)
    journal.add("half")
    node = journal.finish(State.STOPPED)
    store.resume(node.id)
    killed(store)
    assert [(each.text, each.state) for each in after(file).path] == [
        ("one", State.COMPLETE), ("half", State.CUT)
    ]  # fmt: skip
