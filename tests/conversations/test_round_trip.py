"""An import of an export is the same conversation: branches, numbers, settings and the unsent prompt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from app.conversations.export import to_json
from app.conversations.importing import read_file
from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import Conversation, State
from app.core.printable import printable

TEXTS = st.text(max_size=40).map(printable)
NUMBERS = st.dictionaries(
    st.sampled_from(["predicted_n", "speedup", "reason", "error"]), st.integers(0, 9) | st.text(max_size=9), max_size=3
)
MESSAGES = st.tuples(st.integers(0, 30), TEXTS, TEXTS, st.sampled_from(State), NUMBERS)


def fill(store: Store, said: list[tuple[int, str, str, State, dict[str, object]]]) -> int:
    """A conversation in which prompts and answers take turns, each below one of those before it."""
    conversation = store.create({"answer": {"system": "Be brief."}})
    nodes = [store.add(conversation, Role.USER, "the first", parent=None)]
    for place, text, thought, state, numbers in said:
        parent = nodes[place % len(nodes)]
        if parent.role is Role.ASSISTANT:
            nodes.append(store.add(conversation, Role.USER, text, parent=parent.id))
            store.set_stats(nodes[-1].id, numbers)
            continue
        journal = store.answer(conversation, parent.id)
        journal.add(thought, reasoning=True)
        journal.add(text)
        journal.flush()
        nodes.append(journal.node if state is State.WRITING else journal.finish(state, stats=numbers))
    return conversation


def without_ids(conversation: Conversation) -> tuple[object, ...]:
    """Return an export without ids and states that belong to one store."""
    tree = conversation.tree
    places: dict[int | None, int | None] = {None: None} | {old: new for new, old in enumerate(tree.nodes)}
    nodes = [replace(node, id=0, parent=places[node.parent], state=node.ended_state) for node in tree.nodes.values()]
    summary = replace(conversation.summary, id=0)
    return summary, nodes, places[tree.leaf], conversation.settings, conversation.draft


@settings(max_examples=40)
@given(st.lists(MESSAGES, max_size=12), TEXTS, TEXTS, st.booleans(), st.integers(0, 30))
def test_an_import_of_an_export_is_the_same_conversation(
    said: list[tuple[int, str, str, State, dict[str, object]]], title: str, draft: str, pinned: bool, active: int
) -> None:
    with TemporaryDirectory() as folder:
        file = Path(folder) / "all.json"
        mine, theirs = Store(), Store()
        # Ids that are not the other store's.
        mine.create()
        conversation = fill(mine, said)
        mine.rename(conversation, title)
        mine.pin(conversation, pinned)
        mine.set_draft(conversation, draft)
        nodes = list(mine.load(conversation).tree.nodes)
        mine.switch(conversation, nodes[active % len(nodes)])
        before = mine.load(conversation)

        file.write_text(to_json([before]), encoding="utf-8")
        [number] = theirs.insert(read_file(file))
        assert without_ids(theirs.load(number)) == without_ids(before)
        assert theirs.duplicates([before]) == (number,)
        mine.close()
        theirs.close()
