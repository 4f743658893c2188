import pytest

from serl.view.curves import curves_section
from serl.view.lines import Series, line_chart, smooth, tick_text, ticks
from serl.view.rundata import series
from serl.view.timing import duration, phase_seconds, timing_section


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 1, [0, 0.25, 0.5, 0.75, 1]), (-0.3, 0.3, [-0.4, -0.2, 0, 0.2, 0.4]), (1, 100, [0, 25, 50, 75, 100])],
)
def test_ticks_are_round_and_cover_the_values(low, high, expected):
    assert ticks(low, high) == expected


@pytest.mark.parametrize("value", [0.0, 1.0, -3.7, 1e-9, 1e12])
def test_a_flat_line_has_ticks_on_both_sides(value):
    marks = ticks(value, value)
    assert marks[0] < value < marks[-1]


def test_ticks_show_as_many_digits_as_tell_them_apart():
    assert [tick_text(value, 0.005) for value in (0.995, 1.0)] == ["0.995", "1.000"]
    assert tick_text(2.5e-7, 2.5e-7) == "2.5e-07"


def test_smoothing_keeps_a_constant_and_averages_a_window():
    assert smooth([(step, 2.0) for step in range(5)], 3) == [(step, 2.0) for step in range(5)]
    assert smooth([(0, 0.0), (1, 3.0), (2, 6.0), (3, 0.0)], 3)[1:3] == [(1, 3.0), (2, 3.0)]


def test_a_series_skips_steps_without_a_finite_value():
    rows = [{"step": 1, "x": 1}, {"step": 2}, {"step": 3, "x": float("nan")}, {"step": 4, "x": None}]
    assert series(rows, "x") == [(1.0, 1.0)]


def test_points_land_inside_the_picture_with_the_largest_value_on_top():
    svg = line_chart("t", [Series("a", [(1, 0.0), (2, 1.0)])])
    assert 'points="52.0,196.0 408.0,12.0"' in svg
    assert 'aria-label="t over training steps: a from 0 to 1"' in svg


def test_a_chart_is_drawn_only_for_metrics_that_exist():
    markup = curves_section([{"step": 1, "reward/mean": 0.5}])
    assert markup.count("<figure") == 1
    assert "Gradient norm" not in markup
    assert "No training step" in curves_section([])


def test_the_terms_of_a_reward_are_drawn_where_there_are_several():
    rows = [{"step": step, "reward/mean": 0.5, "reward/std": 0.1, "reward/format": 1.0} for step in (1, 2)]
    assert "Terms of the reward" not in curves_section(rows)
    markup = curves_section([row | {"reward/length": 0.25} for row in rows])
    assert markup.count("<figure") == 2 and "before weighing over training steps: format from 1 to 1; length" in markup


def test_time_that_no_phase_claims_is_other():
    rows = [{"step": step, "time/rollout": 2.0, "time/update": 1.0, "time/step": 3.5} for step in (1, 2)]
    assert phase_seconds(rows) == {"rollout": 4.0, "update": 2.0, "other": 1.0}


def test_phases_without_a_step_time_stand_alone():
    assert phase_seconds([{"step": 1, "time/sql": 0.5}]) == {"sql": 0.5}
    assert "No step recorded" in timing_section([{"step": 1}])


def test_durations_are_readable():
    assert [duration(8.44), duration(200), duration(7500)] == ["8.4 s", "3 min 20 s", "2 h 05 min"]
