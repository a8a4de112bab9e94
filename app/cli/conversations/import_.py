"""`tandem import`: conversations from a Markdown or JSON file."""

from __future__ import annotations

import argparse
import time
from contextlib import closing

from app.cli.conversations.export import open_store
from app.conversations.importing import read_file
from app.conversations.tree import Transcript
from app.core.paths import conversations_file
from app.core.printable import printable


def import_(args: argparse.Namespace) -> int:
    """Add the conversations of a file to the store; skip those that are there already."""
    now = time.time()
    transcripts = read_file(args.file, now)
    with closing(open_store(conversations_file())) as store:
        known = store.duplicates(transcripts, now)
        new = [transcript for transcript, there in zip(transcripts, known, strict=True) if there is None]
        inserted = iter(store.insert(new))
    for transcript, there in zip(transcripts, known, strict=True):
        number = next(inserted) if there is None else there
        print(_line(transcript, number, is_known=there is not None))
    print(f"{len(known):,} conversation{'s' * (len(known) != 1)}, {len(new):,} new")
    return 0


def _line(transcript: Transcript, number: int, *, is_known: bool) -> str:
    summary, n = transcript.conversation.summary, len(transcript.conversation.tree.nodes)
    about = f"{n:,} message{'s' * (n != 1)}{', already there' * is_known}"
    return f"{number:>6}  {printable(summary.title) or 'Untitled'}  ({about})"
