"""The list of pairs in sections, with details of the chosen pair."""

from __future__ import annotations

from collections.abc import Iterator

from textual.content import Content

from app.core.errors import CacheError, FileChangedError, HubError
from app.core.printable import printable
from app.core.units import gigabytes
from app.hardware.recommend import Fit
from app.models.setup_task import SetupProgress, Stage
from app.ui.key_names import for_pairs, key
from app.ui.models.state import PairCard, PairsState
from app.ui.text import MARK, cell, side_by_side
from app.ui.widgets.choice_list import ChoiceList

_SECTION_TITLES = ("★ Recommended for this machine", "On this machine", "To download", "Try offline (tiny)")
RECOMMENDED, LOCAL, REMOTE, DEMO = _SECTION_TITLES
_CHECKING_TEXT = "Checking what this machine can run …"
_NAME_CELLS, _MIN_NAME_CELLS = 18, 12
"""Widths of a pair's name, and of the target's name when models are shortened."""
_NAME_SHARE = 3
"""Names may take one in this many cells of a window."""
_SIZE_CELLS, _STATUS_CELLS, _FIT_CELLS, _SPEED_CELLS = 8, 11, 8, 15
_MIN_MODELS_CELLS = 8
_WIDE_CELLS = 110
"""Width from which status and fit have a column each, and the expected speed is shown."""
_GAP = "  "
_MARGIN_CELLS = 8
"""Width of the mark, two gaps and the scrollbar."""
_SEPARATOR = "  ·  "


class PairList(ChoiceList[PairCard | None]):
    """A line per pair, with details below the chosen pair. The last row adds a pair."""

    def __init__(self) -> None:
        super().__init__()
        self.state = PairsState()
        self._longest_name = self._longest_models = 0
        self._words: list[str] = []
        self.question: str | None = None
        self._picked: str | None = None
        """Name of the pair that stays chosen, "" for the row that adds a pair; None chooses the first."""

    @property
    def _chosen_name(self) -> str:
        return self.row.name if self.row is not None else ""

    def show(self, state: PairsState) -> None:
        """Show the pairs; those to download only when the machine is known."""
        if self._picked is None:
            self._picked = self._chosen_name or None
        self.state = state
        # Hidden pairs count too, so that no column moves when they appear.
        names = (Content(printable(card.name)).cell_length for card in state.cards)
        self._longest_name = max(names, default=0)
        models = (models_text(card, colored=False, room=0).cell_length for card in state.cards)
        self._longest_models = max(models, default=0)
        self._update()

    def filter(self, text: str) -> None:
        """Show only the pairs that contain every word."""
        self._words = text.lower().split()
        self._picked = self._picked or None
        self._update()
        self._picked = self._chosen_name or None
        self.scroll_to_chosen()

    def ask(self, question: str | None) -> None:
        """Ask a question about the chosen pair; None removes it, and so does choosing another pair."""
        self.question = question
        self.choose_pair(self._chosen_name)

    def choose_pair(self, name: str) -> None:
        self._picked = name
        self._update()

    def choose(self, at: int) -> None:
        card = self.rows[max(0, min(len(self.rows) - 1, at))] if self.rows else None
        self.choose_pair(card.name if card is not None else "")

    def above(self, at: int) -> list[Content]:
        card, before = self.rows[at], self.rows[at - 1] if at else None
        if card is None or (before is not None and _section(before) == _section(card)):
            return []
        return [Content()] * bool(at) + [Content.styled(f" {_section(card)}", "$quiet")]

    def _update(self) -> None:
        """Show the pairs that match the filter; keep the chosen pair, or choose the open or the first pair."""
        cards = [card for card in self.state.cards if card.matches(self._words)]
        rows: list[PairCard | None] = [None]
        if not self.state.machine:
            # The best pair is not known yet, and the first choice stays.
            cards, rows = [card for card in cards if _section(card) in (LOCAL, DEMO)], []
        cards.sort(key=lambda card: _SECTION_TITLES.index(_section(card)))
        names = [*(card.name for card in cards), ""]
        chosen = self._picked
        if chosen not in names:
            chosen = next((card.name for card in cards if card.is_open), names[0])
        if chosen != self._chosen_name:
            self.question = None
        self.show_rows([*cards, *rows], names.index(chosen), _CHECKING_TEXT)

    def line(self, at: int, width: int) -> Content:
        card, chosen = self.rows[at], at == self.index
        mark = f" {MARK} " if chosen else "   "
        if card is None:
            return Content.assemble(mark, ("Add another pair …", "" if chosen else "$quiet"))
        name_width = self._name_width(width)
        name = Content.styled(printable(card.name), "bold" if chosen else "")
        is_wide = width >= _WIDE_CELLS
        more = _FIT_CELLS + _SPEED_CELLS + 2 * len(_GAP) if is_wide else 0
        room = width - len(mark) - name_width - _SIZE_CELLS - _STATUS_CELLS - 3 * len(_GAP) - more - 1
        for_name = self._most_name(width) if name.cell_length > name_width else name_width
        columns: list[Content | str] = [mark, cell(name, for_name)]
        if room >= _MIN_MODELS_CELLS and for_name == name_width:
            # In a wide window the sizes are beside the models, not at the right edge.
            room = min(room, self._longest_models)
            columns += [_GAP, cell(models_text(card, colored=chosen, room=room), room)]
        columns += [_GAP, f"{card.size:>{_SIZE_CELLS}}", _GAP]
        status = status_text(card, self.state.setups.get(card.name))
        if is_wide:
            columns += [cell(Content(status), _STATUS_CELLS), _GAP, cell(Content(card.proposal.word), _FIT_CELLS)]
            columns += [_GAP, Content.styled(printable(card.proposal.pace or ""), "$quiet")]
        else:
            columns.append(status or card.proposal.word)
        line = Content.assemble(*columns)
        return line.stylize("$quiet") if card.proposal.fit is Fit.TOO_BIG and not chosen else line

    def _name_width(self, width: int) -> int:
        return min(self._longest_name, max(_NAME_CELLS, width // _NAME_SHARE))

    def _most_name(self, width: int) -> int:
        """Return the width of a long name: in a narrow window its end matters more than the models."""
        usual = self._name_width(width)
        return usual if width >= _WIDE_CELLS else max(usual, width - _SIZE_CELLS - _STATUS_CELLS - _MARGIN_CELLS)

    def details(self, at: int, width: int) -> Iterator[Content]:
        card = self.rows[at]
        if card is None:
            yield Content.styled("Any two compatible GGUF models, from Hugging Face or from disk.", "$quiet")
            return
        setup = self.state.setups.get(card.name)
        if len(card.name) > self._most_name(self._width):
            yield Content(printable(card.name))
        if card.pair.title != card.name:
            yield Content(printable(card.pair.title))
        if self.question:
            yield Content.styled(printable(self.question), "bold")
        elif not card.set_up and not card.is_open:
            yield from _before_setup(card, setup)
        if setup is not None:
            yield from _setup_result(card, setup)
            if isinstance(setup.error, HubError) and not isinstance(setup.error, CacheError) and not card.here:
                ready = next((one.name for one in self.state.cards if one.needs_no_download), "")
                own = f"{key('pairs.add')} adds local GGUF files."
                yield Content(printable(f"{ready} needs no download; {own}") if ready else own)
        recommendation = None if setup is not None or card.set_up else card.why
        is_in_question = card.proposal.reason and card.proposal.reason in (self.question or "")
        facts = (
            card.proposal.summary if not is_in_question else None,
            f"for {card.pair.good_at}" if card.pair.good_at else None,
            f"license {card.pair.license}" if card.pair.license else None,
        )
        line = side_by_side(map(printable, filter(None, facts)), width, _SEPARATOR)
        published = f"published: {card.pair.published[0]}" if card.pair.published else card.pair.tested_with
        for text in filter(None, (recommendation, card.proposal.drafting, line, published)):
            yield Content.styled(printable(text), "$quiet")


def _section(card: PairCard) -> str:
    if card.pair.is_demo:
        return DEMO
    if card.why and not card.is_open:
        return RECOMMENDED
    return LOCAL if card.needs_no_download else REMOTE


def models_text(card: PairCard, *, colored: bool, room: int) -> Content:
    """Return both models in at most `room` cells; the target's name is shortened first."""
    target, draft = printable(card.target), printable(card.draft)
    rest = Content.assemble((" + ", "$quiet"), (draft, "$draft" if colored else "$quiet")) if draft else Content()
    name, space, quant = target.rpartition(" ")
    for_name = room - rest.cell_length - Content(space + quant).cell_length
    if for_name >= _MIN_NAME_CELLS:
        target = Content(name).truncate(for_name, ellipsis=True).plain + space + quant
    return Content.styled(target, "$target" if colored else "$quiet") + rest


def status_text(card: PairCard, setup: SetupProgress | None) -> str:
    """Return the state of a pair on this machine, or of its setup, in a word or two."""
    if setup is not None and setup.stage is not Stage.READY and not card.set_up:
        if setup.stage is Stage.DOWNLOADING:
            return f"{setup.share:.0%}" if setup.files else "checking"
        if setup.stage is Stage.STOPPED and setup.files:
            return f"stopped {setup.share:.0%}"
        return str(setup.stage.value)
    if card.is_open:
        return "loading" if card.is_loading else "loaded"
    if card.is_default:
        return "default"
    return "ready" if card.set_up else "downloaded" if card.here else ""


def question_before_setup(card: PairCard, setup: SetupProgress | None) -> str | None:
    """Return the question before a pair is set up; None if there is none, or if it was asked."""
    if card.here or setup is not None:
        return None
    if card.proposal.fit is Fit.TOO_BIG:
        does = f"download {gigabytes(card.download_bytes)}" if card.download_bytes else "set it up"
        return f"Does not fit: {card.proposal.reason}. {_enter()} again to {does} anyway"
    return _download_question(card.download_bytes) if card.download_bytes else None


def _before_setup(card: PairCard, setup: SetupProgress | None) -> Iterator[Content]:
    if setup is not None and setup.stage is Stage.CHECKED and setup.prepared is not None:
        yield Content.styled(_download_question(setup.prepared.download_bytes), "bold")
        yield Content(f"{gigabytes(setup.prepared.free_bytes)} free on disk.")
    elif setup is not None:
        return
    elif card.here:
        yield Content(f"Press {_enter()} to open it; nothing is downloaded.")
    elif card.download_bytes:
        yield Content(f"Press {_enter()} to download {gigabytes(card.download_bytes)}.")
    elif card.download_bytes is None:
        yield Content(f"Press {_enter()} to look up its size on Hugging Face.")


def _setup_result(card: PairCard, setup: SetupProgress) -> Iterator[Content]:
    if setup.error is not None:
        yield Content(for_pairs(setup.error.message))
        if isinstance(setup.error, FileChangedError):
            yield Content.styled(f"Press {_enter()} to use the current file, without a checksum.", "bold")
        elif setup.error.hint:
            yield Content.styled(for_pairs(setup.error.hint), "$quiet")
    if setup.header_progress:
        yield Content.styled(printable(setup.header_progress), "$quiet")
    if setup.stage is Stage.STOPPED:
        yield Content(f"Stopped. Press {_enter()} to resume.")
    if setup.stage is Stage.READY and not card.is_open:
        yield Content(f"Ready. Press {_enter()} to open it.")
    if setup.prepared is not None:
        if layers := setup.prepared.check.draft_name:
            yield Content.styled(f"draft: {layers}", "$draft")
        yield from (Content.styled(printable(warning), "$quiet") for warning in setup.prepared.check.warnings)


def _download_question(n_bytes: int) -> str:
    escape = key("pairs.leave").capitalize()
    return f"Download {gigabytes(n_bytes)}? {_enter()} yes, {escape} no"


def _enter() -> str:
    return key("pairs.choose").capitalize()
