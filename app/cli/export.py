"""`tandem export` and `tandem import`: conversations as Markdown or JSON."""

import json
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path

from app.cli.command import STDIN
from app.cli.output import check_writable, exists_already, status
from app.conversations.export import n_left_out, to_json, to_markdown
from app.conversations.importing import importable, read_file
from app.conversations.store import Store
from app.conversations.tree import StoredConversation, Summary
from app.core import atomic
from app.core.errors import AppError, UsageError
from app.core.paths import conversations_file
from app.core.printable import escape_unprintable, printable
from app.core.units import counted

_FORMAT_BY_SUFFIX = {".md": "markdown", ".markdown": "markdown", ".json": "json"}


def export(
    conversation: str | None = None,
    form: str | None = None,
    output: Path | None = None,
    *,
    force: bool = False,
    everything: bool = False,
    listed: bool = False,
) -> int:
    """Write conversations to a file or to standard output."""
    if output == STDIN:
        output = None
    if (conversation is not None) + listed + everything > 1:
        raise UsageError("Give a conversation, or --all, or --list.", "For example: tandem export --all")
    if output is not None:
        check_writable(output)
    form = form or _FORMAT_BY_SUFFIX.get(output.suffix.lower() if output else "", "markdown")
    with closing(_open()) as store:
        if listed:
            what, text, note = _listed(store, form)
        else:
            what, text, note = _exported(store, conversation, form, everything=everything)
    if output is None:
        print(text, end="")
    else:
        _write(output, text, force=force)
        status.say(f"{output} is written: {what}.")
    if note:
        status.say(note)
    return 0


def _listed(store: Store, form: str) -> tuple[str, str, str]:
    known = store.summaries()
    if form == "json":
        rows = [
            {"id": one.id, "title": one.title, "pinned": one.pinned, "tags": one.tags, "updated": one.updated}
            for one in known
        ]
        text = escape_unprintable(json.dumps(rows, ensure_ascii=False)) + "\n"
    else:
        text = "".join(map(_line, known)) or "There are no conversations yet.\n"
    return f"the list of {counted(len(known), 'conversation')}", text, ""


def _line(summary: Summary) -> str:
    updated = datetime.fromtimestamp(summary.updated)
    pin = "*" if summary.pinned else " "
    title = " ".join([printable(summary.title) or "Untitled", *(f"#{tag}" for tag in summary.tags)])
    return f"{summary.id:>6}  {updated:%Y-%m-%d %H:%M}  {pin} {title}\n"


def _exported(store: Store, which: str | None, form: str, *, everything: bool) -> tuple[str, str, str]:
    """Return a description and the text of the chosen conversations, and a note, which may be empty."""
    known = store.summaries()
    if not known:
        raise AppError("There are no conversations yet.", "tandem opens the chat.")
    chosen = known if everything else [_choose(known, which)]
    conversations = [store.pictures.of(store.load(summary.id)) for summary in chosen]
    what = (
        counted(len(chosen), "conversation")
        if everything
        else f'conversation {chosen[0].id}, "{chosen[0].title or "Untitled"}"'
    )
    if form == "json":
        return what, to_json(conversations), ""
    n = sum(map(n_left_out, conversations))
    note = f"{counted(n, 'message')} of other branches left out; --format json has all." if n else ""
    return what, to_markdown(conversations), note


def _choose(known: Sequence[Summary], which: str | None) -> Summary:
    """Return the conversation with that number or title. Raises UsageError if none or several match."""
    if which is None:
        return max(known, key=lambda summary: (summary.updated, summary.id))
    found, how = [summary for summary in known if str(summary.id) == which], "are called"
    found = found or [summary for summary in known if summary.title == which]
    if not found:
        found, how = [summary for summary in known if which.casefold() in summary.title.casefold()], "have a title with"
    if not found:
        raise UsageError(f'No conversation is called "{printable(which)}".', "To list them: tandem export --list")
    if len(found) > 1:
        numbers = ", ".join(str(summary.id) for summary in found[:10])
        raise UsageError(f'{len(found)} conversations {how} "{printable(which)}".', f"Give a number: {numbers}.")
    return found[0]


def _open() -> Store:
    store = Store(conversations_file())
    if store.notice:
        print(f"tandem: {store.notice}", file=sys.stderr)
    return store


def _write(output: Path, text: str, *, force: bool) -> None:
    try:
        (atomic.write if force else atomic.create)(output, text.encode())
    except FileExistsError as error:
        raise exists_already(output) from error
    except OSError as error:
        raise AppError(f"{output} cannot be written: {error.strerror}.", "Choose another file or disk.") from error


def import_(files: Sequence[Path]) -> int:
    """Import conversations from files and folders; skip those that are already stored."""
    found_files = [file for given in files for file in importable(given)]
    n, n_new, failed = 0, 0, []
    for file in found_files:
        try:
            conversations = read_file(file)
        except AppError as error:
            if len(found_files) == 1:
                raise
            print(f"tandem: {printable(error.message)}", file=sys.stderr)
            failed.append(file)
            continue
        with closing(_open()) as store:
            found, new = _stored(store, conversations)
        n, n_new = n + found, n_new + new
    if len(failed) == len(found_files):
        raise AppError("No file was imported.", "Name files with conversations: tandem import --help")
    print(f"{counted(n, 'conversation')}, {n_new:,} new")
    # A folder may also hold unrelated files.
    return int(any(file in files for file in failed))


def _stored(store: Store, conversations: Sequence[StoredConversation]) -> tuple[int, int]:
    """Store new conversations; return the number of conversations and of new conversations, for printing."""
    known = store.duplicates(conversations)
    new = [conversation for conversation, there in zip(conversations, known, strict=True) if there is None]
    inserted = iter(store.insert(new))
    for conversation, there in zip(conversations, known, strict=True):
        summary, n = conversation.summary, len(conversation.tree.nodes)
        number, title = next(inserted) if there is None else there, summary.title
        about = counted(n, "message")
        if there is not None:
            about += ", restored" if there in store.deleted() else ", already there"
            store.undelete(there)
            title = store.load(there).summary.title
            if conversation.retitled and title != summary.title:
                about += f'; renamed from "{printable(title)}"'
                title = store.rename(there, summary.title)
            elif title != summary.title:
                about += f'; its title was not changed to "{printable(summary.title)}"'
        print(f"{number:>6}  {printable(title) or 'Untitled'}  ({about})")
    return len(known), len(new)
