"""The teacher follows the student when it should, is never trained, and survives a checkpoint."""

import pytest
import torch

from serl.config import TeacherConfig
from serl.hindsight.teacher import Teacher


def student_at(value: float) -> torch.nn.Module:
    layer = torch.nn.Linear(2, 1)
    torch.nn.init.constant_(layer.weight, value)
    torch.nn.init.constant_(layer.bias, value)
    return layer


def weight(teacher: Teacher) -> float:
    return teacher.model.weight[0, 0].item()


def test_periodic_copies_exactly_at_multiples_and_counts_its_lag():
    student = student_at(1.0)
    teacher = Teacher(student, TeacherConfig("periodic", sync_every=3))
    seen = []
    for update in range(1, 8):
        torch.nn.init.constant_(student.weight, 1.0 + update)
        teacher.after_update(student, update)
        seen.append((weight(teacher), teacher.updates_behind))
    assert seen == [(1, 1), (1, 2), (4, 0), (4, 1), (4, 2), (7, 0), (7, 1)]


def test_ema_moves_by_one_minus_decay():
    student = student_at(0.0)
    teacher = Teacher(student, TeacherConfig("ema", decay=0.75))
    torch.nn.init.constant_(student.weight, 1.0)
    teacher.after_update(student, 1)
    assert weight(teacher) == pytest.approx(0.25)
    assert teacher.updates_behind == pytest.approx(0.75 * 1)  # three quarters of its weights are one update old
    teacher.after_update(student, 2)
    assert weight(teacher) == pytest.approx(0.25 + 0.75 * 0.25)
    assert teacher.updates_behind == pytest.approx(0.5625 * 2 + 0.1875 * 1)


def test_the_mean_age_of_an_average_does_not_grow_with_the_run():
    student = student_at(0.0)
    teacher = Teacher(student, TeacherConfig("ema", decay=0.9))
    for update in range(1, 201):
        teacher.after_update(student, update)
    assert teacher.updates_behind == pytest.approx(0.9 / 0.1)


@pytest.mark.parametrize("mode", ["periodic", "ema"])
def test_buffers_are_the_students_after_it_is_followed(mode):
    student = torch.nn.BatchNorm1d(2)
    teacher = Teacher(student, TeacherConfig(mode, sync_every=1))
    student.running_mean.fill_(3.0)
    assert teacher.model.running_mean.tolist() == [0.0, 0.0]
    teacher.after_update(student, 1)
    assert teacher.model.running_mean.tolist() == [3.0, 3.0]


def test_frozen_never_moves_and_live_is_the_student():
    student = student_at(1.0)
    frozen, live = Teacher(student, TeacherConfig("frozen")), Teacher(student, TeacherConfig("live"))
    torch.nn.init.constant_(student.weight, 5.0)
    for teacher in (frozen, live):
        teacher.after_update(student, 10)
    assert (weight(frozen), weight(live)) == (1.0, 5.0)
    assert live.model is student and live.state_dict()["weights"] is None


def test_a_copy_takes_no_gradient_and_leaves_the_student_trainable():
    student = student_at(1.0)
    teacher = Teacher(student, TeacherConfig("periodic"))
    assert not any(parameter.requires_grad for parameter in teacher.model.parameters())
    assert all(parameter.requires_grad for parameter in student.parameters())


def test_state_restores_weights_and_lag():
    student = student_at(1.0)
    teacher = Teacher(student, TeacherConfig("periodic", sync_every=10))
    teacher.after_update(student, 1)
    state = {key: ({k: v.clone() for k, v in value.items()} if key == "weights" else value)
             for key, value in teacher.state_dict().items()}
    other = Teacher(student_at(9.0), TeacherConfig("periodic", sync_every=10))
    other.load_state_dict(state)
    assert (weight(other), other.updates_behind) == (1.0, 1)


def test_ema_moves_a_tied_embedding_once():
    from tests.models import tiny_model

    student = tiny_model(32, tied=True)
    teacher = Teacher(student, TeacherConfig("ema", decay=0.75))
    before = {name: value.clone() for name, value in teacher.model.named_parameters()}
    with torch.no_grad():
        for parameter in student.parameters():
            parameter.add_(1.0)
    teacher.after_update(student, 1)
    for name, value in teacher.model.named_parameters():
        torch.testing.assert_close(value, before[name] + 0.25)
