"""Everything that the program can do, one row per action.

Key bindings, slash commands, the palette and the list of keys come from these tables, in the order of the last line.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import partial

from textual.binding import Binding, BindingType

CHOOSE = "f9,ctrl+up,alt+up" if sys.platform == "darwin" else "ctrl+up,alt+up"
"""Keys that choose a message; macOS uses ctrl+up itself, and its terminal does not send alt+up."""
PATH, NEW_PATH, NONE = "FILE", "NEW-FILE", "-"
"""Argument names for a path and for a new path, and the argument that removes a value."""


@dataclass(frozen=True, slots=True)
class Action:
    """Something that the user can do.

    Attributes:
        id: Name of the key binding in the user's settings.
        keys: Shipped keys, separated by commas; None for an action without a key.
        run: Textual's action; a slash command passes it the argument, if any.
        name: One or two words; a single word is also the slash command, unless `is_command` is False.
        help: Description in the imperative.
        words: More search words, which are also slash commands.
        argument: Name of the argument in help, in brackets if it is optional; None if the action takes none.
        has_lines: Whether the argument may have several lines.
        show: Whether the last line shows the key.
        key_display: The displayed keys, if they differ from their names.
    """

    id: str
    keys: str | None
    run: str
    name: str
    help: str = ""
    words: str = ""
    argument: str | None = None
    has_lines: bool = False
    show: bool = False
    priority: bool = False
    is_command: bool = True
    key_display: str | None = None

    @property
    def usage(self) -> str:
        """The slash command as it is typed."""
        return f"/{self.name} {self.argument or ''}".rstrip()

    @property
    def needs_argument(self) -> bool:
        return self.argument is not None and not self.argument.startswith("[")


_visible = partial(Action, show=True)
_key = partial(Action, is_command=False)
_visible_key = partial(Action, show=True, is_command=False)

# fmt: off
MATCHES = (
    _visible_key("match.above", f"enter,up,{CHOOSE}", "seek(-1)", "match above", "Go to the match above"),
    _visible_key("match.below", "down,shift+enter,ctrl+down,alt+down", "seek(1)", "match below",
                 "Go to the match below"),
)
"""Actions on a match in this conversation, replacing those on its message with the same keys."""

MESSAGE = (
    _visible_key("message.leave", "escape", "request('leave')", "back", "Back to the prompt"),
    # No letters: typed letters go to the prompt. The keys are those that act on the last answer elsewhere.
    _visible_key("message.edit", "enter,ctrl+e", "request('edit')", "edit", "Change it, as a branch", "branch"),
    _visible_key("message.copy", "f8", "request('copy')", "copy", "Copy the marked code, or the message", "clipboard"),
    _visible_key("message.next_code", "tab", "step_code(1)", "next code", "Mark the next code block", "jump"),
    _key("message.previous_code", "shift+tab", "step_code(-1)", "code above", "Mark the code block above"),
    _visible_key("message.again", "ctrl+r", "request('again')", "regenerate", "Regenerate, as a branch",
                 "branch again"),
    _visible_key("message.go_on", "ctrl+g", "request('go_on')", "continue", "Continue an answer that ended early"),
    _visible_key("message.unfold", "ctrl+t", "unfold", "open", "Show or hide attachments and reasoning",
                 "fold expand"),
    _visible_key("message.fork", "ctrl+k", "request('fork')", "fork", "Copy the conversation up to here into a new one",
                 "branch duplicate"),
    _visible_key("message.delete", "delete", "request('delete')", "delete", "Delete the message", "remove",
                 key_display="del"),
    _visible_key("message.earlier", "left", "request('earlier')", "branch", "Show another branch", "version sibling",
                 key_display="left/right"),
    _key("message.later", "right", "request('later')", "next branch"),
    _key("message.up", f"up,{CHOOSE}", "step(-1)", "message above"),
    _key("message.down", "down,ctrl+down,alt+down", "step(1)", "message below"),
)
"""Actions on the chosen message."""

CONVERSATIONS = (
    # The prompt uses the same key to undo.
    _visible_key("found.undelete", "ctrl+underscore", "undelete", "undo", "Restore the deleted conversation", "restore",
                 priority=True),
    _visible_key("found.delete", "ctrl+x", "delete", "delete", "Delete a conversation", "remove trash", priority=True),
    _visible_key("found.pin", "ctrl+t", "pin", "pin", "Pin or unpin a conversation", "favorite", priority=True),
    _visible_key("found.rename", "ctrl+r", "rename", "rename", "Rename a conversation", "title name", priority=True),
)
"""Actions on the chosen conversation of the list."""

CHAT = (
    _visible_key("chat.leave_task", "escape", "leave_task", "cancel", "Stop editing, or unmark the clicked message"),
    _visible_key("chat.take_back", "escape", "take_back", "take back", "Take back the last waiting prompt"),
    _visible_key("chat.earlier_round", "left", "round(-1)", "earlier", "Show an earlier verify step", priority=True),
    _visible_key("chat.later_round", "right", "round(1)", "later", "Show a later verify step", priority=True),
    _visible("chat.drafting", "ctrl+d", "toggle_drafting", "draft", "Turn the draft on or off, also during an answer",
             "drafting speculative decoding disable enable", priority=True),
    _visible("chat.again", "ctrl+r", "again", "regenerate", "Regenerate the last answer", "again retry redo resend"),
    Action("chat.go_on", "ctrl+g", "go_on", "continue", "Continue an answer that ended early", "resume more longer"),
    Action("chat.edit_last", "ctrl+e", "edit_last", "edit", "Edit the last prompt", "change correct resend",
           priority=True),
    _visible("chat.new", "ctrl+n", "restart", "new", "Start a new conversation", "chat clear reset restart"),
    _visible("chat.open", "ctrl+o", "conversations", "open", "Search, open, rename, pin or delete conversations",
             "search all messages history list past load", argument="[WORDS]"),
    Action("chat.find", "ctrl+f", "find", "find", "Find words in this conversation", "search grep next",
           argument="[WORDS]", priority=True),
    _visible("chat.stop", "escape", "stop", "stop", "Stop the answer; its text stays", "cancel interrupt abort halt"),
    _visible("chat.compare", "f2", "compare", "compare", "Compare with and without the draft",
             "benchmark race side speedup baseline slow", argument="[PROMPT]", priority=True),
    _visible("chat.tokens", "f3", "toggle_tokens", "tokens", "Show the source of each token",
             "colors inspect probabilities logprobs steps acceptance", priority=True),
    _visible("chat.settings", "f4", "settings", "settings", "See and change every setting",
             "options preferences configuration presets temperature sampling context", argument="[WORDS]",
             priority=True),
    _visible("chat.panel", "f5", "toggle_panel", "numbers", "Show numbers, more numbers, or none",
             "speed statistics panel acceptance metrics memory", priority=True),
    _visible("chat.pairs", "f6", "pairs", "pair", "Choose, download or add a pair of models",
             "models load switch gguf hub install ollama studio vram", argument="[WORDS]", priority=True),
    _visible_key("chat.sidebar", "f7", "toggle_sidebar", "conversations", "Show or hide the conversations",
                 "sidebar list history", priority=True),
    Action("chat.thinking", "ctrl+t", "toggle_thinking", "reasoning", "Show or hide the reasoning", "thinking"),
    Action("chat.choose", CHOOSE, "choose", "messages", "Choose a message to edit, copy, regenerate or continue",
           "select branch fork"),
    _key("chat.choose_code", "alt+c", "choose_code", "code", "Choose a code block, the last one first", "select block"),
    Action("chat.copy", "f8", "copy", "copy", "Copy the answer, its last code, or code block N", "clipboard yank",
           argument="[code|N]"),
    _key("chat.copy_code", "ctrl+b", "copy('code')", "copy code", "Copy the last code block", priority=True),
    _key("chat.copy_1", "alt+1", "copy('1')", "copy block", "Copy the code block with that number",
         key_display="alt+1 … alt+9", priority=True),
    # The list of keys shows these keys in the row above.
    *(_key(f"chat.copy_{n}", f"alt+{n}", f"copy('{n}')", "", priority=True) for n in range(2, 10)),
    Action("chat.export", None, "export", "export", "Export this conversation as Markdown or .json",
           "save write download share", argument=f"[{NEW_PATH}]"),
    Action("chat.import", None, "import", "import", "Import conversations from a file", "load read", argument=PATH),
    Action("chat.rename", None, "rename", "rename", "Rename this conversation", "title name call",
           argument=f"[TEXT|{NONE}]"),
    Action("chat.tag", None, "tag", "tag", "Tag this conversation, or remove a tag (-WORD)",
           "label folder category group", argument="[WORD|-WORD]"),
    Action("chat.system", None, "system", "system", "Set the system prompt of this conversation",
           "instructions role persona", argument=f"[TEXT|{NONE}]", has_lines=True),
    # The prompt uses the same key for undoing, and the list of conversations for its own purpose.
    _key("chat.undelete", "ctrl+underscore", "undelete", "undo", "Restore the deleted message", "restore undelete",
         priority=True),
    Action("chat.tools", None, "tools", "tools", "Switch MCP servers and see their tools",
           "mcp functions call server web"),
    Action("chat.allow", None, "allow", "allow", "Answer the question about a tool",
           "permit yes deny refuse", argument="ANSWER"),
    Action("chat.summary", None, "edit_summary", "summary", "Change the summary of earlier messages", "compact"),
    Action("chat.file", None, "include_file", "file", "Include a file in the prompt",
           "attach upload document pdf photo @", argument=f"[{PATH}]"),
    Action("chat.editor", None, "editor", "editor", "Edit the prompt in $EDITOR", "vim nano emacs external",
           key_display="ctrl+x ctrl+e"),
    Action("chat.paste", None, "paste_picture", "paste", "Paste the picture on the clipboard", "image screenshot"),
    _key("chat.page_up", "pageup", "page(-1)", "page up", "Scroll up by a page", priority=True),
    _key("chat.page_down", "pagedown", "page(1)", "page down", "Scroll down by a page", priority=True),
    _key("chat.beginning", "ctrl+home", "beginning", "top", "Go to the first message", "beginning", priority=True),
    _key("chat.follow", "ctrl+end", "follow", "end", "Go to the newest text", "bottom follow last", priority=True),
)
"""Actions of the chat screen."""

PROMPT = (
    _key("prompt.send", "enter", "send", "send", "Send the prompt", "ask submit", priority=True),
    _visible_key("prompt.break_line", "ctrl+j,shift+enter,alt+enter", "break_line", "new line",
                 "Start a new line in the prompt", "multiline", priority=True),
    _key("prompt.complete", "tab", "complete", "complete", "Complete what is typed"),
    _visible_key("prompt.dismiss", "escape", "dismiss", "close", "Close the list above the prompt"),
    _key("prompt.search", "ctrl+s", "search", "search prompts", "Search past prompts", "find history recall"),
    _key("prompt.clear", "ctrl+l", "clear_text", "clear", "Clear the prompt; undo brings it back", "delete empty"),
    # Ctrl+Z suspends, as in any terminal program.
    _key("prompt.undo", "ctrl+underscore", "undo", "undo", "Undo what was typed"),
)
"""Actions of the prompt."""

PROGRAM = (
    _visible_key("app.commands", "ctrl+p", "command_palette", "commands", "Search everything that can be done",
                 priority=True),
    _visible("app.quit", "ctrl+q", "quit", "quit", "Quit Tandem", "exit leave", priority=True),
    _visible("app.keys", "f1", "keys", "help", "Show every key and command",
             "keys shortcuts keybindings commands manual docs"),
    Action("app.explain", None, "explain", "explain", "Explain what the numbers mean",
           "ttft latency meaning legend acceptance accepted speedup step prefill estimate paused n-gram"),
    # If text is selected, the key copies it.
    _key("app.interrupt", "ctrl+c", "help_quit", "interrupt", "Stop the answer; press twice to quit"),
    Action("app.theme", None, "change_theme", "theme", "Choose other colors", "dark light mode appearance",
           argument="[NAME]"),
    Action("app.serve", None, "serve", "serve", "Start or stop the server for editors and agents",
           "api openai endpoint"),
    # As in a shell, at any cursor position. Windows cannot suspend.
    *[_key("app.suspend", "ctrl+z", "suspend_process", "suspend", "Suspend Tandem; fg brings it back", priority=True)]
    * (sys.platform != "win32"),
)
"""Actions on every screen."""

SCREENS = (
    # Actions while a title is edited
    _visible_key("title.take", "enter", "submit", "rename", "Save the title"),
    _visible_key("title.leave", "escape", "leave", "cancel", "Keep the old title"),
    # Actions on the list of conversations
    _visible_key("found.open", "enter", "forward('enter')", "open", "Go on with this conversation"),
    _visible_key("found.leave", "escape", "leave", "back", "Back to the chat"),
    # Actions on the list of pairs
    _visible_key("pairs.choose", "enter", "forward('enter')", "choose", "Set the pair up, or chat with it"),
    _visible_key("pairs.leave", "escape", "leave", "back", "Clear the filter, or go back"),
    _visible_key("pairs.add", "ctrl+a", "add", "add", "Add models from a repository or file", priority=True),
    _visible_key("pairs.default", "ctrl+d", "make_default", "default", "Make it the default", priority=True),
    _visible_key("pairs.cancel", "ctrl+x", "cancel", "stop", "Stop the download or the answer", priority=True),
    # Actions of the screen that adds a pair
    _visible_key("line.submit", "enter", "submit", "go on", "Check the models; press again to download them"),
    _visible_key("add.next", "tab", "next", "next", "Complete the path, or next field"),
    _visible_key("add.leave", "escape", "leave", "back", "Back to the pairs"),
    # Actions on the list of settings, and on an edited value
    _visible_key("settings.change", "enter", "forward('enter')", "change", "Change the setting"),
    _key("settings.less", "left", "forward('left')", "less", "Decrease, or previous choice"),
    _key("settings.more", "right", "forward('right')", "more", "Increase, or next choice"),
    _visible_key("value.keep", "enter", "screen.save_value", "save", "Save this value"),
    _visible_key("text.break_line", "ctrl+j,shift+enter,alt+enter", "break_line", "new line", "Start a new line"),
    _visible_key("settings.leave", "escape", "leave", "back", "Back to the chat"),
    _visible_key("settings.load", "ctrl+r", "dismiss(True)", "reload", "Reload the models", priority=True),
    _visible_key("settings.scope", "tab", "scope", "scope", "All conversations, or this one", priority=True),
    _visible_key("settings.reset", "ctrl+x", "reset", "reset", "Reset the setting", priority=True),
    _visible_key("settings.save", "ctrl+s", "save", "save preset", "Save all as a preset", priority=True),
    # Actions on the list of tool servers
    _visible_key("tools.toggle", "enter", "forward('enter')", "on/off", "Switch it in this conversation"),
    _visible_key("tools.everywhere", "ctrl+a", "everywhere", "for all", "Switch it in all conversations",
                 priority=True),
    _visible_key("tools.ask_again", "ctrl+x", "ask_again", "reset", "Ask again before any tool of it runs",
                 priority=True),
    _visible_key("tools.start", "ctrl+r", "start", "start", "Start all, and list their tools", priority=True),
    _visible_key("tools.leave", "escape", "leave", "back", "Back to the chat"),
    # Actions of a comparison
    _visible_key("compare.stop", "escape", "stop", "stop", "Stop the comparison"),
    _visible_key("compare.leave", "escape", "leave", "back", "Back to the chat"),
    _visible_key("compare.switch", "tab", "switch", "switch", "Show the text of the next side"),
    _visible_key("compare.once", "r", "more(1)", "again", "Run both sides once more"),
    _visible_key("compare.more", "3", "more(3)", "three more", "Run both sides three more times"),
    _visible_key("compare.copy", "c", "copy", "copy", "Copy as Markdown"),
    _key("compare.up", "up,k", "scroll(-1)", "up"),
    _key("compare.down", "down,j", "scroll(1)", "down"),
    _key("compare.page_up", "pageup", "scroll(-5)", "page up"),
    _key("compare.page_down", "pagedown", "scroll(5)", "page down"),
    # Actions of the palette and of the list of keys
    _visible_key("palette.run", "enter", "forward('enter')", "run", "Run the chosen line"),
    _visible_key("palette.leave", "escape", "forward('escape')", "close", "Close the list"),
    _visible_key("keys.leave", "escape,f1", "dismiss", "back", "Back", key_display="esc"),
)
"""Actions of other screens than the chat."""
# fmt: on

ACTIONS = (*MATCHES, *MESSAGE, *CONVERSATIONS, *CHAT, *PROMPT, *PROGRAM)
"""Actions that the chat offers."""
BY_ID = {action.id: action for action in (*SCREENS, *ACTIONS)}
"""All actions, in the order of the last line of each screen."""
LED_TO = (
    (MATCHES, BY_ID["chat.find"], "Words in this conversation: {key} finds them"),
    (MESSAGE, BY_ID["chat.choose"], "Chosen message: {key} chooses one"),
    (CONVERSATIONS, BY_ID["chat.open"], "List of conversations: {key} opens it"),
)
"""Actions on something that must be chosen first, the action that leads to it, and their title in the list of keys."""


def bindings(*identities: str, runner: str | None = None) -> list[BindingType]:
    """Return the key bindings of the actions with these ids, or beginnings of ids.

    A runner is an action that receives their names and arguments.
    """
    return [
        Binding(
            action.keys,
            _run_by(runner, action.run),
            action.name,
            id=action.id,
            tooltip=action.help,
            show=action.show,
            priority=action.priority,
            key_display=action.key_display,
        )
        for action in BY_ID.values()
        if action.keys is not None and action.id.startswith(identities)
    ]


def _run_by(runner: str | None, run: str) -> str:
    name, bracket, arguments = run.partition("(")
    return run if runner is None else f"{runner}('{name}', {arguments}" if bracket else f"{runner}('{name}')"
