"""Credit sources: signs, scales, silence where there is nothing to say, and weights that share bounds and mask."""

import math

import pytest
import torch

from serl.config import HindsightConfig
from serl.hindsight.credit.candidate import Candidate, candidate_of
from serl.hindsight.credit.sources import (
    Comparer,
    TrainingGold,
    action_and_closer,
    entropy,
    oracle_diff,
    sibling_contrast,
    surprisal,
)
from serl.hindsight.weights import token_weights
from tests.hindsight.credit.played import PIECE, played, text_of

GOLD = "SELECT name FROM city WHERE area > 5"
WRONG = "SELECT name FROM city WHERE people > 5"
SHORT = "SELECT name FROM city"
FAR = "SELECT COUNT(*) FROM person"
NAN = float("nan")
COMPARED = Comparer(None)


def group(*solutions: tuple[str, bool]):
    trajectories = [played(sql) for sql, _ in solutions]
    return trajectories, [candidate_of(trajectory, PIECE, correct) for trajectory, (_, correct) in
                          zip(trajectories, solutions)]


def said(trajectory, evidence_T: torch.Tensor, sign: int) -> str:
    return text_of(trajectory, [index for index, value in enumerate(evidence_T.tolist()) if value * sign > 0])


def oracle(candidate: Candidate) -> torch.Tensor:
    return oracle_diff(candidate, TrainingGold(GOLD), COMPARED)


def test_oracle_blames_the_wrong_tokens_and_praises_the_rest_of_the_sql_by_one_nat():
    (trajectory, *_), candidates = group((WRONG, False))
    evidence_T = oracle(candidates[0])
    assert said(trajectory, evidence_T, -1).strip() == "people"
    assert said(trajectory, evidence_T, 1).replace(" ", "") == "SELECTnameFROMcityWHERE>5</solution>"
    outside = [index for index in range(len(trajectory)) if index not in candidates[0].scope]
    assert torch.isnan(evidence_T[outside]).all() and evidence_T.abs().nan_to_num(1.0).eq(1.0).all()


def test_what_is_missing_is_blamed_on_the_token_in_its_place_and_at_the_end_on_the_closing_tag():
    (trajectory,), (candidate,) = group((SHORT, False))
    assert said(trajectory, oracle(candidate), -1) == "</solution>"
    inside_T = oracle_diff(candidate, TrainingGold("SELECT DISTINCT name FROM city"), COMPARED)
    (place,) = [index for index, value in enumerate(inside_T.tolist()) if value < 0]
    assert text_of(trajectory, range(candidate.tokens[0], place)) == "SELECT"


@pytest.mark.parametrize("sql", [GOLD, "SELECT name FROM", "SELECT city.name FROM city WHERE 5 < city.area"])
def test_oracle_is_silent_where_the_tree_difference_cannot_explain_the_failure(sql: str):
    assert torch.isnan(oracle(group((sql, False))[1][0])).all()


def test_oracle_is_silent_where_the_result_is_right_though_the_text_is_not():
    assert torch.isnan(oracle(group((WRONG, True))[1][0])).all()


def test_a_sibling_contrast_takes_the_nearest_successful_sibling():
    trajectories, candidates = group((WRONG, False), (FAR, True), (GOLD, True), ("SELECT nothing", False))
    evidence_T = sibling_contrast(candidates[0], candidates, COMPARED)
    assert said(trajectories[0], evidence_T, -1).strip() == "people"
    assert torch.isnan(sibling_contrast(candidates[2], candidates, COMPARED)).all()


def test_a_sibling_contrast_is_silent_in_a_group_that_never_succeeds():
    _, candidates = group((WRONG, False), (FAR, False))
    assert torch.isnan(sibling_contrast(candidates[0], candidates, COMPARED)).all()


def test_surprisal_blames_the_surprising_tokens_of_a_failure_and_praises_those_of_a_success_about_the_masks_mean():
    logp_T = torch.tensor([-1.0, -3.0, -9.0, NAN])
    mask_T = torch.tensor([True, True, False, True])
    failed, succeeded = (surprisal(logp_T, mask_T, correct).tolist() for correct in (False, True))
    assert failed[:3] == [1.0, -1.0, -7.0] and math.isnan(failed[3])
    assert succeeded[:3] == [-1.0, 1.0, 7.0]


def test_entropy_blames_the_unsure_tokens_of_a_failure_about_the_mean():
    mask_T = torch.ones(2, dtype=torch.bool)
    assert entropy(torch.tensor([0.5, 1.5]), mask_T, False).tolist() == [0.5, -0.5]
    assert entropy(torch.tensor([0.5, 1.5]), mask_T, True).tolist() == [-0.5, 0.5]


def test_without_numbers_or_sql_there_is_no_evidence():
    nothing = Candidate(2, False)
    empty_T = torch.zeros(2, dtype=torch.bool)
    for evidence_T in (oracle(nothing), sibling_contrast(nothing, [nothing], COMPARED),
                       surprisal(torch.tensor([-1.0, -2.0]), empty_T, False),
                       entropy(torch.full((2,), NAN), ~empty_T, False)):
        assert evidence_T.shape == (2,) and torch.isnan(evidence_T).all()


@pytest.mark.parametrize(("advantage", "suspects", "rest"), [(-1.0, 1.1, 0.9), (1.0, 0.9, 1.1)])
def test_the_four_quadrants_hold_for_a_failure_below_or_above_its_groups_mean(advantage, suspects, rest):
    (trajectory, *_), (candidate,) = group((WRONG, False))
    mask_T = action_and_closer(torch.tensor(trajectory.action_mask, dtype=torch.bool), candidate)
    advantage_T = torch.full((len(trajectory),), advantage)
    weights_T = token_weights(advantage_T, oracle(candidate), mask_T, 0.5, HindsightConfig())
    of = {round(weight, 6): text_of(trajectory, [i for i, each in enumerate(weights_T.tolist()) if each == weight])
          for weight in set(weights_T[mask_T].tolist())}
    assert set(of) == {suspects, rest} and of[suspects].strip() == "people"
    assert of[rest].replace(" ", "") == "SELECTnameFROMcityWHERE>5</solution>"
    assert (weights_T[~mask_T] == 1).all()


def test_a_unit_of_surprisal_at_a_success_raises_its_weight():
    logp_T, mask_T = torch.tensor([-0.1, -0.3]), torch.ones(2, dtype=torch.bool)
    options = HindsightConfig()
    for correct, advantage in ((True, 1.0), (False, -1.0)):
        weights_T = token_weights(torch.full((2,), advantage), surprisal(logp_T, mask_T, correct), mask_T, 1.0, options)
        assert weights_T.tolist() == pytest.approx([math.exp(-0.1), math.exp(0.1)])


def test_the_mask_is_extended_by_the_closing_tag_alone_and_only_where_the_scope_holds_the_final_sql():
    (trajectory, *_), (candidate,) = group((WRONG, False))
    action_T = torch.tensor(trajectory.action_mask, dtype=torch.bool)
    added = (action_and_closer(action_T, candidate) & ~action_T).nonzero().flatten().tolist()
    assert added == [candidate.closer] and text_of(trajectory, added) == "</solution>"
    nothing_T = torch.zeros_like(action_T)
    assert not action_and_closer(nothing_T, candidate).any()
