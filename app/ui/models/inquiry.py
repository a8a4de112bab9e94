"""Questions about two models that no list has, and what is found out before anything is downloaded."""

from __future__ import annotations

from dataclasses import dataclass

from app.core.errors import AppError
from app.models.pairing.propose import Fit, in_a_word
from app.models.pairing.way_out import WayOut


@dataclass(frozen=True, slots=True)
class ModelReport:
    """A model as its header describes it.

    Attributes:
        role: "target" or "draft".
        name: Its own name.
        quant: Quantisation, or "".
        size: Bytes.
        here: Whether it is on this machine already.
    """

    role: str
    name: str
    quant: str
    size: int
    here: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """Two models that somebody asked about, before anything is downloaded.

    Attributes:
        models: Target and, if there is one, draft.
        problems: Why they cannot ride together; empty if they can.
        way_out: What helps against that.
        warnings: What the user should know besides.
        fit: Whether both fit into memory; None while the machine is being looked at.
        reason: Why.
        slow: Whether they would answer more slowly than people read.
        licence: Identifier, or "".
        gated: Whether the hub wants terms accepted, as it was for this account.
        download_bytes: What has still to come.
        free_bytes: Of the disk it comes to.
    """

    models: tuple[ModelReport, ...]
    problems: tuple[str, ...] = ()
    way_out: WayOut | None = None
    warnings: tuple[str, ...] = ()
    fit: Fit | None = None
    reason: str = ""
    slow: bool = False
    licence: str = ""
    gated: bool = False
    download_bytes: int = 0
    free_bytes: int = 0

    @property
    def word(self) -> str:
        """How it stands with the machine, in a word; "" while that is being looked at."""
        return in_a_word(self.fit, slow=self.slow)


@dataclass(frozen=True, slots=True)
class Inquiry:
    """A question about two models: running until it has a report or an error.

    Attributes:
        report: What was found out.
        error: Why nothing was.
        looking: How the headers come, as a clause; "" before and behind that.
        error_role: Role of the model that the error is about, "target" or "draft"; "" if neither.
    """

    report: Report | None = None
    error: AppError | None = None
    looking: str = ""
    error_role: str = ""

    @property
    def running(self) -> bool:
        return self.report is None and self.error is None

    @property
    def role_to_correct(self) -> str:
        """Role of the model to change, "target" or "draft"; "" if neither."""
        if self.report is None or self.report.way_out is None:
            return self.error_role
        return "target" if self.report.way_out is WayOut.OTHER_TARGET else "draft"
