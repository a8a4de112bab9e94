"""What is said of a command line that cannot be meant."""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping

import pytest

from app.cli import COMMANDS, main
from app.cli.parser import build_parser

EXPORT = "[--format {markdown,json}] [--output FILE] [--force] [--all] [--list] [CONVERSATION]"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["setings"], ['There is no command "setings". Did you mean "settings"?', "tandem --help lists all commands."]),
        (
            ["Why is it blue?"],
            ['There is no command "Why is it blue?".', 'For a prompt: tandem run "..."; tandem --help'],
        ),
        (["it's"], ['There is no command "it\'s".']),
        (["chat"], ['There is no command "chat".', "The chat opens without one: tandem; tandem --help lists all"]),
        (["my big.gguf"], ["For a model file: tandem --target 'my big.gguf'; tandem --help lists all commands."]),
        (["pairs", "lst"], ['tandem pairs has no action "lst". Did you mean "list"?', "tandem pairs --help"]),
        (["export", "--json"], ["tandem export has no option --json.", f"Usage: tandem export {EXPORT}"]),
        (["export", "a", "b"], ['"b" is more than tandem export takes.', "tandem export --help tells more."]),
        (["export", "--output"], ["--output needs a value.", "Usage: tandem export"]),
        (["export", "--format", "x"], ['--format is "x"; it must be one of markdown, json.']),
        (["import"], ["tandem import needs FILE.", "Usage: tandem import FILE"]),
        (["settings", "set", "temp"], ["tandem settings set needs VALUE."]),
        (["bench", "--repeat", "x"], ['--repeat is "x"; it must be a number.', "Usage: tandem bench [OPTIONS]"]),
        (["run", "--tmp=3", "hi"], ['tandem run has no option --tmp. Did you mean "--temp"?', "[OPTIONS] [PROMPT]"]),
        (["run", "-n", "30", "hi"], ['tandem run has no option -n. Did you mean "--max-tokens"?']),
        (["run", "-ngl=99", "hi"], ['tandem run has no option -ngl. Did you mean "--gpu-layers"?']),
        (["run", "--temperature", "0.3", "hi"], ['tandem run has no option --temperature. Did you mean "--temp"?']),
        (["--temperature", "0.3"], ['tandem has no option --temperature. Did you mean "--temp"?']),
        (["export", "-n", "3"], ["tandem export has no option -n.\n"]),
        (["--tmp", "3"], ['tandem has no option --tmp. Did you mean "--temp"?']),
        (["--bogus", "run", "hi"], ["tandem has no option --bogus."]),
        (["run", "--quiet", "hi"], ["tandem run has no option --quiet.\n"]),
        (["run", "-hello"], ["tandem run has no option -hello.", "goes behind --: tandem run -- -hello\n"]),
        (["run", "-t", "it's"], ["tandem run has no option -t.", "goes behind --: tandem run -- -t\n"]),
        (["setup", "-yes"], ["tandem setup has no option -yes."]),
        (["pairs", "-x"], ["tandem pairs has no option -x.", "Usage: tandem pairs"]),
        (["run", "--json=1", "hi"], ["--json takes no value."]),
        (["setup", "--yes=no"], ["--yes takes no value."]),
        (["run", "--prompt-file", ""], ["--prompt-file is empty; it must name a file."]),
        (["run", "--file", " ", "hi"], ["--file is empty; it must name a file."]),
        (["compare", "hi", "--save", "-"], ['--save is "-"; it must name a file.', "Usage: tandem compare"]),
        (["bench", "--save", "-"], ['--save is "-"; it must name a file.']),
        (["bench", "--card", "-"], ['--card is "-"; it must name a file.']),
        (["tune", "--save-trace", "-"], ['--save-trace is "-"; it must name a file.']),
        (["export", "--output", ""], ["--output is empty; it must name a file."]),
        (["import", "-"], ['FILE is "-"; it must name a file.']),
        (["import", ""], ["FILE is empty; it must name a file."]),
        (["bench", "--card", ""], ["--card is empty; it must name a file."]),
        (["run", "--pair", "dem", "hi"], ['There is no pair "dem". Did you mean "demo"?', "tandem pairs list"]),
        (["pairs", "remove", "dem"], ['There is no pair "dem". Did you mean "demo"?']),
        (["pairs", "check", "demo", "--ctx", "9" * 20], ["--ctx is 999", "it must lie between 1 and 1,048,576."]),
        (["doctor", "dem"], ['There is no pair "dem". Did you mean "demo"?']),
        (["doctor", "--pair", "dem"], ['There is no pair "dem".']),
        (["doctor", "demo", "--pair", "demo"], ["Name one pair: by its name, by --pair, or by its files."]),
        (["doctor", "--rpc", "x"], ['--rpc is "x"; it must be a host and a port.']),
        (["doctor", "--no-draft", "--drafting", "auto"], ["--no-draft and --drafting exclude each other."]),
        (["run", "--target", "", "hi"], ['"" names no model.']),
        (["run", "--", "hi", "--temp", "1"], ['"--temp" is more than tandem run takes.']),
        (["pairs", "remove", "x", "--json"], ["tandem pairs remove has no option --json."]),
        (["run", "--pair", "", "hi"], ["--pair is empty.", "leave it out for the default"]),
        (["compare", "hi", "--fixed", "foo"], ['--fixed is "foo"; it must be one or more of n_max, ']),
        (["bench", "--kinds", ""], ['There are no prompts of kind "".', "Kinds are: code, "]),
        (["run", "--target", ".", "hi"], [". is a folder, not a model.", "Name the .gguf file inside it."]),
        (
            ["pairs", "remove", "demo", "--keep-files", "--all-files"],
            ["--keep-files and --all-files exclude each other."],
        ),
        (
            ["compare", "hi", "--fixed", "n_max=7", "--draft-n-max", "3"],
            ["--fixed and --draft-n-max exclude each other.", "Give all numbers in one of them."],
        ),
        (["--temp", "0", "tune"], ["tandem tune has no option --temp."]),
        (["--ctx=4096", "setup", "demo"], ["tandem setup has no option --ctx.", "Usage: tandem setup"]),
        (["--ctx", "auto", "pairs", "check", "x"], ["tandem pairs has no option --ctx."]),
        (["--isolate", "compare", "hi"], ["tandem compare has no option --isolate."]),
        (["--rpc", "h:1", "bench"], ["tandem bench has no option --rpc."]),
        (["--pair", "demo", "settings", "set", "temp", "1"], ["tandem settings set has no option --pair."]),
        (["settings", "--json", "unset", "temp"], ["tandem settings unset has no option --json."]),
        (["export", "--all", "--output", "."], [". cannot be written: it is a folder."]),
    ],
    ids=" ".join,
)
def test_it_is_a_sentence_and_a_way_on(given: list[str], said: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(given) == 2

    told = capsys.readouterr().err
    assert all(sentence in told for sentence in said), told
    assert len(told.splitlines()) <= 3


def test_what_is_repeatable_may_stand_on_both_sides_of_the_command() -> None:
    read = build_parser().parse_args(["--stop", "A", "--temp", "0", "run", "--stop", "B", "--temp", "1", "hi"])
    assert (read.command, read.stop, read.temp) == ("run", ["A", "B"], 1.0)
    assert build_parser().parse_args(["--stop", "A", "run", "hi"]).stop == ["A"]
    assert build_parser().parse_args(["--rpc", "a:1", "doctor", "--rpc", "b:2"]).rpc == ["a:1", "b:2"]


def test_the_process_own_arguments_are_read(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["tandem", "--tmp", "3"])
    assert main() == 2
    assert "has no option --tmp" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_everywhere(command: str) -> None:
    parsers = [choices(build_parser())[command]] if command != "chat" else [build_parser()]
    parsers += choices(parsers[0]).values() if command in ("pairs", "settings") else []
    for parser in parsers:
        assert re.search(rf"^examples?:\n  (.+ \| )?{parser.prog}\b", parser.format_help(), re.MULTILINE), parser.prog


def choices(parser: argparse.ArgumentParser) -> Mapping[str, argparse.ArgumentParser]:
    return next(a.choices for a in parser._actions if isinstance(a, argparse._SubParsersAction))
