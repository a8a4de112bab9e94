"""Rows laid out for the requested width."""

from app.ui.widgets.row_layout import RowLayout


def wrapped(texts: list[str]) -> RowLayout[str]:
    """Lay out texts that are broken at a width."""

    def lines(number: int, width: int) -> list[str]:
        return [texts[number][at : at + width] for at in range(0, len(texts[number]), width)]

    return RowLayout(lambda: len(texts), lambda number, width: len(lines(number, width)), lines, lambda width: "")


def test_another_width_lays_all_rows_out_again() -> None:
    layout = wrapped(["abcdef", "ghi"])
    assert [layout.line(y, 3) for y in range(4)] == ["abc", "def", "ghi", None]
    assert [layout.line(y, 6) for y in range(3)] == ["abcdef", "ghi", None]
    assert layout.row_at(1, 3) == 0
    assert layout.row_at(1, 6) == 1


def test_a_row_that_draws_fewer_lines_than_it_was_measured_with_ends_blank() -> None:
    layout = RowLayout(lambda: 2, lambda number, width: 2, lambda number, width: [f"row {number}"], lambda width: "")
    assert [layout.line(y, 9) for y in range(5)] == ["row 0", "", "row 1", "", None]


def test_only_rows_from_the_changed_one_on_are_laid_out_again() -> None:
    texts = ["abc", "def"]
    layout = wrapped(texts)
    before = layout.n_lines(2)
    texts[1:] = ["defgh", "i"]
    layout.forget(1)
    assert before == 4
    assert [layout.line(y, 2) for y in range(7)] == ["ab", "c", "de", "fg", "h", "i", None]


def test_every_row_is_at_the_top_without_a_width() -> None:
    assert wrapped(["abc", "def"]).top(1, 0) == 0


def test_a_width_of_zero_has_no_lines() -> None:
    assert wrapped(["abc"]).line(0, 0) is None
