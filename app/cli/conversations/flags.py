"""The flags of `tandem export` and `tandem import`, apart from what these commands load."""

from __future__ import annotations

import argparse

from app.cli.argument_parser import file_path, real_file

EXPORT_EPILOG = """examples:
  tandem export                              the last one, as Markdown
  tandem export 12 --output quicksort.md     one by its number
  tandem export "trip to" --format json      one by a part of its title
  tandem export --all --output backup.json   everything, for tandem import
  tandem export --list
"""
IMPORT_EPILOG = """examples:
  tandem import backup.json      what tandem export --format json wrote
  tandem import quicksort.md     text with headings that say who speaks
"""


def add_export_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `tandem export`."""
    parser.add_argument(
        "conversation", nargs="?", metavar="CONVERSATION", help="its number, or a part of its title (default: the last)"
    )
    parser.add_argument(
        "--format",
        choices=("markdown", "json"),
        help="markdown is the active branch and prompts beside it that have no answer, json is everything (default: by "
        "the name of the file, else markdown)",
    )
    parser.add_argument("--output", type=file_path, metavar="FILE", help="write to a file; - is standard output")
    parser.add_argument("--force", action="store_true", help="overwrite the file if it exists")
    parser.add_argument("--all", action="store_true", help="every conversation")
    parser.add_argument("--list", action="store_true", help="show what there is; with --format json, for scripts")


def add_import_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `tandem import`."""
    parser.add_argument(
        "file",
        type=real_file,
        metavar="FILE",
        help="a JSON or Markdown file; what is there already stays as it is, once",
    )
