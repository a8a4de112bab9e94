"""Fixes in sentences and commands, for each surface and shell."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import app
from app.cli.setting_flags import in_flags
from app.core.errors import UsageError
from app.core.fixes import fix, quoted, worded
from app.server.errors import as_request_error
from app.ui.key_names import for_chat, for_pairs
from tests.cli.commands import every_command

_SURFACES = ("cli", "ui", "server")
_EXEMPT_FILES = ("hardware/installation.py", "hardware/gpus.py", "settings/table.py", "settings/checking.py")
"""Modules with commands of pip and nvidia-smi, the table of flags, and examples for the settings file."""
_KEY = re.compile(r"\b(f(?:[1-9]|1[0-2])|ctrl\+\w|alt\+\w)\b")
_COMMAND = re.compile(rf"tandem ({'|'.join({str(command.name) for command in every_command()})})\b")
_FLAG = re.compile(r"(?<!-)--[a-z][a-z-]*")
_FLAGS = {name for command in every_command() for option in command.options for name in option.opts}


@pytest.mark.parametrize(
    ("text", "flags", "keys"),
    [
        ("Use a shorter context (⟨model.ctx⟩)", "(--ctx)", "(f4, ctx)"),
        (f"Set it: {fix('model.ctx', 4096)}", "--ctx 4096", "f4, ctx 4096"),
        (f"Turn it off: {fix('draft.mode', 'off')}", "--no-draft", "f4, mode off"),
        (f"Download it: {fix('setup', 'a b')}", "tandem setup 'a b'", "f6"),
        (f"Find one: {fix('pairs.find', 'x/y')}", "tandem pairs find x/y", "f6"),
        ("Choose another pair: ⟨pairs.choose⟩", "tandem pairs list", "f6"),
        (fix("pairs.remove", "a b"), "tandem pairs remove 'a b'", "tandem pairs remove 'a b'"),
        (fix("setup.models", "a.gguf", "b.gguf"), "tandem setup --target a.gguf --draft b.gguf", "f6"),
        ("⟨think⟩ and <target> stay.", "⟨think⟩ and <target> stay.", "⟨think⟩ and <target> stay."),
    ],
)
def test_each_surface_has_its_own_words_for_a_fix(text: str, flags: str, keys: str) -> None:
    assert in_flags(text).endswith(flags)
    assert for_chat(text).endswith(keys)


def test_the_list_of_pairs_names_its_own_keys() -> None:
    text = f"⟨pairs.choose⟩ {fix('pairs.find', 'x/y')} {fix('setup', 'a')} {fix('pairs.remove', 'a')}"
    assert for_pairs(text) == "enter ctrl+a enter tandem pairs remove a"


def test_the_screen_gets_only_printable_words() -> None:
    assert for_chat("\x1b[31mred (⟨model.ctx⟩)") == for_pairs("\x1b[31mred (⟨model.ctx⟩)") == "[31mred (f4, ctx)"


def test_a_server_names_its_own_flags() -> None:
    assert as_request_error(UsageError("No.", "Use less (⟨model.ctx⟩).")).hint == "Use less (tandem serve --ctx)."


@pytest.mark.parametrize("argument", ["a|b", "50%", "⟨model.ctx⟩", "%7c", "a=b"])
def test_an_argument_may_be_any_text(argument: str) -> None:
    assert worded(fix("setup", argument, "second"), lambda name, arguments: repr(arguments)) == repr(
        [argument, "second"]
    )


def texts_of(tree: ast.AST) -> Iterator[str]:
    """Yield the strings of a module that are no docstrings."""
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node.value


def test_texts_below_the_surfaces_name_no_flag_key_or_command() -> None:
    root = Path(app.__path__[0])
    named = [
        f"{path.relative_to(root)}: {text}"
        for path in sorted(root.rglob("*.py"))
        if path.relative_to(root).parts[0] not in _SURFACES and path.relative_to(root).as_posix() not in _EXEMPT_FILES
        for text in texts_of(ast.parse(path.read_text(encoding="utf-8")))
        if _KEY.search(text) or _COMMAND.search(text) or _FLAGS.intersection(_FLAG.findall(text))
    ]

    assert named == []


@pytest.mark.parametrize(
    ("word", "posix", "windows"),
    [
        ("owner/big-GGUF:Q4_K_M", "owner/big-GGUF:Q4_K_M", "owner/big-GGUF:Q4_K_M"),
        # Single quotes would be part of the name in cmd.exe.
        (r"C:\models\big.gguf", r"'C:\models\big.gguf'", r"C:\models\big.gguf"),
        ("my models/big.gguf", "'my models/big.gguf'", '"my models/big.gguf"'),
        ("a&b", "'a&b'", '"a&b"'),
        ("CUDA0,CUDA1", "CUDA0,CUDA1", '"CUDA0,CUDA1"'),
        ("@main", "@main", '"@main"'),
        ("", "''", '""'),
    ],
)
def test_an_argument_is_quoted_for_the_shell_of_the_system(word: str, posix: str, windows: str) -> None:
    assert (quoted(word, "linux"), quoted(word, "darwin")) == (posix, posix)
    assert (quoted(word, "windows"), quoted(word, "win32")) == (windows, windows)
