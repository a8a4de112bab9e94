"""The table of sources of drafts: its values are stored and typed, so they never change."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path

import pytest

import app as app_package
from app.engine.sources import IN_TARGET, Source, drafter_of
from app.settings.table import BY_NAME


def test_the_stored_values_and_the_words_stay() -> None:
    assert {source.value: source.with_article for source in Source} == {
        "model": "a draft model",
        "mtp": "an MTP layer",
        "eagle3": "an EAGLE-3 head",
        "dflash": "a DFlash block",
        "ngram": "an n-gram",
    }
    assert IN_TARGET == "MTP layer in the same file"
    assert json.dumps(["+".join((Source.MTP, Source.NGRAM)), Source.DFLASH]) == '["mtp+ngram", "dflash"]'
    assert BY_NAME["draft.type"].kind.allowed == "auto or one of model, mtp, eagle3, dflash, ngram, none"


def test_no_other_module_lists_the_kinds() -> None:
    # The readers of headers know llama.cpp's architectures, two of which have these names.
    texts = {path.name: path.read_text("utf-8") for path in Path(app_package.__file__).parent.rglob("*.py")}
    naming = {name for name, text in texts.items() if re.search(r"[\"'](mtp|eagle3|dflash)[\"']", text)}
    # Files of measurements keep their names.
    assert naming == {"sources.py", "draft_kinds.py", "stored_measurements.py"}


@pytest.mark.parametrize("source", list(Source))
def test_a_source_survives_the_way_from_a_child_process(source: Source) -> None:
    assert pickle.loads(pickle.dumps(source)) is source


@pytest.mark.parametrize(
    ("stored", "drafter"),
    [
        ("mtp+ngram", Source.MTP),
        ("dflash", Source.DFLASH),
        ("model+ngram", Source.MODEL),
        ("ngram", Source.MODEL),
        ("none", Source.MODEL),
        ("None", Source.MODEL),
        ("a later kind", Source.MODEL),
    ],
)
def test_the_drafter_of_a_stored_answer_is_read(stored: str, drafter: Source) -> None:
    assert drafter_of(stored) is drafter
