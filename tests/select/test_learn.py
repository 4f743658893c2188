"""Logistic regression: the minimum, by an independent optimizer and by hand; folds; calibration; ranking."""

import json
import math

import numpy as np
import pytest
from scipy.optimize import minimize

from serl.errors import InputError
from serl.select.features import FEATURES
from serl.select.learn import Rollouts, auc, calibration, fit, held_out, learn
from serl.select.reward import LearntReward
from tests.select.made import candidate, failed


def test_without_features_that_vary_it_is_the_log_odds_of_the_share():
    intercept, weights_F = fit(np.ones((4, 2)), np.array([1.0, 1.0, 1.0, 0.0]))
    assert intercept == pytest.approx(math.log(3)) and weights_F.tolist() == [0, 0]


def test_it_finds_the_minimum_that_another_optimizer_finds():
    generator = np.random.default_rng(5)
    x_NF = generator.normal(size=(300, 4)) * [1, 10, 0.1, 1] + [0, 5, 0, 0]
    y_N = (generator.random(300) < 1 / (1 + np.exp(-(x_NF @ [1, 0.2, -3, 0] - 1)))).astype(float)
    z_NF = (x_NF - x_NF.mean(0)) / x_NF.std(0)

    def loss(parameters):
        score_N = parameters[0] + z_NF @ parameters[1:]
        return (np.logaddexp(0, score_N) - y_N * score_N).sum() + 2.5 / 2 * (parameters[1:] ** 2).sum()

    found = minimize(loss, np.zeros(5), tol=1e-12).x
    intercept, weights_F = fit(x_NF, y_N, penalty=2.5)
    assert weights_F * x_NF.std(0) == pytest.approx(found[1:], abs=1e-4)
    assert intercept + weights_F @ x_NF.mean(0) == pytest.approx(found[0], abs=1e-4)


def test_separable_data_stay_finite_and_data_of_one_kind_are_refused():
    intercept, weights_F = fit(np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([0.0, 0.0, 1.0, 1.0]))
    assert np.isfinite(weights_F).all() and weights_F[0] > 0 and math.isfinite(intercept)
    with pytest.raises(ValueError, match="nothing to tell apart"):
        fit(np.array([[0.0], [1.0]]), np.array([1.0, 1.0]))


def groups_where_agreement_is_right(count=40):
    """Three of four candidates agree and are right; the fourth is another result; one in ten groups is the opposite."""
    found = []
    for number in range(count):
        pool = (*(candidate((number,), sql_logprob=-1.0) for _ in range(3)), candidate((number, 1), sql_logprob=-1.0),
                failed())
        right = (False, False, False, True, False) if number % 10 == 0 else (True, True, True, False, False)
        found.append(Rollouts(f"q{number}", pool, right))
    return found


def test_it_learns_to_trust_agreement_and_never_chooses_a_failure():
    reward = learn(groups_where_agreement_is_right())
    assert reward.weights["share"] > 0
    alone, agreed = candidate((7,)), candidate((8,))
    assert reward.pick([failed(), alone, agreed, agreed]) == 2
    assert reward.pick([failed(), failed()]) is None
    chances = reward.chances([failed(), alone, agreed, agreed])
    assert chances[0] is None and 0 < chances[1] < chances[2] == chances[3] < 1


def test_a_question_is_judged_by_weights_that_have_not_seen_it():
    groups = groups_where_agreement_is_right()
    chances = held_out(groups)
    *others, last = groups
    flipped = [*others, Rollouts(last.question_id, last.candidates, (False, False, False, True, False))]
    assert held_out(flipped)[-1] == chances[-1]
    assert learn(flipped).chances(last.candidates) != learn(groups).chances(last.candidates)


def test_calibration_by_hand():
    a, b = candidate((1,)), candidate((2,))
    groups = [Rollouts("p", (a, b, failed()), (True, False, False)), Rollouts("q", (a, b), (True, True))]
    found = calibration(groups, [[0.95, 0.15, None], [0.85, 0.15]])
    assert [(each.low, each.high, each.right.n, each.right.value) for each in found.bins] == [
        (0.1, 0.2, 2, 0.5), (0.8, 0.9, 1, 1.0), (0.9, 1.0, 1, 1.0)]
    assert found.error == pytest.approx((2 * 0.35 + 0.15 + 0.05) / 4)
    assert found.brier == pytest.approx((0.05**2 + 0.15**2 + 0.15**2 + 0.85**2) / 4)
    assert found.base == pytest.approx(0.75 * 0.25)
    # Of the three pairs of a right and a wrong one two are in order, and one is a tie.
    assert found.auc == pytest.approx(2.5 / 3)


def test_auc_without_a_pair_says_nothing():
    assert auc(np.array([0.2, 0.3]), np.array([1.0, 1.0])) == 0.5


def test_weights_are_written_and_read_back(tmp_path):
    reward = learn(groups_where_agreement_is_right())
    reward.write(tmp_path / "selector.json")
    again = LearntReward.read(tmp_path / "selector.json")
    assert again.intercept == reward.intercept and again.weights == reward.weights
    assert list(json.loads((tmp_path / "selector.json").read_text())["features"]) == list(FEATURES)


@pytest.mark.parametrize("document, said", [
    ({"weights": {}, "intercept": 0.0}, "not of this version's features"),
    ({"weights": dict.fromkeys(FEATURES, 0.0), "intercept": float("nan")}, "not finite"),
    ([1], "not of this version's features"),
])
def test_weights_that_cannot_be_used_are_an_input_error(tmp_path, document, said):
    (tmp_path / "selector.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=said):
        LearntReward.read(tmp_path / "selector.json")
    with pytest.raises(InputError, match="serl select fit RUN"):
        LearntReward.read(tmp_path / "none.json")
