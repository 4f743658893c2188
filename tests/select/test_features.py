"""Features by hand."""

import math
from dataclasses import replace

import pytest

from serl.select.candidate import Use
from serl.select.features import FEATURES, describe
from tests.select.made import candidate, failed


def named(pool):
    return [features and dict(zip(FEATURES, features, strict=True)) for features in describe(pool)]


def test_agreement_is_among_all_that_were_sampled_and_likeness_among_those_with_a_result():
    a, b, other, none = named([candidate((1,), (2,)), candidate((2,), (1,)), candidate((1,)), failed()])
    assert none is None
    assert (a["share"], a["leads"], a["rival"], a["voters"]) == (0.5, 1.0, 0.25, 0.75)
    assert (other["share"], other["leads"], other["rival"]) == (0.25, 0.0, 0.5)
    # One row of the three in all is common: row F1 and cell F1 are both 2·1/3.
    assert other["likeness"] == pytest.approx(2 / 3)
    assert a["likeness"] == b["likeness"] == pytest.approx((1 + 2 / 3) / 2)
    assert (a["same_columns"], a["same_rows"], other["same_rows"]) == (1.0, 2 / 3, 1 / 3)


def test_the_shape_of_results():
    empty, blank, single, wide = named([candidate(), candidate((0, None)), candidate((3,)), candidate((1, 2), (0, 0))])
    assert [each["empty"] for each in (empty, blank, single, wide)] == [1, 0, 0, 0]
    assert [each["blank"] for each in (empty, blank, single, wide)] == [0, 1, 0, 0]
    assert [each["single"] for each in (empty, blank, single, wide)] == [0, 0, 1, 0]
    assert (wide["rows"], wide["columns"]) == (math.log1p(2), math.log1p(2))


def test_use_of_the_schema_and_the_value_index_in_shares():
    use = Use(columns=4, linked=3, missed=1, literals=2, stored=1, values=3, said=1, numbers=5,
              unsaid_numbers=4, missed_numbers=1)
    (found,) = named([candidate((1,), use=use)])
    assert (found["unread"], found["linked"], found["missed"]) == (0, 0.75, 0.25)
    assert (found["literals"], found["unstored"], found["unsaid"]) == (math.log1p(2), 0.5, pytest.approx(2 / 3))
    assert (found["new_numbers"], found["lost_numbers"]) == (3, 1)
    (nothing,) = named([candidate((1,), use=Use(*[0] * 10))])
    (unread,) = named([candidate((1,))])
    names = ("unread", "linked", "missed", "literals", "unstored", "unsaid", "new_numbers", "lost_numbers")
    assert [nothing[name] for name in names] == [0] * 8
    assert [unread[name] for name in names] == [1] + [0] * 7


def test_the_way_there_and_the_policys_own_mind():
    sure, unsure = named([candidate((1,), sql_logprob=-0.5, turns=3, revisions=1, failures=2),
                          candidate((2,), sql_logprob=-2.0)])
    assert (sure["turns"], sure["revisions"], sure["failures"]) == (3, 1, 2)
    assert (sure["logprob"], sure["behind"], unsure["behind"]) == (-0.5, 0, 1.5)


def test_features_follow_their_candidate_whatever_the_order():
    pool = [candidate((1,), sql_logprob=-1.0), failed(), candidate((2,), (3,), sql_logprob=-0.2), candidate((1,))]
    assert describe(pool[::-1]) == describe(pool)[::-1]
    assert describe([replace(each) for each in pool]) == describe(pool)
