"""`tandem export`: conversations as Markdown or JSON."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path

from app.cli.output import StatusLine
from app.cli.result_file import check_replaceable, exists_already
from app.conversations.export import n_left_out, to_json, to_markdown
from app.conversations.store import Store
from app.conversations.tree import Summary, Transcript
from app.core import atomic
from app.core.errors import AppError, UsageError
from app.core.paths import conversations_file
from app.core.printable import escape_unprintable, printable
from app.core.regular_file import is_gone

_STDOUT = Path("-")
_FORMATS = {".md": "markdown", ".markdown": "markdown", ".json": "json"}


def export(args: argparse.Namespace) -> int:
    """Write conversations to a file or to standard output."""
    given = vars(args)
    which: str | None = given.get("conversation")
    output: Path | None = given.get("output")
    if output == _STDOUT:
        output = None
    listing, everything = given.get("list", False), given.get("all", False)
    if (which is not None) + listing + everything > 1:
        raise UsageError("Give a conversation, or --all, or --list.", "For example: tandem export --all")
    if output is not None:
        check_replaceable(output)
        if output.exists() and not given.get("force"):
            raise exists_already(output)
    form = given.get("format") or _FORMATS.get(output.suffix.lower() if output else "", "markdown")
    what, text, note = _listed(form) if listing else _exported(which, form, everything=everything)
    if output is None:
        print(text, end="")
    else:
        _write(output, text, force=bool(given.get("force")))
        StatusLine(sys.stderr).say(f"{output} is written: {what}.")
    if note:
        StatusLine(sys.stderr).say(note)
    return 0


def _listed(form: str) -> tuple[str, str, str]:
    """Return a description, the text and a note of the list of all conversations."""
    known: Sequence[Summary] = ()
    if not is_gone(conversations_file()):
        with closing(_open(None)) as store:
            known = store.summaries()
    return f"the list of {_number(known)}", _list_as_json(known) if form == "json" else _list(known), ""


def _exported(which: str | None, form: str, *, everything: bool) -> tuple[str, str, str]:
    """Return a description, the text and a note ("" for none) of the chosen conversations."""
    with closing(_open(which)) as store:
        known = store.summaries()
        chosen = known if everything else [_choose(known, which)]
        if not chosen:
            raise _nothing(which)
        what = _number(chosen) if everything else f'conversation {chosen[0].id}, "{chosen[0].title or "Untitled"}"'
        transcripts = [store.transcript(summary.id) for summary in chosen]
        return what, _render(transcripts, form), _beside(transcripts) if form == "markdown" else ""


def open_store(file: Path) -> Store:
    """Open the store; report a damaged file that was set aside. Raises StoreError."""
    store = Store.open(file)
    if store.notice:
        print(f"tandem: {store.notice}", file=sys.stderr)
    return store


def _open(which: str | None) -> Store:
    file = conversations_file()
    if is_gone(file):
        raise _nothing(which)
    return open_store(file)


def _nothing(which: str | None) -> AppError:
    return (AppError if which is None else UsageError)("There are no conversations yet.", "tandem opens the chat.")


def _choose(known: Sequence[Summary], which: str | None) -> Summary:
    """Return the conversation of that number or title. Raises UsageError for none or several."""
    if not known:
        raise _nothing(which)
    if which is None:
        return max(known, key=lambda summary: (summary.updated, summary.id))
    found = [summary for summary in known if str(summary.id) == which]
    found = found or [summary for summary in known if summary.title == which]
    found = found or [summary for summary in known if which.casefold() in summary.title.casefold()]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError(f'No conversation is called "{printable(which)}".', "tandem export --list shows them.")
    numbers = ", ".join(str(summary.id) for summary in found[:10])
    raise UsageError(f'{len(found)} conversations are called "{printable(which)}".', f"Give a number: {numbers}.")


def _render(transcripts: Sequence[Transcript], form: str) -> str:
    return to_json(transcripts) if form == "json" else to_markdown(transcripts)


def _beside(transcripts: Sequence[Transcript]) -> str:
    n = sum(map(n_left_out, transcripts))
    them = "it" if n == 1 else "them"
    return f"{n:,} message{'s' * (n != 1)} of other branches left out; --format json has {them}." if n else ""


def _number(chosen: Sequence[Summary]) -> str:
    return f"{len(chosen):,} conversation{'s' * (len(chosen) != 1)}"


def _list(known: Sequence[Summary]) -> str:
    lines = [
        f"{summary.id:>6}  {datetime.fromtimestamp(summary.updated):%Y-%m-%d %H:%M}  "
        f"{'*' if summary.pinned else ' '} {printable(summary.title) or 'Untitled'}\n"
        for summary in known
    ]
    return "".join(lines) or "There are no conversations yet.\n"


def _list_as_json(known: Sequence[Summary]) -> str:
    rows = [
        {"id": summary.id, "title": summary.title, "pinned": summary.pinned, "updated": summary.updated}
        for summary in known
    ]
    return escape_unprintable(json.dumps(rows, ensure_ascii=False)) + "\n"


def _write(output: Path, text: str, *, force: bool) -> None:
    """Write the whole file or nothing; never overwrite without --force."""
    try:
        (atomic.write if force else atomic.create)(output, text.encode())
    except FileExistsError as error:
        raise exists_already(output) from error
    except OSError as error:
        raise AppError(f"{output} cannot be written: {error.strerror}.", "Choose another file or disk.") from error
