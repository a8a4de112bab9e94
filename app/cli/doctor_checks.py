"""Checks of `tandem doctor`: the pair on this machine, the files of Tandem, and downloads."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any, NamedTuple

from app.cli.options import is_chosen, read_pair
from app.cli.setting_flags import Given, flags_of, offer_line
from app.compare.measured_pairs import benchmarked_speedups, measured_of
from app.conversations.opening import check_file
from app.conversations.state_folder import state_files
from app.core.errors import AppError, CatalogError, HubError, ModelFileError, PairError
from app.core.paths import config_dir, conversations_file, states_dir
from app.core.regular_file import is_gone, resolved
from app.core.units import counted, gigabytes
from app.hardware.checks import Check, Facts
from app.hardware.cpu import conditions
from app.hardware.devices import fast_devices
from app.llama.fitting.fit_pair import fitting_of
from app.llama.fitting.machine_room import memory_rooms, with_remote
from app.llama.fitting.pair_checks import Situation
from app.models.catalog import Catalog
from app.models.compatibility import Remedy, remedy_text
from app.models.compatibility import check_pair as check_models
from app.models.hub import check_environment, hub_address, named_by, offline_by
from app.models.hub.cache import folder, unfinished
from app.models.model_facts import read_facts
from app.models.pair_summary import without_draft
from app.settings.checking import in_one_line
from app.worker.known_pairs import DEFAULT_PAIR, about_catalog, catalog, registry
from app.worker.loading import asked_here, placed_here, unless_damaged

_SPEED = "speed and causes"
_NOT_FITTED = (
    "fit is off: llama.cpp places the layers by itself, without an estimate. Places and sizes here are those of "
    "fit = auto."
)


class PairReport(NamedTuple):
    """The checks of a pair by the title of their section, and its facts as JSON."""

    sections: dict[str, list[Check]]
    facts: dict[str, Any]

    @property
    def causes(self) -> list[Check]:
        """What slows the pair down."""
        return [check for check in self.sections.get(_SPEED, ()) if check.failed]


def check_pair(given: Given, facts: Facts) -> PairReport:
    """Check the pair that the flags name, without loading it: placement, memory, measurements, or its problem."""
    name, why, chosen = _chosen_pair(given)
    title = name
    try:
        loader = read_pair(given)
        pair = loader.pair
        name, title = pair.name, pair.title
        if facts.failure is not None:
            return _report(name, title, f"{why}; see llama.cpp above")
        local = memory_rooms(facts.devices)
        asked = asked_here(loader, lambda: local)
        rooms = with_remote(local, asked.rpc)
        found = unless_damaged(asked, lambda params: fitting_of(params, rooms))
        draft = read_facts(found.params.draft) if found.params.draft is not None else None
        check = check_models(read_facts(found.params.target), draft)
        if check.remedy is Remedy.OTHER_TARGET:
            raise ModelFileError(check.problems[0], remedy_text(check.remedy, pair.target))
        loaded = placed_here(asked, lambda _: found.params)
    except AppError as error:
        trouble = Check.of("problem" if chosen else "warning", "trouble", error)
        return _report(name, title, why, [trouble], trouble=error.message, chosen=chosen)
    situation = Situation(
        found=found,
        threads=loaded.threads.generation,
        cores=facts.machine.physical_cores,
        source=str(pair.target),
        offers=() if found.plan.fits else tuple(map(offer_line, found.offers(list(catalog().pairs.values())))),
        conditions=conditions(),
        measured=measured_of(loaded, benchmarked_speedups()),
    )
    notices = [notice for notice in found.params.notices if notice not in about_catalog(pair)]
    notices += [without_draft(PairError(problem)) for problem in check.problems]
    notices += [_NOT_FITTED] if fast_devices(rooms) and loader.settings["model.fit"] == "off" else []
    recommended, tuned = loader.file_settings, " ".join(flags_of(found.params.tuned))
    checks = situation.place_checks()
    checks += [Check("ok", "placement", f"{tuned}, by tandem tune")] if tuned else []
    checks += [Check("warning", "note", notice) for notice in notices]
    if recommended:
        checks.append(Check("ok", "sampling", f"{in_one_line(recommended)}, recommended by the model file"))
    report = _report(
        name,
        title,
        why,
        checks,
        models=[model.as_json() for model in situation.models],
        needs=[asdict(load) for load in found.plan.loads],
        measured=found.measured,
        offers=situation.offers,
        target_source=situation.source,
        recommended=recommended,
        notices=notices,
        tuned=tuned,
    )
    report.sections[_SPEED] = situation.speed_checks()
    if not report.causes:
        report.sections[_SPEED].append(Check("ok", "causes", "none found"))
    return report


def _report(name: str, title: str, why: str, checks: Sequence[Check] = (), **facts: Any) -> PairReport:
    shown = f"{name}: {title}" if title != name else name
    unknown = {"models": [], "needs": [], "measured": False, "trouble": None, "offers": [], "target_source": ""}
    unknown |= {"chosen": True, "recommended": {}, "notices": [], "tuned": ""}
    sections = {"the pair": [Check("ok", "pair", f"{shown} ({why})"), *checks]}
    return PairReport(sections, {"name": name, "title": title, "why": why, **unknown, **facts})


def _chosen_pair(given: Given) -> tuple[str, str, bool]:
    """Return the name of the pair, why it was chosen, and whether the user chose it."""
    if is_chosen(given):
        return given.get("pair", "files"), "as named", True
    try:
        here = registry().read()
    except AppError:
        return "default", "the default pair", True
    if here.default:
        return here.default, "the default pair", True
    why = "no pair is the default: tandem pairs default NAME" if here.pairs else "no pair is set up yet: tandem setup"
    return DEFAULT_PAIR, why, False


# Files and downloads


def own_files() -> list[Check]:
    """Check each of Tandem's files, whether it exists or not."""
    checks: list[Check] = []
    files = {"models.toml": _catalog, "pairs.toml": _pairs, "chats": _conversations, "caches": _states}
    for label, check in files.items():
        try:
            checks += check(label)
        except AppError as error:
            checks.append(Check.of("problem", label, error))
    return checks


def _catalog(label: str) -> Iterator[Check]:
    file, text = config_dir() / "models.toml", "none of your own"
    if not is_gone(file):
        text = f"{counted(len(Catalog(file).pairs), 'pair')} of your own in {file}"
    yield Check("ok", label, text)


def _pairs(label: str) -> Iterator[Check]:
    found = registry().read().pairs
    here = [name for name, pair in found.items() if pair.is_here]
    if here or not found:
        yield Check("ok", label, f"set up: {', '.join(here)}" if here else "no pair is set up yet")
    for pair in found.values():
        if not pair.is_here:
            yield Check.of("warning", label, pair.gone)


def _conversations(label: str) -> Iterator[Check]:
    n = check_file(conversations_file())
    yield Check("ok", label, "none yet" if n is None else f"{n:,} in {conversations_file()}")


def _states(label: str) -> Iterator[Check]:
    if files := state_files():
        size = sum(status.st_size for status in files.values())
        yield Check("ok", label, f"{gigabytes(size)} in {counted(len(files), 'file')} in {states_dir()}")


def downloads() -> list[Check]:
    """Check downloads without network access."""
    return [_hub(), *_unfinished(), *_unused()]


def _hub() -> Check:
    try:
        check_environment()
    except HubError as error:
        return Check.of("warning", "hub", error)
    if offline := offline_by():
        return Check("warning", "hub", f"{offline} disables downloads", ("Unset it to download a pair.",))
    named = named_by()
    return Check("untried", "hub", hub_address() + (f", by {named}" if named else ""))


def _unfinished() -> Iterator[Check]:
    if left := unfinished():
        text = f"{gigabytes(sum(left.values()))} of {counted(len(left), 'file')} not complete in {folder()}"
        hint = "Setting up the same pair resumes it. To delete it instead:"
        yield Check("warning", "begun", text, (hint, "  tandem pairs remove NAME"))


def _unused() -> Iterator[Check]:
    # The check of pairs.toml reports a broken file.
    with suppress(CatalogError):
        # Two names may link to the same content.
        left = {resolved(path): size for path, size in registry().read().unused.items()}
        if left:
            text = f"{gigabytes(sum(left.values()))} downloaded, used by no pair"
            yield Check("warning", "unused", text, ("Delete unused files:", "  tandem pairs remove --unused"))
