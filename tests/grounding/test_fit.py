"""The weights of retrieval: what fitting finds where the answer is known, and that the table is whole."""

from pathlib import Path

import numpy as np
import pytest

from grounding.evaluate.fit import Described, fit, halves, ranked
from grounding.evaluate.value_task import Item, Target
from grounding.retrieve.features import FEATURES, GROUPS
from grounding.retrieve.weights import DENSE, LEXICAL


def described(rows, right=0, database="a"):
    features_NF = np.zeros((len(rows), len(FEATURES)))
    features_NF[:, :2] = rows
    item = Item("?", "", Path(f"{database}.sqlite"), (Target("t", "c", frozenset({str(right)}), "verbatim"),))
    return Described(item, [("t", "c", str(row)) for row in range(len(rows))], features_NF)


def test_the_weight_of_one_feature_is_the_root_of_its_likelihood():
    """Of 4 two-way choices 3 take the cell with the feature: log-odds ln 3, without a penalty."""
    data = [described([[1, 0], [0, 0]], right) for right in (0, 0, 0, 1)]
    weights = fit(data, penalty=1e-9)
    assert weights[0] == pytest.approx(np.log(3), abs=1e-4) and not weights[1:].any()


def test_a_penalty_draws_weights_to_nothing_and_left_out_features_have_none():
    data = [described([[1, 1], [0, 0]]), described([[1, 0], [0, 1]])]
    assert 0 < fit(data, penalty=10)[0] < fit(data, penalty=1)[0]
    assert fit(data, columns=[1], penalty=1)[0] == 0


def test_the_targets_of_a_question_do_not_compete():
    both = described([[1, 0], [0, 1]])
    item = Item("?", "", Path("a"), tuple(Target("t", "c", frozenset({str(i)}), "verbatim") for i in (0, 1)))
    weights = fit([Described(item, both.cells, both.features_NF), described([[1, 0], [0, 0]])], penalty=1)
    assert weights[1] == 0  # two hits and nothing beside them: no choice is made


def test_ranking_is_by_score_and_halves_part_databases():
    data = [described([[0, 0], [1, 0]], database=name) for name in "abcdef"]
    weights = np.eye(len(FEATURES))[0]
    assert ranked(data[:1], weights) == [[("t", "c", "1"), ("t", "c", "0")]]
    tune, check = halves(data)
    assert len(tune) + len(check) == 6 and tune and check


def test_every_feature_has_a_weight_and_a_group():
    assert tuple(LEXICAL) == tuple(DENSE) == FEATURES
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(FEATURES)
