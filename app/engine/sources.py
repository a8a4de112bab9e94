"""The kinds of drafts: a table with their words and properties."""

from __future__ import annotations

from enum import StrEnum

RETRIED = "no recent speedup; Tandem retries occasionally"
"""Reason if a drafter is off after its drafts gave no speedup."""


class Source(StrEnum):
    """Source of drafts: a draft model, layers that read the target's hidden rows, or n-grams.

    A new kind is a row here and a class: a `DraftSource`, which is in `NativePair.free_sources` if it needs no model,
    or a `HeadContext` for layers of a model. The value is used in `--json`, in settings and in stored conversations.

    Attributes:
        with_article: Name on the screen with its article.
        brief: Name in a narrow column.
        file_name: Pattern in the name of a file with only these layers, if names show it.
        is_free: Whether a draft takes almost no time, because no model computes it.
        is_block: Whether one computation drafts all tokens.
    """

    label: str
    with_article: str
    brief: str
    file_name: str | None
    is_free: bool
    is_block: bool

    def __new__(
        cls,
        value: str,
        with_article: str = "",
        brief: str = "",
        file_name: str | None = None,
        is_free: bool = False,
        is_block: bool = False,
    ) -> Source:
        self = str.__new__(cls, value)
        self._value_ = value
        self.with_article, self.label = with_article, with_article.partition(" ")[2]
        self.brief, self.file_name = brief, file_name
        self.is_free, self.is_block = is_free, is_block
        return self

    MODEL = "model", "a draft model", "model"
    # Later in a name, "mtp" usually means a whole model with that layer.
    MTP = "mtp", "an MTP layer", "MTP", r"(^|/)mtp[/._-]"
    EAGLE3 = "eagle3", "an EAGLE-3 head", "EAGLE-3", r"(^|[/._-])eagle-?3?([/._-]|$)"
    DFLASH = "dflash", "a DFlash block", "DFlash", r"(^|[/._-])(dflash2?|dspark)([/._-]|$)", False, True
    NGRAM = "ngram", "an n-gram", "n-gram", None, True

    @property
    def failed(self) -> str:
        """Return the reason in an answer in which this source failed."""
        return f"the {self.label} failed"

    def turned_off(self, why: str) -> str:
        """Return the reason on the screen if this source is off while n-gram drafting is on."""
        return f"{self.label} off: {why}"


FREE_SOURCES = tuple(source for source in Source if source.is_free)
IN_TARGET = f"{Source.MTP.label} in the same file"
"""Name of MTP layers in the target's file."""


def drafter_of(sources: str) -> Source:
    """Return the source other than n-grams in a `--json` value such as "mtp+ngram"; by default, the draft model."""
    names = sources.split("+")
    return next((source for source in Source if source in names and not source.is_free), Source.MODEL)
