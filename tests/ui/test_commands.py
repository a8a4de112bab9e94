"""Slash commands: parsed, offered, executed."""

import shlex
import shutil
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.app import App

from app.conversations.export import to_json
from app.conversations.store import UNDO_S, Store
from app.core.errors import AppError, UsageError
from app.ui.commands import COMMANDS
from app.ui.composer.completion import CHOSEN
from app.ui.composer.editor import edited
from app.ui.transcript.navigation import code_blocks
from app.ui.widgets.inputs import FilterInput
from tests.conversations.stores import exchange
from tests.settings.in_memory import in_memory
from tests.ui.driver import Chat, open_chat


@pytest.mark.parametrize(
    ("text", "command"),
    [("/new", True), ("/rename My trip", True), ("/usr/bin is full", False), (" /new", False), ("//new", False)],
)
def test_a_command_is_a_line_that_begins_with_its_name(text: str, command: bool) -> None:
    assert COMMANDS.is_command(text) is command


@pytest.mark.parametrize(
    ("line", "ours"),
    [(":q a", "/quit (ctrl+q)"), (":set nu", "/settings (f4)"), (":w a.md", "/export")],
)
def test_a_command_of_vim_names_ours(line: str, ours: str) -> None:
    assert COMMANDS.is_command(line)
    with pytest.raises(UsageError) as refused:
        COMMANDS.read(line)
    assert f"did you mean {ours}?" in refused.value.message
    assert COMMANDS.as_typed(line) == f" {line}"


@pytest.mark.parametrize("line", [":q", ":q!", ":wq", ":x", ":qa! "])
def test_a_command_of_vim_that_quits_quits(line: str) -> None:
    command, argument = COMMANDS.read(line)
    assert (command.name, argument) == ("quit", "")


@pytest.mark.parametrize("text", [":)", ":smile:", "::q", ":q is how I leave vim", ":quip", " :q", ":q\n:wq", "a :q"])
def test_text_around_a_command_of_vim_is_text(text: str) -> None:
    assert not COMMANDS.is_command(text)


@pytest.mark.parametrize("between", [" " * 10_000, "\t" * 10_000, " a" * 10_000])
def test_a_long_paste_that_begins_with_a_slash_is_text_at_once(between: str) -> None:
    assert not COMMANDS.is_command(f"/new{between}\nlines")
    assert COMMANDS.is_command(f"/new{between}")


PASTED = "role:\n```\nYou are\na pirate.\n```\n\n/system Always: [role]"
"""A command followed by a paste."""


@pytest.mark.parametrize(("text", "argument"), [
    ("/system You are\na pirate.", "You are\na pirate."),
    ("/System\n\nYou\n\nare", "You\n\nare"),
    (PASTED, "Always: You are\na pirate."),
])  # fmt: skip
def test_a_system_prompt_may_have_several_lines(text: str, argument: str) -> None:
    assert COMMANDS.is_command(text)
    command, given = COMMANDS.read(text)
    assert (command.name, given) == ("system", argument)
    assert COMMANDS.as_typed("/system a\nb") == " /system a\nb"


@pytest.mark.parametrize(
    "text", ["/rename My\ntrip", PASTED.replace("system", "rename"), PASTED.replace("system", "new")]
)
def test_a_command_of_one_line_refuses_more(text: str) -> None:
    assert COMMANDS.is_command(text)
    with pytest.raises(UsageError) as refused:
        COMMANDS.read(text)
    assert "put a space before it" in refused.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "/system/a\nb",
        "/etc\nb",
        "/new\nb",
        "/copy this:\nx=1",
        "a.md:\n```md\nmilk\n```\n\n/new @a.md",
    ],
)
def test_text_that_only_begins_like_a_command_is_text(text: str) -> None:
    assert not COMMANDS.is_command(text)


def test_a_command_run_together_with_its_argument_is_refused_with_the_command() -> None:
    with pytest.raises(UsageError, match=r"There is no command /exportName; did you mean /export\?"):
        COMMANDS.read("/exportName of this")


@given(st.text(st.sampled_from("/newcopy on\n5-"), max_size=12))
def test_any_text_is_a_command_or_an_error_with_a_hint(rest: str) -> None:
    text = "/" + rest
    COMMANDS.matching(text)
    COMMANDS.argument_of(text)
    if COMMANDS.is_command(text):
        try:
            command, _ = COMMANDS.read(text)
        except UsageError as error:
            assert error.hint or error.message.startswith("Usage: ")  # noqa: PT017
        else:
            assert text.lower()[1:].split()[0] in (command.name, *command.words.split())


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("/zzz", "/help lists them"),
        ("/import", "Usage: /import FILE"),
        ("/new one", "takes no argument"),
    ],
)
def test_a_wrong_command_is_an_error_with_a_hint(line: str, sentence: str) -> None:
    with pytest.raises(UsageError) as raised:
        COMMANDS.read(line)
    assert sentence in f"{raised.value.message} {raised.value.hint}"


def test_code_is_found_in_an_answer() -> None:
    assert code_blocks("Look:\n```py\na = 1\n```\n- and\n  ~~~\n  b\n  ~~~\n```\nopen") == ("a = 1", "b", "open")


async def test_the_list_opens_filters_and_closes() -> None:
    async with open_chat() as chat:
        await chat.type("/")
        await chat.type("s")
        await chat.shows("/stop")
        await chat.type("ys")
        await chat.shows(CHOSEN + "/system")
        assert "/stop" not in chat.text
        await chat.pilot.press("tab")
        assert chat.prompt == "/system "
        await chat.pilot.press("ctrl+u")
        await chat.type("/he")
        await chat.shows("/help")
        await chat.press("escape", until=lambda: CHOSEN + "/help" not in chat.text)
        assert chat.prompt == "/he"


async def test_a_wrong_command_is_given_back() -> None:
    async with open_chat() as chat:
        await chat.enter("/nwe", "There is no command /nwe; /help lists them.")
        assert chat.prompt == "/nwe"
        assert chat.engine.requests == []


async def test_stop_works_while_an_answer_is_written() -> None:
    async with open_chat() as chat:
        await chat.send("go")
        await chat.pilot.press(*"/stop", "enter")
        await chat.until(lambda: chat.engine.cancelled)


async def test_help_lists_every_command() -> None:
    async with open_chat(size=(100, 140)) as chat:
        await chat.enter("/help", "/quit")
        for command in COMMANDS.all:
            assert command.usage in chat.text


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        *(("/ex", "export"), ("/save", "export"), ("/again", "regenerate"), ("/title", "rename")),
        *(("/thinking", "reasoning"), ("/model", "pair"), ("/markdown", "export"), ("/regnerate", "regenerate")),
    ],
)
def test_a_command_is_found_by_any_word_for_it(typed: str, name: str) -> None:
    assert [command.name for command in COMMANDS.matching(typed) or ()][:1] == [name]


async def test_a_line_that_no_command_matches_says_where_all_are_listed() -> None:
    async with open_chat() as chat:
        await chat.type("/qwx")
        await chat.shows("No command matches; f1 lists all.")
        await chat.pilot.press("backspace", "backspace", "backspace", "backspace")
        await chat.until(lambda: "No command matches" not in chat.text)


async def test_a_conversation_is_renamed() -> None:
    store = Store()
    async with open_chat(store=lambda: store) as chat:
        await chat.enter("/rename Trip", "send a prompt first")
        await chat.pilot.press("ctrl+u")
        await chat.exchange("hello", "hi")
        await chat.enter("/rename Trip", 'Renamed to "Trip"')
        assert store.summaries()[0].title == "Trip"


async def test_tags_are_set_shown_and_found() -> None:
    store = Store()
    async with open_chat(store=lambda: store) as chat:
        await chat.enter("/tag work", "send a prompt first")
        await chat.pilot.press("ctrl+u")
        await chat.exchange("hello", "hi")
        await chat.enter("/tag #Work idea", "Tags: #idea #work; ctrl+o finds them by #idea.")
        await chat.enter("/tag -idea", "Tags: #work")
        await chat.enter("/tag two.words", '"two.words" is not a tag.')
        await chat.pilot.press("ctrl+u")
        await chat.list_conversations()
        await chat.press(*"#wo", shows="hello #work")
        await chat.in_front("escape")
        await chat.enter("/tag", "Tags: #work. Enter adds words")
        await chat.press("minus", "enter", shows="Tags: none.")


async def test_a_bare_system_lets_the_user_edit_the_prompt() -> None:
    async with open_chat(live=in_memory()) as chat:

        async def told(command: str, sentence: str) -> None:
            await chat.enter(command, sentence)

        await told("/system", "System prompt: enter sets it for this conversation.")
        await told("Be brief.", "from the next prompt on.")
        await told("/system", "System prompt: enter sets it for this conversation; /system - removes it.")
        assert chat.prompt == "/system Be brief."
        await told(" Be kind.", "from the next prompt on.")
        assert chat.screen.session.settings["answer.system"] == "Be brief. Be kind."
        await told("/system -", "Removed the system prompt")
        assert not chat.screen.session.settings["answer.system"]


def _shows_unbroken(chat: Chat, text: str) -> bool:
    return text in "".join(chat.text.split())


async def test_a_conversation_is_exported_to_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with open_chat(store=Store) as chat:
        await chat.enter("/export it", "nothing to export")
        await chat.pilot.press("ctrl+u")
        await chat.exchange("hello", "good day")
        for name in ("it", "it.json", "it.txt", "Talk v1.2"):
            await chat.enter(f"/export {name}", "Exported as")
        await chat.next_request("ctrl+r")
        await chat.answer("good evening")
        for name, told in (("both.md", "1 message of other branches left out; .json keeps them."), ("both.json", "")):
            await chat.enter(f"/export {name}")
            said = "".join(f"Exported as {tmp_path / name}.{told}".split())
            # A long path is broken anywhere.
            await chat.until(partial(_shows_unbroken, chat, said))
            assert _shows_unbroken(chat, "leftout") == bool(told)
        assert "good day" in (tmp_path / "it.md").read_text()
        assert "good day" in (tmp_path / "it.json").read_text()
        assert "good day" in (tmp_path / "it.txt").read_text()
        assert "good day" in (tmp_path / "Talk v1.2.md").read_text()
        await chat.enter("/export it.md", "exists")
        for file in ("hello.md", "hello-2.md"):
            await chat.pilot.press("ctrl+u")
            await chat.enter("/export")
            await chat.until((tmp_path / file).exists)
        for name in (".", "/"):
            with pytest.raises(UsageError, match="is a folder"):
                await chat.screen.controller.action_run_line(f"/export {name}")
        with pytest.raises(AppError, match="cannot be written"):
            await chat.screen.controller.action_run_line(f"/export {'it' * 200}")


async def test_an_import_adds_new_conversations_and_restores_deleted_ones(tmp_path: Path) -> None:
    store, other = Store(), Store()
    for prompt in ("kept", "deleted"):
        exchange(store, prompt, "x")
    exchange(other, "new", "x")
    (tmp_path / "all.json").write_text(to_json([store.load(1), store.load(2), other.load(1)]))
    store.delete(2)
    async with open_chat(store=lambda: store) as chat:
        await chat.until(lambda: chat.screen.session.library.is_open)
        await chat.enter(f"/import {tmp_path / 'all.json'}", "Imported 1 conversation, 1 restored, 1 already there")
        assert {summary.title for summary in store.summaries()} == {"kept", "deleted", "new"}


async def test_an_import_restores_a_conversation_that_undo_no_longer_restores(tmp_path: Path) -> None:
    now = 0.0
    store = Store(now=lambda: now)
    exchange(store, "deleted", "x")
    (tmp_path / "all.json").write_text(to_json([store.load(1)]))
    store.delete(1)
    now = 2 * UNDO_S
    async with open_chat(store=lambda: store) as chat:
        await chat.until(lambda: chat.screen.session.library.is_open)
        await chat.enter(f"/import {tmp_path / 'all.json'}", "Imported 0 conversations, 1 restored")
        assert [summary.title for summary in store.summaries()] == ["deleted"]


async def test_the_answer_and_its_code_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []

    def copy(app: App[None], text: str, what: str = "") -> None:
        copied.append(text)

    monkeypatch.setattr("app.ui.chat.conversation_commands.copy_text", copy)
    async with open_chat() as chat:
        await chat.press("f8", shows="no answer to copy")
        text = "First:\n```py\na\n```\nthen:\n```\nb\n```\nDone."
        await chat.exchange("code", text)
        await chat.press("f8", until=lambda: copied == [text])
        await chat.press("ctrl+b", until=lambda: copied[1:] == ["b"])
        for line, sentence in (
            ("/copy code 1", "Usage: /copy"),
            (f"/copy {'9' * 5000}", "Usage: /copy"),
            ("/copy 3", "2 code blocks; there is no number 3"),
        ):
            with pytest.raises(AppError, match=sentence):
                await chat.screen.controller.action_run_line(line)


@given(st.text(st.sampled_from("/newcopy on\n5-"), max_size=12))
def test_a_message_typed_again_is_no_command(text: str) -> None:
    assert not COMMANDS.is_command(COMMANDS.as_typed(text))
    assert COMMANDS.as_typed(text).strip() == text.strip()


async def test_a_command_found_by_its_description_is_shown_before_it_runs() -> None:
    async with open_chat() as chat:
        await chat.enter("/editors")
        assert chat.prompt.strip() == "/serve"


@pytest.mark.parametrize("line", ["/open owls", "/search owls", "/settings temp", "/pair tiny"])
async def test_a_list_opens_with_the_words_behind_its_command(line: str) -> None:
    async with open_chat(store=Store) as chat:
        await chat.exchange("Birds?", "The owls hoot.")
        await chat.enter(line, until=lambda: chat.app.screen is not chat.screen)
        await chat.until(lambda: chat.app.screen.query_one(FilterInput).value == line.partition(" ")[2])


async def test_a_theme_is_chosen_by_its_name() -> None:
    async with open_chat() as chat:
        await chat.enter("/theme lihgt", 'There is no theme "lihgt".')
        await chat.press("ctrl+u")
        await chat.enter("/theme light", until=lambda: chat.app.theme == "tandem-light")


async def test_a_file_behind_its_command_is_included(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my notes.md").write_text("Milk.")
    async with open_chat() as chat:
        await chat.enter("/file my notes.md", until=lambda: chat.prompt == '@"my notes.md" ')
        await chat.press("ctrl+u")
        await chat.enter("/file gone", "There is no file gone.")
        assert chat.prompt == "/file gone"


@pytest.fixture
def editor(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that sets the editor; the terminal is not handed over."""
    monkeypatch.setattr(App, "suspend", lambda self: nullcontext())
    monkeypatch.delenv("VISUAL", raising=False)
    return partial(monkeypatch.setenv, "EDITOR")


ADDS = "import sys; file = sys.argv[1]; text = open(file).read(); open(file, 'w').write(text + 'two\\nthree\\n')"


@pytest.mark.parametrize("keys", [("ctrl+x", "ctrl+e"), (*"/editor", "enter")])
@pytest.mark.parametrize("typed", ["", "one "])
async def test_the_prompt_is_the_text_from_the_editor(
    editor: Callable[[str], None], keys: Sequence[str], typed: str
) -> None:
    editor(shlex.join([sys.executable, "-c", ADDS]))
    typed = "" if "/" in keys else typed
    async with open_chat() as chat:
        await chat.type(typed)
        await chat.pilot.press(*keys)
        await chat.until(lambda: chat.prompt == f"{typed}two\nthree")
        await chat.press("ctrl+underscore", until=lambda: chat.prompt == typed)


@pytest.mark.parametrize(("found", "advice"), [("vi", "EDITOR=vi tandem"), ("", "Set EDITOR to an editor.")])
async def test_an_editor_that_is_installed_is_advised(
    editor: Callable[[str], None], found: str, advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor("")
    monkeypatch.setattr(shutil, "which", lambda name: name if name == found else None)
    with pytest.raises(AppError) as refused:
        await edited("", App())
    assert advice in refused.value.hint


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("", "No editor is set."),
        ("'", "' cannot be used: No closing quotation."),
        ("/nowhere/vim", "/nowhere/vim cannot be used: No such file or directory."),
        ("false", "false ended with exit code 1. The prompt is unchanged."),
    ],
)
async def test_an_editor_that_fails_leaves_the_prompt(
    editor: Callable[[str], None], command: str, sentence: str
) -> None:
    editor(command)
    async with open_chat() as chat:
        await chat.type("one")
        await chat.press("ctrl+x", "ctrl+e", shows=sentence)
        assert chat.prompt == "one"
