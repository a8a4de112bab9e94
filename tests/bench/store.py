"""Measure opening and searching a conversation of 10,000 messages, and storing an answer.

python -m tests.bench.store
"""

from __future__ import annotations

import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from app.conversations.export import to_json
from app.conversations.importing import read_file
from app.conversations.message import Role
from app.conversations.store import Store
from app.conversations.tree import Node, State, StoredConversation, Summary, Tree

_MESSAGES = 10_000
_WORDS = 80
_RUNS = 7
_QUERIES = ("a", "qu", "the", "quick", "quicksort", "the quick sort", "the qu", "no such thing", "東京")


def main() -> None:
    """Print medians in milliseconds."""
    with tempfile.TemporaryDirectory(dir=sys.argv[1] if len(sys.argv) > 1 else None) as folder:
        file = Path(folder) / "conversations.db"
        store = Store(file)
        transcript = _conversation(random.Random(1))
        began = time.perf_counter()
        (conversation,) = store.insert([transcript])
        print(f"insert {_MESSAGES:,} messages  {(time.perf_counter() - began) * 1e3:8.1f} ms")
        store.close()
        print(f"file                    {file.stat().st_size / 1e6:8.1f} MB")

        def reopen() -> None:
            nonlocal store
            store.close()
            store = Store(file)

        store = Store(file)
        _print("open the file", reopen)
        _print("list", store.summaries)
        _print("load the conversation", lambda: store.load(conversation).tree.path)
        for query in _QUERIES:
            _print(f"search {query!r}, {len(store.search(query))} hit", partial(store.search, query))
        _journal(store, conversation)
        export = Path(folder) / "all.json"
        _print("export to JSON", lambda: export.write_text(to_json([store.load(conversation)]), "utf-8"))
        _print("read the JSON", lambda: read_file(export))
        store.close()


def _conversation(random_: random.Random) -> StoredConversation:
    vocabulary = ["the", "quick", "sort", "quicksort", "list", "of", "a", "東京"]
    vocabulary += [
        "".join(random_.choices("abcdefghijklmnopqrstuvwxyz", k=random_.randint(3, 10))) for _ in range(3000)
    ]
    weights = [1 / rank for rank in range(1, len(vocabulary) + 1)]
    nodes = {}
    for number in range(1, _MESSAGES + 1):
        text = " ".join(random_.choices(vocabulary, weights, k=_WORDS))
        role = Role.USER if number % 2 else Role.ASSISTANT
        stats = {} if number % 2 else {"predicted_n": 80, "acceptance": 0.7, "tokens_per_s": 51.5}
        nodes[number] = Node(number, number - 1 or None, role, text, "", State.COMPLETE, float(number), stats)
    return StoredConversation(Summary(0, "Long"), Tree(nodes, _MESSAGES))


def _journal(store: Store, conversation: int) -> None:
    leaf = store.load(conversation).tree.leaf
    assert leaf is not None
    journal = store.answer(conversation, leaf)
    times = []
    for _ in range(200):
        journal.add("some twenty words of an answer " * 4)
        began = time.perf_counter()
        journal.flush()
        times.append((time.perf_counter() - began) * 1e3)
    print(f"{'commit of pieces':44} {statistics.median(times):8.2f} ms, worst {max(times):.1f} ms")
    began = time.perf_counter()
    journal.finish(State.COMPLETE)
    print(f"{'end of an answer of 25,000 characters':44} {(time.perf_counter() - began) * 1e3:8.2f} ms")


def _print(title: str, work: Callable[[], object]) -> None:
    times = []
    for _ in range(_RUNS):
        began = time.perf_counter()
        work()
        times.append((time.perf_counter() - began) * 1e3)
    print(f"{title:44} {statistics.median(times):8.1f} ms, worst {max(times):.1f} ms")


if __name__ == "__main__":
    main()
