"""The two gaps, by hand."""

import torch

from serl.hindsight.gaps import hindsight_only, teacher_student

NAN, INF = float("nan"), float("inf")


def test_gaps_by_hand():
    student, teacher, unaided = torch.tensor([-1.0]), torch.tensor([-0.25]), torch.tensor([-0.5])
    assert teacher_student(student, teacher).tolist() == [0.75]
    assert hindsight_only(teacher, unaided).tolist() == [0.25]


def test_a_drift_of_the_teacher_cancels_in_hindsight_only():
    student, help_, drift = torch.tensor([-1.0, -2.0]), torch.tensor([0.5, -0.25]), torch.tensor([-0.5, 0.125])
    assert torch.equal(hindsight_only(student + drift + help_, student + drift), help_)
    assert torch.equal(teacher_student(student, student + drift + help_), drift + help_)


def test_what_is_not_finite_is_no_evidence_and_nothing_has_a_gradient():
    first = torch.tensor([-1.0, NAN, -INF, -1.0, -INF], requires_grad=True)
    second = torch.tensor([-2.0, -1.0, -1.0, INF, -INF])
    gap = hindsight_only(first, second)
    assert gap[0] == 1.0 and gap[1:].isnan().all() and not gap.requires_grad
