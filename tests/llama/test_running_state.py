"""Check that facts from a header equal those of the installed llama.cpp."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest

from app.llama.checks import open_model_file
from app.llama.library import native
from app.llama.model import Model
from app.models.model_facts import is_recurrent, model_facts

pytestmark = pytest.mark.native
_NAME, _IS = "_Z13llm_arch_name8llm_arch", ("_Z18llm_arch_is_hybridRK8llm_arch", "_Z21llm_arch_is_recurrentRK8llm_arch")
_MORE_THAN_THERE_ARE = 1000


@pytest.mark.skipif(not all(hasattr(native._lib, name) for name in (_NAME, *_IS)), reason="not exported by this build")
def test_every_architecture_is_as_llama_cpp_has_it() -> None:
    name, asked = native._lib[_NAME], [native._lib[one] for one in _IS]
    name.restype = ctypes.c_char_p
    for one in asked:
        one.restype = ctypes.c_bool
    known = {
        name(i).decode(): any(one(ctypes.byref(ctypes.c_int(i))) for one in asked) for i in range(_MORE_THAN_THERE_ARE)
    }

    assert {"llama", "lfm2"} <= known.keys()
    assert known == {architecture: is_recurrent(architecture) for architecture in known}


@pytest.mark.parametrize("says", [None, True, False])
@pytest.mark.parametrize(
    ("kind", "pre"),
    [
        ("gpt2", None),
        ("gpt2", "llama-bpe"),
        ("gpt2", "tekken"),
        ("gpt2", "smollm"),
        ("gpt2", "gemma4"),
        ("gemma4", None),
    ],
)
def test_whether_every_text_begins_with_bos(
    tiny: Callable[..., Path], kind: str, pre: str | None, says: bool | None
) -> None:
    path = tiny(tokenizer__ggml__model=kind, tokenizer__ggml__pre=pre, tokenizer__ggml__add_bos_token=says)
    model = Model(open_model_file(path))
    facts = model_facts(model.header, file=path.name, size=1)
    assert facts.vocab.add_bos is model.vocab.add_bos
    model.close()
