"""One name for a model, wherever it is named."""

from __future__ import annotations

from app.catalog import Catalog, shipped_file
from app.gguf import GgufHeader
from app.model_names import known_as
from app.pairing.facts import model_facts
from app.source import HubModel
from app.ui.pairs.texts import pair_texts


def test_the_name_inside_counts_where_the_files_says_nothing() -> None:
    assert known_as("sha256-0123456789abcdef.gguf", "Inside") == "Inside"
    assert known_as("big-Q4_K_M.gguf", "Inside") == "big"
    assert known_as("model.gguf", "") == "model"


def test_the_list_calls_a_pair_what_the_chat_and_the_checks_will_call_it() -> None:
    for pair in Catalog([shipped_file()]).pairs.values():
        if isinstance(pair.target, HubModel) and pair.target.file:
            metadata = {"general.architecture": "llama", "general.name": "A Training Run"}
            file = pair.target.file.rpartition("/")[2]
            facts = model_facts(GgufHeader(3, 1, metadata, 99), file=file, size=1, quant="", whole=True)
            assert pair_texts(pair)[0] == f"{facts.name} {pair.target.quant}"
