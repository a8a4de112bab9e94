"""`tandem pairs`: list and show pairs, add one, choose the default."""

import sys
from typing import Any

from app.cli.output import LOOKING, columns_of, print_result, status
from app.compare.measured_pairs import measured_capacity
from app.core.columns import fit, in_brief, text_table, width
from app.core.errors import UsageError
from app.core.fixes import quoted
from app.core.printable import printable
from app.core.units import gigabytes
from app.hardware.recommend import PLEASANT, Capacity, Standing, every_pair, in_order, propose, weigh
from app.models.catalog import Pair
from app.models.pair_summary import OVER, UNKNOWN, download_bytes, pair_bytes, size_text, with_files
from app.models.registry import Registered
from app.worker.known_pairs import (
    DEFAULT_PAIR,
    catalog,
    context_of,
    demo_is_installed,
    is_here,
    left_out,
    named_pair,
    pairs_here,
    registry,
)

_SIZE_COLUMNS = 8
_LABEL_COLUMNS = 12
"""Width of a fact's label."""


def list_pairs(*, as_json: bool = False) -> int:
    """Print every pair."""
    status.show(LOOKING)
    known, here = catalog(), registry().read()
    _, capacity = measured_capacity(context_of())
    pairs = every_pair(known.pairs, here, pairs_here().values(), has_demo=demo_is_installed())
    standings = [_standing(pair, here, capacity) for pair in pairs.values()]
    standings = in_order(standings, propose([one.proposal for one in standings]))
    rows = [_row(standing, here) for standing in standings]
    status.clear()
    sizes = [size_text(one.pair) for one in standings]
    speed = f"slow: probably under {PLEASANT:.0f} tok/s without drafts"
    legend = ["", "* default  + on this machine", f"fits: enough memory  tight: little of it to spare  {speed}"]
    if any(text.startswith((UNKNOWN, OVER)) for text in sizes):
        legend.append(f"{UNKNOWN} {OVER} size unknown or a lower bound; to look it up: tandem pairs check NAME")
    print_result(rows, [*_table(rows, sizes), *legend], as_json=as_json)
    if known.unread is not None and not as_json:
        status.say(f"\n{known.unread.sentences}")
    return 0


def _standing(pair: Pair, here: Registered, capacity: Capacity) -> Standing:
    files = here.usable(pair)
    return Standing(
        weigh(with_files(pair, files), capacity),
        set_up=files is not None,
        here=files is not None or all(map(is_here, pair.sources)),
        is_default=pair.name == here.default,
    )


def _row(standing: Standing, here: Registered) -> dict[str, Any]:
    pair, files, proposal = standing.pair, here.usable(standing.pair), standing.proposal
    return {
        "name": pair.name,
        "title": pair.title,
        "here": standing.here,
        "default": pair.name == (here.default or DEFAULT_PAIR),
        "disk": sum(model.size for model in files.models) if files is not None else 0,
        "download": download_bytes(pair),
        "size": pair_bytes(pair),
        "fit": proposal.word,
        "reason": proposal.reason,
        "expected_tokens_per_second": round(proposal.speed, 1) if proposal.speed is not None else None,
        "drafting": proposal.drafting or "",
    }


def _table(rows: list[dict[str, Any]], sizes: list[str]) -> list[str]:
    marks = (f"{' *'[row['default']]}{' +'[row['here']]}" for row in rows)
    cells = [
        (f"{mark} {row['name']}", f"{size:>{_SIZE_COLUMNS}}", row["fit"], printable(row["title"]))
        for mark, row, size in zip(marks, rows, sizes, strict=True)
    ]
    columns = columns_of(sys.stdout)
    if columns is not None:
        # Users copy names, so long names shorten the titles.
        room = columns - max(map(width, text_table([each[:3] for each in cells], left=3))) - 2
        cells = [(*each, fit(in_brief(title, room), room) if room > 0 else "") for *each, title in cells]
    return text_table(cells, left=4)


def show_pairs(pair: str, *, as_json: bool = False) -> int:
    """Print one pair."""
    status.show(LOOKING)
    named = named_pair(pair)
    known, files = named.pair, named.files
    _, capacity = measured_capacity(context_of())
    sized = with_files(known, registry().read().usable(known))
    proposal, download = weigh(sized, capacity), download_bytes(sized)
    facts: dict[str, Any] = {
        "name": known.name,
        "title": known.title,
        "target": str(known.target),
        "draft": str(known.draft) if known.draft is not None else None,
        "family": known.family,
        "good_at": known.good_at,
        "license": known.license,
        "context": known.context,
        "tested_with": known.tested_with,
        "published": [str(speed) for speed in known.published],
        "fit": proposal.summary or "",
        "drafting": proposal.drafting or "",
        "download": gigabytes(download) if download else "",
        "files": [str(model.path) for model in files.models] if files is not None else [],
        "on_disk": gigabytes(sum(m.size for m in files.models)) if files is not None and files.is_here else "",
    }
    status.clear()
    lines = [
        f"{key.replace('_', ' '):{_LABEL_COLUMNS}}{printable(str(line))}"
        for key, value in facts.items()
        for line in filter(None, value if isinstance(value, list) else [value])
    ]
    # Scripts may read the earlier spelling of the license.
    print_result(facts | {"licence": known.license}, lines, as_json=as_json, hang=_LABEL_COLUMNS)
    for notice in left_out() if not as_json else ():
        status.say(notice)
    return 0


def default_pairs(pair: str) -> int:
    """Make a pair the default."""
    if pair not in registry().read().pairs:
        name = named_pair(pair).pair.name
        raise UsageError(f"{name} is not set up yet.", f"Set it up: tandem setup {quoted(name)}")
    registry().set_default(pair)
    status.say(f"{pair} is the default pair now.")
    return 0
