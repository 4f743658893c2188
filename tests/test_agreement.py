"""Ranks that were started with other weights or another config than the first one are named before any work."""

import pytest

from serl.agreement import check_agreement
from serl.config import Config
from serl.errors import InputError
from tests.models import tiny_model
from tests.ranks import in_threads


@pytest.mark.parametrize(("odd", "said"), [("weight", "in the weights of the policy;"), ("seed", "in its config;"),
                                           (None, None)])
def test_a_rank_that_differs_is_named_with_what_it_differs_in(odd, said):
    models = [tiny_model(50) for _ in range(3)]
    if odd == "weight":
        next(models[2].parameters()).data[3, 4] += 1e-6

    def check(ranks) -> str | None:
        config = Config(seed=int(odd == "seed" and ranks.rank == 2))
        try:
            check_agreement(ranks, config, {"the policy": models[ranks.rank]})
        except InputError as error:
            return str(error)

    found = in_threads(3, check)
    assert len(set(found)) == 1, "every rank raises the same, or none does"
    assert found[0] == said or ("rank 2 on" in found[0] and said in found[0])
