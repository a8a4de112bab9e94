"""What a pair says of the settings: its entry in the catalogue, and under that the file of its target."""

from __future__ import annotations

from pathlib import Path

from app.cli.known_pairs import demo_file
from app.core.errors import ModelFileError
from app.models.catalog import Pair
from app.models.gguf import read_header
from app.models.registry import SetUp
from app.models.source import DemoModel, LocalModel
from app.settings.layers import Layer
from app.settings.model_file import Recommended, recommended
from app.settings.params import pair_layer


def of_entry(pair: Pair) -> Layer:
    """What its entry says."""
    return pair_layer(pair.sampling, pair.drafting, pair.kept)


def of_file(pair: Pair, files: SetUp | None) -> Recommended:
    """What the file of its target recommends; nothing where that cannot be read, which loading it will tell.

    Args:
        pair: What it is.
        files: Where its files are, or None.
    """
    try:
        path = files.target.path if files is not None else _path(pair)
        return recommended(read_header(path, vocabulary=False).metadata) if path is not None else Recommended()
    except ModelFileError:
        return Recommended()


def _path(pair: Pair) -> Path | None:
    """The target's file; None where it has yet to be downloaded."""
    match pair.target:
        case LocalModel(path):
            return path
        case DemoModel(part):
            return demo_file(part)
    return None
