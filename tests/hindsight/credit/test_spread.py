"""Δ in deviations of the empty frame's Δ among tokens that are as uncertain: against numbers worked out by hand."""

import pytest
import torch

from serl.hindsight.credit.auc import auc
from serl.hindsight.credit.spread import against_spread

NAN = float("nan")


def test_a_token_is_measured_by_those_around_it_in_the_order_of_uncertainty():
    student = [torch.tensor([-3.0, NAN, -1.0, -5.0]), torch.tensor([-2.0, -4.0])]
    empty = [torch.tensor([7.0, 9.0, 1.0, 40.0]), torch.tensor([3.0, 8.0])]  # in that order: 1 3 7 8 40
    gap = [torch.tensor([0.0, 9.0, 0.0, NAN]), torch.tensor([0.0, 1.0])]
    first, second = against_spread(gap, empty, student, nearest=3)
    # Of 3 7 8, and at the ends of 1 3 7 and 7 8 40: mean 6, 11/3, 55/3, variance 14/3, 56/9, 2114/9.
    assert first.tolist() == pytest.approx([-6 / (14 / 3) ** 0.5, NAN, -11 / 56 ** 0.5, NAN], nan_ok=True)
    assert second.tolist() == pytest.approx([-11 / 56 ** 0.5, (3 - 55) / 2114 ** 0.5])


def test_few_tokens_are_all_neighbours_and_a_gap_that_does_not_vary_measures_nothing():
    student = [torch.tensor([-1.0, -9.0])]
    (z,) = against_spread([torch.tensor([2.0, 3.0])], [torch.tensor([0.0, 2.0])], student)
    assert z.tolist() == [1.0, 2.0]
    (z,) = against_spread([torch.tensor([2.0, 3.0])], [torch.tensor([0.5, 0.5])], student)
    assert z.isnan().all()
    (z,) = against_spread([torch.tensor([2.0, 3.0])], [torch.tensor([NAN, NAN])], student)
    assert z.isnan().all() and len(z) == 2


def test_noise_that_grows_with_uncertainty_hides_a_gap_that_its_spread_brings_out():
    draw = torch.Generator().manual_seed(0)
    student = -torch.rand(4000, generator=draw)
    noise = student.abs() ** 3 + 0.001
    wrong = torch.rand(4000, generator=draw) < 0.3
    empty = noise * torch.randn(4000, generator=draw)
    gap = noise * (torch.randn(4000, generator=draw) - 2.0 * wrong)
    (z,) = against_spread([gap], [empty], [student])
    plain, measured = (auc((-values).tolist(), wrong.tolist()) for values in (gap, z))
    assert measured > 0.9 > plain + 0.05  # two deviations: Φ(2/√2) = 0.92
    (scaled,) = against_spread([7 * gap], [7 * empty], [student])
    torch.testing.assert_close(scaled, z)
