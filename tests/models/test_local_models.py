"""Models of other programs on this machine: the layouts of their folders, and drafts among them."""

import json
from pathlib import Path

import pytest

from app.models.local_models import FoundModel, find_models, model_folders, pairs_of
from app.models.source import LocalModel
from tests.llama.tiny_model import write_model

TEMPLATE = "{% for m in messages %}<|start|>{{ m.content }}<|end|>{% endfor %}<|start|>"


def model(path: Path, padding: int = 0, template: str | None = TEMPLATE) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_model(path, tokenizer__chat_template=template)
    path.write_bytes(path.read_bytes() + bytes(padding))
    return path


def names(folder: Path) -> list[str]:
    return sorted(found.path.name for found in find_models({folder: "LM Studio"}))


def ollama_model(folder: Path, name: str, tag: str, digest: str = "sha256:" + "a" * 64) -> Path:
    """Write a manifest as `ollama pull` does, and its content."""
    manifest = folder / "manifests" / "registry.ollama.ai" / "library" / name / tag
    manifest.parent.mkdir(parents=True)
    layers = [
        {"mediaType": "application/vnd.ollama.image.template", "digest": "sha256:" + "b" * 64, "size": 5},
        {"mediaType": "application/vnd.ollama.image.model", "digest": digest, "size": 5},
    ]
    manifest.write_text(json.dumps({"schemaVersion": 2, "layers": layers}))
    return model(folder / "blobs" / digest.replace(":", "-"))


def test_projectors_and_incomplete_splits_are_left_out(tmp_path: Path) -> None:
    for name in ("mmproj-F16.gguf", "big-00001-of-00002.gguf", "notes.txt"):
        (tmp_path / name).write_bytes(b"GGUF")

    assert names(tmp_path) == []


def test_a_linked_file_is_listed_once(tmp_path: Path) -> None:
    path = model(tmp_path / "one" / "a.gguf")
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / "b.gguf").symlink_to(path)

    assert len(names(tmp_path)) == 1


@pytest.mark.parametrize(("tag", "name"), [("latest", "llama3.2"), ("3b", "llama3.2-3b")])
def test_ollama_names_its_models_in_manifests(tmp_path: Path, tag: str, name: str) -> None:
    content = ollama_model(tmp_path, "llama3.2", tag)

    assert find_models({tmp_path: "Ollama"}) == (FoundModel(content, "Ollama", name),)
    assert list(pairs_of([FoundModel(content, "Ollama", name)])) == [name]


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"layers": [{}]}', '{"layers": null}'])
def test_a_damaged_manifest_is_no_model(tmp_path: Path, text: str) -> None:
    content = ollama_model(tmp_path, "llama3.2", "latest")
    next(tmp_path.glob("manifests/*/*/*/*")).write_text(text)

    assert find_models({tmp_path: "Ollama"}) == ()
    assert content.is_file()


def test_a_manifest_cannot_name_a_file_outside_of_the_blobs(tmp_path: Path) -> None:
    model(tmp_path / "secret.gguf")
    ollama_model(tmp_path / "ollama", "llama3.2", "latest", "../../secret.gguf")

    assert find_models({tmp_path / "ollama": "Ollama"}) == ()


def test_the_smallest_compatible_model_becomes_the_draft(tmp_path: Path) -> None:
    big, small = model(tmp_path / "big-Q8_0.gguf", padding=200_000), model(tmp_path / "small-Q8_0.gguf")

    pairs = pairs_of([FoundModel(path, "LM Studio") for path in (big, small)])

    assert pairs["big-q8-0"].draft == LocalModel(small)
    assert pairs["big-q8-0"].title == "big Q8_0, found in LM Studio"
    assert pairs["small-q8-0"].draft is None


def test_a_base_model_and_a_damaged_file_are_left_out(tmp_path: Path) -> None:
    base, damaged = model(tmp_path / "base.gguf", template=None), tmp_path / "damaged.gguf"
    damaged.write_bytes(b"GGUF")

    assert pairs_of([FoundModel(path, "LM Studio") for path in (base, damaged)]) == {}


def test_known_targets_get_no_second_pair(tmp_path: Path) -> None:
    path = model(tmp_path / "a.gguf")

    assert pairs_of([FoundModel(path, "LM Studio")], {path.resolve()}) == {}


def test_folders_follow_the_variables_and_files_of_their_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, own, moved, ollama = (tmp_path / name for name in ("home", "own", "moved", "ollama"))
    for folder in (home / "models", own, moved / "models", ollama):
        folder.mkdir(parents=True)
    (home / ".lmstudio-home-pointer").write_text(f"{moved}\n")
    monkeypatch.setattr(Path, "home", lambda: home)
    monkeypatch.setenv("OLLAMA_MODELS", str(ollama))

    found = model_folders([str(own)])

    assert next(iter(found.items())) == (own, "your folder")
    assert (found[moved / "models"], found[ollama]) == ("LM Studio", "Ollama")
