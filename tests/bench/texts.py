"""What a look-up has to deal with: plain greedy answers of a real target, as tokens, and how often votes were right.

    python -m tests.bench.texts --target T.gguf --out tests/data/texts.jsonl
    python -m tests.bench.texts

The second prints how likely a look-up's token was to be right at every support, over all texts and traces that ship.
"""

from __future__ import annotations

import argparse
import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path

from app.conversations.message import Message, Role
from app.engine.auto.acceptance import SUPPORT_EDGES, SUPPORT_PRIOR
from app.engine.drafters.ngram import NgramIndex
from app.hardware.cpu import default_threads
from tests.bench.fixed import Ours
from tests.recordings import other_traces, texts, traces

_REACH = 24

_ARTICLE = """\
The lighthouse at Skerry Point was built in 1847 after three ships were lost in a single winter. Its keeper,
Margaret Hale, lived there with her two brothers for thirty-one years. The lamp burned whale oil at first, then
paraffin, and was electrified only in 1962. In 1994 the last keeper left and the light was automated. Today the
tower is owned by the Skerry Trust, which opens it to visitors on Saturdays from May to September. A ticket costs
six pounds; children under twelve enter free. The Trust plans to restore the keeper's cottage by 2028 and to open a
small museum about the three lost ships, the Anne Grey, the Petrel and the Sovereign.""".replace("\n", " ")
_CLASS = """\
class Inventory:
    def __init__(self):
        self.items = {}

    def add(self, name, count):
        if name in self.items:
            self.items[name] += count
        else:
            self.items[name] = count

    def remove(self, name, count):
        if name not in self.items:
            raise KeyError(name)
        if self.items[name] < count:
            raise ValueError("not enough " + name)
        self.items[name] -= count
        if self.items[name] == 0:
            del self.items[name]

    def total(self):
        return sum(self.items.values())
"""
_TABLE = """\
date,city,temp_c,rain_mm
2024-03-01,Oslo,-2,0
2024-03-01,Rome,14,3
2024-03-02,Oslo,0,5
2024-03-02,Rome,15,0
2024-03-03,Oslo,1,2
2024-03-03,Rome,13,11"""
_LOG = """\
2024-05-03 10:01:22 INFO  server started on port 8080
2024-05-03 10:02:10 WARN  slow query: SELECT * FROM orders took 3.2s
2024-05-03 10:02:45 ERROR connection to db-2 lost: timeout
2024-05-03 10:02:46 INFO  retrying connection to db-2
2024-05-03 10:02:51 ERROR connection to db-2 lost: timeout
2024-05-03 10:03:01 INFO  connection to db-2 restored"""
PROMPTS = (
    "Summarise this text in three sentences:\n\n" + _ARTICLE,
    "Answer from the text: when was the lamp electrified, who owns the tower today, and what does a ticket cost?\n\n"
    + _ARTICLE,
    "List every name and every year in this text as a Markdown table with what it stands for:\n\n" + _ARTICLE,
    "Translate this text into German:\n\n" + _ARTICLE,
    "Rewrite this text for children of eight:\n\n" + _ARTICLE,
    "Write five quiz questions with answers about this text:\n\n" + _ARTICLE,
    "Add type hints and docstrings to this class and give the whole file back:\n\n```python\n" + _CLASS + "```",
    "Write pytest tests for this class:\n\n```python\n" + _CLASS + "```",
    "Find bugs and weaknesses in this class and explain each one:\n\n```python\n" + _CLASS + "```",
    "Rename `items` to `stock` everywhere in this class and return all of it:\n\n```python\n" + _CLASS + "```",
    "Port this class to TypeScript:\n\n```python\n" + _CLASS + "```",
    "Add a method `rename(old, new)` to this class; return only the changed class:\n\n```python\n" + _CLASS + "```",
    "Turn this CSV into JSON, one object per row:\n\n" + _TABLE,
    "What is the mean temperature of each city in this table? Show your steps.\n\n" + _TABLE,
    "Write a Python script that reads a file like this with the csv module and prints the rainiest day per city:\n\n"
    + _TABLE,
    "Explain what happened in this log, line by line:\n\n" + _LOG,
    "Write a regular expression that matches the lines of this log and name its groups:\n\n" + _LOG,
    "Write a bash script that backs up a folder to a dated tar.gz and keeps only the last seven.",
    "Write an SQL schema for a library with books, members and loans, and five example queries.",
    "Write a React component with a form for name, e-mail and password that validates each field.",
    "Write a C program that reads integers from standard input and prints them sorted, with merge sort.",
    "Write a Dockerfile for a Flask application and explain each line.",
    "Explain the difference between a process and a thread to a beginner.",
    "What is a monad? Explain with an example in Haskell.",
    "Give me a weekly meal plan for two people, vegetarian, with a shopping list.",
    "Write a polite e-mail to my landlord about a broken heating, and a second, firmer one.",
    "Write a poem of four stanzas about the sea in which the last line of each stanza is the same.",
    "Tell me a short story about a clockmaker who finds a letter.",
    "List the planets with mass, radius and number of moons as a Markdown table.",
    (
        "A train leaves at 9:40 and travels 210 km at 84 km/h, then waits 25 minutes, then travels 90 km at 60 km/h. "
        "When does it arrive? Think step by step."
    ),
    "Compare Python, Go and Rust for a command line tool: speed, ease, distribution, libraries.",
    "How do I make sourdough bread? Number the steps.",
    "Who was Ada Lovelace and why is she remembered?",
    "Schreibe einen kurzen Aufsatz ueber die Vorteile des Radfahrens in der Stadt.",
    "Explique en francais comment fonctionne un moteur electrique.",
    (
        "Write unit conversions (km to miles, kg to pounds, C to F, litres to gallons) as Python functions with "
        "docstrings."
    ),
    "Write a YAML file for a GitHub workflow that lints, tests on three Python versions and publishes on tags.",
    "Solve the equation 3x^2 - 12x + 9 = 0 and check the result by inserting it.",
    "What can I do against neck pain from working at a desk?",
    "Write HTML and CSS for a pricing page with three plans.",
)


def main() -> None:
    """Record answers, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", type=Path)
    parser.add_argument("--out", type=Path, default=Path("tests/data/texts.jsonl"))
    parser.add_argument("--tokens", type=int, default=256)
    args = parser.parse_args()
    if args.target is None:
        _print_table()
    else:
        _record(args.target, args.out, args.tokens)


def right_by_support(all_texts: Sequence[tuple[Sequence[int], Sequence[int]]]) -> list[tuple[int, int]]:
    """How many of a look-up's tokens were right, and how many were said, in every bin of `SUPPORT_EDGES`.

    Every place of every answer is asked; tokens behind a wrong one were never judged.

    Args:
        all_texts: Prompt and answer of each.
    """
    right, said = [0] * len(SUPPORT_PRIOR), [0] * len(SUPPORT_PRIOR)
    for prompt, text in all_texts:
        for support, was_right in _judged(prompt, text):
            bin_ = bisect_right(SUPPORT_EDGES, support)
            said[bin_] += 1
            right[bin_] += was_right
    return list(zip(right, said, strict=True))


def _judged(prompt: Sequence[int], text: Sequence[int]) -> Iterator[tuple[float, bool]]:
    index = NgramIndex()
    index.grow(prompt)
    index.grow(text[:1])
    for place in range(1, len(text)):
        found = index.continuation((), _REACH)
        for token, support, said in zip(found.tokens, found.support, text[place:], strict=False):
            yield support, token == said
            if token != said:
                break
        index.grow(text[place : place + 1])


def _print_table() -> None:
    recorded = [(trace.prompt, trace.text) for trace in (*traces(), *other_traces())]
    lowest = [float("-inf"), *SUPPORT_EDGES]
    for low, prior, (right, said) in zip(lowest, SUPPORT_PRIOR, right_by_support([*texts(), *recorded]), strict=True):
        print(f"from {low:4}: {right / said:.3f} of {said:6}, prior {prior}")


def _record(target: Path, out: Path, n_tokens: int) -> None:
    ours = Ours(target, None, 4096, default_threads())
    with out.open("w", encoding="utf-8") as file:
        for prompt in PROMPTS:
            tokens = ours.pair.build_prompt((Message(Role.USER, prompt),)).tokens
            ours.run(prompt, None, n_tokens)
            entry = {"prompt": list(tokens), "text": list(ours.pair.target.tokens[len(tokens) :])}
            file.write(json.dumps(entry, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
