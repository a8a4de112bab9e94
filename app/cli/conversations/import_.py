"""`tandem import`: conversations from a Markdown or JSON file."""

from __future__ import annotations

import argparse
import sys
import time

from app.cli.conversations.export import open_store
from app.cli.output import StatusLine
from app.conversations.importing import read_file
from app.conversations.known import Known
from app.conversations.tree import Transcript
from app.core.paths import conversations_file
from app.core.printable import printable
from app.hardware.machine import main_memory


def import_(args: argparse.Namespace) -> int:
    """Read a file into the store; what is there already stays as it is. See the module."""
    now = time.time()
    _, free = main_memory()
    transcripts = read_file(args.file, now, free)
    status = StatusLine(sys.stderr)
    store = open_store(conversations_file())
    try:
        with store.turn_to_import(lambda: status.say("Waiting for another import to end.")):
            known = store.known(transcripts, now)
            both = list(zip(transcripts, known, strict=True))
            new = [transcript for transcript, there in both if not there.is_whole]
            fresh = iter(store.insert(new, lambda share: status.show(f"Importing {share:4.0%}")))
    finally:
        status.clear()
        store.close()
    for transcript, there in both:
        print(_line(transcript, there, there.conversation if there.is_whole else next(fresh)))
    n = sum(not there.is_whole for there in known)
    print(f"{len(known):,} conversation{'s' * (len(known) != 1)}, {n:,} new")
    return 0


def _line(transcript: Transcript, there: Known, number: int | None) -> str:
    """One conversation, by the number that it has here."""
    summary, tree = transcript.conversation.summary, transcript.conversation.tree
    about = f"{len(tree.nodes):,} message{'s' * (len(tree.nodes) != 1)}"
    if there.is_whole:
        # Said since, or in branches that a Markdown file does not have.
        more = f", with {there.n_more:,} more message{'s' * (there.n_more != 1)}" if there.n_more else ""
        about += f", already there{more}"
    elif there.conversation is not None:
        about += f", beside {there.conversation}, which holds less or went on otherwise"
    return f"{number:>6}  {printable(summary.title) or 'Untitled'}  ({about})"
