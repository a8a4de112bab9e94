"""The flags of `tandem setup`; see `app.cli.setup.command`."""

from __future__ import annotations

import argparse

SETUP_EPILOG = """examples:
  tandem setup                               propose the best here, and ask
  tandem setup coder-32b --yes               download, check and try this pair
  tandem setup --target owner/big-GGUF:Q4_K_M --draft owner/small-GGUF
"""


def add_setup_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    parser.add_argument("pair", nargs="?", metavar="PAIR", help="a pair by name; none proposes the best that fits")
    parser.add_argument(
        "--target", metavar="MODEL", help="owner/repo, owner/repo:QUANT, an address on the hub, or a file"
    )
    parser.add_argument("--draft", metavar="MODEL", help="the draft, likewise")
    parser.add_argument("--name", metavar="NAME", help="what to call a pair given by --target and --draft")
    parser.add_argument("--yes", "-y", action="store_true", help="do not ask")
    parser.add_argument("--no-trial", action="store_true", help="do not load the pair in the end")
    parser.add_argument("--no-default", action="store_true", help="keep the default pair as it is")
    parser.add_argument("--json", action="store_true", help="print one JSON object about the result")
