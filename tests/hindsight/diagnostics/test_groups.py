"""Means of Δ and ω by group, worked out by hand; every axis divides m."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from serl.config import HindsightConfig
from serl.hindsight.diagnostics.groups import AXES, hindsight_diagnostics
from serl.hindsight.diagnostics.lexemes import TokenKind
from serl.hindsight.diagnostics.table import STATUSES, Row, TokenTable
from serl.hindsight.weights import token_weights

NAN = float("nan")
OK, ERROR, EMPTY = (STATUSES.index(status) for status in ("ok", "error", "empty"))
K, I, L, P, O = (TokenKind[name] for name in ("KEYWORD", "IDENTIFIER", "LITERAL", "OPERATOR", "OTHER"))  # noqa: E741

# A success of two turns with an observation (sampled 0) between them, and a failure. Tags are no action.
WON = Row(2.0, sampled_T=[1, 1, 1, 0, 1, 1], acting_T=[0, 1, 1, 0, 1, 1],
          evidence_T=torch.tensor([NAN, 0.1, -0.3, NAN, 0.4, NAN]),
          weight_T=torch.tensor([1.0, 1.05, 0.9, 1.0, 1.1, 1.0]),
          student_T=torch.tensor([-0.05, -0.05, -0.2, NAN, -3.0, -0.01]),
          status_T=[ERROR, ERROR, ERROR, -1, OK, OK], turn_T=[0, 0, 0, -1, 1, 1], kind_T=[O, K, I, O, I, L],
          shown_T=[0, 0, 1, 0, 1, 0])
LOST = Row(-1.0, sampled_T=[1, 1, 1, 1], acting_T=[0, 1, 1, 1],
           evidence_T=torch.tensor([NAN, -0.1, -0.5, 0.2]), weight_T=torch.tensor([1.0, 1.04, 1.1, 0.9]),
           student_T=torch.tensor([-0.5, -0.02, -0.5, -0.09]), status_T=[EMPTY] * 4, turn_T=[0] * 4,
           kind_T=[O, K, L, P], shown_T=[0, 0, 1, 0])
# No advantage, so no credit to share out: it counts for nothing, although the teacher scored it.
EVEN = replace(WON, advantage=0.0)


def measured(*rows: Row, **options) -> dict[str, float]:
    return hindsight_diagnostics(TokenTable.of(rows), HindsightConfig(**options))


def test_means_over_all_tokens_of_the_mask():
    metrics = measured(WON, LOST, EVEN)
    # Δ: 0.1 −0.3 0.4 −0.1 −0.5 0.2, mean −0.2/6; ω: 1.05 0.9 1.1 1.04 1.1 0.9.
    assert metrics["hindsight/gap_mean"] == pytest.approx(-0.2 / 6)
    assert metrics["hindsight/gap_abs_mean"] == pytest.approx(1.6 / 6)
    mean_square = (0.01 + 0.09 + 0.16 + 0.01 + 0.25 + 0.04) / 6
    assert metrics["hindsight/gap_std"] == pytest.approx((mean_square - (0.2 / 6) ** 2) ** 0.5)
    assert metrics["hindsight/weight_mean"] == pytest.approx(6.09 / 6)
    assert metrics["hindsight/coverage"] == pytest.approx(6 / 9)  # of 5 + 4 sampled tokens
    assert metrics["hindsight/coverage_action"] == pytest.approx(6 / 7)  # of 4 + 3 in actions
    # Σ|Â|: 2·(1 + 1.05 + 0.9 + 1.1 + 1) of 2·5, and 1 + 1.04 + 1.1 + 0.9 of 4.
    assert metrics["hindsight/abs_adv_gain_pos"] == pytest.approx(0.05 / 5)
    assert metrics["hindsight/abs_adv_gain_neg"] == pytest.approx(0.04 / 4)


# group: Δ and ω of its tokens with A > 0, and of those with A < 0
BY_HAND = {
    "sign_pos": ([(0.1, 1.05), (-0.3, 0.9), (0.4, 1.1)], []),
    "sign_neg": ([], [(-0.1, 1.04), (-0.5, 1.1), (0.2, 0.9)]),
    "status_error": ([(0.1, 1.05), (-0.3, 0.9)], []),
    "status_ok": ([(0.4, 1.1)], []),
    "status_empty": ([], [(-0.1, 1.04), (-0.5, 1.1), (0.2, 0.9)]),
    "turn_1": ([(0.1, 1.05), (-0.3, 0.9)], [(-0.1, 1.04), (-0.5, 1.1), (0.2, 0.9)]),
    "turn_2": ([(0.4, 1.1)], []),
    "kind_keyword": ([(0.1, 1.05)], [(-0.1, 1.04)]),
    "kind_identifier": ([(-0.3, 0.9), (0.4, 1.1)], []),
    "kind_literal": ([], [(-0.5, 1.1)]),
    "kind_operator": ([], [(0.2, 0.9)]),
    "shown_yes": ([(-0.3, 0.9), (0.4, 1.1)], [(-0.5, 1.1)]),
    "shown_no": ([(0.1, 1.05)], [(-0.1, 1.04), (0.2, 0.9)]),
    "doubt_yes": ([(-0.3, 0.9), (0.4, 1.1)], [(-0.5, 1.1)]),
    "doubt_no": ([(0.1, 1.05)], [(-0.1, 1.04), (0.2, 0.9)]),
}


def test_means_of_every_group_and_no_key_for_what_no_token_is_in():
    expected = {}
    for group, (won, lost) in BY_HAND.items():
        expected[f"coverage/{group}"] = len(won + lost) / 9
        parts = {"": won + lost} if group.startswith("sign") else {"": won + lost, "_pos": won, "_neg": lost}
        for suffix, tokens in parts.items():
            if tokens:
                expected[f"gap/{group}{suffix}"] = sum(gap for gap, _ in tokens) / len(tokens)
                expected[f"weight/{group}{suffix}"] = sum(weight for _, weight in tokens) / len(tokens)
    metrics = measured(LOST, EVEN, WON)
    assert {key: value for key, value in metrics.items() if not key.startswith("hindsight/")} == pytest.approx(expected)


# x = sign(A)·Δ: 0.1 −0.3 0.4 | 0.1 0.5 −0.2. Default bounds of clip: ln 0.8 = −0.223 and ln 1.2 = 0.182.
@pytest.mark.parametrize(("options", "low", "high"), [
    ({}, (1, 0), (1, 1)),
    ({"eps_high": 0.6}, (1, 0), (0, 1)),  # ln 1.6 = 0.470
    ({"eps_low": 0.5}, (0, 0), (1, 1)),  # ln 0.5 = −0.693
    ({"map": "logsym"}, (1, 1), (1, 1)),  # both bounds at 0.182
    ({"map": "tanh"}, (0, 0), (1, 1)),  # 95% of ±0.2 at ±0.366
    ({"sign_scope": "negative"}, (None, 0), (None, 1)),
    ({"normalize": "center"}, (1, 1), (1, 1)),  # Δ less 0.0667: 0.033 −0.367 0.333; less −0.1333: 0.033 −0.367 0.333
    ({"eps_high": 0.0}, (1, 0), (2, 2)),
])
def test_bounds_bind_where_more_evidence_would_change_nothing(options, low, high):
    metrics = measured(WON, LOST, **options)
    for side, counts in (("low", low), ("high", high)):
        for name, count in zip(("pos", "neg"), counts):
            found = metrics.get(f"hindsight/clip_{side}_{name}")
            assert found == (None if count is None else pytest.approx(count / 3))
        known = [count for count in counts if count is not None]
        assert metrics[f"hindsight/clip_{side}"] == pytest.approx(sum(known) / 3 / len(known))


@pytest.mark.parametrize("name", ["clip", "logsym", "tanh"])
@given(st.lists(st.floats(-1, 1), min_size=1, max_size=10))
@settings(max_examples=30)
def test_weights_at_a_bound_are_those_that_the_fractions_count(name, gaps):
    options = HindsightConfig(map=name, eps_low=0.3)
    size, gap_T = len(gaps), torch.tensor(gaps)
    weight_T = token_weights(torch.ones(size), gap_T, torch.ones(size, dtype=torch.bool), 1.0, options)
    row = Row(1.0, [1] * size, [1] * size, gap_T, weight_T, -torch.ones(size), [OK] * size, [0] * size, [K] * size,
              [0] * size)
    metrics = hindsight_diagnostics(TokenTable.of([row]), options)
    lowest, highest = {"clip": (0.7, 1.2), "logsym": (1 / 1.2, 1.2), "tanh": (1 - 0.95 * 0.3, 1 + 0.95 * 0.2)}[name]
    at_low, at_high = (weight_T <= lowest + 1e-6), (weight_T >= highest - 1e-6)
    assert metrics["hindsight/clip_low"] == pytest.approx(at_low.double().mean().item(), abs=1e-6)
    assert metrics["hindsight/clip_high"] == pytest.approx(at_high.double().mean().item(), abs=1e-6)


def test_a_step_without_hindsight_has_no_means_of_nothing():
    plain = [replace(row, evidence_T=torch.full_like(row.evidence_T, NAN), weight_T=torch.ones(len(row.weight_T)))
             for row in (WON, LOST)]
    assert measured(*plain) == {"hindsight/abs_adv_gain_pos": 0, "hindsight/abs_adv_gain_neg": 0,
                                "hindsight/coverage": 0, "hindsight/coverage_action": 0}
    assert measured(EVEN) == measured() == {}
    assert not any("neg" in key for key in measured(WON))


@st.composite
def rows(draw) -> Row:
    size = draw(st.integers(1, 8))

    def each(values) -> list:
        return draw(st.lists(values, min_size=size, max_size=size))

    numbers = st.floats(-2, 2)
    return Row(draw(st.sampled_from([-1.5, -0.5, 0.0, 1.0])), each(st.integers(0, 1)), each(st.integers(0, 1)),
               torch.tensor(each(numbers | st.just(NAN))), torch.tensor(each(st.floats(0.5, 1.5))),
               torch.tensor(each(st.floats(-3, 0) | st.just(NAN))), each(st.integers(0, len(STATUSES) - 1)),
               each(st.integers(0, 9)), each(st.sampled_from(TokenKind)), each(st.integers(0, 1)))


@given(st.lists(rows(), max_size=5), st.permutations(range(5)))
@settings(max_examples=60)
def test_groups_add_up_and_the_order_of_rows_and_padding_change_nothing(batch, order):
    metrics = measured(*batch)
    for axis, groups in AXES.items():
        parts = [[metrics[f"{what}/{axis}_{group}"] for what in ("coverage", "gap", "weight")]
                 for group in groups if f"coverage/{axis}_{group}" in metrics]
        covered = metrics.get("hindsight/coverage", 0.0)
        assert sum(share for share, *_ in parts) == pytest.approx(covered)
        for place, name in ((1, "gap_mean"), (2, "weight_mean")):
            total = metrics.get(f"hindsight/{name}", 0.0) * covered
            assert sum(part[0] * part[place] for part in parts) == pytest.approx(total, abs=1e-6)
    assert all(value == value for value in metrics.values())
    shuffled = [batch[place] for place in order if place < len(batch)]
    wide = Row(0.0, *([each] * 20 for each in (1, 1)), *(torch.zeros(20) for _ in range(3)), *([0] * 20,) * 4)
    assert measured(*shuffled, wide) == pytest.approx(metrics, abs=1e-9)
