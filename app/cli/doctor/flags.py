"""The flags of `tandem doctor`; see `app.cli.doctor.command`."""

from __future__ import annotations

import argparse

from app.cli.process import add_rpc_flag

DOCTOR_EPILOG = """examples:
  tandem doctor
  tandem doctor coder-32b                    where it goes, and why it is slow
  tandem doctor --rpc workstation:50052      with the devices of another one
  tandem doctor --json > machine.json
"""


def add_doctor_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the command."""
    parser.add_argument(
        "named", nargs="?", metavar="PAIR", help="a pair by name (default: that of tandem pairs default)"
    )
    add_rpc_flag(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
