"""Learning-rate schedules at their corners, worked out by hand."""

import pytest

from serl.train.engine import constant_with_warmup, cosine_with_warmup, linear_decay


def values(schedule, steps: int) -> list[float]:
    return [round(schedule(step), 6) for step in range(steps)]


def test_constant_with_warmup():
    assert values(constant_with_warmup(0), 3) == [1, 1, 1]
    assert values(constant_with_warmup(3), 5) == [0.25, 0.5, 0.75, 1, 1]


def test_linear_decay_reaches_zero_and_stays_there():
    assert values(linear_decay(4), 6) == [1, 0.75, 0.5, 0.25, 0, 0]
    assert values(linear_decay(4, warmup_steps=1), 5) == [0.5, 0.75, 0.5, 0.25, 0]


def test_cosine_ends_at_its_floor():
    schedule = cosine_with_warmup(10, warmup=0.2, floor=0.1)
    assert values(schedule, 3) == [0.5, 1, 1]
    assert schedule(6) == pytest.approx(0.1 + 0.9 * 0.5)
    assert schedule(10) == schedule(99) == pytest.approx(0.1)
