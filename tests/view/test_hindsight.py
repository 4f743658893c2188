"""The report's section on hindsight: its numbers are means over the first and the last steps."""

import pytest

from serl.view.hindsight import hindsight_section


def steps(count: int) -> list[dict]:
    """Δ of step s is s/100 for A > 0 and −s/100 for A < 0; every other step has an error that A < 0 met."""
    rows = []
    for step in range(count):
        row = {"step": step, "hindsight/lambda": 0.5, "hindsight/coverage": 0.9, "gap/sign_pos": step / 100,
               "gap/sign_neg": -step / 100, "weight/sign_pos": 1 + step / 100, "weight/sign_neg": 1 - step / 100,
               "coverage/status_ok": 0.9}
        if step % 2:
            row |= {"coverage/status_ok": 0.7, "coverage/status_error": 0.2, "gap/status_error": -0.3,
                    "gap/status_error_neg": -0.3, "weight/status_error": 1.1, "weight/status_error_neg": 1.1}
        rows.append(row)
    return rows


def cells(markup: str, name: str) -> list[str]:
    """The cells of the table's row `name`."""
    line = markup.split(f'<th scope="row">{name}</th>')[1].split("</tr>")[0]
    return [cell.removesuffix("</td>") for cell in line.split("<td>")[1:]]


def test_a_group_has_its_share_and_its_means_early_and_late():
    markup = hindsight_section(steps(24))
    # The first ten steps 0..9 and the last ten 14..23: means 4.5 and 18.5.
    assert cells(markup, "all") == ["90.0%", "+0.045", "+0.185", "−0.045", "−0.185", "1.0450", "1.1850", "0.9550",
                                    "0.8150"]
    # Half the steps have no error: they count for its share, and not for its means.
    assert cells(markup, "error") == ["10.0%", "–", "–", "−0.300", "−0.300", "–", "–", "1.1000", "1.1000"]
    assert cells(markup, "ok")[0] == "80.0%"
    assert "First and last 10 of the 24 steps with hindsight. λ was 0.5 at the first and 0.5 at the last." in markup


def test_a_short_run_is_cut_in_half_and_steps_without_hindsight_do_not_count():
    off = [{"step": step, "hindsight/coverage": 0.0} for step in range(4, 50)]
    assert cells(hindsight_section(steps(4) + off), "all")[1:3] == ["+0.005", "+0.025"]
    assert cells(hindsight_section(steps(1)), "all")[1:3] == ["+0.000", "+0.000"]
    assert "No step measured" in hindsight_section(off)


@pytest.mark.parametrize(("metrics", "titles"), [
    ({}, []),
    ({"gap/kind_literal": 0.1, "coverage/kind_literal": 0.2}, ["Mean Δ by kind of token (nats)"]),
    ({"control/real_sign_auc": 0.6, "control/flipped_sign_auc": 0.5}, ["AUC of Δ for the sign of A"]),
    ({"noise/gap_abs_mean": 0.1}, ["Mean |Δ| beside its controls (nats)"]),
    ({"hindsight/clip_low_pos": 0.1}, ["Tokens at a bound of the map"]),
])
def test_charts_are_drawn_for_what_was_measured(metrics, titles):
    markup = hindsight_section([row | metrics for row in steps(3)])
    assert [part.split("</b>")[0] for part in markup.split("<figcaption><b>")[1:]] == titles


def test_every_control_has_a_line_and_the_real_gap_is_the_first():
    controls = {f"control/{name}_gap_abs_mean": 0.1 for name in ("empty", "shuffled", "real")}
    markup = hindsight_section([row | controls | {"noise/gap_abs_mean": 0.2} for row in steps(3)])
    names = [part.split("</span>")[0] for part in markup.split('"></i>')[1:]]
    assert names == ["real", "empty", "shuffled", "noise floor"]
