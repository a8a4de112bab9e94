"""Files and downloads in `tandem doctor`: the catalog, pairs and conversations, and files that no pair needs."""

from __future__ import annotations

from app.cli.known_pairs import registry
from app.conversations.opening import check_file
from app.conversations.state_folder import state_files
from app.core.errors import AppError, CatalogError, HubError
from app.core.paths import config_dir, conversations_file, states_dir
from app.core.regular_file import is_gone, resolved
from app.core.units import counted, gigabytes
from app.hardware.checks import Check, Section
from app.models.catalog import Catalog
from app.models.hub import check_environment, hub_address, named_by, offline_by
from app.models.hub.cache import folder, unfinished


def own_files() -> Section:
    """Check each file, whether it exists or not."""
    return Section("files", (*_catalog(), *_pairs(), _conversations(), *_states()))


def _catalog() -> list[Check]:
    file = config_dir() / "models.toml"
    if is_gone(file):
        return [Check("ok", "models.toml", "none of your own")]
    try:
        found = Catalog([file])
    except AppError as error:
        return [_broken("models.toml", error)]
    return [Check("ok", "models.toml", f"{counted(len(found.pairs), 'pair')} of your own in {file}")]


def _pairs() -> list[Check]:
    try:
        found = registry().read()
    except AppError as error:
        return [_broken("pairs.toml", error)]
    here = [name for name, pair in found.pairs.items() if pair.is_here]
    gone = [pair.gone for pair in found.pairs.values() if not pair.is_here]
    checks = [Check("ok", "pairs.toml", f"set up: {', '.join(here)}")] if here else []
    checks += [Check("warning", "pairs.toml", error.message, (error.hint,)) for error in gone]
    return checks or [Check("ok", "pairs.toml", "no pair is set up yet")]


def _conversations() -> Check:
    try:
        n = check_file(conversations_file())
    except AppError as error:
        return _broken("chats", error)
    return Check("ok", "chats", "none yet" if n is None else f"{n:,} in {conversations_file()}")


def _states() -> list[Check]:
    files = list(state_files())
    if not files:
        return []
    text = f"{gigabytes(sum(file.size for file in files))} in {counted(len(files), 'file')} in {states_dir()}"
    return [Check("ok", "caches", text)]


def _broken(label: str, error: AppError) -> Check:
    return Check("problem", label, error.message, (error.hint,) if error.hint else ())


def hub_section() -> Section:
    """Check downloads without network access."""
    return Section("downloads", (_hub(), *_unfinished(), *_unused()))


def _hub() -> Check:
    try:
        check_environment()
    except HubError as error:
        return Check("warning", "hub", error.message, (error.hint,))
    if offline := offline_by():
        return Check("warning", "hub", f"{offline} disables downloads", ("Unset it to download a pair.",))
    named = named_by()
    return Check("untried", "hub", hub_address() + (f", by {named}" if named else ""))


def _unfinished() -> list[Check]:
    left = unfinished()
    if not left:
        return []
    text = f"{gigabytes(sum(left.values()))} of {counted(len(left), 'file')} not complete in {folder()}"
    hint = "Setting up the same pair resumes it. Otherwise delete it, by its pair or by hand:"
    return [Check("warning", "begun", text, (hint, "  tandem pairs remove NAME"))]


def _unused() -> list[Check]:
    try:
        left = registry().read().unused
    except CatalogError:
        # The check of pairs.toml reports it.
        return []
    if not left:
        return []
    # Two names may lead to one content.
    n_bytes = sum({resolved(path): size for path, size in left.items()}.values())
    text = f"{gigabytes(n_bytes)} downloaded, used by no pair"
    return [Check("warning", "unused", text, ("Delete unused files:", "  tandem pairs remove --unused"))]
