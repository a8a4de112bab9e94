"""Automatic drafting against the best fixed length on texts and machines shaped like published tables."""

from __future__ import annotations

import pytest

from tests.bench.published import TABLES, Table, best_length, results


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_automatic_drafting_is_as_fast_as_the_best_length_of_each_text(table: Table) -> None:
    found = results(table)

    for kind, speeds in table.speeds.items():
        row = found[kind]
        assert row["auto"] >= row[best_length(row)], kind
        for n, speed in speeds.items():
            # Two texts share one machine, so its costs are means.
            assert row[str(n)] == pytest.approx(speed, rel=0.01 if len(table.speeds) == 1 else 0.05)
