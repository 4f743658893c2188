"""The teacher's evidence Δ of each token, without gradient, float32; NaN where a log-prob is not finite.

    teacher_student   Δ = logp_T(y | h, c, y_<i) − logp_S(y | h, y_<i)          the paper's
    hindsight_only    Δ = logp_T(y | h, c, y_<i) − logp_T(y | h, y_<i)

`hindsight_only` asks the same teacher twice, so that what is left is the hindsight's doing: a stale teacher's drift
from the student cancels. Without hindsight the teacher reads the student's plain tokens: there is no empty frame, so
what a teacher makes of the mere frame stays in Δ. Right after a synchronization both gaps are the same.
"""

import torch


def teacher_student(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    """Δ from the student's and the teacher's log-probs, of one shape."""
    return _difference(teacher, student)


def hindsight_only(teacher: torch.Tensor, unaided: torch.Tensor) -> torch.Tensor:
    """Δ from the teacher's log-probs with and without hindsight, of one shape."""
    return _difference(teacher, unaided)


def _difference(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
    first, second = first.detach().float(), second.detach().float()
    finite = torch.isfinite(first) & torch.isfinite(second)
    return torch.where(finite, first - second, torch.nan)
