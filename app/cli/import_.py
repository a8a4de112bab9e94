"""`tandem import`: conversations from a Markdown or JSON file."""

from __future__ import annotations

import argparse

from app.chat.importing import read_file
from app.cli.export import open_store
from app.engine.text import printable
from app.paths import conversations_file


def import_(args: argparse.Namespace) -> int:
    """Read a file into the store; see the module."""
    transcripts = read_file(args.file)
    store = open_store(conversations_file())
    try:
        numbers = store.insert(transcripts)
    finally:
        store.close()
    for number, transcript in zip(numbers, transcripts, strict=True):
        summary, tree = transcript.conversation.summary, transcript.conversation.tree
        count = f"{len(tree.nodes):,} message" + ("" if len(tree.nodes) == 1 else "s")
        print(f"{number:>6}  {printable(summary.title) or 'Untitled'}  ({count})")
    return 0
