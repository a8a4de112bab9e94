"""Commands on a conversation: copy, export, import, rename, system prompt, summary, drafting."""

from __future__ import annotations

import re
from asyncio import wrap_future
from collections.abc import Awaitable, Callable
from functools import partial
from itertools import count
from pathlib import Path

from app.conversations.message import Role
from app.conversations.tree import StoredConversation, tag_of
from app.core import atomic
from app.core.errors import AppError, UsageError
from app.core.pictures import PictureData, read_picture
from app.core.printable import printable
from app.core.program import in_background
from app.core.regular_file import home_expanded, is_folder
from app.core.units import counted
from app.session.permissions import Permission
from app.settings.layers import drafting, picture_limits
from app.ui.actions import NONE
from app.ui.chat.input_line import InputLine
from app.ui.chat.view import ChatView
from app.ui.commands import COMMANDS
from app.ui.composer.included_files import chosen_file
from app.ui.key_names import key
from app.ui.terminal.copying import clipboard_picture, copy_text
from app.ui.transcript.message import MessageItem
from app.ui.transcript.navigation import code_blocks

_FILE_SUFFIX = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,8}")
"""Suffix of a file name; a title may have other dots."""
_FILE_NAME_WORD = re.compile(r"\w+")
_MAX_STEM = 60
"""Longest file name from a title, in characters, without its suffix."""
_MAX_DIGITS = 9
"""Largest number of digits in a code block's number."""


class ConversationCommands:
    """One method for each command; raises AppError if it cannot be done.

    Args:
        run: Runs a slash command, or sends a prompt.
    """

    def __init__(self, view: ChatView, line: InputLine, run: Callable[[str], Awaitable[None]]) -> None:
        self._view = view
        self._line = line
        self._run = run
        self._session = view.session
        self._library = view.session.library

    # Code blocks

    def perform(self, message: MessageItem, requested: str) -> None:
        """Copy a message, or its code block with a number."""
        match requested:
            case "copy":
                copy_text(self._view.app, message.text, "the message")
            case code if code.startswith("copy_code "):
                self._copy_code(message.text, int(code.partition(" ")[2]))

    def action_choose_code(self) -> None:
        self._view.messages.action_step_code(-1)

    def action_copy(self, what: str = "") -> None:
        """Copy the last answer, its last code, or the code block with a number in the visible answer."""
        if what.isdecimal() and len(what) <= _MAX_DIGITS:
            texts = [answer.text for answer in self._view.messages.visible_answers]
            self._copy_code(next((text for text in texts if code_blocks(text)), ""), int(what))
        elif what in ("", "code"):
            answer = self._last_answer()
            if not answer:
                raise AppError("There is no answer to copy yet.")
            if what:
                self._copy_code(answer, None)
            else:
                copy_text(self._view.app, answer, "the answer")
        else:
            raise UsageError("Usage: /copy, /copy code, or /copy with the number of a code block.")

    def _copy_code(self, text: str, number: int | None) -> None:
        blocks = code_blocks(text)
        if not blocks:
            raise AppError("There is no code to copy here.")
        at = len(blocks) if number is None else number
        if not 1 <= at <= len(blocks):
            raise AppError(f"The answer has {counted(len(blocks), 'code block')}; there is no number {at}.")
        copy_text(
            self._view.app, blocks[at - 1], f"code block {at} of {len(blocks)}" if len(blocks) > 1 else "the code"
        )

    def _last_answer(self) -> str:
        """Return the newest answer with text. A model that still reasons has not answered yet."""
        nodes = reversed(self._session.conversation.messages)
        return next(filter(None, (node.text.strip() for node in nodes if node.role is Role.ASSISTANT)), "")

    # Words in this conversation

    def action_find(self, words: str = "") -> None:
        """Go to the last match of words; without words, to the previous match, or ask for words."""
        # The first frame need not wait for SQLite.
        from app.conversations.search import any_of

        if words and not self._view.messages.seek_on(-1, any_of([words])):
            raise AppError(f'"{printable(words)}" is not in this conversation.')
        if not words and self._view.messages.is_seeking:
            self._view.messages.action_seek(-1)
        elif not words:
            self.begin_command("find")

    # Conversations and files

    def action_include_file(self, path: str = "") -> None:
        """Name a file in the prompt, or begin to name a file. Raises AppError if the file cannot be read."""
        reference = chosen_file(path) if path else "@"
        self._view.prompt.focus()
        before = self._view.prompt.text
        self._view.prompt.type_in(f" {reference}" if before and not before[-1].isspace() else reference)

    async def action_paste_picture(self) -> None:
        """Insert the picture on the clipboard into the prompt."""
        limits = picture_limits(self._session.settings)

        def read() -> PictureData:
            return read_picture(clipboard_picture(), None, limits)

        found = await wrap_future(in_background(read, "clipboard"))
        self._library.add_picture(found)
        self._view.prompt.focus()
        self._view.prompt.show_picture(found)

    async def action_export(self, name: str = "") -> None:
        """Write the conversation to a new file, by default named like its title; as JSON if the name says so."""
        number = self._session.conversation.number
        conversation = self._library.load_whole(number) if number is not None else None
        if conversation is None:
            raise AppError("There is nothing to export yet.")
        if name == NONE:
            raise UsageError("The chat has no standard output.", "Name a file, or leave the name out.")
        file = home_expanded(name) if name else _new_file(conversation.summary.title)
        if not file.name or is_folder(file):
            raise UsageError(f"{printable(name)} is a folder.", "Name a file in it.")
        if not _FILE_SUFFIX.fullmatch(file.suffix):
            file = file.with_name(file.name + ".md")
        self._view.hint.say(await wrap_future(in_background(partial(_write, conversation, file.absolute()), "export")))

    async def action_import(self, name: str) -> None:
        """Add the conversations of a file; skip those that are already stored."""
        from app.conversations.importing import read_file

        file = home_expanded(name)
        conversations = await wrap_future(in_background(partial(read_file, file), "import"))
        known = self._library.do(lambda store: store.duplicates(conversations)) or ()
        new = [conversation for conversation, there in zip(conversations, known, strict=False) if there is None]
        listed = {summary.id for summary in self._library.summaries()}
        restored = [there for there in known if there is not None and there not in listed]
        self._library.do(lambda store: store.undelete(*restored))
        self._library.do(lambda store: store.insert(new))
        counts = {"restored": len(restored), "already there": len(known) - len(new) - len(restored)}
        others = "".join(f", {n:,} {what}" for what, n in counts.items() if n)
        opens = f"; {key('chat.open')} opens one" if self._library.has_history else ""
        self._view.hint.say(f"Imported {counted(len(new), 'conversation')}{others}{opens}.")

    def begin_command(self, name: str, argument: str = "", hint: str = "") -> None:
        """Let the user complete a slash command in the input line; then restore the typed text."""
        enter = key("prompt.send")
        hint = hint or f"{COMMANDS.known[name].help}: {enter} confirms."
        self._line.begin(hint, f"/{name} {argument}", self._run, is_prompt=True)

    def _open_conversation(self) -> int:
        number = self._session.conversation.number
        if number is None:
            raise AppError("This conversation is empty; send a prompt first.")
        return number

    def action_tag(self, words: str = "") -> None:
        """Add tags, or remove those with a leading minus sign; NONE removes all."""
        number = self._open_conversation()
        before = self._library.tags(number)
        if not words:
            enter, known = key("prompt.send"), " ".join(f"#{tag}" for tag in before) or "none"
            self.begin_command(
                "tag", hint=f"Tags: {known}. {enter.capitalize()} adds words; -word removes one, - removes all."
            )
            return
        given = {word: tag_of(word.removeprefix(NONE)) for word in words.split() if word != NONE}
        if wrong := next((word for word, tag in given.items() if tag is None), None):
            raise UsageError(f'"{printable(wrong)}" is not a tag.', "A tag is one word of letters and digits.")
        added = [tag for word, tag in given.items() if tag and not word.startswith(NONE)]
        removed = [tag for word, tag in given.items() if tag and word.startswith(NONE)]
        tags = self._library.tag(number, added, before if NONE in words.split() else removed)
        found = f"; {key('chat.open')} finds them by #{tags[0]}" if tags else ""
        self._view.hint.say(f"Tags: {' '.join(f'#{tag}' for tag in tags) or 'none'}{found}.")

    def action_rename(self, title: str = "") -> None:
        """Set the title, or let the user edit it; NONE makes a title from the first prompt."""
        number = self._open_conversation()
        if not title:
            self.begin_command("rename", printable(self._library.title(number)))
            return
        renamed = self._library.rename(number, "" if title == NONE else title)
        self._view.hint.say(f'Renamed to "{renamed}".')

    def action_allow(self, answer: str) -> None:
        """Answer the question about a tool."""
        try:
            permission = Permission(answer.lower())
        except ValueError:
            raise UsageError(f"Usage: /allow {'|'.join(one.value for one in Permission)}") from None
        self._session.permit(permission)

    def action_system(self, text: str = "") -> None:
        """Set or remove the system prompt, or let the user edit it."""
        if text == NONE:
            self._session.set_setting("answer.system", None)
            self._view.hint.say("Removed the system prompt of this conversation.")
        elif text:
            self._session.set_setting("answer.system", text)
            self._view.hint.say("The system prompt applies from the next prompt on.")
        else:
            now = self._session.settings["answer.system"]
            is_own = "system" in dict(self._session.conversation.settings.get("answer") or {})
            removes = f"; /system {NONE} removes it" if is_own else ""
            whose = f", from the settings ({key('chat.settings')})" if now and not is_own else ""
            enter = key("prompt.send")
            self.begin_command(
                "system", now or "", f"System prompt{whose}: {enter} sets it for this conversation{removes}."
            )

    # Settings of the next answer

    def action_edit_summary(self) -> None:
        """Edit the summary that the model reads instead of earlier messages."""
        if self._session.conversation.summary is None:
            raise AppError("There is no summary of earlier messages.")

        async def change(text: str) -> None:
            self._session.set_summary(text)
            self._view.hint.say("The next answer uses the new summary.")

        self._line.begin("Editing the summary of earlier messages", self._session.conversation.summary, change)

    def action_toggle_drafting(self) -> None:
        """Turn drafting on or off, or say why not."""
        session, state, hint = self._session, self._session.drafting, self._view.hint
        if not state.is_available:
            settings = key("chat.settings")
            off = f"Drafting is off in the settings; {settings} turns it on."
            hint.say(off if drafting(session.settings) is None else state.reason)
            return
        session.set_drafting(not state.is_on)
        which = "This answer continues" if session.can_switch_running else "The next answer is written"
        hint.say(f"{which} {'without' if state.is_on else 'with'} drafting.")


def _new_file(title: str) -> Path:
    stem = "-".join(_FILE_NAME_WORD.findall(title.lower()))[:_MAX_STEM].strip("-") or "conversation"
    return next(
        file for n in count(1) if not (file := Path.cwd() / (f"{stem}-{n}.md" if n > 1 else f"{stem}.md")).exists()
    )


def _write(conversation: StoredConversation, file: Path) -> str:
    """Write a conversation; return a sentence about it. The disk may be slow."""
    from app.conversations.export import n_left_out, to_json, to_markdown

    as_json = file.suffix.lower() == ".json"
    text = to_json([conversation]) if as_json else to_markdown([conversation])
    try:
        atomic.create(file, text.encode())
    except FileExistsError as error:
        raise UsageError(f"{file} exists already.", "Choose another name.") from error
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise AppError(f"{file} cannot be written: {reason}.", "Choose another place.") from error
    n = 0 if as_json else n_left_out(conversation)
    left_out = f" {counted(n, 'message')} of other branches left out; .json keeps them." if n else ""
    return f"Exported as {file}.{left_out}"
