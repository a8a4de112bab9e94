"""Compare answers with and without drafts.

race         sides answer one prompt in turn
job          one comparison as a job of the worker (f2, `tandem compare`)
measure      speeds, ranges, and when a difference is more than noise
difference   the first different token of two answers, and why
drafts       several draft models of one target
benchmark    prompts by kind of text, and their races
report       a comparison as text, JSON and Markdown; `card` a benchmark
measured_pairs   earlier results on this machine
"""

from app.engine.drafting_report import NO_DRAFT

PLAIN, AUTOMATIC = "plain", "automatic"
"""Names of the baseline and of automatic drafting in files and JSON."""


def shown_name(side: str) -> str:
    """Return the displayed name of a side."""
    return NO_DRAFT if side == PLAIN else side
