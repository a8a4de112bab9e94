"""The pairs that this machine knows, with their files and settings."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.core.errors import ModelFileError, PairError, UsageError
from app.core.fixes import fix
from app.core.paths import cache_dir, config_dir, pairs_file, settings_file
from app.core.regular_file import is_file, resolved
from app.hardware.recommend import every_pair
from app.models.catalog import Catalog, Pair, shipped_file
from app.models.gguf import GgufHeader, read_header
from app.models.memory_estimate import DEFAULT_CONTEXT
from app.models.pair_summary import pair_of, setup_models
from app.models.registry import Registry, SetUp
from app.models.source import DemoModel, HubModel, LocalModel, ModelSource
from app.settings.checking import recommended
from app.settings.file import SettingsFile
from app.settings.layers import Layer, Resolved, pair_layer
from app.settings.live import LiveSettings
from app.settings.table import nearest

DEFAULT_PAIR = "demo"
"""Pair used before any was set up."""
FILES = "files"
"""Name of a pair given by its files."""


@dataclass(frozen=True, slots=True)
class ProcessOptions:
    """The process that runs a pair, and the servers ("host:port") whose devices it uses, which imply isolation."""

    isolate: bool = False
    rpc: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownPair:
    """A pair, and its files if it was set up."""

    pair: Pair
    files: SetUp | None

    def live_settings(self, flags: Layer | None = None) -> LiveSettings:
        """Return its settings: flags, the user's file, its catalog entry, and the target's recommendations."""
        return LiveSettings(SettingsFile(settings_file()), flags, self.entry_settings, self.file_settings)

    @property
    def entry_settings(self) -> Layer:
        """Return the settings of its catalog entry."""
        return pair_layer(self.pair.sampling, self.pair.drafting)

    @property
    def file_settings(self) -> Layer:
        """Return the settings that the target's file recommends; empty if it is missing or unreadable."""
        header = self._target_header()
        return recommended(header.metadata) if header is not None else {}

    @property
    def has_mtp_layers(self) -> bool:
        """Return whether the target's file has layers that draft; False if it is missing or unreadable."""
        header = self._target_header()
        return header is not None and header.number("nextn_predict_layers") > 0

    @property
    def target_file(self) -> Path | None:
        """Return the target's file; None before the download."""
        if self.files is not None:
            return self.files.target.path
        with suppress(ModelFileError):
            return local_file(self.pair.target)
        return None

    @property
    def draft_file(self) -> Path | None:
        """Return the draft's file; None without a draft, before the download, and for the demo's unregistered draft."""
        if self.files is not None:
            return self.files.draft.path if self.files.draft is not None else None
        source = self.pair.draft
        return local_file(source, draft=True) if source is not None and not self.pair.is_demo else None

    def _target_header(self) -> GgufHeader | None:
        path = self.target_file
        with suppress(ModelFileError):
            return read_header(path, vocabulary=False) if path is not None else None
        return None


@dataclass(frozen=True, slots=True)
class ChosenPair(KnownPair):
    """A pair to load with all settings.

    Attributes:
        preferred_ctx: Context in tokens up to which an open context may cost more memory.
    """

    settings: Resolved
    process: ProcessOptions = field(default_factory=ProcessOptions)
    preferred_ctx: int = 0


def catalog() -> Catalog:
    """Return the catalog: shipped pairs, overridden by the user's."""
    return Catalog(shipped_file(), config_dir() / "models.toml")


def left_out() -> tuple[str, ...]:
    """Return notices about an unreadable catalog of the user."""
    unread = catalog().unread
    return (unread.sentences,) if unread is not None else ()


def known_pairs() -> list[Pair]:
    """Return every pair of the catalog."""
    return list(catalog().pairs.values())


def registry() -> Registry:
    """Return the registry of pairs set up here."""
    return Registry(pairs_file())


def demo_file(part: str) -> Path:
    """Return a file of the demo pair; create the draft on first use."""
    from app.llama import demo

    return demo.target_file() if part == "target" else demo.draft_file(cache_dir())


def demo_is_installed() -> bool:
    """Return whether the demo's package is installed."""
    from app.llama import demo

    try:
        return demo.target_file().is_file()
    except ModelFileError:
        return False


def is_here(source: ModelSource) -> bool:
    """Return whether a model is on this machine."""
    if isinstance(source, DemoModel):
        return demo_is_installed()
    path = local_file(source, draft=True)
    return path is not None and is_file(path)


def pairs_here(live: LiveSettings | None = None) -> Mapping[str, Pair]:
    """Return pairs of models from other programs on this machine; reads every header.

    The settings name more folders.
    """
    # The first frame does not need this import.
    from app.models.hub.cache import cached_file
    from app.models.local_models import find_models, model_folders, pairs_of

    known = {resolved(files.target.path) for files in registry().read().pairs.values()}
    on_hub = (pair.target for pair in known_pairs() if isinstance(pair.target, HubModel))
    known.update(resolved(path) for path in map(cached_file, on_hub) if path is not None)
    live = live or LiveSettings(SettingsFile(settings_file()))
    return pairs_of(find_models(model_folders(live.resolved()["model.folders"])), known)


def pairs_to_open() -> Iterator[KnownPair]:
    """Yield the pairs that need no download: first those set up, then the catalog's, such as the demo."""
    registered = registry().read()
    yield from (KnownPair(files.pair, files) for files in registered.pairs.values() if files.is_here)
    for pair in known_pairs():
        if registered.usable(pair) is None and all(map(is_here, pair.sources)):
            yield KnownPair(pair, None)


def file_here(source: ModelSource) -> Path:
    """Return the file of a model on this machine. Raises PairError."""
    path = local_file(source)
    for files in registry().read().pairs.values():
        for other, model in zip(files.pair.sources, files.models, strict=False):
            path = path or (model.path if other == source else None)
    if path is None:
        fix = setup_models("TARGET", str(source))
        raise PairError(f"{source} is not on this machine yet.", f"Download it as a draft: {fix}")
    return path


def named_pair(name: str) -> KnownPair:
    """Return a pair by name.

    A pair that was set up with other files than the current catalog's keeps its own entry. For errors see `newest`.
    """
    registered, pair = registry().read(), newest(name)
    here = registered.pairs.get(name)
    return KnownPair(here.pair if here is not None and registered.in_place_of(pair) is not None else pair, here)


def newest(name: str) -> Pair:
    """Return a pair as setup would install it.

    Raises:
        UsageError: It is unknown; the error suggests the nearest name.
        CatalogError: It is unknown, and the user's catalog cannot be read.
    """
    registered, known = registry().read(), catalog()
    if name in known.pairs:
        return known.pairs[name]
    if name in registered.pairs:
        return registered.pairs[name].pair
    found = every_pair(known.pairs, registered, pairs_here().values())
    if name in found:
        return found[name]
    raise known.unread or UsageError(f'There is no pair "{name}".{nearest(name, found)}', "To list all pairs: ⟨pairs⟩")


def about_catalog(pair: Pair) -> tuple[str, ...]:
    """Return notices about the catalog entry of a loaded pair."""
    if pair.name == FILES:
        return ()
    unread, entry = left_out(), catalog().pairs.get(pair.name)
    if entry is None or registry().read().in_place_of(entry) is None:
        return unread
    again = fix("setup", pair.name)
    return (*unread, f"{pair.name} was set up with other files than the catalog names now; to update: {again}")


def pair_by_name(name: str | None = None) -> KnownPair:
    """Return a pair to load, by default the default pair.

    Raises PairError if its files are gone, or if no pair is set up. For other errors see `newest`.
    """
    name = name or registry().read().default
    if name is None and not demo_is_installed() and (found := pairs_here()):
        drafted = next((pair.name for pair in found.values() if pair.draft is not None), next(iter(found)))
        raise PairError("No pair is set up yet.", f"Set up models that are on this machine: {fix('setup', drafted)}")
    known = named_pair(name or DEFAULT_PAIR)
    files = known.files
    # An entry changed since its setup means other files.
    if files is None or not files.is_of(known.pair):
        return replace(known, files=None)
    if not files.is_here:
        if not all(isinstance(source, DemoModel) for source in known.pair.sources):
            raise files.gone
        return replace(known, files=None)
    return known


def pair_by_models(target: str, draft: str | None = None) -> KnownPair:
    """Return the pair of two models."""
    pair = replace(pair_of(target, draft), name=FILES)
    here = [known for known in registry().read().pairs.values() if known.is_here]
    found = [known for known in here if known.is_of(pair)]
    if draft is None and isinstance(pair.target, HubModel):
        # Setup may have added the draft layers beside it.
        found += [known for known in here if known.pair.target == pair.target]
    return KnownPair(found[0].pair, found[0]) if found else KnownPair(pair, None)


def context_of(live: LiveSettings | None = None) -> int:
    """Return the context size in tokens from settings, by default from the settings of every pair."""
    live = live or LiveSettings(SettingsFile(settings_file()))
    return live.resolved()["model.ctx"] or DEFAULT_CONTEXT


def local_file(source: ModelSource, *, draft: bool = False) -> Path | None:
    """Return the file of a model, or None before the download; `draft` decides which one if there are several."""
    match source:
        case LocalModel(path):
            return path
        case DemoModel(part):
            return demo_file(part)
        case HubModel():
            # The first frame does not need this import.
            from app.models.hub.cache import cached_file

            return cached_file(source, draft=draft)
