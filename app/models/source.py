"""Source of a model: a repository, a file or the demo package."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from app.core.errors import UsageError
from app.core.regular_file import home_expanded, is_file, is_folder

DEMO_PREFIX = "demo:"
DEFAULT_REVISION = "main"
_REPOSITORY_NAME = r"(?![A-Za-z0-9._-]*(?:--|\.\.))[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?"
"""The same rule as in the hub's client, which refuses other names."""
_REPOSITORY_ID = rf"{_REPOSITORY_NAME}/{_REPOSITORY_NAME}(?<!\.git)"
_HUB_SOURCE = re.compile(rf"(?P<repo>{_REPOSITORY_ID})(?:@(?P<revision>[\w./-]+?))?(?:[:](?P<want>.+))?")
_HUB_HOSTS = ("huggingface.co", "www.huggingface.co", "hf.co", "hf-mirror.com")
_GGUF_SUFFIX = ".gguf"


@dataclass(frozen=True, slots=True)
class HubModel:
    """A model in a repository on the hub.

    Attributes:
        quant: Quantization ("Q4_K_M"); None leaves the choice to `app.models.hub.choose`.
        file: File in the repository, or the first part of a split model; None finds it by `quant`.
        revision: Branch, tag or commit.
        sha256: Checksum of the only part, if known.
    """

    repo: str
    quant: str | None = None
    file: str | None = None
    revision: str = DEFAULT_REVISION
    size: int | None = field(default=None, compare=False)
    sha256: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.quant is not None:
            object.__setattr__(self, "quant", self.quant.upper())

    @property
    def is_pinned(self) -> bool:
        """Return whether a catalog has the size or the checksum of the file."""
        return self.size is not None or self.sha256 is not None

    def __str__(self) -> str:
        name = self.file or self.quant
        where = self.repo if self.revision == DEFAULT_REVISION else f"{self.repo}@{self.revision}"
        return f"{where}:{name}" if name else where


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A file on this machine, or the first part of a split model."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True, slots=True)
class DemoModel:
    """A model of the demo extra."""

    part: str

    def __str__(self) -> str:
        return f"{DEMO_PREFIX}{self.part}"


@dataclass(frozen=True, slots=True)
class FoundRepository:
    """A repository found by a search, with the architecture and parameters of its GGUF files, if known."""

    name: str
    architecture: str = ""
    n_params: int = 0


ModelSource = HubModel | LocalModel | DemoModel


def parse_source(text: str) -> ModelSource:
    """Parse a model as people write it.

    `owner/repo`, `owner/repo:Q4_K_M`, `owner/repo:file.gguf`, `owner/repo/file.gguf`, `owner/repo@revision:...`, an
    address on Hugging Face, `hf.co/owner/repo:Q4_K_M`, or a path. A path in an existing folder is a path.

    Raises:
        UsageError: It is none of these.
    """
    text = text.strip()
    path = home_expanded(text)
    if text.startswith(("/", "~", "./", "../")) or (text and is_file(path)):
        return LocalModel(path.absolute())
    if "/" in text and ":" not in text and text.lower().endswith(_GGUF_SUFFIX) and is_folder(path.parent):
        return LocalModel(path.absolute())
    is_address = "://" in text or text.split("/")[0].lower() in _HUB_HOSTS
    if (model := _on_hub(_without_host(text) if is_address else text)) is not None:
        return model
    if not is_address and (text.lower().endswith(_GGUF_SUFFIX) or "\\" in text):
        return LocalModel(path.absolute())
    if text and is_folder(path):
        raise UsageError(f"{text} is a folder, not a model.", "Name the .gguf file inside it.")
    raise UsageError(
        f'"{text}" names no model.',
        "Write owner/repo, owner/repo:Q4_K_M, an address on huggingface.co, or the path of a .gguf file.",
    )


def is_repository(name: str) -> bool:
    """Return whether this is a valid name of a repository."""
    return re.fullmatch(_REPOSITORY_ID, name) is not None


def _on_hub(text: str) -> HubModel | None:
    """Parse a repository with a revision, quantization or file in any notation; None for anything else."""
    # The quoted slashes of a revision such as refs/pr/1 make it one part of an address.
    parts = [unquote(part) for part in text.split("/")]
    revision, file = None, None
    if len(parts) >= 4 and parts[2] in ("resolve", "blob", "tree"):
        text, revision, file = "/".join(parts[:2]), parts[3], "/".join(parts[4:]) or None
    elif len(parts) > 2 and ":" not in text and text.lower().endswith(_GGUF_SUFFIX):
        text, file = "/".join(parts[:2]), "/".join(parts[2:])
    found = _HUB_SOURCE.fullmatch(text)
    if found is None:
        return None
    repo, revision, want = found["repo"], revision or found["revision"] or DEFAULT_REVISION, file or found["want"]
    if want is not None and want.lower().endswith(_GGUF_SUFFIX):
        return HubModel(repo, file=want, revision=revision)
    return HubModel(repo, quant=want, revision=revision)


def _without_host(address: str) -> str:
    try:
        parts = urlsplit(address if "://" in address else f"https://{address}")
        if parts.scheme in ("http", "https") and parts.hostname in _HUB_HOSTS:
            return parts.path.strip("/")
    except ValueError:
        # A bracket begins an IPv6 address.
        pass
    raise UsageError(
        f"{address} is not an address on the hub.", "Addresses begin with https://huggingface.co/owner/repo."
    )
