"""Commands, flags, pairs and keys in the README and the help exist and do what the text says."""

import re
import shlex
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from textual.binding import Binding

from app.cli.command_line import parse_args
from app.core.units import GB
from app.hardware.build_choices import known_builds
from app.models.catalog import Catalog, shipped_file
from app.ui.actions import bindings
from app.ui.composer.input import PromptInput
from tests.capacities import in_ram, on_gpu, proposed
from tests.cli.commands import every_command

_ROOT = Path(__file__).parents[1]
_README = (_ROOT / "README.md").read_text(encoding="utf-8")


def _in_help() -> list[str]:
    return [line for command in every_command() for line in command.examples.strip().splitlines()]


def _in_readme() -> list[str]:
    blocks = re.findall(r"```sh\n(.*?)```", _README, re.DOTALL)
    typed = [part for block in blocks for line in block.splitlines() for part in line.split("&&")]
    return [line for line in [*typed, *re.findall(r"`([^`]+)`", _README)] if re.match(r"\s*(\S+/)?tandem( |$)", line)]


def _words(line: str) -> list[str]:
    """Return the arguments of the program, up to a comment, a pipe or a redirection."""
    command = re.split(r"\s{2,}|#", line.strip())[0]
    command = next(part for part in command.split(" | ") if re.search(r"\btandem\b", part))
    words = shlex.split(command.split(" > ")[0].split(" 2>")[0])
    return words[next(i for i, word in enumerate(words) if Path(word).name == "tandem") + 1 :]


@pytest.mark.parametrize("line", [*_in_readme(), *_in_help()])
def test_every_command_is_accepted(line: str) -> None:
    words = _words(line)
    if any(word.isupper() for word in words):
        pytest.skip("it contains a placeholder")
    parse_args(words)


def test_commands_are_found() -> None:
    assert ["setup", "qwen3.8-27b"] in [_words(line) for line in _in_readme()]
    assert ["run", "--system", "Write a commit message.", "-"] in [_words(line) for line in _in_help()]


def test_every_flag_of_the_readme_exists() -> None:
    flags = {flag for command in every_command() for param in command.params for flag in param.opts}
    named = set(re.findall(r"`(--[a-z-]+)", _README))

    assert {"--json", "--isolate", "--draft-n-max"} <= named
    assert named <= flags


def test_every_index_and_extra_of_the_install_section_exists() -> None:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    indexes = set(re.findall(rf"{re.escape(known_builds()['index'])}(\w+)", _README))
    extras = {name for names in re.findall(r'"\.\[([\w,]+)\]"', _README) for name in names.split(",")}

    assert {"cpu", "metal", "vulkan"} <= indexes <= {wheel["name"] for wheel in known_builds()["wheels"]}
    assert {"demo", "cuda"} <= extras <= project["optional-dependencies"].keys()


def test_every_named_pair_is_in_the_catalog() -> None:
    named = {word for line in [*_in_readme(), *_in_help()] for word in re.findall(r"\bqwen3\.\d-\w+", line)}
    assert named
    assert named <= {*Catalog(shipped_file()).pairs}


def test_the_recommended_pairs_are_those_that_setup_proposes() -> None:
    found = re.findall(r"^\| (\d+)(?: to (\d+))? GB \| `([\w.-]+)`(?:, `([\w.-]+)`)? \|", _README, re.MULTILINE)
    rows = [
        (size, name)
        for least, most, *names in found
        for size, name in ((least, names[0]), (most, names[1] or names[0]))
        if size
    ]
    # The table is for a GPU alone, without experts in RAM.
    pairs = [replace(pair, expert_layers=0) for pair in Catalog(shipped_file()).pairs.values()]

    assert {int(size) for size, _ in rows} >= {4, 24, 48, 80}
    for size, name in rows:
        # A GPU shows part of its memory as used.
        best = proposed(pairs, on_gpu(0.97 * int(size) * GB))[0]
        assert (size, best.pair.name) == (size, name)


@pytest.mark.parametrize("size", [20, 24])
def test_the_pair_for_a_machine_without_a_gpu_is_named(size: int) -> None:
    pairs = list(Catalog(shipped_file()).pairs.values())
    two_memory_channels = 40e9
    best = proposed(pairs, in_ram(size * GB, bytes_per_s=two_memory_channels))[0]
    assert f"without a GPU, with 20 GB of free RAM, `{best.pair.name}` is faster" in _README


def test_every_key_of_the_readme_does_what_it_shows() -> None:
    bound = [one for one in [*bindings("app.", "chat."), *PromptInput.BINDINGS] if isinstance(one, Binding)]
    does = {key: f"{one.description}: {one.tooltip}".lower() for one in reversed(bound) for key in one.key.split(",")}
    rows = dict(re.findall(r"^\| ((?:`?[@/a-z0-9+]+`?(?:, )?)+) \| (.+?) \|$", _README, re.MULTILINE))
    keys = {key: text for row, text in rows.items() for key in row.split(", ") if re.fullmatch(r"f\d|ctrl\+\w+", key)}

    words = {
        "ctrl+p": "search",
        "ctrl+s": "search",
        "ctrl+f": "this conversation",
        "ctrl+o": "conversation",
        "ctrl+up": "message",
        "ctrl+b": "code",
        "f2": "with",
        "f3": "token",
        "f4": "setting",
        "f6": "pair",
        "ctrl+d": "draft",
    }
    assert keys.keys() == words.keys()
    for key, word in words.items():
        assert word in keys[key], key
        assert word in does[key], key
