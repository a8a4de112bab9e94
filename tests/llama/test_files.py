"""Hostile and broken files in a complete load: a sentence that names the file, never an abort."""

import random
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from app.core.errors import AppError, ModelFileError, ModelLoadError
from app.llama.checks import open_model_file
from app.llama.context import Context
from app.llama.model import Model
from app.models.gguf import TOKENS_KEY
from app.settings.model_params import ContextParams
from tests.hanging import HANGS_S
from tests.llama.gguf_files import F32, I32, STRING, Array, Typed
from tests.llama.tiny_model import SPECIALS, vocabulary, write_model

pytestmark = pytest.mark.native


def load(path: Path) -> Model:
    return Model(open_model_file(path))


def refused(path: Path) -> AppError:
    with pytest.raises((ModelFileError, ModelLoadError)) as caught:
        load(path).close()
    error: AppError = caught.value
    assert str(path) in error.message
    assert error.message.endswith(".")
    assert not error.message.endswith("..")
    assert error.message.isprintable()
    assert error.hint
    assert error.exit_code == 1
    return error


def test_a_real_model_cut_anywhere_is_an_error(demo_target: Path, tmp_path: Path) -> None:
    path = shutil.copyfile(demo_target, tmp_path / "cut.gguf")
    size = path.stat().st_size
    with path.open("rb") as file:
        beginning = file.read(4 << 20)
    tokens, infos = beginning.index(TOKENS_KEY.encode()), beginning.index(b"blk.0.")
    cuts = [size - 1, size // 2, infos + 20_000, infos + 100, infos, tokens + 5000, tokens, 300, 24, 23, 4, 1, 0]
    for length in sorted(cuts, reverse=True):
        with path.open("r+b") as file:
            file.truncate(length)
        refused(path)


@pytest.mark.parametrize(
    "changes",
    [
        {"llama__block_count": None},
        {"llama__block_count": "one"},
        {"llama__block_count": 1.0},
        {"llama__block_count": Typed(I32, 1)},
        {"llama__block_count": 2},
        {"llama__attention__head_count": 0},
        {"llama__attention__head_count": 7},
        {"llama__attention__head_count_kv": 3},
        {"llama__embedding_length": 0},
        {"llama__embedding_length": 64},
        {"llama__embedding_length": 1 << 31},
        {"llama__feed_forward_length": 0},
        {"llama__attention__key_length": 0},
        {"llama__attention__layer_norm_rms_epsilon": "small"},
        {"llama__attention__layer_norm_rms_epsilon": None},
        {"llama__rope__dimension_count": 1 << 31},
        {"general__architecture": "no-such-architecture"},
        {"general__architecture": "\x1b[2J"},
        {"general__alignment": 3},
        {"tokenizer__ggml__model": "no-such-tokenizer"},
        {"tokenizer__ggml__pre": "no-such-splitter"},
        {"tokenizer__ggml__merges": None},
        {"tokenizer__ggml__token_type": Array(F32, [1.0])},
        {"tokenizer__ggml__token_type": Array(I32, [1])},
        {"tokenizer__ggml__scores": Array(F32, [0.0])},
    ],
)
def test_a_file_that_llama_cpp_refuses_is_an_error(tmp_path: Path, changes: dict[str, Any]) -> None:
    refused(write_model(tmp_path / "m.gguf", **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"tokenizer__ggml__bos_token_id": 1 << 31, "tokenizer__ggml__add_bos_token": True},
        {"tokenizer__ggml__eos_token_id": 1 << 31},
        {"tokenizer__ggml__tokens": Array(STRING, ["", "", *vocabulary()[2:]])},
        {"tokenizer__ggml__token_type": Array(I32, [99] * len(vocabulary()))},
        {"tokenizer__ggml__token_type": None},
        {"tokenizer__chat_template": "{{ 1 / 0 }}"},
        {"llama__context_length": 0},
        {"llama__vocab_size": 3},
        {"general__name": "a\x1b[31mb\n" + "c" * 1000},
    ],
)
def test_odd_models_that_load_also_run(tmp_path: Path, changes: dict[str, Any]) -> None:
    model = load(write_model(tmp_path / "m.gguf", **changes))
    context = Context(model, ContextParams(64))
    context.decode((*model.tokenize("hi \0\x01\U0001f600", parse_special=True), 2), 1)
    assert b"".join(map(model.piece, range(model.n_vocab)))
    assert model.control_tokens is not None
    assert model.name.isprintable()
    assert len(model.name) < 400
    for token in (model.vocab.bos, model.vocab.eos):
        assert token is None or 0 <= token < model.n_vocab
    model.close()


def test_a_byte_vocabulary_encodes_every_text(tmp_path: Path) -> None:
    tokens = [*SPECIALS, *(f"<0x{b:02X}>" for b in range(256))]
    changes = {"tokenizer__ggml__model": "llama", "tokenizer__ggml__scores": Array(F32, [0.0] * len(tokens))}
    model = load(write_model(tmp_path / "m.gguf", tokenizer__ggml__tokens=Array(STRING, tokens), **changes))
    assert len(model.tokenize("\0\x01\U0001f600", parse_special=False)) >= 6
    model.close()
    refused(write_model(tmp_path / "n.gguf", tokenizer__ggml__tokens=Array(STRING, tokens[:-1]), **changes))


@pytest.mark.parametrize("architecture", ["t5", "t5encoder", "bert", "llada"])
def test_encoders_and_other_kinds_of_models_are_refused(tmp_path: Path, architecture: str) -> None:
    refused(write_model(tmp_path / "m.gguf", general__architecture=architecture))


def test_a_file_removed_after_its_check_is_an_error(tmp_path: Path) -> None:
    file = open_model_file(write_model(tmp_path / "m.gguf"))
    file.path.unlink()
    with pytest.raises(ModelLoadError, match=r"could not load .*m\.gguf: .*No such file"):
        Model(file)


FUZZ = """
    import sys
    from pathlib import Path
    from app.conversations.message import Message, Role
    from app.core.errors import AppError
    from app.llama.checks import open_model_file
    from app.llama.context import Context
    from app.llama.model import Model
    from app.llama.prompt import PromptBuilder
    from app.settings.model_params import ContextParams

    for path in sorted(Path(sys.argv[1]).iterdir()):
        print(path.name, end=" ", flush=True)
        try:
            model = Model(open_model_file(path))
            try:
                context = Context(model, ContextParams(64))
                prompt = PromptBuilder(model).build([Message(Role.USER, "Hi <|end|>")])
                context.decode((prompt.tokens or (0,))[:64], 1)
                model.piece(int(context.logits(0).argmax()))
            finally:
                model.close()
        except AppError as error:
            assert error.message.endswith("."), error
            print("refused", flush=True)
        else:
            print("ran", flush=True)
"""


def test_files_with_changed_bytes_never_end_the_process(tmp_path: Path) -> None:
    right = write_model(tmp_path / "right.gguf").read_bytes()
    folder = tmp_path / "changed"
    folder.mkdir()
    end = right.index(b"blk.0.ffn_down.weight") + 60
    for seed in range(200):
        rng = random.Random(seed)
        data = bytearray(right)
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(end)] = rng.choice([0, 1, 2, 127, 128, 255, rng.randrange(256)])
        (folder / f"{seed:03}.gguf").write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FUZZ), str(folder)], capture_output=True, text=True, timeout=HANGS_S
    )
    lines = done.stdout.splitlines()
    assert done.returncode == 0, (lines[-1:], done.stderr[-2000:])
    assert len(lines) == 200
    # Both outcomes must occur, or nothing was tested.
    assert min(sum(line.endswith(end) for line in lines) for end in (" ran", " refused")) >= 10
