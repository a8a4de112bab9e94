"""Opening pairs with the settings as they are; one that cannot be opened leaves everything as it was."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.catalog import Pair
from app.cli.loader import PairLoader
from app.cli.opener import Opener
from app.cli.process import Process
from app.engine.types import DraftParams
from app.errors import UsageError
from app.settings.live import LiveSettings
from app.source import LocalModel, parse_source
from app.ui.pairs.setups import Choice

PAIR = Pair("a", "A", parse_source("/a.gguf"), parse_source("/b.gguf"))
OTHER = replace(PAIR, name="other", drafting=DraftParams(16, 5, 0.0))


def loaded(choice: Choice) -> str:
    assert isinstance(choice.loader, PairLoader)
    return choice.loader.options.pair.name


def test_a_pair_that_contradicts_the_flags_is_not_taken() -> None:
    opener = Opener(LiveSettings(None, {"draft.n_max": 3}), PAIR, None, Process())

    with pytest.raises(UsageError):
        opener.open(OTHER, None)

    assert loaded(opener.again()) == "a"
    assert opener.live.resolved()["draft.n_min"] == 0


def test_what_is_taken_is_there_for_every_pair_from_then_on() -> None:
    opener = Opener(LiveSettings(), PAIR, None, Process(True))
    opener.take(("--ctx", "1024"))
    choice = opener.open(replace(PAIR, name="next", draft=None), None)

    assert isinstance(choice.loader, PairLoader)
    assert (choice.loader.options.n_ctx, choice.loader.options.process.isolate) == (1024, True)
    assert isinstance(choice.loader.options.pair.target, LocalModel)


def test_an_offer_counts_with_a_preset_of_the_users_own() -> None:
    live = LiveSettings()
    live._shared._content = replace(live.content, presets={"mine": {"sampling.temp": 0.1}})
    live.give({"preset": "mine"})
    opener = Opener(live, PAIR, None, Process())

    assert opener.with_flags(("--kv-type", "q8_0")).placement.kv_type == "q8_0"
