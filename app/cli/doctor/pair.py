"""The pair in `tandem doctor`: its place on this machine, and everything that could slow it down there."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from app.cli.known_pairs import DEFAULT_PAIR, catalog, is_chosen, of_file, registry
from app.cli.measured_pairs import benchmarked_speedups, measured_of
from app.cli.options import Options, read_options
from app.cli.placing import asked_here, placed_here, servers_of, unless_damaged
from app.core.errors import AppError
from app.hardware.conditions import conditions
from app.hardware.fit import fast_devices
from app.hardware.pair_view import DRAFT, TARGET, PairView, device_needs, model_place
from app.hardware.slow_causes import Situation
from app.llama.fitting.device_rooms import memory_rooms, with_remote
from app.llama.fitting.fit_pair import Fitting, offer_line, weighed

if TYPE_CHECKING:
    from app.hardware.checks import Facts
    from app.llama.params import PairParams

_NOT_FITTED = (
    "fit is off: llama.cpp places the layers by itself, without an estimate. Places and sizes here are those of "
    "fit = auto."
)


def check_pair(args: argparse.Namespace, facts: Facts) -> tuple[PairView, Situation | None]:
    """Place the pair that the flags name, without loading it.

    Returns:
        Its place or what is wrong with it; and, if its files can be read, what its speed depends on.
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
        found = unless_damaged(asked, lambda params: weighed(params, rooms))
        loaded = placed_here(options, asked, lambda _: found.params)
    except AppError as error:
        title = options.pair.title if options is not None else name
        return PairView(name, title, why, trouble=error, chosen=chosen), None
    view = _view(options, found, why)
    return view, _situation(view, found, loaded, facts)


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


def _view(options: Options, found: Fitting, why: str) -> PairView:
    models = [model_place(TARGET, found.target, found.plan.target)]
    if found.draft is not None and found.plan.draft is not None:
        models.append(model_place(DRAFT, found.draft, found.plan.draft))
    lines = () if found.plan.fits else tuple(map(offer_line, found.offers(list(catalog().pairs.values()))))
    return PairView(
        name=options.pair.name,
        title=options.pair.title,
        why=why,
        models=tuple(models),
        needs=device_needs(found.plan, found.rooms),
        measured=found.measured,
        offers=lines,
        target_source=str(options.pair.target),
        recommended=of_file(options.pair, options.files),
        notices=tuple(notice for notice in found.params.notices if notice not in options.notices)
        + ((_NOT_FITTED,) if fast_devices(found.rooms) and not options.placement.fit else ()),
    )


def _situation(view: PairView, found: Fitting, loaded: PairParams, facts: Facts) -> Situation:
    fast = fast_devices(found.rooms)
    return Situation(
        pair=view,
        threads=loaded.n_threads,
        cores=facts.machine.physical_cores,
        conditions=conditions(),
        gpu=fast[0].name if fast else "",
        measured=measured_of(loaded, benchmarked_speedups()),
    )
