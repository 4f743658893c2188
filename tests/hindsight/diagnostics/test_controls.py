"""The gap beside its controls, by hand; what the teacher's own weights weigh."""

import copy

import pytest
import torch

from serl.hindsight.diagnostics.controls import control_metrics, noise_floor
from serl.hindsight.diagnostics.cost import own_bytes, peak_memory
from tests.models import tiny_model

NAN = float("nan")
STUDENT = torch.tensor([-1.0, -2.0, -0.5, -0.1])
POSITIVE = torch.tensor([True, True, False, False])


def test_the_noise_floor_is_the_spread_of_the_frames_gap():
    floor = noise_floor(torch.tensor([0.1, NAN, -0.3, 0.2]))
    assert floor == pytest.approx({"noise/gap_mean": 0.0, "noise/gap_abs_mean": 0.2,
                                   "noise/gap_std": (0.14 / 3) ** 0.5}, abs=1e-7)
    assert noise_floor(torch.tensor([NAN])) == noise_floor(torch.tensor([])) == {}


def test_controls_are_measured_on_the_tokens_of_the_real_gap():
    gaps = {"real": torch.tensor([0.2, 0.4, 0.3, NAN]), "empty": torch.tensor([-0.1, -0.2, -0.15, 9.0]),
            "shuffled": torch.tensor([0.5, NAN, 0.5, 9.0])}
    assert control_metrics(gaps, STUDENT, POSITIVE) == pytest.approx({
        "control/real_gap_mean": 0.3, "control/real_gap_abs_mean": 0.3, "control/real_gap_std": (0.02 / 3) ** 0.5,
        "control/real_sign_auc": 0.5,  # 0.3 lies above one of 0.2 and 0.4
        "control/empty_gap_mean": -0.15, "control/empty_gap_abs_mean": 0.15,
        "control/empty_gap_std": (0.005 / 3) ** 0.5, "control/empty_sign_auc": 0.5,
        "control/empty_correlation": -1.0,  # −½ of the real one
        "control/shuffled_gap_mean": 0.5, "control/shuffled_gap_abs_mean": 0.5, "control/shuffled_gap_std": 0.0,
        "control/shuffled_sign_auc": 0.5,  # a tie; and what does not vary correlates with nothing
        # The student's log-probs −1, −2 | −0.5: both below. r with 0.2 0.4 0.3 is −0.1·2 / √(0.02 · 7/6).
        "control/surprisal_sign_auc": 0.0,
        "control/surprisal_correlation": (-0.1 * (1 / 6) + 0.1 * (-5 / 6)) / (0.02 * 7 / 6) ** 0.5,
    })


def test_one_sign_of_advantage_alone_has_no_auc():
    metrics = control_metrics({"real": torch.tensor([0.2, 0.4, NAN, NAN])}, STUDENT, POSITIVE)
    assert set(metrics) == {"control/real_gap_mean", "control/real_gap_abs_mean", "control/real_gap_std",
                            "control/surprisal_correlation"}
    assert control_metrics({"real": torch.full((4,), NAN)}, STUDENT, POSITIVE) == {}


def test_a_teacher_owns_the_bytes_that_are_not_the_students():
    student = tiny_model(64)
    teacher = copy.deepcopy(student)
    size = sum(parameter.numel() for parameter in student.parameters())  # a tied embedding once
    buffers = sum(buffer.numel() * buffer.element_size() for buffer in student.buffers())
    assert own_bytes(teacher, student) == 4 * size + buffers
    assert own_bytes(student, student) == 0
    assert own_bytes(teacher.to(torch.bfloat16), student) < 4 * size
    teacher.model.embed_tokens = student.model.embed_tokens
    teacher.tie_weights()
    shared = sum(p.numel() for p in teacher.parameters()) - student.model.embed_tokens.weight.numel()
    assert own_bytes(teacher, student) == 2 * shared + sum(b.numel() * b.element_size() for b in teacher.buffers())


def test_peak_memory_is_measured_on_a_gpu_only():
    model, metrics = tiny_model(64), {}
    with peak_memory(model, metrics, "peak"):
        pass
    assert metrics == {}
    if torch.cuda.is_available():
        model.cuda()
        with peak_memory(model, metrics, "peak"):
            held = torch.empty(2**20, device="cuda")
            del held
        assert metrics["peak"] >= 4 * 2**20
