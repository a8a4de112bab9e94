"""Kill a process during an answer: everything committed is stored."""

import subprocess
import sys
from contextlib import closing
from pathlib import Path

from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import State

_WRITER = """
import sys
from pathlib import Path
from app.conversations.message import Role
from app.conversations.store import Store

store = Store(Path(sys.argv[1]))
if "--continue" in sys.argv:
    journal = store.resume(store.load(1).tree.path[-1].id)
else:
    conversation = store.create({"system": "Be brief."})
    asked = store.add(conversation, Role.USER, "Count to a million.", parent=None)
    journal = store.answer(conversation, asked.id)
    journal.add("Well", reasoning=True)
for n in range(len(journal.node.text.split()) + 1, 1_000_001):
    journal.add(f"{n} ")
    journal.flush()
    print(n, flush=True)
"""


def kill_a_writer(file: Path, after: int, *flags: str) -> int:
    """Kill the writer after this number of committed pieces, and return the last piece that it reported."""
    command = [sys.executable, "-c", _WRITER, str(file), *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for line in writer.stdout:
            if int(line) >= after:
                break
        writer.kill()
        rest = writer.stdout.read().split("\n")
    # The kill may cut the last line.
    return max([after, *(int(line) for line in rest[:-1])])


def test_a_kill_while_an_answer_continues_loses_neither_part(tmp_path: Path) -> None:
    file = tmp_path / "conversations.db"
    committed = kill_a_writer(file, after=5)
    for _ in range(3):
        committed = kill_a_writer(file, committed + 5, "--continue")
        store = Store(file)
        answer = store.load(1).tree.path[-1]
        numbers = [int(word) for word in answer.text.split()]
        assert numbers == list(range(1, len(numbers) + 1))
        assert len(numbers) >= committed
        assert (answer.state, answer.reasoning) == (State.CUT, "Well")
        committed = len(numbers)
        store.close()


def test_a_kill_does_not_change_answers_of_other_processes(tmp_path: Path) -> None:
    file = tmp_path / "conversations.db"
    mine = Store(file)
    conversation = mine.create()
    asked = mine.add(conversation, Role.USER, "Hi", parent=None)
    journal = mine.answer(conversation, asked.id)
    journal.add("still ")
    journal.flush()
    kill_a_writer(file, after=3)

    other = Store(file)
    states = {summary.title: other.load(summary.id).tree.path[-1].state for summary in other.summaries()}
    assert set(states.values()) == {State.WRITING}, "while another Tandem runs no one can tell"
    journal.add("here")
    journal.finish(State.COMPLETE)
    assert other.load(conversation).tree.path[-1].text == "still here"
    other.close()
    mine.close()
    with closing(Store(file)) as after:
        states = {summary.title: after.load(summary.id).tree.path[-1].state for summary in after.summaries()}
    assert states == {"Hi": State.COMPLETE, "Count to a million.": State.CUT}
