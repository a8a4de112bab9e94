"""The user's own keys, and sentences that name the current key."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import app
from app.conversations.message import Ending
from app.core.errors import ContextOverflowError
from app.engine.types import FinishReason
from app.ui import key_names
from app.ui.actions import BY_ID
from app.ui.key_names import key, name_by, valid_keys
from app.ui.transcript.answer import in_keys, in_words
from tests.ui.driver import open_chat

_PROGRAM = Path(app.__file__).parent
_KEY_NAME = re.compile(r"(?<![\w+])(ctrl\+\w+|f[1-9]|esc|tab|enter)(?![\w+])", re.IGNORECASE)
_LITERAL = {
    # The keys that stop a command or the program belong to the terminal and stay.
    "cli/compare.py": {"ctrl+c"},
    "cli/serve.py": {"ctrl+c"},
    "cli/tune.py": {"ctrl+c"},
    "cli/draft_comparison.py": {"ctrl+c"},
    "cli/tune_placement.py": {"ctrl+c"},
    # A sequence of two keys, as in shells, is no binding.
    "ui/actions.py": {"ctrl+x", "ctrl+e"},
    "cli/setup.py": {"enter"},
    "cli/crash_guard.py": {"enter"},
    # These say what a key may be called.
    "settings/checking.py": {"f8", "ctrl+k"},
    "ui/key_names.py": {"ctrl+k", "f8"},
    "cli/settings.py": {"f8"},
    # This list handles its keys itself.
    "ui/models/fit_options.py": {"esc"},
}
"""Keys that cannot be remapped, by the files that name them."""


@pytest.fixture
def own_keys(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    monkeypatch.setattr(key_names, "_own", dict)
    own: dict[str, str] = {}
    name_by(lambda: own)
    return own


def test_a_key_is_the_shipped_one_until_the_user_has_another(own_keys: dict[str, str]) -> None:
    assert key("chat.new") == "ctrl+n"

    own_keys["chat.new"] = "f9,ctrl+k"
    assert key("chat.new") == "f9"


@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("ctrl+right_square_bracket", "ctrl+]"),
        ("ctrl+underscore", "ctrl+_"),
        ("shift+full_stop", "shift+."),
        ("slash", "/"),
        ("escape", "esc"),
        # A key without a sign keeps its name.
        ("ctrl+space", "ctrl+space"),
        ("delete", "delete"),
        ("shift+tab", "shift+tab"),
        ("f9", "f9"),
    ],
)
def test_a_key_with_a_name_for_programs_is_shown_as_people_read_it(
    own_keys: dict[str, str], name: str, read: str
) -> None:
    own_keys["chat.new"] = f"{name},ctrl+k"

    assert key("chat.new") == read


def test_how_an_answer_ended_names_the_keys_of_the_user(own_keys: dict[str, str]) -> None:
    own_keys |= {"chat.new": "ctrl+k", "chat.settings": "f9"}

    assert in_words(Ending(FinishReason.CONTEXT), empty=False) == (
        "cut: the context is full; ctrl+k starts a new conversation, "
        "or set a longer context in f9, then ctrl+g continues"
    )
    assert in_words(Ending(FinishReason.CONTEXT, at_limit=True), empty=False) == (
        "cut: the context is full, and it cannot be longer here; ctrl+k starts a new conversation"
    )
    assert in_keys(ContextOverflowError("Full.", ""), None).hint == (
        "Start a new conversation (ctrl+k) or edit an earlier prompt (ctrl+up, then enter), "
        "or set a longer context (f9, ctx)."
    )


def test_sentences_name_keys_by_their_actions() -> None:
    found = []
    for path in sorted(_PROGRAM.rglob("*.py")):
        file, source = path.relative_to(_PROGRAM).as_posix(), path.read_text(encoding="utf-8")
        # Parsing all modules would take most of the time.
        if _KEY_NAME.search(source):
            texts = _sentences(ast.parse(source))
            found += [(file, text) for text in texts if _named_keys(text) - _LITERAL.get(file, set())]

    assert found == []


def _named_keys(text: str) -> set[str]:
    return {key.lower() for key in _KEY_NAME.findall(text)}


def _sentences(tree: ast.Module) -> Iterator[str]:
    """Yield texts of several words, without docstrings."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in docstrings else None
        if isinstance(text, str) and " " in text:
            yield text


def test_valid_keys_are_normalized() -> None:
    assert valid_keys({"chat.again": "F8", "chat.open": "ctrl+k, f9"}) == (
        {"chat.again": "f8", "chat.open": "ctrl+k,f9"},
        [],
    )
    shipped = {action.id: action.keys for action in BY_ID.values() if action.keys}
    assert valid_keys(shipped) == (shipped, [])


@pytest.mark.parametrize(
    ("keys", "error"),
    [
        ({"app.quti": "f8"}, 'keys: there is no "app.quti". Did you mean "app.quit"?'),
        ({"chat.again": ""}, 'keys.chat.again is ""; it must be a key such as ctrl+k or f8.'),
        ({"chat.again": "\x1b[2J"}, 'keys.chat.again is "[2J"; it must be a key such as ctrl+k or f8.'),
    ],
)
def test_invalid_keys_are_reported(keys: dict[str, str], error: str) -> None:
    assert valid_keys(keys) == ({}, [error])


async def test_a_key_of_the_users_own_wins_over_the_one_that_had_it() -> None:
    async with open_chat() as chat:
        chat.app.set_keymap({"chat.new": "ctrl+o"})
        await chat.exchange("Hello", "Hi")
        await chat.press("ctrl+o", until=lambda: not chat.screen.session.conversation.tree.nodes)
