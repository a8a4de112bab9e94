"""Asking the hub what a repository holds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from huggingface_hub import HfApi, constants
from huggingface_hub.errors import HFValidationError
from huggingface_hub.hf_api import ModelInfo
from huggingface_hub.utils import build_hf_headers, hf_raise_for_status

from app.core.atomic import is_valid_name
from app.core.errors import HubError
from app.models.hub.bounded import read_whole, session
from app.models.hub.choose import RemoteFile
from app.models.hub.environment import check_named, check_way
from app.models.hub.errors import host, login_page, translated

_TIMEOUT_S = 20.0
_MAX_FILES = 20_000
_LONGEST_NAME, _LONGEST_PATH = 200, 1_000
"""Bytes; file systems allow 255 and a few thousand."""
_COMMIT = re.compile(r"[0-9A-Za-z][\w.-]{0,99}", re.ASCII)
_NOT_MEANT = (TypeError, KeyError, AttributeError, ValueError, RecursionError)
"""What the client raises where an answer is not what it should be."""
_UNSAFE = ("..", ".", "")


@dataclass(frozen=True, slots=True)
class Repository:
    """What the hub says about a repository.

    Attributes:
        name: `owner/name`.
        commit: The revision asked for, as a commit.
        files: Its files, those with impossible names left out.
        licence: Its identifier, or "".
        gated: Whether terms must be accepted first.
    """

    name: str
    commit: str
    files: tuple[RemoteFile, ...]
    licence: str = ""
    gated: bool = False


@dataclass(frozen=True, slots=True)
class Found:
    """A repository that a search found.

    Attributes:
        name: `owner/name`.
        downloads: In the last month.
        architecture: Of its GGUF files as the hub read it, or "".
        n_params: Parameters as the hub read them, or 0.
    """

    name: str
    downloads: int
    architecture: str = ""
    n_params: int = 0


def repository(name: str, revision: str) -> Repository:
    """Look a repository up.

    Raises:
        HubError: It cannot be had; a `WaitError` if perhaps later.
    """
    check_way()
    with translated(name), read_whole():
        try:
            info = HfApi().model_info(name, revision=revision, files_metadata=True, timeout=_TIMEOUT_S)
            return _repository(name, info)
        except HFValidationError:
            # A `ValueError` too, and about what was asked.
            raise
        except _NOT_MEANT as error:
            # A login page of a network, or a hub of another make.
            raise HubError(f"{host()} answered about {name} with something else.", login_page()) from error


def _repository(name: str, info: ModelInfo) -> Repository:
    commit = info.sha
    # It becomes the name of a folder.
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise ValueError("no commit")
    files, has_unsized = [], False
    for sibling in islice(info.siblings or (), _MAX_FILES):
        path, size = sibling.rfilename, sibling.size
        if not isinstance(path, str) or not safe_name(path):
            continue
        if not isinstance(size, int) or size < 0:
            has_unsized = has_unsized or _is_model(path)
            continue
        sha256 = sibling.lfs.sha256 if sibling.lfs is not None else None
        files.append(RemoteFile(path, size, _hash(sha256), _hash(sha256) or _name(sibling.blob_id)))
    if has_unsized and not any(_is_model(file.path) for file in files):
        raise HubError(
            f"{host()} does not tell how large the files of {name} are.",
            f"It may be a hub of another make.{check_named()}",
        )
    card = info.card_data
    licence = card.get("license") if card is not None else None
    return Repository(name, commit, tuple(files), licence if isinstance(licence, str) else "", bool(info.gated))


def _is_model(path: str) -> bool:
    return path.lower().endswith(".gguf")


def safe_name(path: str) -> bool:
    """Whether a file of that name stays inside the folder that it is put into, and can be there."""
    parts = path.split("/")
    return (
        path.isprintable()
        and "\\" not in path
        and ":" not in path
        and len(path.encode()) <= _LONGEST_PATH
        and not any(part in _UNSAFE or len(part.encode()) > _LONGEST_NAME for part in parts)
        and all(map(is_valid_name, parts))
    )


def _hash(value: object) -> str | None:
    text = value.lower() if isinstance(value, str) else ""
    return text if len(text) == 64 and all(c in "0123456789abcdef" for c in text) else None


def _name(value: object) -> str | None:
    """What can be the name of a file's content in the cache."""
    return value if isinstance(value, str) and value.isascii() and value.isalnum() and len(value) <= 64 else None


def _model(found: dict[str, Any]) -> ModelInfo:
    return ModelInfo(**found)  # type: ignore[no-untyped-call]


def search(words: str, *, limit: int) -> Iterator[Found]:
    """Repositories with GGUF files whose name holds the words, most downloaded first.

    It asks once: the client's own `list_models` tries again six times, for as long as the hub says, and tells of each
    on standard error.

    Raises:
        HubError: The hub cannot be asked.
    """
    check_way()
    asked: dict[str, str | int | list[str]] = {
        "search": words,
        "filter": "gguf",
        "sort": "downloads",
        "limit": limit,
        "expand": ["downloads", "gguf"],
    }
    with translated(words):
        with read_whole():
            response = session().get(
                f"{constants.ENDPOINT}/api/models", params=asked, headers=build_hf_headers(), timeout=_TIMEOUT_S
            )
        hf_raise_for_status(response)
        try:
            for info in islice((_model(found) for found in response.json()), limit):
                summary = info.gguf if isinstance(info.gguf, dict) else {}
                architecture, total = summary.get("architecture"), summary.get("total")
                yield Found(
                    str(info.id),
                    info.downloads if isinstance(info.downloads, int) else 0,
                    architecture if isinstance(architecture, str) else "",
                    total if isinstance(total, int) else 0,
                )
        except _NOT_MEANT as error:
            raise HubError(f"{host()} answered a search with something else.", login_page()) from error
