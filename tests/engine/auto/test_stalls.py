"""What a busy machine adds to rounds is not put down to drafts, unless it goes on."""

from __future__ import annotations

from app.engine.auto.answer_speed import Stalls


class TestStalls:
    def test_a_usual_round_counts_as_measured(self) -> None:
        stalls = Stalls()

        assert stalls.split(150.0, 0.0, 100.0, drafted=True).counted_ns == 150.0
        assert not stalls.waiting

    def test_one_that_was_held_up_counts_for_twice_what_was_expected_and_a_plain_step_follows(self) -> None:
        stalls = Stalls()

        assert stalls.split(2000.0, 0.0, 100.0, drafted=True).counted_ns == 200.0
        assert stalls.waiting
        stalls.split(90.0, 0.0, 100.0, drafted=False)
        assert not stalls.waiting

    def test_plain_steps_go_on_for_as_long_as_they_are_held_up_themselves(self) -> None:
        stalls = Stalls()
        stalls.split(2000.0, 0.0, 100.0, drafted=True)

        assert stalls.split(900.0, 0.0, 100.0, drafted=False).counted_ns == 200.0
        assert stalls.waiting

    def test_the_next_draft_tells_whether_it_was_drafting(self) -> None:
        guilty, innocent = Stalls(), Stalls()
        for stalls in (guilty, innocent):
            stalls.split(2000.0, 0.0, 100.0, drafted=True)
            stalls.split(100.0, 0.0, 100.0, drafted=False)

        assert guilty.split(1900.0, 0.0, 100.0, drafted=True).counted_ns == 1900.0 + 1800.0
        assert innocent.split(110.0, 0.0, 100.0, drafted=True).counted_ns == 110.0
        assert innocent.split(2000.0, 0.0, 100.0, drafted=True).counted_ns == 200.0

    def test_every_nanosecond_is_in_one_part_of_one_round(self) -> None:
        stalls = Stalls()
        rounds = [(2000.0, True), (100.0, False), (1900.0, True), (900.0, False), (5000.0, True), (130.0, True)]
        took = [stalls.split(total, 30.0, 100.0, drafted=drafted) for total, drafted in rounds]

        assert {one.reading_ns for one in took} == {30.0}
        assert sum(one.counted_ns + one.stalled_ns + one.reading_ns for one in took) == sum(
            total for total, _ in rounds
        )
