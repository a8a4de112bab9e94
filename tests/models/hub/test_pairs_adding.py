"""Check and add models that are in no catalog."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app.core.errors import PairError
from app.models.source import LocalModel
from app.ui.models.state import Stage
from tests.llama.gguf_files import I32, STRING, Array
from tests.models.hub.loopback import LoopbackHub
from tests.models.hub.models import DRAFT, TARGET, tiny
from tests.models.hub.pairs_setting import DEMO, Setting, tiny_file


def test_any_repository_is_looked_at_then_downloaded(setting: Setting, tmp_path: Path) -> None:
    inquiry = setting.ask(TARGET, f"{DRAFT}:Q8_0")
    prepared = inquiry.prepared
    assert prepared is not None
    assert [(role, files.path, files.gated) for role, files in prepared.models] == [
        ("target", None, False),
        ("draft", None, False),
    ]
    target, draft = prepared.check.target, prepared.check.draft
    assert draft is not None
    assert (target.name, target.quant, draft.name, draft.quant) == ("big", "Q4_K_M", "small", "Q8_0")
    assert (prepared.check.problems, prepared.pair.license) == ((), "mit")
    assert prepared.download_bytes == sum(files.size for _, files in prepared.models)
    assert not list(tmp_path.rglob("blobs/*")), "asking downloads nothing"

    name = setting.service.add_checked()

    assert name == "big"
    setting.until(lambda: setting.job(name).stage is Stage.READY)
    assert setting.card(name).set_up
    assert setting.again().load_request(name)
    # The same two again are the same pair.
    setting.ask(TARGET, f"{DRAFT}:Q8_0")
    assert setting.service.add_checked() == "big"


def test_a_name_that_is_taken_is_not_taken_again(setting: Setting) -> None:
    setting.pairs.append(replace(DEMO, name="big"))
    setting.again()
    setting.ask(TARGET)
    assert setting.service.add_checked() == "big-2"
    assert setting.card("big-2").size


def test_a_file_on_this_machine_needs_no_download(setting: Setting, tmp_path: Path) -> None:
    path = tiny_file(tmp_path / "own" / "Own-Q8_0.gguf")
    prepared = setting.ask(str(path)).prepared
    assert prepared is not None
    assert (prepared.download_bytes, prepared.models[0][1].path) == (0, path)
    name = setting.service.add_checked()
    setting.until(lambda: setting.job(name).stage is Stage.READY)
    assert isinstance(setting.registry.read().pairs[name].pair.target, LocalModel)


def test_two_that_do_not_match_are_not_added(setting: Setting, hub: LoopbackHub, tmp_path: Path) -> None:
    tokens, types = Array(STRING, ["x", "y", "z"]), Array(I32, [1, 1, 1])
    other = tiny(tmp_path / "o", "other.gguf", tokenizer__ggml__tokens=tokens, tokenizer__ggml__token_type=types)
    hub.add("owner/other-GGUF", {"other-Q8_0.gguf": other})
    prepared = setting.ask(TARGET, "owner/other-GGUF").prepared
    assert prepared is not None
    assert prepared.check.problems
    with pytest.raises(PairError):
        setting.service.add_checked()
    assert setting.service.state().setups == {}


@pytest.mark.parametrize(
    ("target", "sentence"), [("what is this", "names no model"), ("owner/absent", "There is no repository")]
)
def test_what_cannot_be_found_is_an_error(setting: Setting, target: str, sentence: str) -> None:
    error = setting.ask(target).error
    assert error is not None
    assert sentence in error.message
    assert error.hint
