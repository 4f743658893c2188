"""Does a score find the wrong tokens? AUC with ties, leads, intervals, rows of a table, and the gate."""

import random

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from serl.hindsight.credit.auc import Auc, estimate, lead
from serl.hindsight.credit.candidate import candidate_of
from serl.hindsight.credit.gate import FEWEST_QUESTIONS, gate
from serl.hindsight.credit.mistakes import Failures, Lead, Row, Table, Tokens, find_failures, joined, markdown
from serl.hindsight.credit.sources import Comparer, TrainingGold, oracle_diff
from tests.hindsight.credit.played import PIECE, played, text_of

GOLD = "SELECT name FROM city WHERE area > 5"
WRONG = "SELECT name FROM city WHERE people > 5"


@pytest.mark.parametrize(("scores", "wrong", "expected"), [
    ([3, 1], [True, False], 1.0),
    ([1, 3], [True, False], 0.0),
    ([2, 2], [True, False], 0.5),
    ([3, 1, 2, 2], [True, False, True, False], 0.875),  # pairs 3>1, 3>2, 2>1, 2=2: 3.5 of 4
    ([5, 5, 5, 1], [True, True, False, False], 0.75),  # 5=5, 5>1, twice
    ([1, 2], [True, True], None),
    ([], [], None),
])
def test_auc_by_hand(scores, wrong, expected):
    assert estimate(scores, wrong, range(len(scores))).value == expected


@given(st.lists(st.tuples(st.integers(-3, 3), st.booleans(), st.integers(0, 3)), min_size=2, max_size=20))
def test_auc_is_the_share_of_pairs_in_the_right_order(tokens):
    scores, wrong, questions = zip(*tokens)
    pairs = [(a > b) + (a == b) / 2 for a, bad, _ in tokens for b, good, _ in tokens if bad and not good]
    found = estimate(scores, wrong, questions, resamples=20).value
    assert found == pytest.approx(sum(pairs) / len(pairs)) if pairs else found is None


def test_a_score_that_is_not_finite_is_refused():
    with pytest.raises(ValueError, match="not finite"):
        estimate([1.0, float("nan")], [True, False], "ab")


def random_tokens(seed: int, strength: float) -> tuple[list[float], list[bool], list[int]]:
    rng = random.Random(seed)
    tokens = [(question, rng.random() < 0.3) for question in range(30) for _ in range(20)]
    questions, wrong = zip(*tokens)
    return [strength * bad + rng.gauss(0, 1) for bad in wrong], list(wrong), list(questions)


def test_the_interval_comes_from_questions_holds_the_value_and_is_the_same_again():
    scores, wrong, questions = random_tokens(0, 1.0)
    found = estimate(scores, wrong, questions)
    assert found == estimate(scores, wrong, questions)
    assert found.low < found.value < found.high and (found.tokens, found.questions) == (600, 30)
    one_question = estimate(scores, wrong, ["same"] * 600)
    assert one_question.low == one_question.value == one_question.high  # nothing to resample


def test_the_ends_hold_95_percent_of_resamples_that_are_made_token_by_token():
    scores, wrong, questions = random_tokens(2, 1.0)
    scores, wrong, questions = scores[:100], wrong[:100], questions[:100]  # five questions
    draws = np.random.default_rng(7).multinomial(5, np.full(5, 0.2), size=60)
    again = []
    for times in draws:
        drawn = [(score, bad) for score, bad, question in zip(scores, wrong, questions) for _ in range(times[question])]
        pairs = [float(a > b) for a, bad in drawn for b, good in drawn if bad and not good]
        again.append(sum(pairs) / len(pairs))
    found = estimate(scores, wrong, questions, seed=7, resamples=60)
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(again, [0.025, 0.975])))


def test_a_resample_counts_a_questions_tokens_as_often_as_it_was_drawn():
    scores, wrong, questions = random_tokens(1, 0.5)
    again = estimate(scores + scores[:20] * 2, wrong + wrong[:20] * 2, questions + questions[:20] * 2)
    assert again.value != estimate(scores, wrong, questions).value
    # 0.5 nats of signal: the spread over resamples is that of 30 independent questions, some hundredths.
    assert 0.05 < again.high - again.low < 0.2


def test_a_lead_is_the_difference_of_two_aucs_and_pairs_their_resamples():
    scores, wrong, questions = random_tokens(2, 1.0)
    worse = [score + random.Random(index).gauss(0, 0.5) for index, score in enumerate(scores)]
    value, low, high = lead(scores, worse, wrong, questions)
    assert value == pytest.approx(estimate(scores, wrong, questions).value - estimate(worse, wrong, questions).value)
    alone = estimate(scores, wrong, questions)
    assert low < value < high and high - low < alone.high - alone.low  # what both share cancels
    assert lead(scores, scores, wrong, questions) == (0.0, 0.0, 0.0)
    assert lead(scores[:2], worse[:2], [True, True], "ab") == (None, None, None)


def failures_of(*solutions: tuple[str, bool], question: str = "1") -> tuple[list, Failures]:
    trajectories = [played(sql) for sql, _ in solutions]
    group = [candidate_of(trajectory, PIECE, correct) for trajectory, (_, correct) in zip(trajectories, solutions)]
    return trajectories, find_failures(question, group, [True] * len(group), TrainingGold(GOLD), Comparer(None))


def test_failures_are_what_differs_from_gold_and_parses():
    _, found = failures_of((WRONG, False), (GOLD, True), ("SELECT name FROM", False),
                           ("SELECT city.name FROM city WHERE area > 5", False))
    assert [failure.n for failure in found.found] == [0] and (found.unparsed, found.unexplained) == (1, 1)
    group = found.found[0].group
    nothing = find_failures("1", group, [False] * 4, TrainingGold(GOLD), Comparer(None))  # infrastructure failed
    assert nothing == Failures((), 0, 0)
    both = joined([found, found])
    assert (len(both.found), both.unparsed, both.unexplained) == (2, 2, 2)


def test_rows_tell_a_source_that_finds_the_mistake_from_one_that_does_not():
    (trajectory,), found = failures_of((WRONG, False))
    (failure,) = found.found
    scope = failure.candidate.scope
    bad = min(failure.marked.wrong)
    assert text_of(trajectory, failure.marked.wrong).strip() == "people"
    student = torch.full((len(trajectory),), -0.01)
    student[bad], student[scope[0]] = -2.0, -0.5
    tokens = Tokens([failure], [student])
    oracle = oracle_diff(failure.candidate, failure.gold, failure.comparer)
    surprise = tokens.row("student −logp", [student])
    row = tokens.row("oracle_diff", [oracle], controls=[("student −logp", [student]), ("itself", [oracle])])
    assert (row.overall.value, row.overall.tokens, row.overall.wrong) == (1.0, len(scope), len(failure.marked.wrong))
    assert row.uncertain.tokens == surprise.uncertain.tokens == 2 and surprise.uncertain.value == 1.0
    assert surprise.first.value == 1.0 and surprise.first.wrong == 1
    # Of the wrong span only the first token is surprising; the others tie with the right ones but one.
    wrong, right = len(failure.marked.wrong), len(scope) - len(failure.marked.wrong)
    expected = (right + (wrong - 1) * (right - 1) / 2) / (wrong * right)
    assert surprise.overall.value == pytest.approx(expected)
    assert [each.control for each in row.leads] == ["student −logp", "itself"]
    assert row.leads[0].value == pytest.approx(1 - expected) and row.leads[0].won == (expected < 1)
    assert row.leads[1].value == 0 and not row.leads[1].won
    assert tokens.row("none", [torch.full((len(trajectory),), float("nan"))]) is None


def test_a_lead_counts_only_tokens_that_both_have():
    (trajectory,), found = failures_of((WRONG, False))
    (failure,) = found.found
    oracle = oracle_diff(failure.candidate, failure.gold, failure.comparer)
    half = oracle.clone()
    half[sorted(failure.marked.wrong)] = float("nan")  # what is left has no wrong token
    row = Tokens([failure], [oracle]).row("oracle_diff", [oracle], controls=[("half", [half])])
    assert row.overall.value == 1.0 and row.leads[0].value is None and not row.leads[0].won


def auc(value: float, questions: int = 30) -> Auc:
    return Auc(value, value - 0.02, value + 0.02, 600, 60, questions)


def gap_row(*leads: Lead, questions: int = 30) -> Row:
    return Row("teacher_gap", "periodic", "exec", auc(0.55, questions), auc(0.5), auc(0.5), leads)


WON, LOST = Lead("empty", 0.04, 0.01, 0.07), Lead("student −logp", -0.1, -0.2, -0.03)
EVEN = Lead("shuffled", 0.02, -0.01, 0.05)


def table_of(*rows: Row) -> Table:
    return Table(rows, 10, 1, 2)


def test_the_gate_opens_where_every_lead_is_above_zero_and_else_names_what_is_not_beaten():
    control = Row("teacher_gap", "periodic", "empty", auc(0.51), auc(0.5), auc(0.5))
    assert gate(table_of(gap_row(WON), control)) is None
    message = gate(table_of(gap_row(WON, EVEN, LOST), control))
    assert "\n" not in message and "exec hindsight has AUC 0.55 (0.53–0.57)" in message
    assert "shuffled (lead +0.02, -0.01 to +0.05), student −logp (lead -0.10, -0.20 to -0.03)" in message
    assert "empty" not in message


def test_the_gate_says_nothing_of_too_few_questions_or_of_a_table_without_a_gap():
    assert gate(table_of(gap_row(LOST, questions=FEWEST_QUESTIONS - 1))) is None
    assert gate(table_of(gap_row(LOST, questions=FEWEST_QUESTIONS))) is not None
    assert gate(table_of(Row("entropy", "", "", auc(0.5), auc(0.5), auc(0.5)))) is None
    assert "empty (–)" in gate(table_of(gap_row(Lead("empty", None, None, None))))


def test_the_table_as_markdown_and_json():
    table = table_of(Row("entropy", "", "", auc(0.6), auc(0.5), Auc(None, None, None, 5, 0, 1)), gap_row(WON, EVEN),
                     gap_row(WON))
    lines = markdown(table).splitlines()
    assert len(lines) == 5
    assert lines[2].startswith("| entropy |  |  | 0.60 (0.58–0.62) | 0.50 (0.48–0.52) | – | 600 (60) |")
    assert lines[3].endswith("| 30 | shuffled |") and lines[4].endswith("| 30 | nothing: passes |")
    document = table.to_json()
    assert document["rows"][1]["leads"][0] == {"control": "empty", "value": 0.04, "low": 0.01, "high": 0.07}
    assert (document["samples"], document["unparsed"], document["unexplained"]) == (10, 1, 2)
