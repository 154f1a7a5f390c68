"""Warm-up and cosine decay."""

import math

import pytest

from minigrad_nn.schedule import constant, warmup_cosine


def test_warmup_rises_linearly_and_its_first_step_already_learns():
    rate = warmup_cosine(1.0, warmup=4, total=10)
    assert [rate(step) for step in range(4)] == [0.25, 0.5, 0.75, 1.0]


def test_cosine_falls_to_the_floor_at_the_last_step_and_stays():
    rate = warmup_cosine(3e-3, warmup=10, total=110, floor=3e-4)
    assert rate(9) == 3e-3
    assert rate(59) == pytest.approx((3e-3 + 3e-4) / 2)             # half way down
    assert rate(34) == pytest.approx(3e-4 + 2.7e-3 * (1 + math.sqrt(0.5)) / 2)
    assert rate(109) == pytest.approx(3e-4)
    assert rate(110) == rate(10**6) == 3e-4
    falling = [rate(step) for step in range(9, 111)]
    assert falling == sorted(falling, reverse=True)


def test_without_warmup_and_with_nothing_else():
    assert warmup_cosine(1.0, warmup=0, total=1)(0) == 0.0
    assert warmup_cosine(1.0, warmup=3, total=3)(2) == 1.0
    assert constant(0.1)(10**9) == 0.1


def test_a_rate_is_a_python_float():
    """A numpy float64 would turn float32 parameters into float64 ones."""
    rate = warmup_cosine(1e-3, warmup=2, total=5)
    assert {type(rate(step)) for step in range(7)} == {float}


@pytest.mark.parametrize(("warmup", "total", "floor", "says"), [
    (11, 10, 0.0, "0 <= warmup <= total"),
    (-1, 10, 0.0, "0 <= warmup <= total"),
    (0, 0, 0.0, "total >= 1"),
    (0, 10, 2.0, "0 <= floor <= peak"),
    (0, 10, -1.0, "0 <= floor <= peak"),
    (0, 10, float("inf"), "0 <= floor <= peak"),
])
def test_impossible_schedules_are_refused(warmup, total, floor, says):
    with pytest.raises(ValueError, match=says):
        warmup_cosine(1.0, warmup, total, floor)
