"""Credit sources: signs, silence where there is nothing to say, and weights that share bounds and mask."""

import math

import pytest
import torch

from serl.config import HindsightConfig
from serl.hindsight.credit.candidate import Candidate, of_trajectory
from serl.hindsight.credit.sources import (
    TrainingGold,
    entropy,
    none,
    oracle_diff,
    sibling_contrast,
    surprisal,
    teacher_gap,
)
from serl.hindsight.weights import token_weights
from tests.hindsight.credit.played import PIECE, played, text_of

GOLD = "SELECT name FROM city WHERE area > 5"
WRONG = "SELECT name FROM city WHERE people > 5"
FAR = "SELECT COUNT(*) FROM person"


def group(*solutions: tuple[str, bool]):
    trajectories = [played(sql) for sql, _ in solutions]
    return trajectories, [of_trajectory(trajectory, PIECE, correct) for trajectory, (_, correct) in
                          zip(trajectories, solutions)]


def said(trajectory, evidence_T: torch.Tensor, sign: int) -> str:
    return text_of(trajectory, [index for index, value in enumerate(evidence_T.tolist()) if value * sign > 0])


def numbers(values: list[float], mask: list[bool] | None = None, **options) -> Candidate:
    mask_T = torch.tensor(mask or [True] * len(values))
    return Candidate(len(values), False, mask_T, student_T=torch.tensor(values), **options)


def test_oracle_blames_the_wrong_tokens_and_praises_the_rest_of_the_sql():
    (trajectory, *_), candidates = group((WRONG, False))
    evidence_T = oracle_diff(TrainingGold(GOLD))(candidates, 0)
    assert said(trajectory, evidence_T, -1).strip() == "people"
    assert said(trajectory, evidence_T, 1).replace(" ", "") == "SELECTnameFROMcityWHERE>5</solution>"
    outside = [index for index in range(len(trajectory)) if index not in candidates[0].scope]
    assert torch.isnan(evidence_T[outside]).all() and evidence_T.abs().nan_to_num(1.0).eq(1.0).all()


@pytest.mark.parametrize("sql", [GOLD, "SELECT name FROM", "SELECT city.name FROM city WHERE 5 < city.area"])
def test_oracle_is_silent_where_the_tree_difference_cannot_explain_the_failure(sql: str):
    _, candidates = group((sql, False))
    assert torch.isnan(oracle_diff(TrainingGold(GOLD))(candidates, 0)).all()


def test_oracle_is_silent_where_the_result_is_right_though_the_text_is_not():
    _, candidates = group((WRONG, True))
    assert torch.isnan(oracle_diff(TrainingGold(GOLD))(candidates, 0)).all()


def test_a_sibling_contrast_takes_the_nearest_successful_sibling():
    trajectories, candidates = group((WRONG, False), (FAR, True), (GOLD, True), ("SELECT nothing", False))
    evidence_T = sibling_contrast()(candidates, 0)
    assert said(trajectories[0], evidence_T, -1).strip() == "people"
    assert torch.isnan(sibling_contrast()(candidates, 2)).all()


def test_a_sibling_contrast_is_silent_in_a_group_that_never_succeeds():
    _, candidates = group((WRONG, False), (FAR, False))
    assert torch.isnan(sibling_contrast()(candidates, 0)).all()


def test_praise_marks_what_a_successful_trajectory_does_and_the_nearest_failed_one_does_not():
    trajectories, candidates = group((GOLD, True), (WRONG, False), (FAR, False))
    evidence_T = sibling_contrast(praise=True)(candidates, 0)
    assert said(trajectories[0], evidence_T, 1).strip() == "area" and said(trajectories[0], evidence_T, -1) == ""


def test_surprisal_is_the_centred_logprob_over_the_masked_tokens():
    evidence_T = surprisal([numbers([-1.0, -3.0, -9.0, float("nan")], [True, True, False, True])], 0)
    assert evidence_T.tolist()[:3] == [1.0, -1.0, -7.0] and math.isnan(evidence_T[3])


def test_entropy_is_centred_with_the_sure_tokens_above_zero():
    candidate = numbers([0.0, 0.0], entropy_T=torch.tensor([0.5, 1.5]))
    assert entropy([candidate], 0).tolist() == [0.5, -0.5]


def test_the_teachers_gap_is_the_log_ratio():
    candidate = numbers([-2.0, -1.0], teacher_T=torch.tensor([-1.5, float("nan")]))
    evidence_T = teacher_gap([candidate], 0)
    assert evidence_T[0] == 0.5 and math.isnan(evidence_T[1])


def test_sources_without_their_numbers_and_none_give_no_evidence():
    candidate = Candidate(2, False, torch.ones(2, dtype=torch.bool))
    for source in (none, surprisal, entropy, teacher_gap, oracle_diff(TrainingGold(GOLD)), sibling_contrast()):
        evidence_T = source([candidate], 0)
        assert evidence_T.shape == (2,) and torch.isnan(evidence_T).all()


def test_evidence_makes_weights_by_the_same_bounds_mask_and_schedule():
    (trajectory, *_), candidates = group((WRONG, False))
    evidence_T = oracle_diff(TrainingGold(GOLD))(candidates, 0)
    negative_T = torch.full_like(evidence_T, -1.0)
    weights_T = token_weights(negative_T, evidence_T, candidates[0].mask_T, 0.5, HindsightConfig())
    blamed = [index for index, weight in enumerate(weights_T.tolist()) if weight > 1]
    assert text_of(trajectory, blamed).strip() == "people"
    assert sorted({round(weight, 6) for weight in weights_T.tolist()}) == [0.9, 1.0, 1.1]
    assert (weights_T[~candidates[0].mask_T] == 1).all()
