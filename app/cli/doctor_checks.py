"""Checks of `tandem doctor`: the pair on this machine, the files of Tandem, and downloads."""

from __future__ import annotations

import argparse

from app.cli.known_pairs import DEFAULT_PAIR, catalog, is_chosen, of_file, registry
from app.cli.loading import asked_here, placed_here, servers_of, unless_damaged
from app.cli.measured_pairs import benchmarked_speedups, measured_of
from app.cli.offers import offer_line
from app.cli.options import Options, read_options
from app.conversations.opening import check_file
from app.conversations.state_folder import state_files
from app.core.errors import AppError, CatalogError, HubError, ModelFileError, PairError
from app.core.paths import config_dir, conversations_file, states_dir
from app.core.regular_file import is_gone, resolved
from app.core.units import counted, gigabytes
from app.hardware.checks import Check, Facts, Section
from app.hardware.cpu import conditions
from app.hardware.devices import fast_devices
from app.hardware.pair_view import DRAFT, TARGET, PairView, model_place
from app.hardware.slow_causes import Situation
from app.llama.fitting.fit_pair import Fitting, fitting_of
from app.llama.fitting.machine_room import memory_rooms, with_remote
from app.models.catalog import Catalog
from app.models.compatibility import Remedy, remedy_text
from app.models.compatibility import check_pair as check_models
from app.models.hub import check_environment, hub_address, named_by, offline_by
from app.models.hub.cache import folder, unfinished
from app.models.model_facts import read_facts
from app.models.pair_summary import without_draft

_NOT_FITTED = (
    "fit is off: llama.cpp places the layers by itself, without an estimate. Places and sizes here are those of "
    "fit = auto."
)


def check_pair(args: argparse.Namespace, facts: Facts) -> tuple[PairView, Situation | None]:
    """Check the pair that the flags name, without loading it.

    Returns:
        Its placement, memory and measurements, or its problem; and what its speed depends on, None if its files cannot
        be read.
    """
    name, why, chosen = _chosen_pair(args)
    options = None
    try:
        options = read_options(args)
        if facts.failure is not None:
            return PairView(options.pair.name, options.pair.title, f"{why}; see llama.cpp above"), None
        local = memory_rooms(facts.devices)
        servers = servers_of(options)
        asked = asked_here(options, lambda: local, servers)
        rooms = with_remote(local, servers)
        found = unless_damaged(asked, lambda params: fitting_of(params, rooms))
        draft = read_facts(found.params.draft) if found.params.draft is not None else None
        check = check_models(read_facts(found.params.target), draft)
        if check.remedy is Remedy.OTHER_TARGET:
            raise ModelFileError(check.problems[0], remedy_text(check.remedy, options.pair.target))
        loaded = placed_here(options, asked, lambda _: found.params)
    except AppError as error:
        title = options.pair.title if options is not None else name
        return PairView(name, title, why, trouble=error, chosen=chosen), None
    refused = tuple(without_draft(PairError(problem)) for problem in check.problems)
    view, fast = _view(options, found, why, refused), fast_devices(found.rooms)
    situation = Situation(
        pair=view,
        threads=loaded.n_threads,
        cores=facts.machine.physical_cores,
        conditions=conditions(),
        gpu=fast[0].name if fast else "",
        measured=measured_of(loaded, benchmarked_speedups()),
    )
    return view, situation


def _chosen_pair(args: argparse.Namespace) -> tuple[str, str, bool]:
    """Return the name of the pair, why it is this one, and whether the user chose it."""
    if is_chosen(vars(args)):
        return getattr(args, "pair", "files"), "as named", True
    try:
        here = registry().read()
    except AppError:
        return "default", "the default pair", True
    if here.default:
        return here.default, "the default pair", True
    why = "no pair is the default: tandem pairs default NAME" if here.pairs else "no pair is set up yet: tandem setup"
    return DEFAULT_PAIR, why, False


def _view(options: Options, found: Fitting, why: str, refused: tuple[str, ...]) -> PairView:
    models = [model_place(TARGET, found.target, found.plan.target)]
    if found.draft is not None and found.plan.draft is not None:
        models.append(model_place(DRAFT, found.draft, found.plan.draft))
    lines = () if found.plan.fits else tuple(map(offer_line, found.offers(list(catalog().pairs.values()))))
    return PairView(
        name=options.pair.name,
        title=options.pair.title,
        why=why,
        models=tuple(models),
        needs=found.plan.loads,
        measured=found.measured,
        offers=lines,
        target_source=str(options.pair.target),
        recommended=of_file(options.pair, options.files),
        tuned=found.params.tuned,
        notices=tuple(notice for notice in found.params.notices if notice not in options.params.notices)
        + refused
        + ((_NOT_FITTED,) if fast_devices(found.rooms) and not options.fit else ()),
    )


# Files and downloads


def own_files() -> Section:
    """Check each file, whether it exists or not."""
    checks: list[Check] = []
    files = {"models.toml": _catalog, "pairs.toml": _pairs, "chats": _conversations, "caches": _states}
    for label, check in files.items():
        try:
            checks += check(label)
        except AppError as error:
            checks.append(Check("problem", label, error.message, (error.hint,) if error.hint else ()))
    return Section("files", tuple(checks))


def _catalog(label: str) -> list[Check]:
    file = config_dir() / "models.toml"
    if is_gone(file):
        return [Check("ok", label, "none of your own")]
    return [Check("ok", label, f"{counted(len(Catalog(file).pairs), 'pair')} of your own in {file}")]


def _pairs(label: str) -> list[Check]:
    found = registry().read()
    here = [name for name, pair in found.pairs.items() if pair.is_here]
    gone = [pair.gone for pair in found.pairs.values() if not pair.is_here]
    checks = [Check("ok", label, f"set up: {', '.join(here)}")] if here else []
    checks += [Check("warning", label, error.message, (error.hint,)) for error in gone]
    return checks or [Check("ok", label, "no pair is set up yet")]


def _conversations(label: str) -> list[Check]:
    n = check_file(conversations_file())
    return [Check("ok", label, "none yet" if n is None else f"{n:,} in {conversations_file()}")]


def _states(label: str) -> list[Check]:
    files = state_files()
    size = sum(status.st_size for status in files.values())
    text = f"{gigabytes(size)} in {counted(len(files), 'file')} in {states_dir()}"
    return [Check("ok", label, text)] if files else []


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
