"""Source of a model: a repository, a file or the demo package."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from app.core.errors import UsageError
from app.core.regular_file import is_file, is_folder
from app.models.model_names import plain

DEMO_PREFIX = "demo:"
DEFAULT_REVISION = "main"
_NAME = r"(?![A-Za-z0-9._-]*(?:--|\.\.))[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,94}[A-Za-z0-9_])?"
"""The rule of the hub's client, which refuses any other."""
_REPOSITORY = rf"{_NAME}/{_NAME}(?<!\.git)"
_HUB = re.compile(rf"(?P<repo>{_REPOSITORY})(?:@(?P<revision>[\w./-]+?))?(?:[:](?P<want>.+))?")
_HOSTS = ("huggingface.co", "www.huggingface.co", "hf.co", "hf-mirror.com")
_GGUF = ".gguf"


@dataclass(frozen=True, slots=True, eq=False)
class HubModel:
    """A model in a repository on the hub.

    Two that only differ in the spelling of the quantization, the size or the checksum are equal.

    Attributes:
        repo: `owner/name`.
        quant: Quantization ("Q4_K_M"); None leaves the choice to `app.models.hub.choose`.
        file: File in the repository, of a split model the first part; None finds it by `quant`.
        revision: Branch, tag or commit.
        size: Bytes of all parts, where known.
        sha256: Of the only part, where known.
    """

    repo: str
    quant: str | None = None
    file: str | None = None
    revision: str = DEFAULT_REVISION
    size: int | None = None
    sha256: str | None = None

    def __eq__(self, other: object) -> bool:
        return self._meant == other._meant if isinstance(other, HubModel) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._meant)

    @property
    def _meant(self) -> tuple[str, str | None, str | None, str]:
        return self.repo, plain(self.quant) if self.quant is not None else None, self.file, self.revision

    def __str__(self) -> str:
        name = self.file or self.quant
        where = self.repo if self.revision == DEFAULT_REVISION else f"{self.repo}@{self.revision}"
        return f"{where}:{name}" if name else where


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A file on this machine, of a split model the first part."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)


@dataclass(frozen=True, slots=True)
class DemoModel:
    """A model of the demo extra."""

    part: str

    def __str__(self) -> str:
        return f"{DEMO_PREFIX}{self.part}"


ModelSource = HubModel | LocalModel | DemoModel


def parse_source(text: str) -> ModelSource:
    """Read a model as people write it.

    `owner/repo`, `owner/repo:Q4_K_M`, `owner/repo:file.gguf`, `owner/repo/file.gguf`, `owner/repo@revision:...`, an
    address on Hugging Face, `hf.co/owner/repo:Q4_K_M`, or a path. A path in an existing folder is a path.

    Raises:
        UsageError: It is none of these.
    """
    text = text.strip()
    path = home_expanded(text)
    if text.startswith(("/", "~", "./", "../")) or (text and is_file(path)):
        return LocalModel(path.absolute())
    if "/" in text and ":" not in text and text.lower().endswith(_GGUF) and is_folder(path.parent):
        return LocalModel(path.absolute())
    if "://" in text or text.split("/")[0].lower() in _HOSTS:
        return _from_address(text)
    if found := _HUB.fullmatch(text):
        return _hub_model(found["repo"], found["want"], found["revision"])
    parts = text.split("/")
    if len(parts) > 2 and text.lower().endswith(_GGUF) and (found := _HUB.fullmatch("/".join(parts[:2]))):
        return _hub_model(found["repo"], "/".join(parts[2:]), found["revision"])
    if text.lower().endswith(_GGUF) or "\\" in text:
        return LocalModel(path.absolute())
    if text and is_folder(path):
        raise UsageError(f"{text} is a folder, not a model.", "Name the .gguf file inside it.")
    raise UsageError(
        f'"{text}" names no model.',
        "Write owner/repo, owner/repo:Q4_K_M, an address on huggingface.co, or the path of a .gguf file.",
    )


def is_repository(name: str) -> bool:
    """Return whether this is a valid name of a repository."""
    return re.fullmatch(_REPOSITORY, name) is not None


def home_expanded(text: str) -> Path:
    """Expand `~`; an unknown user stays the name of a folder."""
    try:
        return Path(text).expanduser()
    except RuntimeError:
        return Path(text)


def _hub_model(repo: str, want: str | None, revision: str | None) -> HubModel:
    revision = revision or DEFAULT_REVISION
    if want is not None and want.lower().endswith(_GGUF):
        return HubModel(repo, file=want, revision=revision)
    return HubModel(repo, quant=want, revision=revision)


def _from_address(text: str) -> HubModel:
    try:
        address = urlsplit(text if "://" in text else f"https://{text}")
        is_hub = address.scheme in ("http", "https") and address.hostname in _HOSTS
    except ValueError:
        # A bracket begins an IPv6 address.
        is_hub = False
    if not is_hub:
        raise UsageError(
            f"{text} is not an address on the hub.", "Addresses begin with https://huggingface.co/owner/repo."
        )
    # A revision such as refs/pr/1 is one part, by its quoted slashes.
    parts = [unquote(part) for part in address.path.strip("/").split("/")]
    repo_and_want, revision, file = "/".join(parts), None, None
    if len(parts) >= 4 and parts[2] in ("resolve", "blob", "tree"):
        repo_and_want, revision, file = "/".join(parts[:2]), parts[3], "/".join(parts[4:]) or None
    found = _HUB.fullmatch(repo_and_want)
    if found is None:
        raise UsageError(f"{text} names no repository.", "An address looks like https://huggingface.co/owner/repo.")
    return _hub_model(found["repo"], file or found["want"], revision or found["revision"])
