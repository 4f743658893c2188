"""λ over a run, at 0, K − 1, K and beyond."""

import pytest

from serl.config import HindsightConfig
from serl.hindsight.schedule import lambda_at


def at(updates, total=100, **options):
    return [lambda_at(update, HindsightConfig(lambda0=0.5, **options), total) for update in updates]


def test_linear_decays_to_zero_and_stays_there():
    assert at((0, 25, 49, 50, 51, 1000), schedule="linear", decay_updates=50) == pytest.approx(
        [0.5, 0.25, 0.01, 0.0, 0.0, 0.0])


def test_constant_stays():
    assert at((0, 7, 1000), schedule="constant") == [0.5] * 3


def test_fraction_counts_the_runs_updates():
    assert at((0, 10, 19, 20, 21), total=40, schedule="fraction", decay_fraction=0.5) == pytest.approx(
        [0.5, 0.25, 0.025, 0.0, 0.0])


def test_warm_up_rises_from_zero_and_the_decay_begins_at_its_end():
    assert at((0, 2, 3, 4, 5, 1000), schedule="constant", warmup_updates=4) == pytest.approx(
        [0, 0.25, 0.375, 0.5, 0.5, 0.5])
    assert at((0, 4, 9, 13, 14, 15), schedule="linear", decay_updates=10, warmup_updates=4) == pytest.approx(
        [0, 0.5, 0.25, 0.05, 0, 0])
    # A fifth of 100 updates is the run's share, warm-up included.
    assert at((0, 4, 12, 19, 20), schedule="fraction", decay_fraction=0.2, warmup_updates=4) == pytest.approx(
        [0, 0.5, 0.25, 0.5 / 16, 0])


def test_an_unknown_schedule_is_refused():
    with pytest.raises(ValueError, match="no such schedule"):
        at((0,), schedule="cosine")
